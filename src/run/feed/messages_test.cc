#include "run/feed/messages.h"

#include <gtest/gtest.h>

#include "base/encoding/printable.h"
#include "base/fields/files/testing.h"
#include "base/fields/testing.h"
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

Request FullRequest() {
  return {.sequence = 1,
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
}

TEST(FeedMessages, ComeBackWhole) {
  EXPECT_EQ(fields::CodecFault(FullRequest()), "");
  EXPECT_EQ(fields::CodecFault<Request>(100), "");
  EXPECT_EQ(fields::CodecFault(FullReply()), "");
  EXPECT_EQ(fields::CodecFault(Reply()), "");
}

TEST(FeedMessages, BytesAreThoseOfTheTable) {
  EXPECT_EQ(ToHex(fields::Encode(FullRequest())),
            "010200000000000000050304050d6a6f62406469726563746f7279020100030473686f70020600090a020b0c0d0e0000"
            "00000800000000000000");
  EXPECT_EQ(ToHex(fields::Encode(FullReply())),
            "070204676f6e6563000000000000000200050a00030600030900030a0207000100000100096e6f206c6561646572d204"
            "0000000000000a0202040764616d61676564040500020001050a03");
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
  const auto decode = [](ByteView bytes) { return fields::Decode<Scores>(bytes, "scores"); };
  const Bytes bytes = fields::Encode(Scores{scores});
  const auto decoded = decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  const auto* back = &decoded->runs;
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
    EXPECT_EQ(decode(ByteView(bytes).first(size)).status().code(), Code::kDataLoss) << size;
  auto wrong = SomeScores(0, 1);
  wrong.events[1] = wrong.events[0];
  const Status refused = decode(fields::Encode(Scores{{wrong}})).status();
  EXPECT_EQ(refused.code(), Code::kDataLoss);
  EXPECT_EQ(refused.message(), "scores: runs[0]: not the scores of a run of its cut");
}

TEST(FeedMessages, TheDocumentsHaveItsFields) {
  EXPECT_EQ((fields::PageFault<Request, Reply, stream::PartitionRange, stream::RecordBatch::Lost, Scores,
                               protocol::RunScores>(LEAT_FORMATS "feed.md")),
            "");
}

TEST(FeedMessages, ARequestThatBreaksItsRulesIsRefused) {
  const auto error = [](auto change) {
    Request request = FullRequest();
    change(&request);
    const auto read = fields::Decode<Request>(fields::Encode(request), "request");
    EXPECT_EQ(read.status().code(), Code::kDataLoss);
    return read.status().message();
  };
  for (const uint8_t kind : {0, 12, 255}) {
    EXPECT_EQ(error([kind](auto* r) { r->kind = static_cast<RequestKind>(kind); }),
              "request: kind is " + std::to_string(kind));
  }
  for (const uint8_t kind : {0, 5}) {
    EXPECT_EQ(error([kind](auto* r) { r->wanted[1].kind = static_cast<stream::Attribute::Kind>(kind); }),
              "request: wanted[1].kind is " + std::to_string(kind));
  }
  EXPECT_EQ(error([](auto* r) { r->wanted.resize(257); }), "request: wanted has 257 elements, at most 256");
  EXPECT_EQ(error([](auto* r) { r->wanted[0].header.resize(4097); }),
            "request: wanted[0].header has 4097 bytes, at most 4096");
  EXPECT_EQ(error([](auto* r) { r->name.resize(4097); }), "request: name has 4097 bytes, at most 4096");
  EXPECT_EQ(error([](auto* r) { r->labels_end = 8; }), "request: labels_end is 8, at least 9");
  EXPECT_EQ(error([](auto* r) {
              r->marks[0].last = {5, 2, 1};
            }),
            "request: marks[0].last.labels_end is 1, at least 2");
}

TEST(FeedMessages, AReplyThatBreaksItsRulesIsRefused) {
  const auto error = [](auto change) {
    Reply reply = FullReply();
    change(&reply);
    const auto read = fields::Decode<Reply>(fields::Encode(reply), "reply");
    EXPECT_EQ(read.status().code(), Code::kDataLoss);
    return read.status().message();
  };
  for (const stream::LabelMark mark : {stream::LabelMark{9, 2, 7}, {10, 0, 2}}) {
    EXPECT_EQ(error([mark](auto* r) { r->ranges[0].marks[2] = mark; }),
              "reply: ranges[0]: marks[2] does not follow the mark before it");
  }
  EXPECT_EQ(error([](auto* r) {
              r->ranges[0].marks[2] = {10, 8, 7};
            }),
            "reply: ranges[0].marks[2].labels_end is 7, at least 8");
  EXPECT_EQ(error([](auto* r) { r->ranges[0].marks[1].labels_begin = 3; }),
            "reply: ranges[0]: marks[2] does not follow the mark before it");
  EXPECT_EQ(error([](auto* r) { r->ranges[0].end = 4; }), "reply: ranges[0].end is 4, at least 5");
  EXPECT_EQ(error([](auto* r) { r->ranges[1].partition = 3; }), "reply: ranges[1].partition is 3");
  EXPECT_EQ(error([](auto* r) { r->lost[1].begin = 3; }), "reply: lost has records 3 to 5 of 10, behind 4");
  EXPECT_EQ(error([](auto* r) { r->lost[1].end = 4; }), "reply: lost has records 4 to 4 of 10, behind 4");
  EXPECT_EQ(error([](auto* r) { r->lost[1].end = 11; }), "reply: lost has records 4 to 11 of 10, behind 4");
  EXPECT_EQ(error([](auto* r) { r->absent[1].begin = 0; }),
            "reply: absent has records 0 to 10 of 10, behind 1");
  EXPECT_EQ(error([](auto* r) { r->absent[1].end = 11; }),
            "reply: absent has records 5 to 11 of 10, behind 1");
  EXPECT_EQ(error([](auto* r) { r->expired = 7; }), "reply: expired is 7 of 6 absent");
}

TEST(FeedMessages, LongReasonsAreCutOff) {
  Reply reply{.status = Status(Code::kNotFound, std::string(5000, 'x'))};
  reply.ranges = {{.unasked = std::string(5000, 'x')}};
  reply.records = 1;
  reply.lost = {{0, 1, std::string(5000, 'x')}};
  const auto read = fields::Decode<Reply>(fields::Encode(reply), "reply");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  for (const std::string& reason : {read->status.message(), read->ranges[0].unasked, read->lost[0].reason})
    EXPECT_EQ(reason.size(), 4096u);
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
