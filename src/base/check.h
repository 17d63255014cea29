// CHECK: for bugs only. Whatever a user, a peer or a file can cause is an exception or a Status instead.
#pragma once

namespace leat {

[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);

}  // namespace leat

#define LEAT_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::leat::CheckFailed(#condition, __FILE__, __LINE__))
