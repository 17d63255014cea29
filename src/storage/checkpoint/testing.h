// Helpers for tests of this folder. Only *_test.cc files include this.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/rng.h"
#include "base/testing.h"
#include "protocol/records/journal.h"
#include "protocol/server/server.h"

namespace leat::checkpoint {

// Tests of every byte take one in this many under sanitizers, where each takes a hundred times longer.
#ifdef LEAT_SANITIZED
constexpr size_t kEachByte = 7;
#else
constexpr size_t kEachByte = 1;
#endif

inline void WriteText(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}
// In place.
inline void FlipByte(const std::string& path, size_t at, char bits) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(at));
  const auto byte = static_cast<char>(file.get() ^ bits);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

inline protocol::Cut MakeCut(uint32_t partition, uint64_t begin, uint64_t end) {
  protocol::Cut cut;
  cut.partition = partition;
  cut.after = cut.begin = {0, begin};
  cut.end = end;
  cut.hash = 0xfedcba9876543210;
  cut.batch_size = 32;
  cut.shuffle_seed = ~uint64_t{0};
  return cut;
}

// A round that has the first `runs` runs of each cut, one cut per lane.
inline protocol::RoundMade MakeRound(uint64_t first_step, uint32_t runs, std::vector<protocol::Cut> cuts) {
  protocol::RoundMade round;
  round.first_step = first_step;
  for (const auto& cut : cuts) {
    protocol::RunSet assigned(cut.runs());
    for (uint32_t i = 0; i < runs; ++i) assigned.Add(i);
    round.lanes.push_back({cut, assigned});
  }
  return round;
}

// Two variables in five slices.
inline protocol::SliceTable MakeTable() {
  protocol::SliceTable table;
  table.seed = 7;
  table.variables = {{"dense/weight", Shape{6, 16}, {}}, {"dense/bias", Shape{16}, {}}};
  table.slices = {{0, 0, 32}, {0, 32, 64}, {0, 64, 96}, {1, 0, 9}, {1, 9, 16}};
  return table;
}

// A slice with values that depend on `seed` alone, some of them NaN.
inline std::shared_ptr<const protocol::Slice> MakeSlice(const protocol::SliceTable& table, uint32_t id,
                                                        uint32_t slots, uint64_t seed) {
  auto slice = std::make_shared<protocol::Slice>();
  Rng rng(Mix(seed, id));
  slice->id = SliceId(id);
  slice->incarnation = Incarnation(rng.Below(1000));
  slice->version = rng();
  slice->events = rng();
  slice->slots = slots;
  slice->elements = table.slices[id].elements();
  slice->memory = Buffer(slice->elements * 4 * (1 + slots));
  for (std::byte& b : slice->memory.bytes()) b = static_cast<std::byte>(rng());
  slice->ledger = protocol::Ledger(std::vector<protocol::Position>{{0, 64 * (seed % 3)}, {2, 5}});
  slice->ledger.Record(MakeCut(0, 640, 800), static_cast<uint32_t>(rng.Below(5)));
  return slice;
}

inline std::vector<std::shared_ptr<const protocol::Slice>> MakeSlices(const protocol::SliceTable& table,
                                                                      std::vector<uint32_t> ids,
                                                                      uint32_t slots, uint64_t seed) {
  std::vector<std::shared_ptr<const protocol::Slice>> slices;
  for (const uint32_t id : ids) slices.push_back(MakeSlice(table, id, slots, seed));
  return slices;
}

inline void ExpectSame(const protocol::Slice& a, const protocol::Slice& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.incarnation, b.incarnation);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.elements, b.elements);
  EXPECT_TRUE(a.ledger == b.ledger);
  ASSERT_EQ(a.memory.size(), b.memory.size());
  EXPECT_EQ(std::memcmp(a.memory.data(), b.memory.data(), a.memory.size()), 0);
}

}  // namespace leat::checkpoint
