#include "feed/messages.h"

#include <gtest/gtest.h>

#include "stream/testing.h"

namespace leat::feed {
namespace {

Reply FullReply() {
  Reply reply{.sequence = 7, .status = Status(Code::kNotFound, "gone"), .checksum = 99};
  reply.ranges = {{0, 5, 10, false}, {1, 0, 0, true}};
  reply.records = 10;
  reply.lost = {{2, 4, "damaged"}, {4, 5, ""}};
  reply.absent = {{0, 1}, {5, 10}};
  return reply;
}

TEST(FeedMessages, ComeBackWhole) {
  const Request request{.sequence = 1,
                        .content = 2,
                        .kind = RequestKind::kPin,
                        .partition = 3,
                        .begin = 4,
                        .end = 5,
                        .name = "job@directory"};
  const auto back = DecodeRequest(Encode(request));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, request);

  const Reply reply = FullReply();
  const auto again = DecodeReply(Encode(reply));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->sequence, 7u);
  EXPECT_EQ(again->status, reply.status);
  EXPECT_EQ(again->checksum, 99u);
  EXPECT_EQ(again->ranges, reply.ranges);
  EXPECT_EQ(again->records, 10u);
  ASSERT_EQ(again->lost.size(), 2u);
  EXPECT_EQ(again->lost[0].begin, 2u);
  EXPECT_EQ(again->lost[0].end, 4u);
  EXPECT_EQ(again->lost[0].reason, "damaged");
  EXPECT_EQ(again->absent, reply.absent);
}

TEST(FeedMessages, MalformedOnesAreDataLoss) {
  const Bytes request = Encode(Request{}), reply = Encode(FullReply());
  for (size_t size = 0; size < request.size(); ++size)
    EXPECT_EQ(DecodeRequest(ByteView(request).first(size)).status().code(), Code::kDataLoss) << size;
  for (size_t size = 0; size < reply.size(); ++size)
    EXPECT_EQ(DecodeReply(ByteView(reply).first(size)).status().code(), Code::kDataLoss) << size;
  for (const uint8_t kind : {0, 9, 255}) {
    const Bytes bytes = Encode(Request{.kind = static_cast<RequestKind>(kind)});
    EXPECT_EQ(DecodeRequest(bytes).status().code(), Code::kDataLoss) << int{kind};
  }
  Reply wrong = FullReply();
  wrong.ranges[1].partition = 3;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "partitions are in order";
  wrong = FullReply();
  wrong.lost[1].begin = 3;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "lost records overlap";
  wrong = FullReply();
  wrong.lost[1].end = 11;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "lost records beyond the last";
  wrong = FullReply();
  wrong.absent[1].begin = 0;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "absent records overlap";
  wrong = FullReply();
  wrong.absent[1].end = 11;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "absent records beyond the last";
}

TEST(FeedMessages, RecordsAreAppendedOrRefusedWhole) {
  const Bytes payload = EncodeRecords(stream::BatchOf({"one", "", "three"}));
  stream::RecordBatch out;
  ASSERT_TRUE(DecodeRecords(payload, 3, &out).ok());
  ASSERT_TRUE(DecodeRecords(payload, 3, &out).ok());
  EXPECT_EQ(stream::TextsOf(out), (std::vector<std::string>{"one", "", "three", "one", "", "three"}));
  for (const uint32_t count : {0u, 2u, 4u, 1u << 31}) {
    EXPECT_EQ(DecodeRecords(payload, count, &out).code(), Code::kDataLoss) << count;
    EXPECT_EQ(out.size(), 6u) << count;
  }
  EXPECT_EQ(DecodeRecords(ByteView(payload).first(payload.size() - 1), 3, &out).code(), Code::kDataLoss);
  EXPECT_EQ(out.size(), 6u);
}

}  // namespace
}  // namespace leat::feed
