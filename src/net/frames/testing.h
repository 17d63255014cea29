// Helpers for tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace leat::wire::testing {

// Expects that each prefix is refused, and the whole with one more byte.
template <class Decode>
void RefusesOtherLengths(const Bytes& whole, Decode decode) {
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode(ByteView(whole).first(size)).ok()) << size;
  Bytes longer = whole;
  longer.push_back({});
  EXPECT_FALSE(decode(longer).ok());
}

}  // namespace leat::wire::testing
