// Enumerations as words of job files.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/config.h"
#include "base/fields/fields.h"

namespace leat::fields {

// The enumerator with this name. For any other word it fails as Config::OneOf does, with the names in the
// order of LEAT_ENUM.
template <Enumerated E>
E FromWord(const Config& word, std::string_view what) {
  constexpr auto kAll = EnumeratorsOf(E());
  std::vector<std::string> names;
  for (const auto& one : kAll) names.emplace_back(one.name);
  const std::string name = word.OneOf(what, names);
  return std::ranges::find(kAll, name, &Enumerator<E>::name)->value;
}
// The same of an entry of a map; `fallback` if it is missing.
template <Enumerated E>
E FromWord(const Config& map, std::string_view key, E fallback) {
  return map.Has(key) ? FromWord<E>(map.At(key), key) : fallback;
}

}  // namespace leat::fields
