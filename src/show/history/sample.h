// Figures of a job over a second or longer: means and rates.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "show/history/reading.h"

namespace leat::observe {

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
