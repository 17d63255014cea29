// `leat soak`: rounds of jobs with real processes and random faults.
#pragma once

#include <cstdint>
#include <string>

namespace leat::soak {

struct SoakOptions {
  uint64_t rounds = 50;
  uint64_t first_seed = 1;
  bool on_this_host = false;  // all processes here, instead of on emulated hosts
  std::string directory;      // for logs and jobs; empty: a new one for temporary files
  bool json = false;
};

// Blocks SIGINT and SIGTERM, and ends everything that it has started when one of them comes. Returns the exit
// status: 1 if a round has failed. Throws std::invalid_argument if hosts cannot be made.
int RunSoak(const SoakOptions& options);

}  // namespace leat::soak
