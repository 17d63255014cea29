// The power fails after each file operation of a real job: every role on a thread of this process, with its
// own threads for files. The newest complete checkpoint must load, whatever was not synced is lost.
#pragma once

#include <cstddef>
#include <string>

namespace leat::power_cut {

struct CutReport {
  size_t operations = 0;   // recorded in the job's directory
  size_t checkpoints = 0;  // reported as complete
  size_t disks = 0;        // different ones that a power failure left
  std::string wrong;       // the first one that does not load as it should; empty: none
};

// `strategy` is that of the job file; with all-reduce, members save the slices.
CutReport CutCheckpoints(const std::string& strategy);

}  // namespace leat::power_cut
