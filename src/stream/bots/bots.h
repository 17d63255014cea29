// Bots: simulated bank customers whose payments are the demo's stream.
//
// Each customer has habits (amount, hour, merchant kinds, country, device, pace). A small share of payments
// is fraud, drawn from a probability that is a known function of the event and of time. The best possible AUC
// is therefore known: that of scoring by this probability. The function drifts: a model frozen at half time
// becomes visibly worse. A linear model on the same features stays at least 0.05 below the best.
//
// A pure generator without clock and I/O: the same seed gives the same payments. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/config/config.h"

namespace leat::stream {

struct BotsConfig {
  uint64_t seed = 1;
  uint32_t customers = 20000;
  uint64_t events = 2'000'000;  // after which the topic is sealed; the drift spans all of them
  double rate = 0;              // events per second that the bots process publishes; 0: unlimited
  // Reads the map `bots:` of a job. Throws std::invalid_argument with the location and the values.
  static BotsConfig FromConfig(const Config& config);
};

class Bots {
 public:
  explicit Bots(const BotsConfig& config);
  ~Bots();
  // Appends the next payment as one JSON object, without a line end, to `out`. Returns its true probability
  // of fraud, which is also its field p_fraud. After the last event payments continue without further drift.
  double Next(std::string* out);
  uint64_t produced() const;
  // The probability of the latest payment at another moment of the drift, from 0 (first event) to 1 (last):
  // the best that a model frozen at that moment can predict. 0 before the first payment.
  double ProbabilityAt(double moment) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::stream
