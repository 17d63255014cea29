// The body of replies of /v1/predict.
#pragma once

#include <cstdint>
#include <string>

#include "serve/event_reader.h"
#include "serve/predictor.h"

namespace leat::serve {

// Which events of a request have a row, and why the others have none.
struct EventOutcomes {
  bool single = false;
  size_t count = 0;
  // In the order of events.
  struct Rejected {
    uint64_t event = 0;
    std::string why;
  };
  std::vector<Rejected> rejected;
};

// {"score":0.03,"version":7,"age_seconds":0.08} for a single event; with `scores`, a list, if there is more
// than one for an event. Otherwise {"predictions":[{"score":0.03},{"error":"…"}],"version":…,…}, in the order
// of the events.
std::string PlainReply(const EventOutcomes& events, const Predictor::Answer& answer, uint32_t scores_per_row,
                       double age_seconds);

}  // namespace leat::serve
