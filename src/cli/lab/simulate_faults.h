// leat simulate --faults: many small jobs with random faults in the simulator.
#pragma once

#include <cstdint>

namespace leat {

struct FaultsArguments {
  uint64_t seeds = 1000;
  uint64_t first_seed = 1;
  bool json = false;
};

// Returns the exit status: 1 if a seed has failed.
int SimulateFaults(const FaultsArguments& a);

}  // namespace leat
