// The coordinator's knowledge of the slices: the server, incarnation, replica and last reported ledger of
// each. How far they are trained is derived from it.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "protocol/messages_control.h"
#include "protocol/records/journal.h"
#include "protocol/records/manifest.h"

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
  void Clear() { *this = {}; }
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

// How far the slices are trained, from the reports of those that are live: the watermark, the step, and the
// runs of a cut that slices lack (docs/architecture.md).
//
// Invariant: nothing is derived that some slice lacks. Slices that are not live count with the state of their
// source, which every slice has at least.
//
// SliceMap keeps it up to date.
class SliceProgress {
 public:
  size_t size() const { return slices_; }
  bool placed() const { return placed_; }  // every slice has been assigned to a server once
  bool ready() const { return placed_ && live_ == slices_; }

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

struct PlacedSlice {
  uint64_t bytes = 0;  // bytes of its values
  NodeId server;       // 0: none
  NodeId former;       // server before the loss, while there is none
  Incarnation incarnation;
  bool live = false;
  NodeId replica;                   // server; 0: none
  uint64_t epoch = 0;               // ReplicaGroup::epoch
  bool returning = false;           // placed by the former coordinator, and not reported yet
  bool returned = false;            // returning: its server is here, and the replica's is to report it
  bool placed = false;              // since TakePlaced
  uint32_t failures = 0;            // failures of its server in a row
  std::set<NodeId> failed_servers;  // cannot restore it
  SliceOrder order;
  SliceReports reports;  // about the incarnation
  // It is to come by a move, or has come by one.
  bool handed_over() const { return order.move != 0; }
  void ForgetFailures() {
    failures = 0;
    failed_servers.clear();
  }
};

class SliceMap : public SliceProgress {
 public:
  // Returns an incarnation higher than all before.
  using NextIncarnation = std::function<Incarnation()>;
  // After so many failures in a row, a server's slice is ordered from another one.
  static constexpr uint32_t kMaxFailures = 3;

  SliceMap(const SliceTable& table, size_t partitions, NextIncarnation next_incarnation);

  // ---- the source that slices are restored from
  // Without a checkpoint they are initialized, with empty ledgers from `start` on.
  void SetStart(const std::vector<Position>& start) {
    base_.watermark = start;
    Derive();
  }
  // The newest durable checkpoint, which contains each slice exactly once. Forgets which servers could not
  // restore a slice: that was from another checkpoint.
  void SetSource(const Manifest& manifest);

  // ---- placement
  // `assignment`: the index in `servers` of each slice.
  void PlaceAll(const std::vector<NodeId>& servers, const std::vector<uint32_t>& assignment);
  // The server is gone: replicas take the places of its slices, and the others are without a server until
  // they are assigned again. It has no replicas any more.
  void Orphan(NodeId server);
  // The server will not complete the reports that it has begun.
  void ForgetParts(NodeId server) {
    for (PlacedSlice& slice : states_) slice.reports.ForgetParts(server);
  }
  // Assigns all slices that `former` left behind to one server, or to several by bytes.
  void Adopt(NodeId former, const std::vector<NodeId>& servers);
  // Restores the slices whose incarnation differs from `incarnations` once more, from the source, which is
  // now newer. Returns true if there are any.
  bool RestoreAgain(const std::vector<Incarnation>& incarnations);
  // Restores all slices. In stepped strategies all slices must come from one checkpoint.
  void RestoreAll();
  // Restores the slices that are being restored once more, from the source, which is now another one.
  void RestoreUnfinished();
  // All-reduce: a new group, every member of which has all slices; each slice is assigned to the member that
  // saves it. All slices start `incarnation`, with the last reported state if it `survived`, else restored
  // from the source. Without workers the slices are without a server.
  void Regroup(const std::vector<NodeId>& workers, Incarnation incarnation, bool survived);
  // Where the former coordinator has placed the slices; a later place replaces an earlier one. The slices on
  // one of `servers` are awaited from there as they are, the others have lost their server. Throws
  // std::invalid_argument if the places are not those of all slices.
  void RestorePlaces(const std::vector<SliceAssignment>& places, const std::vector<NodeId>& servers);
  // A slice of the former coordinator is awaited from its server.
  bool returning() const { return std::ranges::any_of(states_, &PlacedSlice::returning); }
  // True if a slice has come back in a state before the source. It is restored.
  bool TakeOutdated() { return std::exchange(outdated_, false); }
  // The slices that have been placed since the last call, without those of Regroup.
  std::vector<SliceAssignment> TakePlaced();
  // The slice has been handed over to this server: its incarnation, and all that is known of it, remain. A
  // replica remains, too, in a new epoch; or it is the one that takes the slice over.
  void Move(SliceId slice, NodeId server, uint64_t move);

  // ---- replicas: copies on other servers that have all that anybody was told about a slice
  // The copy made by this move takes the place of any other.
  void SetReplica(SliceId slice, NodeId server, uint64_t move);
  void DropReplica(SliceId slice);
  // Groups of the slices on `server` that have a replica, and of the replicas on it; without addresses.
  std::vector<ReplicaGroup> ReplicatedOn(NodeId server) const;
  std::vector<ReplicaGroup> ReplicasOn(NodeId server) const;
  // Slices that have a replica.
  size_t replicated() const {
    return size() - static_cast<size_t>(std::ranges::count(states_, NodeId(), &PlacedSlice::replica));
  }
  // Servers whose slices have not been assigned again.
  std::vector<NodeId> Orphaned() const;
  bool Holds(NodeId server) const {  // slices
    return std::ranges::find(states_, server, &PlacedSlice::server) != states_.end();
  }
  bool HoldsReplicas(NodeId server) const {
    return std::ranges::find(states_, server, &PlacedSlice::replica) != states_.end();
  }
  std::vector<SliceOrder> OrdersFor(NodeId server) const;
  std::vector<SliceLocation> Locations() const;
  std::vector<Incarnation> Incarnations() const;
  const PlacedSlice& At(SliceId slice) const { return states_[slice.value]; }

  // ---- reports
  // Adds a part of a server's report to what is known of the slices. Ignores former incarnations. Reports of
  // all servers about the current one are true, because a slice that moves keeps its ledger. A slice becomes
  // live when its server reports it without `more`. Returns true if a slice became live or was ordered again:
  // from one of `servers` if this one keeps failing. Fails if each of `servers` has failed for a slice, which
  // then stays ordered from this one.
  Result<bool> Report(const ServerHeartbeat& heartbeat, const std::vector<NodeId>& servers);
  // Stepped strategies: an incarnation starts at the step it is restored from. Returns kInvalidArgument if a
  // server's first report of one differs, except of slices that it has from the former coordinator.
  Status CheckFirstSteps(const ServerHeartbeat& heartbeat) const;
  // All-reduce: one report for all slices; its list of slices is ignored.
  void ReportAll(const LedgerReport& report);

 private:
  void Give(PlacedSlice& slice, NodeId server);
  // Its replica takes its place.
  void Promote(PlacedSlice& slice);
  // Orders the slice in its current incarnation: from the source, or from a move.
  void Order(PlacedSlice& slice, uint64_t move);
  void Forget(PlacedSlice& slice);
  // Restores the wanted ones of the slices that have a server. Returns true if there are any.
  template <class Wanted>
  bool RestoreIf(const Wanted& wanted);
  // Null if this is not its incarnation.
  PlacedSlice* Find(const SliceIncarnation& slice_incarnation);
  bool Add(NodeId server, uint64_t number, const LedgerReport& report);
  // Its server and what is known of it are back.
  bool GoLive(PlacedSlice* slice);
  // Derives the progress from the slices that are live.
  void Derive();

  NextIncarnation next_incarnation_;
  const SliceTable* table_;
  std::vector<PlacedSlice> states_;
  bool outdated_ = false;
  std::vector<SliceOrder> source_;  // by slice; an empty directory: initialize
};

}  // namespace leat::protocol
