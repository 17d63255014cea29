#include "base/status.h"

namespace leat {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kNotFound:
      return "not found";
    case Code::kPermissionDenied:
      return "permission denied";
    case Code::kDeadlineExceeded:
      return "deadline exceeded";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kStale:
      return "stale";
    case Code::kDataLoss:
      return "data loss";
    case Code::kFailedPrecondition:
      return "failed precondition";
    case Code::kResourceExhausted:
      return "resource exhausted";
    case Code::kAborted:
      return "aborted";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
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
