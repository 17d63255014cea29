#include "base/path/plain_name.h"

#include <algorithm>

namespace leat {

bool IsPlainName(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= 255 && name[0] != '.' && std::ranges::all_of(name, plain);
}

}  // namespace leat
