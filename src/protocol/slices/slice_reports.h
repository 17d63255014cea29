// The sum of what servers have reported about one slice: a slice that moves keeps its ledger, so reports of
// all servers about its incarnation are true.
//
// Invariants:
// - A ledger counts as of one moment: of a report in parts, nothing counts before the last part has arrived.
// - Slices with equal reports share one object, as far as they were reported together.
//
// Pure state, part of SliceMap. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/messages_control.h"

namespace leat::protocol {

using SharedReport = std::shared_ptr<const LedgerReport>;

// A memo: equal `base` and equal `delta` give one shared report.
struct MergedReport {
  SharedReport base, delta, merged;
};

class SliceReports {
 public:
  // The sum, with `slices` empty; null before the first report.
  const SharedReport& sum() const { return sum_; }
  void Set(SharedReport sum) { sum_ = std::move(sum); }
  void Clear();
  // The server will not complete the report that it has begun.
  void ForgetParts(NodeId server) { parts_.erase(server); }
  // Adds a part of the server's report with this number. False if a later report of the server has begun:
  // that contains all of this one.
  bool Add(NodeId server, uint64_t number, const LedgerReport& report, size_t partitions,
           std::vector<MergedReport>* memo);

 private:
  struct Parts {
    uint64_t report = 0;  // its number
    SharedReport before;  // the sum when the report began
    SharedReport sum;     // with the parts so far
  };

  SharedReport sum_;
  std::map<NodeId, Parts> parts_;  // incomplete reports, by server
};

}  // namespace leat::protocol
