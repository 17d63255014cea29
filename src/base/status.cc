#include "base/status.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace leat {

void CheckFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "leat: bug: CHECK(%s) failed at %s:%d\n", expression, file, line);
  std::abort();
}

std::string_view CodeName(Code code) {
  constexpr std::array<std::string_view, 12> kNames = {"ok",
                                                       "invalid argument",
                                                       "not found",
                                                       "permission denied",
                                                       "deadline exceeded",
                                                       "unavailable",
                                                       "stale",
                                                       "data loss",
                                                       "failed precondition",
                                                       "resource exhausted",
                                                       "aborted",
                                                       "internal"};
  const auto number = static_cast<size_t>(code);
  return number < kNames.size() ? kNames[number] : "unknown";
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return std::string(CodeName(code_)) + ": " + message_;
}

Status Status::With(std::string_view context) const {
  if (ok()) return *this;
  return Status(code_, std::string(context) + ": " + message_);
}

}  // namespace leat
