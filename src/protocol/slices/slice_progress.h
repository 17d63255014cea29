// How far the slices are trained, from the reports of those that are live: the watermark, the step, and the
// runs of a cut that slices lack (docs/architecture.md).
//
// Invariant: nothing is derived that some slice lacks. Slices that are not live count with the state of their
// source, which every slice has at least.
//
// Pure state, part of SliceMap, which keeps it up to date. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/slices/slice_reports.h"

namespace leat::protocol {

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
