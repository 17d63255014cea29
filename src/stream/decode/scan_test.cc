#include "stream/decode/scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace leat::stream {
namespace {

TEST(FindUnplain, StopsAtTheFirstSuchByte) {
  for (int c = 0; c < 256; ++c) {
    const bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
    for (const size_t before : {0, 1, 15, 16, 17, 40}) {
      std::vector<char> text(before, 'a');
      text.push_back(static_cast<char>(c));
      text.push_back('"');
      text.resize(text.size() + 15);  // zeros, which are not plain
      EXPECT_EQ(FindUnplain(text.data()) - text.data(), static_cast<ptrdiff_t>(before + (plain ? 1 : 0)))
          << c;
    }
  }
}

TEST(FindCharacter, IsWhatStdFindReturns) {
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<char> text(rng.Below(50));  // without room behind it
    for (char& c : text) c = static_cast<char>(rng.Below(rng.Chance(0.5) ? 3 : 256));
    const char* const begin = text.data() + rng.Below(text.size() + 1);
    const char* const end = text.data() + text.size();
    const auto wanted = static_cast<char>(rng.Below(3));
    ASSERT_EQ(FindCharacter(begin, end, wanted), std::find(begin, end, wanted));
  }
}

}  // namespace
}  // namespace leat::stream
