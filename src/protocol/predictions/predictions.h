// The coordinator's half of the predictions: feeds publish them (publications.h), and workers score again
// what was lost. A job that publishes none has nothing of this.
//
// Invariants:
// - The publishing groups are journaled (PublishersGrouped) before the first cut.
// - Every cut that is made or restored is known here before its input ends.
// - Nothing is assigned while a feed of the former coordinator may still publish.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/members/roster.h"
#include "protocol/predictions/publications.h"

namespace leat::protocol {

struct PredictionSettings {
  // The predictions of each event are published by feeds, and no cut begins while this many events of all
  // partitions together are cut and not published. 0: the job publishes none.
  uint64_t max_unpublished = 0;
  uint32_t publishing_groups = 8;  // limit for a job that begins
};

class Predictions {
 public:
  Predictions(const PredictionSettings& settings, PartitionCursors* cursors, Roster* roster, Outbox* outbox)
      : cursors_(*cursors),
        roster_(*roster),
        outbox_(*outbox),
        publications_(cursors, settings.max_unpublished, settings.publishing_groups) {}

  bool enabled() const { return publications_.enabled(); }

  // ---- the stream
  // `started`: the job has cuts, also if the journal does not say how they are grouped. Throws
  // std::invalid_argument if the groups do not fit the stream.
  void Restore(std::optional<PublishersGrouped> groups, bool started, const std::vector<Cut>& cuts);
  void JournalGroups();  // before the first cut, once
  void OnCuts(const std::vector<Cut>& cuts);

  // ---- feeds
  // `feeds_awaited`: feeds of the former coordinator have not returned yet.
  void Assign(bool feeds_awaited);
  // A feed of the former coordinator has returned.
  void Adopt(NodeId feed, const std::vector<PublisherReport>& reports);
  // Returns why the job cannot go on. Node 0: the coordinator's own feed.
  Status OnReports(NodeId feed, const std::vector<PublisherReport>& reports);
  std::vector<PublisherOrder> OrdersFor(NodeId feed) const;
  void AddTo(View* view) const;

  // ---- workers
  void OnHeartbeat(Time now, const WorkerHeartbeat& heartbeat);
  void GrantRescores(Time now, const WorkerHeartbeat& heartbeat, const std::vector<Position>& watermark,
                     WorkerHeartbeatReply* reply);
  void Reclaim(NodeId worker);  // it is gone

  // True if everything up to there is published.
  bool Done(const std::vector<Position>& positions) const;
  // Where a restart begins to read each partition, if training has come to `watermark`.
  std::vector<Position> Needed(const std::vector<Position>& watermark) const;
  std::optional<PublishedPredictions> Progress(const std::vector<Position>& watermark) const;
  std::string WaitingFor() const;  // empty: for nothing

 private:
  const PartitionCursors& cursors_;
  Roster& roster_;
  Outbox& outbox_;
  Publications publications_;
};

}  // namespace leat::protocol
