// Figures of a job over a second or longer: means and rates.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "show/report/figures.h"

namespace leat::observe {

// The status of a job at one moment, for samples and the log of events.

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

inline constexpr size_t kSeries = static_cast<size_t>(Series::kCount);

// Figures of one worker or server; `kUnknownValue` if there is none.
inline constexpr float kUnknownValue = std::numeric_limits<float>::quiet_NaN();
struct MemberSample {
  static constexpr size_t kFigures = 6;
  enum class Role : uint8_t { kWorker, kServer } role = Role::kWorker;
  uint32_t index = 0;
  std::array<float, kFigures> figures;

  bool SameMember(const MemberSample& other) const { return role == other.role && index == other.index; }
};
LEAT_ENUM(MemberSample::Role, (kWorker, "worker"), (kServer, "ps"));
LEAT_FIELDS(MemberSample, (role), (index), (figures));
// Descriptions of the values in MemberSample::figures, in their order.
report::Figures<MemberStatus> RatesOf(MemberSample::Role role);
std::string Name(const MemberSample& member);  // "worker 3"

struct Sample {
  double time_s = 0;  // its end, since 1970
  float span_s = 1;   // its length
  std::array<float, kSeries> figures;
  std::vector<MemberSample> members;

  Sample() { figures.fill(kUnknownValue); }
  float& operator[](Series series) { return figures[static_cast<size_t>(series)]; }
  float operator[](Series series) const { return figures[static_cast<size_t>(series)]; }
};
LEAT_FIELDS(Sample, (time_s, NotNegative, AtMost(kLatest_s)), (span_s, NotNegative, AtMost(kLatest_s)),
            (figures, Counted), (members, AtMost(4096)));
Status Check(const Sample& sample);

// The sample of both spans. Figures are means, weighted by the spans in which they are known.
Sample Merge(const Sample& earlier, const Sample& later);

// Makes samples of the status of a job, whose sums it turns into rates. Not thread-safe.
class Sampler {
 public:
  // Rates are those of the last moments of this length: what members report comes in bursts.
  static constexpr double kWindow_s = 3;

  // To be called with readings whose times grow.
  Sample OnReading(Reading reading);

 private:
  std::deque<Reading> recent_;
};

}  // namespace leat::observe
