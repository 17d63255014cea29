#include "base/exit_status.h"

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <new>
#include <system_error>

namespace leat {

Code CodeOfErrno(int error) {
  struct Row {
    Code code;
    std::initializer_list<int> errors;
  };
  static const Row kRows[] = {
      {Code::kOk, {0}},
      {Code::kNotFound, {ENOENT}},
      {Code::kPermissionDenied, {EACCES, EPERM, EROFS}},
      {Code::kResourceExhausted, {ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM, EAGAIN}},
      {Code::kInvalidArgument, {ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG, EADDRNOTAVAIL}},
      {Code::kDataLoss, {EIO}},
      // Errors of file systems on other hosts, and of former processes that still end.
      {Code::kUnavailable,
       {ESTALE, ETIMEDOUT, ECONNREFUSED, ECONNRESET, EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENOTCONN,
        EBUSY, EADDRINUSE}}};
  for (const Row& row : kRows) {
    if (std::ranges::find(row.errors, error) != row.errors.end()) return row.code;
  }
  return Code::kInternal;
}

int ExitStatusOf(Code code) {
  switch (code) {
    case Code::kOk:
      return ExitStatus::kDone;
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kPermissionDenied:
    case Code::kDataLoss:
    case Code::kFailedPrecondition:
      return ExitStatus::kBadInput;
    case Code::kDeadlineExceeded:
    case Code::kUnavailable:
    case Code::kResourceExhausted:
      return ExitStatus::kMayHeal;
    case Code::kAborted:
      return ExitStatus::kInterrupted;
    case Code::kStale:
    case Code::kInternal:
      break;
  }
  return ExitStatus::kFailed;
}

AfterExit AfterExitOf(int exit_status, bool coordinator) {
  switch (exit_status) {
    case ExitStatus::kDone:
      return AfterExit::kDone;
    case ExitStatus::kBadInput:
      return AfterExit::kGiveUp;
    case ExitStatus::kMayHeal:
      return AfterExit::kRestartForEver;
    default:
      return coordinator && exit_status < ExitStatus::kSignal ? AfterExit::kGiveUp : AfterExit::kRestart;
  }
}

void Throw(const Status& status) {
  if (ExitStatusOf(status.code()) == ExitStatus::kBadInput) throw std::invalid_argument(status.message());
  throw StatusError(status);
}

Status StatusOf(const std::exception& error) {
  if (const auto* known = dynamic_cast<const StatusError*>(&error)) return known->status();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {Code::kResourceExhausted, "out of memory"};
  if (const auto* system = dynamic_cast<const std::system_error*>(&error);
      system != nullptr && (system->code().category() == std::system_category() ||
                            system->code().category() == std::generic_category()))
    return {CodeOfErrno(system->code().value()), error.what()};
  const bool wrong = dynamic_cast<const std::invalid_argument*>(&error) != nullptr;
  return {wrong ? Code::kInvalidArgument : Code::kInternal, error.what()};
}

}  // namespace leat
