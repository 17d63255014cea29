#include "protocol/push/exchanges.h"

#include <gtest/gtest.h>

namespace leat::protocol {
namespace {

View ViewOf(const std::vector<uint64_t>& incarnations) {
  View view;
  for (const uint64_t incarnation : incarnations)
    view.slices.push_back({NodeId(1), Incarnation(incarnation), true});
  return view;
}

TEST(SliceVersions, KeepWhatIsKnownWhenSlicesGetOtherIndices) {
  SliceVersions versions(3, true);
  versions.Arrange(ViewOf({1, 1, 1}), {0, 1, 2});
  for (uint32_t i = 0; i < 3; ++i) {
    versions.Take(i, {SliceId(i), Incarnation(1), 10 + i});
    versions.See(i, Incarnation(1), 20 + i);
  }
  EXPECT_FALSE(versions.LacksAny());
  versions.Arrange(ViewOf({1, 1, 1}), {2, 0, 1});
  EXPECT_EQ(versions.IndexOf(SliceId(0)), 2u);
  EXPECT_EQ(versions.known()[2].version, 10u);
  EXPECT_EQ(versions.SeenOf(SliceId(2)), 22u);
  EXPECT_EQ(versions.KnownBySlice()[1].version, 11u);
  EXPECT_EQ(versions.LowestKnown(), 10u);
  EXPECT_EQ(versions.SeenRange(), std::pair(uint64_t{20}, uint64_t{22}));
}

TEST(SliceVersions, ARestoredSliceLacksItsValuesAndIsNotSeen) {
  SliceVersions versions(2, true);
  versions.Arrange(ViewOf({1, 1}), {0, 1});
  for (uint32_t i = 0; i < 2; ++i) {
    versions.Take(i, {SliceId(i), Incarnation(1), 5});
    versions.See(i, Incarnation(1), 5);
  }
  versions.Arrange(ViewOf({1, 2}), {0, 1});
  EXPECT_FALSE(versions.Lacks(0));
  EXPECT_TRUE(versions.Lacks(1));
  EXPECT_EQ(versions.SeenOf(SliceId(1)), 0u);
  EXPECT_EQ(versions.SeenRange().first, 0u);
  versions.See(1, Incarnation(2), 3);
  versions.See(1, Incarnation(2), 2);
  EXPECT_EQ(versions.SeenRange().first, 3u) << "a version is never lower than one before";
}

TEST(SliceVersions, ForgottenValuesAreLacking) {
  SliceVersions versions(1, false);
  versions.Arrange(ViewOf({1}), {0});
  versions.Take(0, {SliceId(0), Incarnation(1), 5});
  versions.SetLacking(false);
  versions.Forget(0);
  EXPECT_TRUE(versions.lacking());
  EXPECT_TRUE(versions.LacksAny());
  EXPECT_EQ(versions.known()[0].slice, SliceId(0));
}

}  // namespace
}  // namespace leat::protocol
