// Bots: simulated customers of a bank whose payments are the demo's stream.
//
// Each customer has habits (amount, hour, merchant kinds, country, device, pace). A small share of payments
// is fraud, drawn from a probability that is a known function of the event and of time, so the best AUC that
// any model can reach is known too: it is what scoring by that probability gives. The function drifts: a
// model frozen at half time loses visibly, and a linear model on the same features stays at least 0.05 below.
//
// A pure generator: no clock, no I/O. The same seed gives the same payments. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/config.h"

namespace leat::stream {

struct BotsConfig {
  uint64_t seed = 1;
  uint32_t customers = 20000;
  uint64_t events = 2'000'000;  // after which the topic is sealed; drift runs over the whole
  double rate = 0;              // events a second that the bots process publishes; 0 = as fast as it goes
  // The map `bots:` of a job; throws std::invalid_argument with place and values.
  static BotsConfig FromConfig(const Config& config);
};

class Bots {
 public:
  explicit Bots(const BotsConfig& config);
  ~Bots();
  // Appends the next payment as one JSON object to `out` (no line end); returns its true probability of
  // fraud, which is also its field p_fraud. Payments may go on behind the last event: drift then stands
  // still.
  double Next(std::string* out);
  uint64_t produced() const;
  // The probability that the latest payment would have had at another moment of the drift, from 0 (first
  // event) to 1 (last): what a model frozen then believes at best. 0 before the first payment.
  double ProbabilityAt(double moment) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The contents of the `schema:` section (YAML) that fits the bots' payments, as the demo's job has it.
std::string BotsSchemaYaml();

}  // namespace leat::stream
