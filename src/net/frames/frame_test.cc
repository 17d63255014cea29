#include "net/frames/frame.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

#include "base/encoding/printable.h"
#include "base/rng.h"
#include "net/frames/testing.h"
#include "protocol/messages_data.h"

namespace leat::wire {
namespace {

using protocol::Disposition;
using protocol::PushReply;
using protocol::PushRequest;
using protocol::SliceOutcome;

PushRequest RandomRequest(Rng& rng) {
  PushRequest message;
  message.sequence = rng();
  message.worker = NodeId(rng());
  message.generation = Generation(rng());
  message.disposition = static_cast<Disposition>(rng.Below(4));
  message.want_values = rng.Chance(0.5);
  message.exact = rng.Chance(0.5);
  message.version_wanted = rng();
  if (rng.Chance(0.5)) {
    auto& step_lane = message.step_lane.emplace();
    step_lane.step = rng();
    step_lane.width = 1 + static_cast<uint32_t>(rng.Below(200));
    step_lane.lane = static_cast<uint32_t>(rng.Below(step_lane.width));
    step_lane.needed = 1 + static_cast<uint32_t>(rng.Below(step_lane.width));
    message.counted.resize(rng.Below((step_lane.width + 63) / 64 + 1));
    for (uint64_t& word : message.counted) word = rng();
  }
  if (message.disposition != Disposition::kPull) {
    auto& cut = message.cut;
    cut.partition = static_cast<uint32_t>(rng.Below(8));
    cut.begin = {static_cast<uint32_t>(rng.Below(3)), rng.Below(1u << 30)};
    cut.end = cut.begin.offset + 1 + rng.Below(8192);
    cut.after = cut.begin;
    cut.hash = rng();
    cut.batch_size = 128;
    cut.shuffle_seed = rng();
    cut.run = 1 + static_cast<uint32_t>(rng.Below(4));
    message.run = static_cast<uint32_t>(rng.Below(cut.runs()));
    message.events = static_cast<uint32_t>(rng.Below(128));
    if (rng.Chance(0.5)) message.rate = static_cast<float>(1 + rng.Below(20)) / 8;
  }
  uint32_t id = 0;
  for (uint64_t i = rng.Below(40); i > 0; --i) {
    id += 1 + static_cast<uint32_t>(rng.Below(3));
    message.slices.push_back({SliceId(id), Incarnation(rng()), rng()});
  }
  return message;
}

PushReply RandomReply(Rng& rng) {
  PushReply message;
  message.sequence = rng();
  message.generation = Generation(rng());
  message.evicted = rng.Chance(0.1);
  message.counted.resize(rng.Below(3));
  for (uint64_t& word : message.counted) word = rng();
  uint32_t id = 0;
  for (uint64_t i = rng.Below(40); i > 0; --i) {
    id += 1 + static_cast<uint32_t>(rng.Below(3));
    message.slices.push_back({.slice = SliceId(id),
                              .outcome = static_cast<SliceOutcome>(rng.Below(7)),
                              .values = rng.Chance(0.5),
                              .incarnation = Incarnation(rng()),
                              .version = rng()});
  }
  return message;
}

std::string Refusal(ByteView push) {
  return fields::Decode<PushRequest>(push, "push").status().message();
}

std::array<std::byte, FramePrefix::kBytes> Encoded(const FramePrefix& prefix) {
  std::array<std::byte, FramePrefix::kBytes> bytes;
  EncodePrefix(prefix, bytes.data());
  return bytes;
}

TEST(PrefixTest, RoundTrip) {
  const Bytes header(100, std::byte{7});
  const FramePrefix prefix = MakePrefix(255, header, uint64_t{1} << 33);
  const auto decoded = DecodePrefix(Encoded(prefix), 100, uint64_t{1} << 33);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, prefix);
  EXPECT_TRUE(CheckHeader(*decoded, header).ok());
}

TEST(PrefixTest, AHeaderThatIsNotTheOneSentIsFound) {
  Bytes header(100, std::byte{7});
  const FramePrefix prefix = MakePrefix(1, header, 0);
  EXPECT_EQ(CheckHeader(prefix, ByteView(header).first(99)).code(), Code::kDataLoss);
  header[50] ^= std::byte{1};
  EXPECT_EQ(CheckHeader(prefix, header).code(), Code::kDataLoss);
}

TEST(PrefixTest, EveryFlippedBitIsFound) {
  const auto bytes = Encoded(MakePrefix(1, Bytes(10), 20));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= std::byte(1u << (bit % 8));
    const auto decoded =
        DecodePrefix(flipped, std::numeric_limits<uint32_t>::max(), std::numeric_limits<uint64_t>::max());
    EXPECT_FALSE(decoded.ok()) << bit;
  }
}

TEST(PrefixTest, LengthsBeyondTheLimitsAreRefused) {
  const auto bytes = Encoded({.type = 1, .header_bytes = 101, .payload_bytes = 201});
  EXPECT_TRUE(DecodePrefix(bytes, 101, 201).ok());
  EXPECT_EQ(DecodePrefix(bytes, 100, 201).status().code(), Code::kDataLoss);
  EXPECT_EQ(DecodePrefix(bytes, 101, 200).status().code(), Code::kDataLoss);
  EXPECT_EQ(DecodePrefix(ByteView(bytes).first(23), 101, 201).status().code(), Code::kDataLoss);
}

TEST(MessageTest, RoundTrips) {
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    const PushRequest request = RandomRequest(rng);
    const auto request_again = fields::Decode<PushRequest>(fields::Encode(request), "push");
    ASSERT_TRUE(request_again.ok());
    EXPECT_EQ(*request_again, request);
    const PushReply reply = RandomReply(rng);
    const auto reply_again = fields::Decode<PushReply>(fields::Encode(reply), "push reply");
    ASSERT_TRUE(reply_again.ok());
    EXPECT_EQ(*reply_again, reply);
  }
}

TEST(MessageTest, BytesAreThoseOfTheTable) {
  PushRequest push;
  push.sequence = 7;
  push.worker = NodeId(3);
  push.generation = Generation(2);
  push.disposition = Disposition::kPull;
  push.want_values = true;
  push.slices = {{SliceId(1), Incarnation(5), 9}, {SliceId(4), Incarnation(6), 10}};
  EXPECT_EQ(ToHex(fields::Encode(push)),
            "0703020000000000803f0100000000020100000005000000000000000900000000000000040000000600000000000000"
            "0a00000000000000");
  push.disposition = Disposition::kGradient;
  push.exact = true;
  push.version_wanted = 13;
  push.step_lane = protocol::StepLane{.step = 12, .lane = 3, .width = 5, .needed = 4};
  push.counted = {23};
  push.cut = {.partition = 1,
              .after = {0, 64},
              .begin = {0, 64},
              .end = 320,
              .hash = 0xfedcba9876543210,
              .batch_size = 32,
              .shuffle_seed = ~uint64_t{0},
              .run = 2};
  push.run = 1;
  push.events = 30;
  push.rate = 2.5;
  EXPECT_EQ(ToHex(fields::Encode(push)),
            "070302010100400040c0021032547698badcfe20ffffffffffffffff02011e0000204001010c0305040d010117000000"
            "000000000201000000050000000000000009000000000000000400000006000000000000000a00000000000000");
  PushReply reply{
      .sequence = 7, .generation = Generation(2), .evicted = false, .counted = {23}, .slices = {}};
  reply.slices = {{SliceId(1), SliceOutcome::kApplied, true, Incarnation(5), 10},
                  {SliceId(4), SliceOutcome::kHeld, false, Incarnation(6), 10}};
  EXPECT_EQ(ToHex(fields::Encode(reply)),
            "0702000117000000000000000201000000000105000000000000000a0000000000000004000000050006000000000000"
            "000a00000000000000");
}

// Whatever a decoder accepts must be what its encoder writes: every byte has exactly one meaning.
template <class Message>
void DecodesOrRefuses(ByteView bytes) {
  const auto message = fields::Decode<Message>(bytes, "it");
  if (!message.ok()) {
    EXPECT_EQ(message.status().code(), Code::kDataLoss);
    return;
  }
  const Bytes again = fields::Encode(*message);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), again.begin(), again.end()));
}

TEST(MessageTest, TruncatedExtendedAndFlippedBytes) {
  Rng rng(2);
  for (int i = 0; i < 20; ++i) {
    const auto torture = []<class Message>(const Message& message) {
      const Bytes bytes = fields::Encode(message);
      testing::RefusesOtherLengths(bytes, [](ByteView b) { return fields::Decode<Message>(b, "it"); });
      for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        Bytes flipped = bytes;
        flipped[bit / 8] ^= std::byte(1u << (bit % 8));
        DecodesOrRefuses<Message>(flipped);
      }
    };
    torture(RandomRequest(rng));
    torture(RandomReply(rng));
  }
}

TEST(MessageTest, RandomBytes) {
  Rng rng(3);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes(rng.Below(200));
    for (auto& byte : bytes) byte = std::byte(rng.Below(rng.Chance(0.5) ? 4 : 256));
    DecodesOrRefuses<PushRequest>(bytes);
    DecodesOrRefuses<PushReply>(bytes);
  }
}

TEST(MessageTest, ACountThatCannotBeThereIsRefusedBeforeItIsAllocated) {
  Bytes bytes = fields::Encode(PushRequest{});
  bytes.pop_back();
  for (const uint8_t huge : {0xff, 0xff, 0x3f}) bytes.push_back(std::byte{huge});
  EXPECT_EQ(Refusal(bytes), "push: slices has 1048575 elements, and is cut off");
}

TEST(MessageTest, TurnsThatAreNoneAreRefused) {
  using protocol::StepLane;
  const auto decodes = [](const StepLane& step_lane, size_t words) {
    PushRequest request;
    request.step_lane = step_lane;
    request.counted.resize(words);
    return Refusal(fields::Encode(request)).empty();
  };
  EXPECT_TRUE(decodes({7, 0, 1, 1}, 1));
  EXPECT_TRUE(decodes({7, 64, 65, 3}, 2));
  EXPECT_TRUE(decodes({7, 0, StepLane::kMaxWidth, StepLane::kMaxWidth}, 0));
  EXPECT_FALSE(decodes({7, 1, 1, 1}, 0)) << "a lane behind the last";
  EXPECT_FALSE(decodes({7, 0, 0, 1}, 0)) << "no lanes";
  EXPECT_FALSE(decodes({7, 0, 4, 0}, 0)) << "none needed";
  EXPECT_FALSE(decodes({7, 0, 4, 5}, 0)) << "more needed than there are";
  EXPECT_FALSE(decodes({7, 0, StepLane::kMaxWidth + 1, 1}, 0)) << "more lanes than any job has";
  EXPECT_FALSE(decodes({7, 0, 64, 1}, 2)) << "lanes that count and are not there";
}

TEST(MessageTest, RatesThatAreNoneAreRefused) {
  const auto decodes = [](float rate) {
    PushRequest request;
    request.disposition = Disposition::kEmpty;
    request.cut = protocol::MakeCut({}, 0, {}, {}, 8);
    request.rate = rate;
    return Refusal(fields::Encode(request)).empty();
  };
  for (const float rate : {1.0f, 0.125f, 1000.0f}) EXPECT_TRUE(decodes(rate)) << rate;
  for (const float rate : {0.0f, -1.0f, 1001.0f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_FALSE(decodes(rate)) << rate;
}

TEST(MessageTest, SlicesMustRise) {
  PushRequest request;
  request.slices = {{SliceId(2), Incarnation(1), 0}, {SliceId(2), Incarnation(1), 0}};
  EXPECT_EQ(Refusal(fields::Encode(request)), "push: slices do not ascend after slice 2");
  request.slices[1].slice = SliceId(3);
  EXPECT_EQ(Refusal(fields::Encode(request)), "");
  PushReply reply;
  reply.slices.resize(2);
  reply.slices[0].slice = SliceId(1);
  EXPECT_FALSE(fields::Decode<PushReply>(fields::Encode(reply), "push reply").ok());
}

}  // namespace
}  // namespace leat::wire
