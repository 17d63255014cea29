#include "feed/messages.h"

#include <gtest/gtest.h>

#include "stream/testing.h"

namespace leat::feed {
namespace {

Reply FullReply() {
  Reply reply{.sequence = 7, .status = Status(Code::kNotFound, "gone"), .checksum = 99};
  reply.fingerprint = 1234;
  reply.ranges = {{0, 5, 10, false, {{6, 0, 3}, {9, 0, 3}, {10, 2, 7}}}, {1, 0, 0, true, {}, "no leader"}};
  reply.records = 10;
  reply.lost = {{2, 4, "damaged"}, {4, 5, ""}};
  reply.absent = {{0, 1}, {5, 10}};
  reply.expired = 3;
  return reply;
}

TEST(FeedMessages, ComeBackWhole) {
  const Request request{
      .sequence = 1,
      .content = 2,
      .kind = RequestKind::kPin,
      .partition = 3,
      .begin = 4,
      .end = 5,
      .name = "job@directory",
      .wanted = {{stream::Attribute::Kind::kKey, ""}, {stream::Attribute::Kind::kHeader, "shop"}},
      .offsets = {6, 0},
      .labels_begin = 9,
      .labels_end = 10,
      .marks = {{{11, 12, 13}, 14}, {}},
      .checksum = 8};
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
  EXPECT_EQ(again->fingerprint, 1234u);
  EXPECT_EQ(again->records, 10u);
  ASSERT_EQ(again->lost.size(), 2u);
  EXPECT_EQ(again->lost[0].begin, 2u);
  EXPECT_EQ(again->lost[0].end, 4u);
  EXPECT_EQ(again->lost[0].reason, "damaged");
  EXPECT_EQ(again->absent, reply.absent);
  EXPECT_EQ(again->expired, 3u);
}

protocol::RunScores SomeScores(uint32_t run, uint32_t width) {
  const protocol::Cut cut{
      .partition = 3, .after = {0, 50}, .begin = {0, 50}, .end = 58, .hash = 1, .batch_size = 4};
  protocol::RunScores scores{.cut = cut,
                             .run = run,
                             .rescored = run == 1,
                             .width = width,
                             .events = {4 * run, 4 * run + 2},
                             .scores = std::vector<float>(2 * width, 0.5f),
                             .keys = {"a key", std::nullopt}};
  return scores;
}

TEST(FeedMessages, ScoresComeBackWholeOrNotAtAll) {
  const std::vector<protocol::RunScores> scores{SomeScores(0, 1), SomeScores(1, 3)};
  const Bytes bytes = EncodeScores(scores);
  const auto back = DecodeScores(bytes);
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  ASSERT_EQ(back->size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*back)[i].cut, scores[i].cut);
    EXPECT_EQ((*back)[i].run, scores[i].run);
    EXPECT_EQ((*back)[i].rescored, scores[i].rescored);
    EXPECT_EQ((*back)[i].width, scores[i].width);
    EXPECT_EQ((*back)[i].events, scores[i].events);
    EXPECT_EQ((*back)[i].scores, scores[i].scores);
    EXPECT_EQ((*back)[i].keys, scores[i].keys);
  }
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(DecodeScores(ByteView(bytes).first(size)).status().code(), Code::kDataLoss) << size;
  auto wrong = SomeScores(0, 1);
  wrong.events[1] = wrong.events[0];
  EXPECT_EQ(DecodeScores(EncodeScores({wrong})).status().code(), Code::kDataLoss);
}

TEST(FeedMessages, MalformedOnesAreDataLoss) {
  const Bytes request = Encode(Request{}), reply = Encode(FullReply());
  for (size_t size = 0; size < request.size(); ++size)
    EXPECT_EQ(DecodeRequest(ByteView(request).first(size)).status().code(), Code::kDataLoss) << size;
  for (size_t size = 0; size < reply.size(); ++size)
    EXPECT_EQ(DecodeReply(ByteView(reply).first(size)).status().code(), Code::kDataLoss) << size;
  for (const uint8_t kind : {0, 12, 255}) {
    const Bytes bytes = Encode(Request{.kind = static_cast<RequestKind>(kind)});
    EXPECT_EQ(DecodeRequest(bytes).status().code(), Code::kDataLoss) << int{kind};
  }
  for (const uint8_t attribute : {0, 5}) {
    const Bytes bytes = Encode(Request{.wanted = {{static_cast<stream::Attribute::Kind>(attribute), ""}}});
    EXPECT_EQ(DecodeRequest(bytes).status().code(), Code::kDataLoss) << int{attribute};
  }
  const Bytes many = Encode(Request{.wanted = std::vector<stream::Attribute>(257)});
  EXPECT_EQ(DecodeRequest(many).status().code(), Code::kDataLoss);
  EXPECT_FALSE(DecodeRequest(Encode(Request{.labels_begin = 2, .labels_end = 1})).ok());
  EXPECT_FALSE(DecodeRequest(Encode(Request{.marks = {{{5, 2, 1}, 0}}})).ok());
  Reply wrong = FullReply();
  for (const stream::LabelMark mark : {stream::LabelMark{9, 2, 7}, {10, 0, 2}, {10, 8, 7}}) {
    wrong = FullReply();
    wrong.ranges[0].marks[2] = mark;
    EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << mark.events << " " << mark.labels_begin;
  }
  wrong = FullReply();
  wrong.ranges[0].marks[1].labels_begin = 3;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "labels do not go back";
  wrong = FullReply();
  wrong.ranges[1].partition = 3;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "partitions are in order";
  wrong = FullReply();
  wrong.lost[1].begin = 3;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "lost records overlap";
  wrong = FullReply();
  wrong.lost[1].end = 11;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "lost records beyond the last";
  wrong = FullReply();
  wrong.expired = 7;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "more than are absent";
  wrong = FullReply();
  wrong.absent[1].begin = 0;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "absent records overlap";
  wrong = FullReply();
  wrong.absent[1].end = 11;
  EXPECT_FALSE(DecodeReply(Encode(wrong)).ok()) << "absent records beyond the last";
}

TEST(FeedMessages, AttributesComeWithTheirRecords) {
  stream::RecordBatch batch = stream::BatchOf({"one", "", "three"});
  batch.wanted = {{stream::Attribute::Kind::kKey, ""}, {stream::Attribute::Kind::kHeader, "shop"}};
  batch.attributes.resize(2);
  batch.attributes[0].Append(AsBytes("k"));
  batch.attributes[0].Append(std::nullopt);
  batch.attributes[0].Append(AsBytes(""));
  const Bytes payload = EncodeRecords(batch);  // no record has the header
  stream::RecordBatch out;
  EXPECT_EQ(DecodeRecords(payload, 3, &out).code(), Code::kDataLoss) << "attributes that nobody asked for";
  out.wanted = batch.wanted;
  for (size_t size = 0; size < payload.size(); ++size)
    ASSERT_EQ(DecodeRecords(ByteView(payload).first(size), 3, &out).code(), Code::kDataLoss) << size;
  EXPECT_EQ(out.size(), 0u);
  ASSERT_TRUE(DecodeRecords(payload, 3, &out).ok());
  ASSERT_TRUE(DecodeRecords(payload, 3, &out).ok());
  EXPECT_EQ(stream::TextsOf(out), (std::vector<std::string>{"one", "", "three", "one", "", "three"}));
  for (const size_t first : {0, 3}) {
    EXPECT_EQ(AsText(out.Value(0, first).value()), "k");
    EXPECT_EQ(out.Value(0, first + 1), std::nullopt);
    EXPECT_EQ(AsText(out.Value(0, first + 2).value()), "");
    EXPECT_EQ(out.Value(1, first), std::nullopt);
  }
}

TEST(FeedMessages, ALabelBeginsWithItsOffset) {
  stream::RecordBatch batch = stream::BatchOf({"one", "two", "three"});
  batch.wanted = {{stream::Attribute::Kind::kLabel, ""}};
  batch.attributes.resize(1);
  batch.attributes[0].Append(AsBytes("12345678"));
  batch.attributes[0].Append(std::nullopt);
  batch.attributes[0].Append(AsBytes("12345678label"));
  stream::RecordBatch out;
  out.wanted = batch.wanted;
  ASSERT_TRUE(DecodeRecords(EncodeRecords(batch), 3, &out).ok());
  EXPECT_EQ(AsText(out.Value(0, 0).value()), "12345678");
  EXPECT_EQ(out.Value(0, 1), std::nullopt);
  EXPECT_EQ(AsText(out.Value(0, 2).value()), "12345678label");
  batch.attributes[0] = {};
  batch.attributes[0].Append(AsBytes("1234567"));
  EXPECT_EQ(DecodeRecords(EncodeRecords(batch), 3, &out).code(), Code::kDataLoss);
  EXPECT_EQ(out.size(), 3u);
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
