#include "run/roles/shards/saved_slices.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "base/rng.h"

namespace leat::roles {
namespace {

constexpr SliceId kA(0), kB(1), kC(2);
constexpr Duration kLong = std::chrono::minutes(2);

// Not all slices may be copied.
SavedSlices::Limits Limited(uint64_t copies, Duration longest_wait = std::chrono::seconds(2)) {
  return {.copies = copies, .whole = 0, .longest_wait = longest_wait};
}

bool BecomesUrgent(const SavedSlices& saved, SliceId slice) {
  const MonotonicClock clock;
  const Time end = clock.Now() + kLong / 2;
  while (saved.Urgent() != slice) {
    if (clock.Now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(SavedSlices, CopiesAreOfAllSlicesOrWithinTheLimit) {
  const std::vector<uint64_t> sizes = {40, 40, 40};
  EXPECT_EQ(SavedSlices({.copies = 100, .whole = 120}).Copied(sizes), sizes);
  EXPECT_EQ(SavedSlices({.copies = 100, .whole = 119}).Copied(sizes), (std::vector<uint64_t>{40, 40}));
  EXPECT_EQ(SavedSlices({.copies = 39, .whole = 0}).Copied(sizes), std::vector<uint64_t>());
}

TEST(SavedSlices, WhatIsWrittenNeedsNoCopy) {
  SavedSlices saved(Limited(100));
  EXPECT_TRUE(saved.BeforeUpdate(kA, Buffer(1000))) << "nothing is being saved";
  saved.Begin({}, 1);
  EXPECT_FALSE(saved.BeforeUpdate(kA, Buffer(100)));
  saved.Written(kB);
  EXPECT_TRUE(saved.BeforeUpdate(kB, Buffer(100)));
  saved.End();
  EXPECT_TRUE(saved.BeforeUpdate(kC, Buffer(100)));
  saved.Begin({}, 1);
  EXPECT_FALSE(saved.BeforeUpdate(kB, Buffer(100))) << "of another save";
}

TEST(SavedSlices, ACopyCountsUntilNobodyRefersToIt) {
  SavedSlices saved(Limited(100, kLong));
  saved.Begin({}, 1);
  Buffer sent(60);  // by a reply, too
  EXPECT_FALSE(saved.BeforeUpdate(kA, sent));
  saved.Written(kA);
  std::thread writer([&] {
    EXPECT_TRUE(BecomesUrgent(saved, kB));
    saved.Written(kB);
  });
  EXPECT_TRUE(saved.BeforeUpdate(kB, Buffer(60))) << "there was no room";
  writer.join();
  sent = Buffer();
  EXPECT_FALSE(saved.BeforeUpdate(kC, Buffer(60)));
}

TEST(SavedSlices, CopiesAreWrittenFirst) {
  SavedSlices saved(Limited(100));
  saved.Begin({}, 1);
  EXPECT_EQ(saved.Urgent(), std::nullopt);
  saved.BeforeUpdate(kB, Buffer(50));
  EXPECT_EQ(saved.Urgent(), kB);
  saved.Written(kB);
  EXPECT_EQ(saved.Urgent(), std::nullopt);
}

TEST(SavedSlices, AnUpdateWithoutRoomWaitsForItsSlice) {
  SavedSlices saved(Limited(100, kLong));
  saved.Begin({}, 1);
  EXPECT_FALSE(saved.BeforeUpdate(kA, Buffer(60)));
  std::atomic<bool> in_place{false}, done{false};
  std::thread update([&] {
    in_place = saved.BeforeUpdate(kB, Buffer(60));
    done = true;
  });
  EXPECT_TRUE(BecomesUrgent(saved, kB));
  EXPECT_FALSE(done);
  saved.Written(kB);
  update.join();
  EXPECT_TRUE(in_place);
}

TEST(SavedSlices, AnUpdateWithoutRoomGoesOnOnceThereIs) {
  SavedSlices saved(Limited(100, kLong));
  saved.Begin({}, 1);
  EXPECT_FALSE(saved.BeforeUpdate(kA, Buffer(60)));
  std::atomic<bool> in_place{true};
  std::thread update([&] { in_place = saved.BeforeUpdate(kB, Buffer(60)); });
  EXPECT_TRUE(BecomesUrgent(saved, kB));
  saved.Written(kA);
  update.join();
  EXPECT_FALSE(in_place);
  EXPECT_EQ(saved.Urgent(), kB);
}

TEST(SavedSlices, ADiskThatHangsStopsNoTraining) {
  SavedSlices saved(Limited(100, std::chrono::milliseconds(1)));
  saved.Begin({}, 1);
  EXPECT_FALSE(saved.BeforeUpdate(kA, Buffer(1000)));
  saved.End();
  saved.Begin({}, 1);
  EXPECT_FALSE(saved.BeforeUpdate(kA, Buffer(60)));
  EXPECT_FALSE(saved.BeforeUpdate(kB, Buffer(60)));
}

TEST(SavedSlices, AfterALongWaitNoUpdateWaitsUntilTheSaveEnds) {
  const MonotonicClock clock;
  SavedSlices saved(Limited(100, std::chrono::seconds(1)));
  saved.Begin({}, 1);
  const Time began = clock.Now();
  for (uint32_t slice = 0; slice < 60; ++slice) EXPECT_FALSE(saved.BeforeUpdate(SliceId(slice), Buffer(60)));
  EXPECT_LT(clock.Now() - began, std::chrono::seconds(30)) << "each has waited";
}

// Whatever the order of updates: the old memory of at most so many bytes exists at any time.
TEST(SavedSlices, TheMemoryOfCopiesIsLimited) {
  constexpr uint32_t kSlices = 64;
  constexpr uint64_t kBytes = 16, kLimit = 40;
  SavedSlices saved(Limited(kLimit, kLong));
  saved.Begin({}, 1);
  std::vector<std::atomic<bool>> copied(kSlices);
  std::atomic<uint64_t> held{0}, most{0};
  std::thread writer([&] {
    std::vector<bool> written(kSlices);
    for (uint32_t left = kSlices, first = 0; left > 0; --left) {
      while (written[first]) ++first;
      const uint32_t i = saved.Urgent().value_or(SliceId(first)).value;
      EXPECT_FALSE(written[i]);
      if (written[i]) break;
      written[i] = true;
      if (copied[i].exchange(false)) held -= kBytes;
      saved.Written(SliceId(i));
    }
    saved.End();
  });
  Rng rng(1);
  for (int update = 0; update < 200; ++update) {
    const auto i = static_cast<uint32_t>(rng.Below(kSlices));
    if (copied[i]) continue;
    copied[i] = true;
    held += kBytes;
    if (!saved.BeforeUpdate(SliceId(i), Buffer(kBytes))) {
      most = std::max<uint64_t>(most, held);
    } else if (copied[i].exchange(false)) {
      held -= kBytes;
    }
  }
  writer.join();
  EXPECT_LE(most, kLimit);
}

// ---- all slices may be copied

TEST(SavedSlices, ASlowDiskDelaysTheUpdatesOfASmallSaveByAShortTimeInAll) {
  const MonotonicClock clock;
  SavedSlices saved({.copies = 100,
                     .whole = 60'000,
                     .patience = std::chrono::milliseconds(1),
                     .longest_wait = std::chrono::minutes(5)});
  std::set<SliceId> slices;
  for (uint32_t slice = 0; slice < 1000; ++slice) slices.insert(SliceId(slice));
  saved.Begin(slices, 60'000);
  const Time began = clock.Now();
  for (const SliceId slice : slices) EXPECT_FALSE(saved.BeforeUpdate(slice, Buffer(60)));
  EXPECT_LT(clock.Now() - began, std::chrono::minutes(1)) << "nothing has been written";
  saved.End();
  saved.Begin(slices, 60'001);
  EXPECT_FALSE(saved.BeforeUpdate(kA, Buffer(60)));
  std::thread writer([&] {
    EXPECT_TRUE(BecomesUrgent(saved, kB));
    saved.Written(kB);
  });
  EXPECT_TRUE(saved.BeforeUpdate(kB, Buffer(60))) << "too large for copies";
  writer.join();
}

TEST(SavedSlices, ASmallSaveIsWrittenFromItsEnd) {
  SavedSlices saved({.copies = 100, .whole = 1000});
  saved.Begin({kA, kB, kC}, 180);
  EXPECT_EQ(saved.Urgent(), kC);
  saved.Written(kC);
  EXPECT_FALSE(saved.BeforeUpdate(kA, Buffer(60)));
  EXPECT_EQ(saved.Urgent(), kB) << "the copy can wait";
  saved.Written(kB);
  EXPECT_EQ(saved.Urgent(), kA);
  EXPECT_TRUE(saved.BeforeUpdate(kB, Buffer(60)));
}

TEST(SavedSlices, InASmallSaveAnUpdateWaitsForItsSliceFirst) {
  SavedSlices saved({.copies = 100, .whole = 1000, .patience = kLong});
  saved.Begin({kA, kB, kC}, 180);
  EXPECT_FALSE(saved.BeforeUpdate(kA, Buffer(60)));
  std::thread writer([&] {
    EXPECT_TRUE(BecomesUrgent(saved, kB));
    saved.Written(kB);
  });
  EXPECT_TRUE(saved.BeforeUpdate(kB, Buffer(60)));
  writer.join();
}

}  // namespace
}  // namespace leat::roles
