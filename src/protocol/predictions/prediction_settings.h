// The job's settings of its predictions, and their row of the coordinator's status. Plain data.
#pragma once

#include <cstdint>

namespace leat::protocol {

struct PredictionSettings {
  // The predictions of each event are published by feeds, and no cut begins while this many events of all
  // partitions together are cut and not published. 0: the job publishes none.
  uint64_t max_unpublished = 0;
  uint32_t publishing_groups = 8;  // limit for a job that begins
};

struct PublishedPredictions {
  uint64_t published = 0;  // offsets, from where the job began to read
  uint64_t behind = 0;     // offsets that every slice has, and that are not published
  uint64_t rescored = 0;   // published with scores that were made again, as far as is known
};

}  // namespace leat::protocol
