// Limits the records that a reader of Kafka fetches ahead. librdkafka has a queue for each partition, with
// limits for each of them alone; this keeps all of them within one budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace leat::stream {

// Memory of a message in a queue besides its bytes, about.
inline constexpr uint64_t kKafkaMessageBytes = 400;
// A partition that was not read for so long has no queue.
inline constexpr Duration kPrefetchIdle = std::chrono::seconds(60);

// Adds librdkafka's settings with which so many partitions have about `budget` bytes in all. Existing
// settings stay.
void DividePrefetch(uint64_t budget, size_t partitions, std::map<std::string, std::string>* settings);

struct PrefetchedPartition {
  uint32_t partition = 0;
  uint64_t bytes = 0;  // in memory, about
  Time used{0};        // last read
};
// The partitions to let go: those that were not read for kPrefetchIdle, then those that were read longest ago
// until the others are within the budget. Never the last one read. Compressed records take the memory that
// the settings cannot foresee.
std::vector<uint32_t> FindUnneeded(std::vector<PrefetchedPartition> all, uint64_t budget, Time now);

}  // namespace leat::stream
