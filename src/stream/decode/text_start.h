// The first 16 bytes of a text, to compare texts without calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace leat::stream {

struct TextStart {
  static constexpr size_t kBytes = 16;

  size_t size = 0;                 // bytes of the whole text
  uint64_t first = 0, second = 0;  // 8 bytes each, zeros after the text's end
  friend bool operator==(const TextStart&, const TextStart&) = default;

  // Whether two texts with the same start are equal.
  bool has_all() const { return size <= kBytes; }
  bool is_ascii() const { return ((first | second) & 0x8080808080808080) == 0; }

  static TextStart Of(std::string_view text) {
    TextStart start{.size = text.size()};
    const auto load = [&](auto part, size_t at) {
      std::memcpy(&part, text.data() + at, sizeof(part));
      return uint64_t{part};
    };
    const size_t size = text.size();
    if (size >= 8) {
      start.first = load(uint64_t{}, 0);
      if (size >= kBytes) {
        start.second = load(uint64_t{}, 8);
      } else if (size > 8) {
        start.second = load(uint64_t{}, size - 8) >> 8 * (kBytes - size);
      }
    } else if (size >= 4) {
      start.first = load(uint32_t{}, 0) | load(uint32_t{}, size - 4) >> 8 * (8 - size) << 32;
    } else if (size > 0) {
      start.first = load(uint8_t{}, 0) | load(uint8_t{}, size / 2) << 8 * (size / 2) |
                    load(uint8_t{}, size - 1) << 8 * (size - 1);
    }
    return start;
  }

  // The same, without branches. 16 bytes are readable from the text's begin.
  static TextStart OfReadable(std::string_view text) {
    TextStart start{.size = text.size()};
    std::memcpy(&start.first, text.data(), 8);
    std::memcpy(&start.second, text.data() + 8, 8);
    start.first &= Mask(text.size());
    start.second &= Mask(text.size() > 8 ? text.size() - 8 : 0);
    return start;
  }

 private:
  // The mask of so many bytes, at most 8.
  static uint64_t Mask(size_t bytes) {
    const uint64_t mask = (uint64_t{1} << (8 * bytes & 63)) - 1;
    return bytes >= 8 ? ~uint64_t{0} : mask;
  }
};

}  // namespace leat::stream
