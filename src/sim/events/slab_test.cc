#include "sim/events/slab.h"

#include <gtest/gtest.h>

#include <vector>

namespace leat::sim {
namespace {

TEST(SlabTest, NoTwoHaveTheSamePlaceAndNobodyIsMoved) {
  Slab<uint32_t> places;
  std::vector<uint32_t*> at;
  for (uint32_t i = 0; i < 2000; ++i) {
    const uint32_t place = places.Take();
    places[place] = place;
    ASSERT_EQ(place, at.size());
    at.push_back(&places[place]);
  }
  for (uint32_t i = 0; i < 2000; ++i) {
    EXPECT_EQ(*at[i], i);
    EXPECT_EQ(&places[i], at[i]);
  }
}

TEST(SlabTest, WhatWasLeftLastIsTakenFirstAsItIs) {
  Slab<uint32_t> places;
  const uint32_t first = places.Take(), second = places.Take();
  places[first] = 1;
  places[second] = 2;
  places.Leave(second);
  places.Leave(first);
  EXPECT_EQ(places.Take(), first);
  EXPECT_EQ(places.Take(), second);
  EXPECT_EQ(places[first], 1u);
  EXPECT_EQ(places[second], 2u);
  EXPECT_NE(places.Take(), first);
}

}  // namespace
}  // namespace leat::sim
