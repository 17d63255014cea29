// Protection against JSON of others that is nested so deep that functions which follow it, such as nlohmann's
// dump and copies, overflow the stack.
#pragma once

#include <string_view>

namespace leat {

// Whether lists and objects are nested in at most so many levels, as far as the text is JSON.
bool IsShallowJson(std::string_view text, int levels);

}  // namespace leat
