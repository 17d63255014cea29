#include "job/input/stream_kinds.h"

#include <algorithm>
#include <filesystem>
#include <ranges>

namespace leat::job {

bool StreamKind::Has(const std::string& key) const {
  return std::ranges::find(keys, key) != keys.end();
}

const std::vector<const StreamKind*>& StreamKinds() {
  static const std::vector<const StreamKind*> kKinds = {&LogKind(), &FileKind(), &KafkaKind(), &OwnKind()};
  return kKinds;
}

std::vector<const StreamKind*> TopicKinds() {
  std::vector<const StreamKind*> kinds;
  for (const StreamKind* kind : StreamKinds() | std::views::reverse) {
    if (kind->topic != nullptr) kinds.push_back(kind);
  }
  return kinds;
}

std::string ProductsWith(bool StreamTraits::*trait) {
  std::string products;
  for (const StreamKind* kind : StreamKinds()) {
    if (kind->traits.*trait) products += (products.empty() ? "" : " or ") + std::string(kind->traits.product);
  }
  return products;
}

std::string PathBelow(const std::string& base, const std::string& path) {
  if (base.empty() || std::filesystem::path(path).is_absolute()) return path;
  return (std::filesystem::path(base) / path).string();
}

}  // namespace leat::job
