#include "stream/decode/text_start.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/rng.h"

namespace leat::stream {
namespace {

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
