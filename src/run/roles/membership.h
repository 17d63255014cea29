// A role's membership in the job: join, heartbeats, the deadlines of its state machine, leave, and join again
// after an eviction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compute/engine/run/progress.h"
#include "job/job.h"
#include "net/loop.h"
#include "protocol/succession/election.h"
#include "run/launcher/signals.h"
#include "run/roles/coordinator_client.h"
#include "run/roles/feed/job_feeds.h"
#include "run/roles/recording/recording.h"
#include "run/roles/role.h"

namespace leat::roles {

// Decides when a role acts next. Time is an argument: no clock, no timer.
class MembershipSchedule {
 public:
  // A heartbeat is due protocol::BusyInterval(`interval`) after the last one was sent. An urgent one is due
  // `urgent_gap` after it, so that a role that stays urgent doesn't spin.
  MembershipSchedule(Duration interval, Duration urgent_gap)
      : interval_(interval), busy_interval_(protocol::BusyInterval(interval)), urgent_gap_(urgent_gap) {}

  // At most one heartbeat is in flight: none is due until OnAnswered, which also follows a failed call.
  // `quiet`: the role has nothing to do, and the heartbeat says nothing new.
  void OnSent(Time now, bool quiet = false);
  void OnAnswered() { in_flight_ = false; }
  // Time::max() while one is in flight; the first one is due at once. While a role is quiet, and has been for
  // kQuietAfter, an urgent heartbeat is due after the busy interval, another one after `interval`. A steady
  // role's heartbeat is due after `interval`, unless it is urgent.
  Time HeartbeatDue(bool urgent, bool quiet = false, bool steady = false) const;

  // Records that the state machine's timer ran.
  void OnTimer(Time now) { earliest_timer_ = now + kTimerGap; }
  // `next`: when the machine wants its timer. It runs kTimerGap after its last run at the earliest, also for
  // a machine that asks for a time that has passed.
  Time TimerDue(Time next) const { return std::max(next, earliest_timer_); }

  static constexpr Duration kTimerGap = std::chrono::milliseconds(10);
  static constexpr Duration kQuietAfter = std::chrono::seconds(1);

 private:
  Duration interval_;
  Duration busy_interval_;
  Duration urgent_gap_;
  bool in_flight_ = false;
  Time last_sent_{0};
  std::optional<Time> quiet_since_;  // when the first quiet heartbeat in a row was sent
  Time earliest_heartbeat_{0};       // without urgency
  Time earliest_urgent_{0};
  Time earliest_timer_{0};
};

// State that a process keeps when its node has been evicted.
struct FormerNode {
  uint64_t process = 0;                         // identifies the process; 0: unknown
  uint64_t job_hash = 0;                        // hash of the job that it was in; 0: none
  std::shared_ptr<ModelFiles> files = nullptr;  // fetched for the job
  protocol::Promises promises = {};             // until the process has joined again, it keeps them
  Duration call_deadline{};                     // limit of a call to the coordinator
  std::vector<std::string> coordinators = {};   // addresses, also of standbys
};

// Sets a single timer for the next deadline, a heartbeat's or the state machine's. Loop's thread only.
class Membership {
 public:
  static constexpr Duration kUrgentGap = std::chrono::milliseconds(10);

  // The role's callbacks; all run on the loop.
  struct Callbacks {
    std::function<protocol::ControlRequest()> make_heartbeat;
    // The answer to a heartbeat. A failed call is logged and repeated when the next heartbeat is due.
    std::function<void(const protocol::ControlReply&)> on_reply;
    std::function<void()> on_leave;  // SIGINT or SIGTERM, or the coordinator asks for it
    std::function<bool()> urgent = [] { return false; };
    // The role has nothing to do. Its requests can then wait, even urgent ones.
    std::function<bool()> quiet = [] { return false; };
    // The role works, and has nothing to report or to ask.
    std::function<bool()> steady = [] { return false; };
    // When the state machine needs its timer; Time::max(): never.
    std::function<Time()> next_timer = [] { return Time::max(); };
    std::function<void(Time now)> on_timer = [](Time) {};
    // Minimum time between two heartbeats that cannot wait for the interval.
    Duration urgent_gap = kUrgentGap;
  };

  // The loop outlives it.
  Membership(net::Loop& loop, CoordinatorClientOptions options, protocol::Role role, FormerNode former = {});
  ~Membership() {
    loop_.Cancel(timer_);
    loop_.Cancel(turn_timer_);
  }

  // Blocks until the coordinator answers, or the join deadline, and then until this host has the model's
  // files. `address`: of the data plane. `standby`: of a worker. From here to the end of Run, SIGINT and
  // SIGTERM tell the role to leave, except one that serves: they are another thread's there. kAborted: it was
  // told so before it had asked to join.
  Result<job::Job> Join(const std::string& address, bool standby = false);
  // Ends a Join that blocks, with kAborted, unless its answer is on the way. Thread-safe.
  void AbortJoin() { client_.AbortJoin(); }
  // Returns the role's result after a failed join: ok if the job was already over, or it was told to leave.
  static Status JoinError(const Status& status);

  // Valid after Join.
  const protocol::JoinReply& joined() const { return joined_; }
  NodeId node() const { return joined_.node; }
  // The address at which the coordinator was reached last.
  std::string coordinator() const { return client_.address(); }
  // For the next Membership of the process, once this node has been evicted.
  FormerNode AsFormer() const;
  Duration heartbeat_interval() const { return joined_.heartbeat_interval; }
  // For the role's plans: a role whose kernels finish is not stuck, however long its loop is busy.
  const std::shared_ptr<engine::Progress>& progress() const { return progress_; }

  // Where the role's threads add what they do; it is recorded when the coordinator says so.
  timeline::Recorder& recorder() { return recording_.recorder(); }

  // Runs the loop until Stop, Fail, or the loss of the coordinator, and returns why it ended: ok after Stop.
  // The first heartbeat is sent at once.
  Status Run(Callbacks callbacks);
  // Call it after anything that may make a heartbeat urgent or the machine's timer earlier. Sends the
  // heartbeat if it is due.
  void Update();
  // Makes the next heartbeat urgent, regardless of the role's callback.
  void RequestHeartbeat() {
    requested_ = true;
    Update();
  }
  // Sends another request than a heartbeat, after those that are under way; call it after Join. `done` is not
  // called once the membership is over. A failed call is not repeated.
  void Send(protocol::ControlRequest request, std::function<void(Result<protocol::ControlReply>)> done);
  void Stop(bool evicted) {
    evicted_ = evicted;
    End(Status());
  }
  void Fail(Status why) { End(std::move(why)); }
  bool over() const { return over_; }
  bool evicted() const { return evicted_; }

 private:
  Time NextDue() const { return std::min(HeartbeatDue(), schedule_.TimerDue(callbacks_.next_timer())); }
  Time HeartbeatDue() const;
  void OnDue();
  void SetTimer(Time due);
  void SendHeartbeat();
  void OnAnswer(Result<protocol::ControlReply> reply);
  void OnSignal();
  void OnTurn();
  protocol::ControlRequest MakeHeartbeat();
  void SendPromise(const protocol::Candidacy& candidacy);
  void End(Status outcome);

  net::Loop& loop_;
  const protocol::Role role_;
  const CoordinatorClientOptions options_;
  observe::RoleMetrics* const metrics_;  // null: it shows none
  const std::shared_ptr<engine::Progress> progress_ = std::make_shared<engine::Progress>();
  CoordinatorClient client_;
  RoleRecording recording_;
  const FormerNode former_;
  const std::shared_ptr<ModelFiles> files_;
  protocol::JoinReply joined_;
  protocol::Promises promises_;
  uint64_t job_hash_;
  Callbacks callbacks_;
  MembershipSchedule schedule_{Duration{}, Duration{}};
  bool requested_ = false;
  uint64_t timer_ = 0;            // for the next due action
  Time timer_due_ = Time::max();  // max(): not set
  bool drains_ = false;           // the coordinator has asked it to leave
  bool leaves_ = false;           // a signal came before Run
  bool over_ = false;
  bool evicted_ = false;
  Status outcome_;
  std::optional<launcher::SignalWatch> signals_;  // its thread uses the others
  uint64_t turn_timer_ = 0;
};

// Runs `run_once`, from Join to the end of Run, until it fails or ends without an eviction. An evicted node
// (it was paused for too long, say) joins again as a new one, with a new loop.
Status RejoinWhileEvicted(const CoordinatorClientOptions& options, protocol::Role role,
                          const std::function<Status(net::Loop&, Membership&)>& run_once);
// The same for a role with options, which `run_once` gets, too.
inline Status RejoinWhileEvicted(const RoleOptions& options, protocol::Role role,
                                 Status (*run_once)(net::Loop&, Membership&, const RoleOptions&)) {
  return RejoinWhileEvicted(options.coordinator_client, role, [&](net::Loop& loop, Membership& membership) {
    return run_once(loop, membership, options);
  });
}

}  // namespace leat::roles
