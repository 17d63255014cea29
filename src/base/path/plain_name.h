#pragma once

#include <string_view>

namespace leat {

// True for letters, digits, '-', '_' and '.', not beginning with '.'. Check names from peers and files before
// joining them with a directory.
bool IsPlainName(std::string_view name);

}  // namespace leat
