// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace leat::report {

// 1234567 → "1,234,567"
inline std::string Grouped(uint64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

}  // namespace leat::report
