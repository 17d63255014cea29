// The four questions about a job that the page answers at a glance: is it healthy, does it learn, does it
// keep up, and what limits it. Pure.
#pragma once

#include <string>
#include <vector>

#include "show/history/events.h"
#include "show/history/sample.h"

namespace leat::observe {

struct Verdict {
  enum class Level { kNone, kGood, kWarn, kBad } level = Level::kNone;
  std::string headline, why;
  std::string what = {};  // "health", "learning", "pace", "limit"
};
LEAT_ENUM(Verdict::Level, (kNone, "none"), (kGood, "good"), (kWarn, "warn"), (kBad, "bad"));
LEAT_FIELDS(Verdict, (level), (headline), (why), (what));

struct Evidence {
  const Reading& now;
  // Samples of the last kVerdictSpan_s or less, the oldest first; the last one is `now`'s.
  const std::vector<Sample>& recent;
  const std::vector<Event>& events;  // the last ones, the oldest first
  bool live = true;                  // false: nothing has been heard of the job since
};
inline constexpr double kVerdictSpan_s = 600;

std::vector<Verdict> Verdicts(const Evidence& evidence);  // all four, with `what` set
Verdict Health(const Evidence& evidence);
Verdict Learning(const Evidence& evidence);
Verdict Pace(const Evidence& evidence);
Verdict Limit(const Evidence& evidence);

}  // namespace leat::observe
