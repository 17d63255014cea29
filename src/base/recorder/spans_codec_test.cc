#include "base/recorder/recorder.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace leat::timeline {
namespace {

std::vector<TrackSpans> Random(uint64_t seed, size_t most) {
  Rng rng(seed);
  std::vector<TrackSpans> tracks;
  for (uint64_t n = rng.Below(4); n > 0; --n) {
    TrackSpans& track = tracks.emplace_back();
    track.name = std::string(rng.Below(65), static_cast<char>('a' + n));
    track.spans.resize(1 + rng.Below(most));
    for (Span& span : track.spans) {
      span.kind = static_cast<Kind>(rng.Below(kKindNames.size()));
      span.end = Time(static_cast<int64_t>(rng() >> (2 + rng.Below(40))));
      const int64_t took = static_cast<int64_t>(rng() >> (20 + rng.Below(40))) % 86'400'000'000'000;
      span.begin = span.end - Duration(took);
      span.busy = Duration(static_cast<int64_t>(rng.Below(static_cast<uint64_t>(took) + 1)));
      span.peer = rng() >> rng.Below(64);
      span.number = rng() >> rng.Below(64);
      span.bytes = rng() >> rng.Below(64);
    }
  }
  return tracks;
}

// As one, whatever the chunks are.
std::vector<TrackSpans> DecodeAll(const std::vector<Bytes>& chunks) {
  std::vector<TrackSpans> all;
  for (const Bytes& chunk : chunks) {
    EXPECT_LE(chunk.size(), kMaxChunkBytes);
    auto tracks = DecodeSpans(chunk);
    EXPECT_TRUE(tracks.ok()) << tracks.status().ToString();
    if (!tracks.ok()) continue;
    for (TrackSpans& track : *tracks) {
      if (!all.empty() && all.back().name == track.name) {
        all.back().spans.insert(all.back().spans.end(), track.spans.begin(), track.spans.end());
      } else {
        all.push_back(std::move(track));
      }
    }
  }
  return all;
}

TEST(SpansCodec, AreReadBack) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto tracks = Random(seed, 20);
    const auto chunks = EncodeSpans(tracks);
    EXPECT_LE(chunks.size(), 1u);
    ASSERT_EQ(DecodeAll(chunks), tracks) << seed;
  }
  EXPECT_TRUE(EncodeSpans({}).empty());
}

TEST(SpansCodec, ManyTakeSeveralChunks) {
  const auto tracks = Random(3, 40'000);
  ASSERT_FALSE(tracks.empty());
  const auto chunks = EncodeSpans(tracks);
  EXPECT_GT(chunks.size(), 1u);
  EXPECT_EQ(DecodeAll(chunks), tracks);
}

TEST(SpansCodec, ChunksMayBeJoined) {
  const auto first = Random(5, 20), second = Random(7, 20);
  ASSERT_FALSE(first.empty() || second.empty());
  Bytes joined = EncodeSpans(first).at(0);
  const Bytes more = EncodeSpans(second).at(0);
  joined.insert(joined.end(), more.begin(), more.end());
  auto both = first;
  both.insert(both.end(), second.begin(), second.end());
  const auto tracks = DecodeSpans(joined);
  ASSERT_TRUE(tracks.ok()) << tracks.status().ToString();
  EXPECT_EQ(*tracks, both);
}

TEST(SpansCodec, ASpanOfAStepTakesFewBytes) {
  TrackSpans track{.name = "compute", .spans = {}};
  for (int i = 0; i < 1000; ++i)
    track.spans.push_back({.kind = Kind::kForward,
                           .begin = Time(1'000'000 + i * 200'000),
                           .end = Time(1'080'000 + i * 200'000)});
  EXPECT_LT(EncodeSpans({track}).at(0).size(), 12'000u);
}

TEST(SpansCodec, DamageIsRefused) {
  const auto chunk = EncodeSpans(Random(5, 3)).at(0);
  for (size_t size = 0; size < chunk.size(); ++size) {
    const auto tracks = DecodeSpans(ByteView(chunk).first(size));
    if (!tracks.ok()) continue;
    EXPECT_EQ(DecodeAll(EncodeSpans(*tracks)), *tracks);
  }
  for (const char* text : {"", "\x02", "\x81\x41",
                           "\x81\x01"
                           "a\x7f"}) {
    EXPECT_EQ(DecodeSpans(AsBytes(text)).status().code(), Code::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace leat::timeline
