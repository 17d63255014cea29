#include "serve/versions.h"

#include <gtest/gtest.h>

#include "serve/testing.h"

namespace leat::serve {
namespace {

using namespace std::chrono_literals;

class VersionsTest : public ::testing::Test {
 protected:
  void Publish(float value, Time as_of) {
    protocol::Parameters* const set = versions.Begin();
    ASSERT_NE(set, nullptr);
    set->values(size_t{0})[0] = value;
    versions.Complete(set, as_of);
  }
  static float ValueOf(const Versions::InUse& in_use) { return in_use.parameters->values(size_t{0})[0]; }

  const job::Job job = testing::Payments();
  Versions versions{job.Slices()};
};

TEST_F(VersionsTest, ThereIsNoneBeforeTheFirst) {
  EXPECT_FALSE(versions.Acquire());
  EXPECT_FALSE(versions.newest());
  Publish(1, 5s);
  ASSERT_TRUE(versions.newest());
  EXPECT_EQ(versions.newest()->number, 1u);
  EXPECT_EQ(versions.newest()->as_of, Time(5s));
}

TEST_F(VersionsTest, WhatIsInUseStaysAsItIs) {
  Publish(1, 1s);
  const auto used = versions.Acquire();
  ASSERT_TRUE(used);
  Publish(2, 2s);
  EXPECT_EQ(versions.newest()->number, 2u);
  EXPECT_EQ(ValueOf(*used), 1);
  // Both sets have values that are needed.
  EXPECT_EQ(versions.Begin(), nullptr);
  versions.Release();
  const auto next = versions.Acquire();
  EXPECT_EQ(next->version.number, 2u);
  EXPECT_EQ(ValueOf(*next), 2);
  EXPECT_NE(versions.Begin(), nullptr);
  EXPECT_NE(versions.Begin(), next->parameters);
}

TEST_F(VersionsTest, AnIdleReaderHoldsNothingUp) {
  for (int i = 1; i < 10; ++i) Publish(static_cast<float>(i), Time(1s) * i);
  EXPECT_EQ(ValueOf(*versions.Acquire()), 9);
}

TEST_F(VersionsTest, UnchangedValuesAreTheSameVersionAsOfLater) {
  Publish(1, 1s);
  versions.Complete(versions.Begin(), 2s, false);
  EXPECT_EQ(versions.newest()->number, 1u);
  EXPECT_EQ(versions.newest()->as_of, Time(2s));
  EXPECT_EQ(ValueOf(*versions.Acquire()), 1);
}

TEST_F(VersionsTest, ACheckpointGivesItsNumber) {
  versions.Complete(versions.Begin(), 1s, true, 17);
  EXPECT_EQ(versions.newest()->number, 17u);
}

}  // namespace
}  // namespace leat::serve
