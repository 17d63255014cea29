// Which partitions a worker reads, by zone: a broker in the worker's own zone serves them without traffic
// between zones (fetching from the closest replica). Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/topology/host_place.h"

namespace leat::topology {

// The hosts that have a copy of a partition; empty: not known, or the same distance to all.
using PartitionPlaces = std::vector<HostPlace>;

// How far a worker is from the closest copy.
enum class Distance : uint8_t { kZone = 0, kSite = 1, kFar = 2 };
Distance DistanceTo(const HostPlace& worker, const PartitionPlaces& copies);

// The worker (index) of each partition. Shares are even, as without places: they differ by at most one. Among
// the even assignments it is one with the fewest partitions far away, and then the fewest in another zone; a
// partition stays with its worker of `before` (index; no worker: workers.size()) where that costs no
// distance. Without workers: empty. Takes about 10 ms for 100 workers and as many partitions.
std::vector<uint32_t> NearPartitions(const std::vector<HostPlace>& workers,
                                     const std::vector<PartitionPlaces>& partitions,
                                     const std::vector<uint32_t>& before = {});

}  // namespace leat::topology
