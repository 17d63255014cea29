// The counting model: the gradient of a batch is −(its good records) for every element and the rate is 1, so
// that each parameter is the number of records that counted. Whatever is lost or counted twice shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/cut.h"
#include "protocol/slices.h"
#include "protocol/worker.h"

namespace leat::protocol::testing {

// Slices of a few variables, at least `slices` in all.
SliceTable CountingTable(uint32_t slices);

// What training a batch comes to. Depends on the events alone: some records are bad, and a few poison the
// gradient of whatever batch they are in.
BatchOutcome CountBatch(const Cut& cut, uint32_t batch);

struct Count {
  uint64_t events = 0;   // good records of batches that were applied
  uint64_t batches = 0;  // applied
};
// What every parameter must be once all the cuts are trained.
Count CountAll(const std::vector<Cut>& cuts);

// Empty when the cuts of each partition join without gap or overlap from `start` to `end` in each of `epochs`
// passes; else what is wrong.
std::string CheckCover(std::vector<Cut> cuts, const std::vector<Position>& start,
                       const std::vector<uint64_t>& end, uint32_t epochs);

}  // namespace leat::protocol::testing
