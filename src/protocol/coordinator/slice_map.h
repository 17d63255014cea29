// The coordinator's knowledge of the slices: where each lives, in which incarnation, and what its ledger said
// last. Watermark and what is missing are derived from it (docs/architecture.md).
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

class SliceMap {
 public:
  // Gives the next incarnation: above all given before.
  using NextIncarnation = std::function<Incarnation()>;
  // How often an order may fail in a row before it is given up.
  static constexpr uint32_t kMaxFailures = 3;

  SliceMap(const SliceTable& table, size_t partitions, NextIncarnation next_incarnation);

  // ---- what slices return from
  // Without a checkpoint they are made anew, with empty ledgers from `start` on.
  void SetStart(const std::vector<Position>& start);
  // The newest durable checkpoint, which covers each slice exactly once.
  void SetSource(const Manifest& manifest);

  // ---- places
  bool placed() const { return placed_; }  // every slice has been given a server once
  // `places`: of each slice, in `servers`.
  void PlaceAll(const std::vector<NodeId>& servers, const std::vector<uint32_t>& places);
  // The server is gone: its slices are nowhere until they are given to another.
  void Orphan(NodeId server);
  // Gives all slices that `former` has left behind to one server, or to several by bytes.
  void Adopt(NodeId former, const std::vector<NodeId>& servers);
  // Slices that have begun another life since `incarnations` return once more, from the source that is newer
  // now. True when there are any.
  bool RestoreAgain(const std::vector<Incarnation>& incarnations);
  // All slices return: in stepped strategies they are always of one history.
  void RestoreAll();
  // Where every worker has all slices: another group of them, in which slices live where they are saved. All
  // begin the life `incarnation` with what was reported of the last, or return. Without workers they are
  // nowhere.
  void Regroup(const std::vector<NodeId>& workers, Incarnation incarnation, bool survived);
  // Servers that have left slices behind which nobody has yet.
  std::vector<NodeId> Orphaned() const;
  bool Holds(NodeId server) const;
  std::vector<SliceOrder> OrdersFor(NodeId server) const;
  std::vector<SliceOrder> Orders() const;  // of all slices, by id
  std::vector<SliceLocation> Locations() const;
  std::vector<Incarnation> Incarnations() const;
  NodeId ServerOf(SliceId slice) const { return slices_[slice.value].server; }
  Incarnation IncarnationOf(SliceId slice) const { return slices_[slice.value].incarnation; }
  size_t size() const { return slices_.size(); }

  // ---- reports
  // Takes what a server says of its slices; of others, and of former lives, it says nothing that counts. True
  // when a slice has come alive or is ordered anew. Fails when a slice cannot be had at all.
  Result<bool> Report(const ServerHeartbeat& heartbeat);
  // Where all slices are of one step, a life begins with the step that it returns from: kInvalidArgument when
  // a server's first report of one says something else.
  Status CheckFirstSteps(const ServerHeartbeat& heartbeat) const;
  // What all of them hold, as one report; its list of slices is not looked at.
  void ReportAll(const LedgerReport& report);
  bool ready() const { return placed_ && live_ == slices_.size(); }

  // ---- derived. Slices that are not live count with what they return from.
  Position Watermark(uint32_t partition) const { return watermark_[partition]; }
  const std::vector<Position>& Watermarks() const { return watermark_; }
  uint64_t Events() const;
  uint64_t Version() const { return version_; }         // that all slices have
  uint64_t HighestVersion() const { return highest_; }  // that a slice has
  // Batches of the cut that at least one slice lacks.
  RunSet Missing(const Cut& cut) const;

 private:
  struct State {
    uint64_t bytes = 0;
    NodeId server;  // 0: nowhere
    NodeId former;  // that it was lost with, while it is nowhere
    Incarnation incarnation;
    bool live = false;
    uint32_t failures = 0;
    SliceOrder order;
    std::shared_ptr<const LedgerReport> report;  // null until live
  };

  void Give(State& slice, NodeId server);
  void Forget(State& slice);
  // Watermark and reports are those of the slices as they are now.
  void Derive();

  NextIncarnation next_incarnation_;
  const SliceTable* table_;
  std::vector<State> slices_;
  bool placed_ = false;
  size_t live_ = 0;
  std::vector<SliceOrder> source_;  // by slice; an empty directory: made anew
  std::vector<Position> base_;      // watermark of the source
  uint64_t base_events_ = 0;
  uint64_t base_step_ = 0;
  std::vector<Position> watermark_;
  uint64_t version_ = 0, highest_ = 0;
  std::vector<std::shared_ptr<const LedgerReport>> reports_;  // distinct ones of live slices
};

}  // namespace leat::protocol
