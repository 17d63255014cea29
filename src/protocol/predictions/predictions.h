// The coordinator's half of the predictions: which feed publishes which partitions, how far each has come,
// and which events workers have to score again because their scores are lost. A job that publishes no
// predictions has no partitions here.
//
// Partitions belong to publishing groups, so that few producers are needed. A group is assigned as a whole.
//
// Scores reach a publisher before their batch is pushed, and wait there until all events before them are
// published (predictions/publisher.h). A publisher that is lost takes them along. Batches that every slice
// has are not trained again, so such splits are leased to be scored only. The waiting scores are bounded: no
// cut begins while the events of all partitions that are cut and not published are a limit or more.
//
// Invariants:
// - The publishing groups are journaled (PublishersGrouped) before the first cut.
// - Every cut that is made or restored is known here before its input ends.
// - Nothing is assigned while a feed of the former coordinator may still publish.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "protocol/leases/partition_cursors.h"
#include "protocol/members/roster.h"
#include "protocol/predictions/prediction_settings.h"

namespace leat::protocol {

class Predictions {
 public:
  // A split whose scores are missing for so long has lost them; until then they may be on their way.
  static constexpr Duration kScoresLostAfter = std::chrono::seconds(2);

  Predictions(const PredictionSettings& settings, PartitionCursors* cursors, Roster* roster, Outbox* outbox);
  bool enabled() const { return enabled_; }

  // ---- the stream
  // `started`: the job has cuts, also if the journal does not say how they are grouped. Throws
  // std::invalid_argument if the groups do not fit the stream.
  void Restore(std::optional<PublishersGrouped> groups, bool started, const std::vector<Cut>& cuts);
  // Before the first cut, once; not if they were restored.
  void JournalGroups() {
    if (to_journal_) outbox_.Journal(*std::exchange(to_journal_, std::nullopt));
  }
  // Adds the cuts, unless they are known already.
  void OnCuts(const std::vector<Cut>& cuts);

  // ---- feeds
  // Assigns groups with events to the feeds, evenly, and takes them from feeds that are gone.
  // `feeds_awaited`: feeds of the former coordinator have not returned yet.
  void Assign(bool feeds_awaited);
  // A feed has returned, and goes on with the groups that the former coordinator has assigned to it, unless
  // another one has a newer assignment.
  void Adopt(NodeId feed, const std::vector<PublisherReport>& reports);
  // Reports of a feed; those about partitions that are not its own are ignored. Returns why the job cannot go
  // on. Node 0: the coordinator's own feed.
  Status OnReports(NodeId feed, const std::vector<PublisherReport>& reports);
  std::vector<PublisherOrder> OrdersFor(NodeId feed) const;
  void AddTo(View* view) const;

  // ---- workers
  // The worker's scores that are on their way, and the leases that it still works on: the others are over.
  void OnHeartbeat(Time now, const WorkerHeartbeat& heartbeat);
  // Leases the next split to be scored again: one that is below the watermark and has lost scores.
  void GrantRescores(Time now, const WorkerHeartbeat& heartbeat, const std::vector<Position>& watermark,
                     WorkerHeartbeatReply* reply);
  // It is gone.
  void Reclaim(NodeId worker) {
    unsent_.erase(worker);
    std::erase_if(leases_, [&](const auto& entry) { return entry.second.worker == worker; });
  }

  // True if everything up to there is published.
  bool Done(const std::vector<Position>& positions) const;
  // Where a restart begins to read each partition, if training has come to `watermark`.
  std::vector<Position> Needed(std::vector<Position> watermark) const;
  std::optional<PublishedPredictions> Progress(const std::vector<Position>& watermark) const;
  // Why the first partition that is held up cannot go on; empty: none is.
  std::string WaitingFor() const;

 private:
  struct Group {
    std::optional<NodeId> publisher;
    uint64_t assignment = 0;
  };
  struct Partition {
    std::optional<uint64_t> published;
    std::map<uint64_t, OpenSplit> held;  // as last reported, by begin
    bool more_held = false;              // there may be more than were reported
    Status status;
    uint64_t rescored = 0, rescored_before = 0;  // by this publisher, and by those before it
    std::map<uint64_t, Cut> cuts;                // unpublished cuts, by begin
    std::map<uint64_t, Time> lacking_since;      // by begin
    void OnPublisher();                          // it has another one
  };
  struct RescoreLease {
    NodeId worker;
    uint32_t partition = 0;
    uint64_t begin = 0;
  };
  size_t GroupOf(size_t partition) const { return partition % groups_.size(); }
  const std::optional<NodeId>& PublisherOf(size_t partition) const {
    return groups_[GroupOf(partition)].publisher;
  }
  // It has had an event, so a feed opens it.
  bool Begun(size_t partition) const;
  bool Underway(uint32_t partition, uint64_t begin) const;
  static RunSet Lacking(const Partition& partition, const Cut& cut);
  std::optional<Lease> GrantOf(Time now, NodeId worker, uint32_t partition, Position watermark);

  PartitionCursors& cursors_;
  Roster& roster_;
  Outbox& outbox_;
  const bool enabled_;
  std::optional<PublishersGrouped> to_journal_;
  std::vector<Group> groups_;
  std::vector<Partition> partitions_;
  std::map<uint64_t, RescoreLease> leases_;
  std::map<NodeId, std::vector<UnsentScores>> unsent_;
};

}  // namespace leat::protocol
