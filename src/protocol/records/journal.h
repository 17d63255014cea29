// The records of the coordinator's journal, from which the next one goes on. checkpoint/ writes them to disk,
// where they are only ever appended to: a field that is added comes last, with Since, and the place of a
// former one stays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/fields/fields.h"
#include "base/ids.h"
#include "base/status.h"
#include "protocol/cut.h"
#include "protocol/messages_control.h"
#include "protocol/records/manifest.h"
#include "protocol/strategy.h"
#include "protocol/topology/host_place.h"

namespace leat::protocol {

// The limit of a record on disk, and so of the elements of each of its lists.
inline constexpr uint64_t kMaxRecordBytes = 16 << 20;

struct CutsMade {  // synced before any of them is leased
  std::vector<Cut> cuts;
};
LEAT_FIELDS(CutsMade, (cuts, AtMost(kMaxRecordBytes)));

// Stepped strategies: splits trained side by side, one per lane, all with the same number of runs. Step
// first_step + k consists of the k-th run of each lane. Synced before any of it is leased. It introduces its
// new cuts, without a CutsMade.
struct RoundMade {
  struct Lane {
    Cut cut;
    RunSet assigned;  // all runs of a new cut, or the late runs of a former round
  };
  uint64_t first_step = 0;
  uint32_t needed = 1;      // lanes required for a step
  std::vector<Lane> lanes;  // by lane
};
LEAT_FIELDS(RoundMade::Lane, (cut), (assigned, RunsOf(self.cut)));
LEAT_FIELDS(RoundMade, (first_step), (needed), (lanes, AtMost(StrategyConfig::kMaxLanes)));
Status Check(const RoundMade& round);

struct StreamStart {  // where each partition begins: once, before the first cut
  std::vector<Position> start;
};
LEAT_FIELDS(StreamStart, (start, AtMost(kMaxRecordBytes)));

// The passes over each partition, and so the borders at which a stream ended that has grown since. Synced
// before any cut of a pass that other records do not have. The last one counts; a job that passes over its
// stream once needs none.
struct PassesPlanned {
  std::vector<Passes> partitions;
};
LEAT_FIELDS(PassesPlanned, (partitions, AtMost(kMaxRecordBytes), Each(AtMost(kMaxRecordBytes))));
Status Check(const PassesPlanned& planned);

// Ids below these may be in use and are never given again: of nodes; of leases, incarnations and generations.
// A truncated journal keeps the last of these, and StreamStart.
struct IdsReserved {
  uint64_t node = 0;
  uint64_t lease = 0;
};
LEAT_FIELDS(IdsReserved, (node), (lease));

// A higher learning rate: for the cuts that begin in [first, last), by partition. A round has the highest
// factor of its cuts. Synced before any of these cuts is leased.
struct RateRaised {
  float factor = 1;
  std::vector<Position> first, last;
  // Every state that has all cuts before `watermark` has the whole span.
  bool Before(const std::vector<Position>& watermark) const;
};
LEAT_FIELDS(RateRaised, (factor), (first, AtMost(kMaxRecordBytes)), (last, AtMost(kMaxRecordBytes)));
Status Check(const RateRaised& raised);

// Late labels: new marks of a partition, in order. Synced before any cut that needs them is made.
struct LabelsMarked {
  uint32_t partition = 0;
  std::vector<LabelMark> marks;
};
LEAT_FIELDS(LabelsMarked, (partition), (marks, AtMost(kMaxRecordBytes)));
Status Check(const LabelsMarked& marked);

// The membership, from which the next coordinator takes over: on disk before the process learns that it is a
// member, and before anything is done because a member is gone. A later record of the same member replaces
// it.
struct MemberJoined {
  Member member;
  std::string host;
  int64_t pid = 0;
  uint64_t process = 0;  // as JoinRequest::process
  uint64_t network = 0;  // as JoinRequest::network
  topology::HostPlace place = {};
};
LEAT_FIELDS(MemberJoined, (member), (host, Limits::kName), (pid), (process, Fixed), (network, Fixed),
            (place, Since(3)));

struct MembersLeft {  // or were evicted
  std::vector<NodeId> nodes;
};
LEAT_FIELDS(MembersLeft, (nodes, AtMost(kMaxRecordBytes)));

struct SliceAssignment {
  SliceId slice;
  NodeId server;
  Incarnation incarnation;
  uint64_t move = 0;   // as SliceOrder::move
  NodeId replica;      // the server that has its replica; 0: none
  uint64_t epoch = 0;  // epoch of the replica (ReplicaGroup)
};
LEAT_FIELDS(SliceAssignment, (slice), (server), (incarnation), (move), (replica), (epoch));
// Where slices are: synced before their servers get the orders, also after a move. A later record replaces
// the earlier ones of the same slices.
struct SlicesPlaced {
  std::vector<SliceAssignment> places;
};
LEAT_FIELDS(SlicesPlaced, (places, AtMost(kMaxRecordBytes)));

// All-reduce: a group, its members by rank. Synced before any of them knows it. Replaces the earlier ones.
struct GroupNamed {
  uint64_t id = 0;
  std::vector<NodeId> members;
};
LEAT_FIELDS(GroupNamed, (id), (members, AtMost(kMaxRecordBytes)));

// Ids of checkpoints up to this one may be in use. Synced before anything of the checkpoint is made.
struct CheckpointBegun {
  uint64_t id = 0;
};
LEAT_FIELDS(CheckpointBegun, (id));

// `lanes: auto`: the rounds from a step on have so many lanes, without backups. It replaces all such records
// of this step and later ones. Synced before the first of these rounds.
struct LanesSet {
  uint64_t first_step = 0;
  uint32_t lanes = 1;
};
LEAT_FIELDS(LanesSet, (first_step), (lanes, AtLeast(1), AtMost(StrategyConfig::kMaxLanes)));

// The settings of commands. The last one counts, and a truncated journal keeps it. On disk before the command
// is answered.
struct ScaleSet {
  WorkerRange workers;
  uint32_t servers = 0;
  bool paused = false;  // no new leases
  // Stepped strategies, while paused: nothing of the rounds from this step on has been leased.
  uint64_t begun = 0;
  bool pause_reached = false;  // CoordinatorConfig::pause_at: nothing more is cut
};
LEAT_FIELDS(ScaleSet, (workers), (servers), (paused), (begun), (pause_reached, Since(3)));
Status Check(const ScaleSet& scale);

// Other coordinators have copies of this journal in directories of their own. A coordinator does not go on
// with it unless the members elect it (standby/).
struct JournalAgreed {
  std::vector<NodeId> electors;  // ascending: who elects from here on; the last such record was agreed
};
LEAT_FIELDS(JournalAgreed, (electors, AtMost(kMaxRecordBytes)));

// Predictions: the number of publishing groups. Partition p belongs to group p % groups. Synced before the
// first cut, and the same as long as there is the job. A job with cuts and without this record has a group
// for each partition.
struct PublishersGrouped {
  uint32_t groups = 1;
};
LEAT_FIELDS(PublishersGrouped, (groups, AtLeast(1)));

using JournalRecord = std::variant<CutsMade, StreamStart, IdsReserved, RoundMade, RateRaised, LabelsMarked,
                                   MemberJoined, MembersLeft, SlicesPlaced, GroupNamed, CheckpointBegun,
                                   LanesSet, ScaleSet, JournalAgreed, PassesPlanned, PublishersGrouped>;
LEAT_KINDS(JournalRecord, (CutsMade, 1, "cuts"), (StreamStart, 2, "start"), (IdsReserved, 3, "ids"),
           (RoundMade, 4, "round"), (RateRaised, 5, "rate"), (LabelsMarked, 6, "labels"),
           (MemberJoined, 7, "joined"), (MembersLeft, 8, "left"), (SlicesPlaced, 9, "placed"),
           (GroupNamed, 10, "group"), (CheckpointBegun, 11, "checkpoint"), (LanesSet, 12, "lanes"),
           (ScaleSet, 13, "scale"), (JournalAgreed, 14, "agreed"), (PassesPlanned, 15, "passes"),
           (PublishersGrouped, 16, "publishers"));

// Removes the marks that no cut from `watermark` on needs (by partition). The last mark of each partition
// stays: the stream goes on behind it.
void DropMarksBefore(const std::vector<Position>& watermark, std::vector<JournalRecord>* records);
// Removes what the next coordinator does not need to know about members, slices, groups and checkpoints:
// former members, and what later records replace.
void DropReplaced(std::vector<JournalRecord>* records);
// Removes the LanesSet that hold for no round in `records`. The last one stays: the next round has its lanes.
void DropUnusedLanes(std::vector<JournalRecord>* records);

// The state from which a job is resumed.
struct RecoveredState {
  std::optional<Manifest> manifest;    // the newest complete one that is not damaged
  std::vector<JournalRecord> journal;  // at least all records since the manifest
  uint64_t last_checkpoint = 0;        // ids up to this one are taken, by damaged checkpoints, too
  // The watermark of the oldest complete checkpoint: the stream and the journal reach back to it.
  std::vector<Position> oldest_watermark;
};

// The beginning of the message for a damaged checkpoint that was passed over. The reason why the one before
// it is not used either follows.
std::string PassedOver(const Status& why);

}  // namespace leat::protocol
