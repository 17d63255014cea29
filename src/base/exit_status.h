// The exit statuses of all commands and roles, and what supervisors make of them: docs/exit-statuses.md.
#pragma once

#include <exception>
#include <stdexcept>
#include <utility>

#include "base/status.h"

namespace leat {

struct ExitStatus {
  static constexpr int kDone = 0;
  static constexpr int kFailed = 1;         // the answer is no, or a failure that a restart does not cure
  static constexpr int kBadInput = 2;       // the user has to change something
  static constexpr int kMayHeal = 75;       // EX_TEMPFAIL: the same may succeed later
  static constexpr int kInterrupted = 130;  // by Ctrl-C
  static constexpr int kSignal = 128;       // a signal ended the process: 128 + its number
};

// The code of a failed system call: kResourceExhausted for a full disk, lack of memory and the like,
// kUnavailable for what may pass.
Code CodeOfErrno(int error);

// The exit status of a command or role that ends with this code.
int ExitStatusOf(Code code);

// A supervisor of a role (local runner, pool, Slurm script) does this once it has ended by itself.
enum class AfterExit {
  kDone,
  kGiveUp,         // no restart helps
  kRestart,        // a crash: a few times in a row
  kRestartForEver  // with back-off
};
// `coordinator`: its status 1 is final, because it has been replaced, or the job has failed. Members with
// status 1 count as crashed: the others may need what they do.
AfterExit AfterExitOf(int exit_status, bool coordinator);

// An error other than a mistake of the user, thrown where no Status can be returned.
class StatusError : public std::runtime_error {
 public:
  explicit StatusError(const Status& status) : std::runtime_error(status.message()), code_(status.code()) {}
  Code code() const { return code_; }
  Status status() const { return {code_, what()}; }

 private:
  Code code_;
};

// Throws std::invalid_argument if the user has to change something, otherwise StatusError.
[[noreturn]] void Throw(const Status& status);
inline void ThrowIfError(const Status& status) {
  if (!status.ok()) Throw(status);
}
template <class T>
T OrThrow(Result<T> result) {
  ThrowIfError(result.status());
  return std::move(result).value();
}
// The other way round. Lack of memory, threads, descriptors and disk is kResourceExhausted; an exception of
// unknown kind is kInternal.
Status StatusOf(const std::exception& error);

}  // namespace leat
