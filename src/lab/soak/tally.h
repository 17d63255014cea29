// Errors in a job's count of events, found in its parameters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace leat::soak {

// A parameter below the number of events has lost some, one above it has counted some twice; a job may have
// both.
struct Tally {
  uint64_t lost = 0;   // the most that a parameter lacks
  uint64_t twice = 0;  // the most that a parameter has too often
  uint64_t wrong = 0;  // parameters
  // "1,024 of 4,096 parameters are wrong: from 99 to 105 of 100 events"; empty if none is.
  std::string reason;
};

Tally TallyOf(const std::vector<std::vector<float>>& variables, uint64_t events);

}  // namespace leat::soak
