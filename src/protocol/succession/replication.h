// The active coordinator's side of standbys with directories of their own: streams the journal to them, and
// decides what is agreed.
//
// A record is agreed, and may be acted on, once every coordinator of the set has it on disk. The set changes
// in steps: the new one is told to the electors (Electorate), and until a majority of them knows it, records
// also need the coordinators of the old one. So at any time every coordinator that may be elected has all
// agreed records. A standby comes into the set when it has all of them, and leaves it when it has been silent
// for a while. A coordinator that was elected itself acts on nothing before a majority knows the set that has
// no one else.
//
// It uses no sockets, threads, files or clock. Positions count bytes of the journal's stream since the
// coordinator started (FollowRequest). Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "protocol/messages_control.h"
#include "protocol/succession/election.h"

namespace leat::protocol {

struct ReplicationConfig {
  uint64_t term = 0;
  uint64_t coordinator = 0;  // number of its directory
  bool elected = false;      // others may have been in the set of the term before
  bool marked = false;       // its journal has a JournalAgreed
  Duration silence = std::chrono::seconds(2);
  Duration poll = std::chrono::milliseconds(200);  // how long a request waits for news
  uint64_t max_behind = 64 << 20;  // bytes: a standby outside the set begins anew when it lacks more
  size_t max_followers = 8;
};

class JournalReplication {
 public:
  // A record as it is sent, behind others in `out`; an empty one carries nothing.
  static void AppendFrame(ByteView record, Bytes* out);

  // `electorate`: by the records of its journal so far.
  JournalReplication(ReplicationConfig config, Electorate electorate);

  // ---- the journal
  // The records are on this coordinator's disk, as these bytes. Without records, its standbys only confirm
  // that they follow it. Returns the position that has to be agreed before what depends on them is done.
  uint64_t Append(Time now, std::span<const JournalRecord> records, std::span<const Bytes> encoded);
  uint64_t agreed() const { return agreed_; }
  bool AllAgreed() const { return agreed_ == end_; }
  // To be journaled: it names the next electors.
  std::optional<JournalAgreed> TakeMarker();
  // Nothing of the journal may be dropped now: it names two electorates.
  bool MustKeepJournal() const { return !founded_ || !electorate_.Settled(); }

  // ---- standbys
  // An error: the request is refused. Otherwise it is answered later (TakeReplies).
  Status OnFollow(Time now, uint64_t call, const FollowRequest& request);
  // The journal is to be read, and OnSnapshot called with the frames of all records that were appended until
  // then.
  bool TakeSnapshotWanted() { return std::exchange(snapshot_wanted_, false); }
  void OnSnapshot(Time now, Bytes frames);
  void OnSnapshotFailed() { snapshot_wanted_ = true; }
  void OnCheckpoint(uint64_t newest) { newest_checkpoint_ = newest; }
  // Whether all standbys have this checkpoint or a later one.
  bool HaveCheckpoint(uint64_t id) const;
  void OnDropped(uint64_t oldest_kept, std::vector<Position> watermark);
  std::vector<std::pair<uint64_t, FollowReply>> TakeReplies() { return std::exchange(replies_, {}); }

  // ---- electors
  // From the heartbeat of a member.
  void OnElector(Time now, NodeId node, const ElectorState& state);
  // Returns the set that a member in this state is to be told; none if there is nothing new for it.
  std::optional<CoordinatorSet> SetFor(const ElectorState& state) const;
  // A member, or a standby, knows a coordinator of a higher term.
  std::optional<uint64_t> replaced_by() const { return replaced_by_; }

  void OnTimer(Time now);
  bool founded() const { return founded_; }  // it may act on what is agreed
  // Describes the step that records wait for to be agreed; empty: none.
  std::string WaitsFor() const;
  const CoordinatorSet& set() const { return set_; }
  const Electorate& electorate() const { return electorate_; }
  bool followed() const { return !followers_.empty(); }  // by any standby
  // Others have the journal, or have had it.
  bool shared() const { return followed() || marker_.has_value(); }

 private:
  struct Follower {
    uint64_t stream = 0;
    std::shared_ptr<const Bytes> snapshot = nullptr;  // null: it has to be read
    uint64_t begin = 0;                               // position at which the snapshot ends
    uint64_t received = 0, synced = 0;                // bytes of the stream
    uint64_t sent = 0;
    uint64_t checkpoint = 0;
    uint64_t needed_checkpoint = 0;  // the newest one when the stream began
    std::optional<uint64_t> call = {};
    Time called{0};
    Time heard{0};         // when it last had everything, or more than before
    bool changed = true;   // there is something to tell it beside records
    bool joining = false;  // into the set: nothing more is agreed without it

    uint64_t end(uint64_t log_end) const { return snapshot ? snapshot->size() + (log_end - begin) : 0; }
    // All records before it are on the standby's disk.
    uint64_t position() const {
      return snapshot && synced >= snapshot->size() ? begin + (synced - snapshot->size()) : 0;
    }
  };

  void Update(Time now);
  void Propose(Time now);
  void Commit();
  void Agree();
  bool Near(const Follower& follower) const;
  // A member that was sent away, or leaves, is an elector until others are named.
  bool Counts(NodeId node) const { return electorate_.joined().contains(node) || electorate_.Contains(node); }
  std::vector<NodeId> NextElectors() const;
  bool Silent(Time now, const Follower& follower) const { return now - follower.heard > config_.silence; }
  void Answer(Time now, uint64_t number, Follower* follower);
  void Dismiss(Follower* follower);
  void ForgetFollowers(Time now);
  void Trim();
  std::vector<uint64_t> Required() const;

  const ReplicationConfig config_;
  Electorate electorate_;
  Bytes log_;  // [log_begin_, end_)
  uint64_t log_begin_ = 0;
  uint64_t end_ = 0;
  uint64_t agreed_ = 0;
  bool founded_ = false;  // a majority knows this coordinator's own set, or nobody else was in the former one
  CoordinatorSet set_;
  std::optional<CoordinatorSet> next_;   // told to the electors
  std::map<NodeId, uint64_t> accepted_;  // the epochs that electors know
  std::set<NodeId> heard_;               // members of their role that have sent a heartbeat
  std::map<uint64_t, Follower> followers_;
  uint64_t streams_ = 0;
  bool snapshot_wanted_ = false;
  std::optional<uint64_t> marker_;  // position behind the last one; none: there is none
  bool marker_under_way_ = false;
  bool marker_repeated_ = false;  // others know that it is agreed
  uint64_t newest_checkpoint_ = 0;
  uint64_t oldest_kept_ = 0;
  std::vector<Position> watermark_;
  std::optional<Time> last_timer_;
  std::optional<uint64_t> replaced_by_;
  std::vector<std::pair<uint64_t, FollowReply>> replies_;
};

// A standby's side of the journal's stream (FollowReply): what it asks for, and the records of what comes.
class FollowedJournal {
 public:
  // `coordinator`: the number of the standby's directory. `term`: the highest that the directory knows; it
  // follows no coordinator of a lower one.
  FollowedJournal(uint64_t coordinator, uint64_t term) : coordinator_(coordinator), term_(term) {}

  FollowRequest MakeRequest(uint64_t checkpoint) const;

  struct Received {
    // The stream has begun anew: `records` replace the whole journal, which is of `term`.
    bool anew = false;
    uint64_t term = 0;
    std::vector<Bytes> records;  // encoded
    std::vector<uint64_t> ends;  // end of each record in the stream
  };
  // The records that are whole now; of a new stream, none before the snapshot is whole. kStale: the
  // coordinator has a lower term. kDataLoss: the reply contradicts itself, or a checksum is wrong; the
  // next request asks for a new stream.
  Result<Received> OnReply(const FollowReply& reply);
  // The records that were returned last are of this stream; else it still receives the snapshot.
  bool began() const { return began_; }
  // Everything that OnReply has returned is on disk.
  void OnSynced() { synced_ = whole_; }
  // The records that were received last are not on disk: they will be asked for again.
  void Restart() { stream_ = 0; }

 private:
  Status TakeFrames(Received* received);

  const uint64_t coordinator_;
  uint64_t term_;
  uint64_t stream_ = 0;
  uint64_t snapshot_ = 0;
  uint64_t received_ = 0, synced_ = 0;
  uint64_t whole_ = 0;  // bytes before it are whole records that were returned
  bool began_ = false;  // the snapshot has been returned
  Bytes rest_;          // received and not returned
};

}  // namespace leat::protocol
