// The metrics of a job, from its status (docs/status.md), which the coordinator exports.
#pragma once

#include <cstdint>
#include <optional>

#include "show/prometheus/families.h"

namespace leat::observe {

// Not thread-safe.
class StatusFamilies {
 public:
  // Members beyond so many have no metrics of their own.
  static constexpr size_t kMostMembers = 1000;

  void Add(const report::JobStatus& status, Families* families);

 private:
  // After the loss of a server its events come back from the stream. They are counted once.
  std::optional<uint64_t> first_events_;
  uint64_t most_events_ = 0;
};

}  // namespace leat::observe
