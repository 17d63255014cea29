// Whether the records of two topics with the same key are in partitions of the same number.
#pragma once

#include <string>

#include "base/status.h"
#include "stream/join/times.h"

namespace leat::stream {

// Compares the numbers of partitions, and where both topics have some of their last keys. kInvalidArgument
// with both names if they differ; ok also if no key is found in both. Keys move when partitions are added, so
// a tenth of them may be elsewhere.
//
// The labels that are looked at are the last ones of up to 16 partitions. Their events are looked for among
// the last ones of these partitions, and among those from `window_ms` before the labels on.
Status CheckCopartitioned(TimedSource& events, const std::string& events_name, TimedSource& labels,
                          const std::string& labels_name, int64_t window_ms);

}  // namespace leat::stream
