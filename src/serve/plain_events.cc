#include "serve/plain_events.h"

#include "serve/json_text.h"

namespace leat::serve {

std::string PlainReply(const EventOutcomes& events, const Predictor::Answer& answer, uint32_t scores_per_row,
                       double age_seconds) {
  std::string out = "{";
  size_t row = 0;
  const auto append = [&] {
    const auto scores = std::span(answer.scores).subspan(row++ * scores_per_row, scores_per_row);
    if (scores_per_row == 1) {
      out += "\"score\":";
      return AppendScore(scores[0], &out);
    }
    out += "\"scores\":[";
    AppendScores(scores, &out);
    out += ']';
  };
  if (events.single) {
    append();
  } else {
    out += "\"predictions\":[";
    auto rejected = events.rejected.begin();
    for (size_t event = 0; event < events.count; ++event) {
      out += event > 0 ? ",{" : "{";
      if (rejected != events.rejected.end() && rejected->event == event) {
        out += "\"error\":";
        AppendString(rejected->why, &out);
        ++rejected;
      } else {
        append();
      }
      out += '}';
    }
    out += ']';
  }
  out += ",\"version\":";
  AppendNumber(answer.version.number, &out);
  out += ",\"age_seconds\":";
  AppendNumber(static_cast<float>(age_seconds), &out);
  out += "}\n";
  return out;
}

}  // namespace leat::serve
