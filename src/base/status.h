// Status and Result<T>: errors that are normal in a distributed system, such as a lost peer, a passed
// deadline, a stale generation or corrupt data.
//
// Other errors are reported in other ways: a user's mistake in a job or graph throws std::invalid_argument
// with the place and the values; a bug fails a LEAT_CHECK.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace leat {

enum class Code {
  kOk,
  kInvalidArgument,  // the caller's or user's values are wrong
  kNotFound,
  kPermissionDenied,  // wrong token, unwritable directory
  kDeadlineExceeded,
  kUnavailable,         // the peer is gone or not reachable yet
  kStale,               // an outdated generation or incarnation
  kDataLoss,            // wrong checksum, length or format
  kFailedPrecondition,  // valid request, wrong state
  kResourceExhausted,   // a limit is reached or the disk is full
  kAborted,             // cancelled on purpose
  kInternal,
};

std::string_view CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // "unavailable: connection to 127.0.0.1:4000 closed"; "ok" when ok().
  std::string ToString() const;
  // The same code with "`context`: " prepended to the message; an ok status is unchanged.
  Status With(std::string_view context) const;

  friend bool operator==(const Status&, const Status&) = default;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// Either a T or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) { LEAT_CHECK(!status_.ok()); }  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    LEAT_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    LEAT_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    LEAT_CHECK(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  // The same with Status::With, if there is no value.
  Result With(std::string_view context) && { return ok() ? std::move(*this) : Result(status_.With(context)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace leat

#define LEAT_RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                       \
    if (::leat::Status leat_status_ = (expression); !leat_status_.ok()) return leat_status_; \
  } while (false)

#define LEAT_CONCAT_INNER_(a, b) a##b
#define LEAT_CONCAT_(a, b) LEAT_CONCAT_INNER_(a, b)

// LEAT_ASSIGN_OR_RETURN(auto x, MakeX());
#define LEAT_ASSIGN_OR_RETURN(target, expression) \
  LEAT_ASSIGN_OR_RETURN_INNER_(LEAT_CONCAT_(leat_result_, __LINE__), target, expression)
#define LEAT_ASSIGN_OR_RETURN_INNER_(result, target, expression) \
  auto result = (expression);                                    \
  if (!result.ok()) return result.status();                      \
  target = std::move(result).value()
