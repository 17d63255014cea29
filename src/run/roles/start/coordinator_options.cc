#include "run/roles/start/coordinator_options.h"

#include <type_traits>

namespace leat::roles {
namespace {

std::string TextOf(const std::string& value) {
  return value;
}
std::string TextOf(uint64_t value) {
  return std::to_string(value);
}

}  // namespace

std::vector<std::string> PassedOn(const CoordinatorOptions& options) {
  const CoordinatorOptions usual;
  std::vector<std::string> arguments;
  for (const CoordinatorOption& option : kCoordinatorOptions) {
    if (!option.train) continue;
    std::visit(
        [&](auto member) {
          const auto& value = options.*member;
          if (value == usual.*member) return;
          arguments.emplace_back(option.name);
          if constexpr (!std::is_same_v<decltype(value), const bool&>) arguments.push_back(TextOf(value));
        },
        option.member);
  }
  return arguments;
}

}  // namespace leat::roles
