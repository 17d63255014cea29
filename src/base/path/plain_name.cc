#include "base/path/plain_name.h"

#include "base/text.h"

namespace leat {

bool IsPlainName(std::string_view name) {
  return IsWord(name, 255, "-_.") && name[0] != '.';
}

}  // namespace leat
