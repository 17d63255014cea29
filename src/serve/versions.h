// The parameters that predictions are made with.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "base/threads/thread.h"
#include "protocol/parameters.h"
#include "protocol/slices.h"

namespace leat::serve {

struct Version {
  uint64_t number = 0;  // grows with every version
  Time as_of{};         // the values are those of the job at this time or later
};

// There are two sets of parameters: one is in use while the next version is written into the other, so
// predictions never wait for values and never see a half-written version. Thread-safe, with one writer and
// one reader.
class Versions {
 public:
  explicit Versions(const protocol::SliceTable& table) : sets_{Set(table), Set(table)} {}

  // ---- the writer
  // The set for the next version; it has the values of an earlier one, or zeros. Null while the reader has
  // not come to the last version yet.
  protocol::Parameters* Begin();
  // The set from Begin is complete. `changed`: it has other values than the newest version; otherwise that
  // one is as new as `as_of`. `number`: of the version; 0: the next number.
  void Complete(protocol::Parameters* set, Time as_of, bool changed = true, uint64_t number = 0);

  // ---- the reader
  struct InUse {
    protocol::Parameters* parameters = nullptr;
    Version version;
  };
  // The newest version, which stays as it is until Release. None: there is none yet.
  std::optional<InUse> Acquire();
  void Release();

  // ---- anyone
  std::optional<Version> newest() const;

 private:
  struct Set {
    explicit Set(const protocol::SliceTable& table) : parameters(table, protocol::WithoutGradients()) {}
    protocol::Parameters parameters;
    Version version;
  };
  void Promote();

  mutable std::mutex mutex_;
  Set sets_[2];
  Set* current_ = nullptr;
  Set* next_ = nullptr;  // complete, while the reader uses the current one
  bool in_use_ = false;
};

// Keeps a model at the newest checkpoint of a job's directory. Reads on a thread of its own, and takes no
// lock of the directory. A damaged checkpoint is not used: the served version stays, or an older checkpoint
// is used.
class CheckpointWatch {
 public:
  // Looks for a newer checkpoint every `interval`. `versions` outlives it. A version has the number of its
  // checkpoint.
  CheckpointWatch(std::string directory, protocol::SliceTable table, Versions& versions, Duration interval);
  ~CheckpointWatch();

 private:
  void Run();
  // Serves the newest checkpoint if it has not been looked at. kNotFound: there is none.
  Status Look();

  const std::string directory_;
  const protocol::SliceTable table_;
  Versions& versions_;
  const Duration interval_;
  const MonotonicClock clock_;
  uint64_t looked_at_ = 0;  // the newest checkpoint, whether it was damaged or not
  uint64_t served_ = 0;
  std::string last_error_;
  StopEvent stop_;
  std::thread thread_;
};

}  // namespace leat::serve
