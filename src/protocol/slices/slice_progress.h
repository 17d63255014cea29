// How far the slices are trained, from the reports of those that are live: the watermark, the step, and the
// runs of a cut that slices lack (docs/architecture.md).
//
// Invariant: nothing is derived that some slice lacks. Slices that are not live count with the state of their
// source, which every slice has at least.
//
// Pure state, part of SliceMap, which keeps it up to date. Not thread-safe.
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

// The sum of what servers have reported about one slice: a slice that moves keeps its ledger, so reports of
// all servers about its incarnation are true.
//
// Invariants:
// - A ledger counts as of one moment: of a report in parts, nothing counts before the last part has arrived.
// - Slices with equal reports share one object, as far as they were reported together.
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

class SliceProgress {
 public:
  size_t size() const { return slices_; }
  bool placed() const { return placed_; }  // every slice has been assigned to a server once
  bool ready() const { return placed_ && live_ == slices_; }

  Position Watermark(uint32_t partition) const { return watermark_[partition]; }
  const std::vector<Position>& Watermarks() const { return watermark_; }
  uint64_t Events() const;
  uint64_t Version() const { return version_; }         // the version that all slices have reached
  uint64_t HighestVersion() const { return highest_; }  // the highest of any slice
  // Runs of the cut that at least one slice lacks.
  RunSet Missing(const Cut& cut) const;
  // True if Missing is empty. Ends at the first slice that lacks a run.
  bool Complete(const Cut& cut) const;
  // Runs of the cut that some slices have and others lack. Requires ready().
  RunSet RunsSomeSlicesLack(const Cut& cut) const;

 protected:
  // The state that slices are restored from.
  struct Base {
    std::vector<Position> watermark;
    uint64_t events = 0;
    uint64_t step = 0;
    bool IsAheadOf(const LedgerReport& report) const;
  };

  SliceProgress(size_t slices, size_t partitions)
      : slices_(slices), base_{std::vector<Position>(partitions)}, watermark_(partitions) {}

  // `reports`: those of the slices that are live, some perhaps repeated.
  void Derive(std::vector<SharedReport> reports);

  size_t slices_;
  size_t live_ = 0;
  bool placed_ = false;
  Base base_;

 private:
  std::vector<Position> watermark_;
  uint64_t version_ = 0, highest_ = 0;
  std::vector<SharedReport> reports_;  // the distinct ones
};

}  // namespace leat::protocol
