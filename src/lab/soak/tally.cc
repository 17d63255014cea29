#include "lab/soak/tally.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "show/report/grouped.h"

namespace leat::soak {

Tally TallyOf(const std::vector<std::vector<float>>& variables, uint64_t events) {
  Tally tally;
  const auto expected = static_cast<double>(events);
  uint64_t all = 0;
  double least = expected, most = expected;
  for (const auto& values : variables) {
    all += values.size();
    for (const double value : values) {
      if (value == expected) continue;
      ++tally.wrong;
      least = std::isfinite(value) ? std::min(least, value) : 0;  // a non-finite value has lost all events
      if (std::isfinite(value)) most = std::max(most, value);
    }
  }
  // Parts of an event are as bad as a whole one.
  tally.lost = static_cast<uint64_t>(std::ceil(expected - std::max(least, 0.0)));
  tally.twice = static_cast<uint64_t>(std::ceil(most - expected));
  if (all == 0) {
    tally.lost = events;
    tally.reason = "the checkpoint has no parameter";
  } else if (tally.wrong > 0) {
    tally.reason =
        Formatted("%s of %s parameters are wrong: from %.9g to %.9g of %.9g events",
                  report::Grouped(tally.wrong).c_str(), report::Grouped(all).c_str(), least, most, expected);
  }
  return tally;
}

}  // namespace leat::soak
