// The coordinator's half of the slices: which server holds each, from the first placement on, through losses
// and returns; and which servers may hold any.
//
// Invariants:
// - Slices are placed once as many servers have come as are wanted. From then on each slice is on one server,
//   or has been without one since a time that is known here.
// - A slice changes its server only by a loss, by an adoption of an orphan, or by a finished move
//   (slice_transfers.h). Each is journaled (SlicesPlaced) with the input that causes it.
// - All slices are in one site unless the job allows several, and stay there as long as the site has a
//   server.
// - A replica takes the place of a lost slice in the same incarnation, so nothing that is known of it is
//   lost.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/members/roster.h"
#include "protocol/placement.h"
#include "protocol/slices/slice_map.h"
#include "protocol/slices/slice_settings.h"

namespace leat::protocol {

class SlicePlacement {
 public:
  // Throws std::invalid_argument if the model has no slices.
  SlicePlacement(const SliceSettings& settings, size_t partitions, Roster* roster, Outbox* outbox);

  const SliceSettings& settings() const { return settings_; }
  SliceMap& map() { return map_; }
  const SliceMap& map() const { return map_; }

  // ---- placement
  // Slices are placed on those servers that are wanted: further ones may never come.
  void Want(uint32_t servers) {
    if (!map_.placed()) wanted_ = std::min(wanted_, std::max(servers, 1u));
  }
  // Places the slices, or gives those without a server to others, as far as that is due. Returns why they
  // cannot be placed, which ends the job. Only for a stream that has started, by SliceTransfers.
  Status Advance(Time now);
  // As the former coordinator has placed them.
  void Restore(const std::vector<SliceAssignment>& assignments);
  // The server is no member any more. Replicas take the places of its slices. Returns true if it had slices
  // without one.
  bool LoseServer(Time now, NodeId server);
  // A server's report: adds it to what is known of the slices. Fails if they cannot be restored.
  Status OnReport(const ServerHeartbeat& heartbeat);
  // True once when all slices are live, and were not before.
  bool BecameReady();
  bool any_orphan() const { return !orphans_since_.empty(); }
  void ExcuseSilence(Time now, Duration away) {
    for (auto& [node, since] : orphans_since_) since = std::min(now, since + away);
  }
  // The slices are where a move has brought them.
  void RememberSite();
  // The places that are new since the last call.
  void JournalPlaced() {
    if (auto placed = map_.TakePlaced(); !placed.empty()) outbox_.Journal(SlicesPlaced{std::move(placed)});
  }

  // ---- servers
  // Whether the job lets the server hold slices at all.
  bool SiteAllows(NodeId server) const;
  // The servers that hold slices or are to get some, and how much (Balance::weights).
  std::vector<std::pair<NodeId, double>> WeighServers() const;
  // A server other than this one may take its slices over.
  bool OthersMayTake(NodeId server) const;
  // Returns in one line why the job cannot be on this number of servers.
  Status CanHave(uint32_t servers) const;

  // ---- replicas
  void LoseReplica(SliceId slice);
  void AddReplicas(NodeId server, ServerHeartbeatReply* reply) const;
  bool replicas_changed() const { return replicas_changed_; }  // since they were planned, or servers changed
  void SetReplicasChanged(bool changed) { replicas_changed_ = changed; }

  SliceRows rows() const;
  // A line for each site whose replicas are in the zone of their slices.
  void AddWarnings(std::map<std::string, std::string>* lines) const;

 private:
  Status PlaceAll(Time now);
  void AdoptOrphans(Time now);
  void OnLostReplicas(const ServerHeartbeat& heartbeat);
  // By the placement and the server's wish; 0: none, if there are others.
  double WeightOf(const MemberState& server) const;
  bool Takes(NodeId server) const { return WeightOf(roster_.At(server)) > 0; }
  // The job's placement, on these servers by their index here.
  Placement PlacementOn(const std::vector<NodeId>& servers) const;
  // Servers that are not to hold slices because of where they are, unless all of them leave.
  std::set<NodeId> ServersElsewhere() const;
  // The slices had to move to another site.
  bool SiteIsLost() const;

  const SliceSettings& settings_;
  Roster& roster_;
  Outbox& outbox_;
  SliceMap map_;
  uint32_t wanted_;
  bool settled_ = false;  // all slices have been live since BecameReady
  bool replicas_changed_ = false;
  std::optional<std::string> site_;       // site of most servers with slices; kept when all are lost
  std::optional<Time> servers_came_;      // when there were as many as are wanted, in all sites
  std::map<NodeId, Time> orphans_since_;  // since when slices are without a server, by former server
};

}  // namespace leat::protocol
