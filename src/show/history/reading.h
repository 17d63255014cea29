// The status of a job at one moment, for samples and the log of events.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "show/report/figures.h"

namespace leat::observe {

using report::kUnknown;
using report::MemberStatus;
using report::Series;

// Some thousand years after 1970: displays have room for such times, and compute with them.
inline constexpr uint64_t kLatest_s = 100'000'000'000;

struct Reading : report::JobStatus {
  Reading() = default;
  Reading(double time, JobStatus status) : JobStatus(std::move(status)), time_s(time) {
    std::ranges::stable_sort(members, {}, NodeOf);
  }
  const MemberStatus* Find(uint64_t node) const {
    const auto at = std::ranges::lower_bound(members, node, {}, NodeOf);
    return at != members.end() && NodeOf(*at) == node ? &*at : nullptr;
  }

  double time_s = 0;  // since 1970

 private:
  static uint64_t NodeOf(const MemberStatus& m) { return m.name.node; }
};

}  // namespace leat::observe
