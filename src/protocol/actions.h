// What the state machines of several roles ask of their shell, and what it answers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/messages_control.h"
#include "protocol/messages_data.h"
#include "protocol/slice.h"

namespace leat::protocol {

// What the shell is to do.
struct LoadSlices {  // read from checkpoints; answer each with OnSliceLoaded
  std::vector<SliceOrder> orders;
};
// All slices as they are at this moment (stepped: as they were at the order's version, each at a moment of
// its own; the order is repeated until all have been there). Answer with OnShardSaved once they have been
// read.
struct SaveShard {
  CheckpointOrder order;
  std::vector<std::shared_ptr<const Slice>> slices;
};
struct StopRole {  // the job is over, or (evicted) this node is out of it
  bool evicted = false;
};

// Read, decode and order the split's events, so that its batches can be computed. Answer: OnSplitReady.
// Splits are prepared in the order asked for; DropSplit ends the interest.
struct PrepareSplit {
  Lease lease;
};
struct DropSplit {
  uint64_t lease = 0;
};

struct BatchOutcome {
  Disposition disposition = Disposition::kGradient;  // kGradient, kEmpty or kRejected
  uint32_t events = 0;                               // good records in it
};

}  // namespace leat::protocol
