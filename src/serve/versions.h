// The parameters that predictions are made with. There are two sets: one is in use while the next version is
// written into the other, so predictions never wait for values and never see a half-written version.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "protocol/parameters.h"

namespace leat::serve {

struct Version {
  uint64_t number = 0;  // grows with every version
  Time as_of{};         // the values are those of the job at this time or later
};

// Thread-safe, with one writer and one reader.
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

}  // namespace leat::serve
