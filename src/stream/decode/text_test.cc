#include "stream/decode/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
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

TEST(TextStart, HasTheFirstBytesAndZerosAfterTheEnd) {
  Rng rng(2);
  for (int i = 0; i < 2000; ++i) {
    const size_t size = rng.Below(40);
    std::string memory(size + TextStart::kBytes, '\0');
    for (char& c : memory) c = static_cast<char>(rng());
    const std::string_view text = std::string_view(memory).substr(0, size);
    char bytes[TextStart::kBytes] = {};
    std::copy_n(text.begin(), std::min(size, sizeof(bytes)), bytes);
    TextStart expected{.size = size};
    std::memcpy(&expected.first, bytes, 8);
    std::memcpy(&expected.second, bytes + 8, 8);
    EXPECT_EQ(TextStart::OfReadable(text), expected) << size;
    EXPECT_EQ(TextStart::Of(std::string(text)), expected) << size;  // in memory of its own size
    EXPECT_EQ(expected.has_all(), size <= 16);
    EXPECT_EQ(expected.is_ascii(), std::ranges::all_of(bytes, [](char c) { return (c & 0x80) == 0; }));
  }
}

}  // namespace
}  // namespace leat::stream
