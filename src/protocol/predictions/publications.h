// The publication of predictions: which feed publishes which partitions, how far each has come, and which
// events have to be scored again because their scores are lost.
//
// Partitions belong to publishing groups, so that few producers are needed. A group is assigned as a whole.
//
// Scores reach a publisher before their batch is pushed, and wait there until all events before them are
// published (predictions/publisher.h). A publisher that is lost takes them along. Batches that every slice
// has are not trained again, so such splits are leased to be scored only. The waiting scores are bounded: no
// cut begins while the events of all partitions that are cut and not published are a limit or more.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/leases/partition_cursors.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

struct PublishedPredictions {
  uint64_t published = 0;  // offsets, from where the job began to read
  uint64_t behind = 0;     // offsets that every slice has, and that are not published
  uint64_t rescored = 0;   // published with scores that were made again, as far as is known
};

class Publications {
 public:
  // `max_unpublished`: events of all partitions; 0: the job publishes no predictions, and nothing else may be
  // called. `groups`: at most so many, unless Restore says otherwise.
  Publications(PartitionCursors* cursors, uint64_t max_unpublished, uint32_t groups);
  bool enabled() const { return enabled_; }

  // The groups of the job that is resumed. Throws std::invalid_argument if they do not fit the stream.
  void Restore(PublishersGrouped grouped);
  // The record to journal before the first cut, once; none if it was restored.
  std::optional<PublishersGrouped> TakeGrouped();
  // Adds a cut that was made or restored, unless it is known already.
  void OnCut(const Cut& cut);
  // Assigns groups with events to these feeds, evenly, and takes them from others. Returns true if anything
  // changed.
  bool Assign(const std::vector<NodeId>& feeds, const std::function<uint64_t()>& next_id);
  // A feed goes on with the groups that the former coordinator has assigned to it, unless another one has
  // a newer assignment. Returns true if anything changed.
  bool Adopt(NodeId feed, const std::vector<PublisherReport>& reports);
  std::vector<PublisherOrder> OrdersFor(NodeId feed) const;
  std::optional<NodeId> PublisherOf(size_t partition) const;
  // Reports of a feed; those about partitions that are not its own are ignored. Returns why the job cannot go
  // on.
  Status OnReports(NodeId feed, const std::vector<PublisherReport>& reports);

  // ---- splits whose scores are lost
  // The worker's scores that are on their way, and the leases that it still works on: the others are over.
  void OnWorker(Time now, NodeId worker, const std::vector<UnsentScores>& unsent,
                const std::vector<uint64_t>& rescoring);
  void Reclaim(NodeId worker);  // it is gone
  // The next split to be scored again: one that is below the watermark and lacks scores for `patience`.
  std::optional<Lease> Grant(Time now, NodeId worker, const std::vector<Position>& watermark,
                             const std::function<uint64_t()>& next_id);

  // True if everything up to there is published.
  bool Done(const std::vector<Position>& positions) const;
  // Where a restart begins to read each partition, if training has come to `watermark`.
  std::vector<Position> Needed(std::vector<Position> watermark) const;
  PublishedPredictions Progress(const std::vector<Position>& watermark) const;
  // Why the first partition that is held up cannot go on; empty: none is.
  std::string WaitingFor() const;

  static constexpr Duration kPatience = std::chrono::seconds(2);

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
  // It has had an event, so a feed opens it.
  bool Begun(size_t partition) const;
  bool Underway(uint32_t partition, uint64_t begin) const;
  RunSet Lacking(const Partition& partition, const Cut& cut) const;
  std::optional<Lease> GrantOf(Time now, NodeId worker, uint32_t partition, Position watermark,
                               const std::function<uint64_t()>& next_id);

  PartitionCursors* cursors_;
  bool enabled_;
  std::optional<PublishersGrouped> to_journal_;
  std::vector<Group> groups_;
  std::vector<Partition> partitions_;
  std::map<uint64_t, RescoreLease> leases_;
  std::map<NodeId, std::vector<UnsentScores>> unsent_;
};

}  // namespace leat::protocol
