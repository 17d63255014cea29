// Partitions of the stream, as the coordinator's shell reports them, and requests to the shell about them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/cut.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

// The current contents of a partition, as found by the shell.
struct StreamRange {
  uint32_t partition = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool sealed = false;
  // Late labels: the marks after the last one that the coordinator has (Coordinator::label_marks), in order.
  // Marks that it has may be repeated; others before the last one are kDataLoss and end the job.
  std::vector<LabelMark> marks = {};
};

// Late labels: where the marks of a partition go on.
struct LabelMarksWanted {
  std::optional<LabelMark> last;  // the last one that the coordinator has; after a restart, of the journal
  uint64_t room = 0;              // how many more it takes at present; more end the job
};

// For a while: the next `events` events, an equal share of each partition's.
struct RateRaise {
  float factor = 1;  // on the learning rate; ValidRate
  uint64_t events = 0;
};

}  // namespace leat::protocol
