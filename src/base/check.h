// LEAT_CHECK aborts on a bug in Leat itself. Bad input from a user, peer or file is an exception or a Status.
#pragma once

namespace leat {

[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);

}  // namespace leat

#define LEAT_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::leat::CheckFailed(#condition, __FILE__, __LINE__))
