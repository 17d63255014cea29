#include "protocol/testing/counting.h"

#include <algorithm>

#include "base/rng.h"

namespace leat::protocol::testing {

SliceTable CountingTable(uint32_t slices) {
  // Sizes that divide by nothing, and one variable of a single element.
  std::vector<optim::VariableSpec> variables = {
      {"a", Shape{37}, {}}, {"b", Shape{1}, {}}, {"c", Shape{16, 9}, {}}};
  return MakeSlices(std::move(variables), 1, (slices + 11) / 12);
}

BatchOutcome CountBatch(const Cut& cut, uint32_t batch) {
  thread_local std::vector<uint32_t> order;
  TrainingOrder(cut, &order);
  const uint32_t begin = batch * cut.batch_size;
  const uint32_t end = std::min(begin + cut.batch_size, cut.events());
  BatchOutcome outcome;
  bool poisoned = false;
  for (uint32_t i = begin; i < end; ++i) {
    const uint64_t hash = Mix(cut.partition, cut.begin.offset + order[i]);
    if (hash % 13 != 0) ++outcome.events;
    if (hash % 211 == 1) poisoned = true;
  }
  if (poisoned) {
    outcome.disposition = Disposition::kRejected;
  } else if (outcome.events == 0) {
    outcome.disposition = Disposition::kEmpty;
  }
  return outcome;
}

Count CountAll(const std::vector<Cut>& cuts) {
  Count count;
  for (const Cut& cut : cuts) {
    for (uint32_t batch = 0; batch < cut.batches(); ++batch) {
      const BatchOutcome outcome = CountBatch(cut, batch);
      if (outcome.disposition != Disposition::kGradient) continue;
      count.events += outcome.events;
      ++count.batches;
    }
  }
  return count;
}

std::string CheckCover(std::vector<Cut> cuts, const std::vector<Position>& start,
                       const std::vector<uint64_t>& end, uint32_t epochs) {
  std::vector<Position> at = start;
  std::sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) { return a.begin < b.begin; });
  for (const Cut& cut : cuts) {
    const std::string name = "cut at partition " + std::to_string(cut.partition) + " epoch " +
                             std::to_string(cut.begin.epoch) + " offset " + std::to_string(cut.begin.offset);
    if (!cut.valid()) return name + " is not valid";
    Position& here = at[cut.partition];
    if (cut.after != here) return name + " does not join the one before";
    if (cut.begin != here) {
      const Position pass{here.epoch + 1, start[cut.partition].offset};
      if (here.offset != end[cut.partition] || cut.begin != pass)
        return name + " starts a pass at a wrong place";
    }
    here = cut.next();
  }
  for (size_t p = 0; p < at.size(); ++p) {
    if (start[p].offset < end[p] && at[p] != Position{epochs - 1, end[p]}) {
      return "partition " + std::to_string(p) + " is cut up to epoch " + std::to_string(at[p].epoch) +
             " offset " + std::to_string(at[p].offset) + " only";
    }
  }
  return "";
}

}  // namespace leat::protocol::testing
