#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace leat {

void CheckFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "leat: bug: CHECK(%s) failed at %s:%d\n", expression, file, line);
  std::abort();
}

}  // namespace leat
