// A member that follows the parameters of a job, as a state machine: it pulls the slices that have changed,
// again and again, and never sends anything else.
//
// A sweep asks each server for all slices that the view places on it, and ends once all slices have been
// answered. A slice that is not there, or whose server does not answer, is asked for again where the newest
// view places it. Sweeps begin `refresh` apart. If an exchange takes long they begin further apart, so that
// all subscribers together use at most a fifth of a server's time and link.
//
// A job without servers is asked at one of the members of its group, which has all slices; another one is
// asked if it does not answer.
//
// The values of a slice are as of one incarnation and version, which only grow: versions within an
// incarnation, and incarnations. There is one exception: an update without steps whose server is lost before
// the slice's replica had the update is taken back.
//
// It uses no sockets, threads or clock. A shell executes the actions and reports their results; outdated
// answers are ignored. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "protocol/actions.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"
#include "protocol/parameters.h"

namespace leat::protocol {

struct SubscriberConfig {
  SliceTable table;
  bool on_servers = true;  // StrategyConfig::on_servers
  Duration refresh = std::chrono::milliseconds(100);
  Duration reply_timeout = std::chrono::seconds(10);  // for a server's reply, before it is asked again
  // A server that does not have a slice is asked again after retry_interval. So is one that has failed; after
  // each further failure in a row, after twice as long, up to max_retry_interval.
  Duration retry_interval = std::chrono::milliseconds(50);
  Duration max_retry_interval = std::chrono::seconds(1);
  Duration room_interval = std::chrono::milliseconds(5);  // between two BeginSweep, if there was no room
};

// Provide memory for the values of a sweep. Answer at once: OnRoom.
struct BeginSweep {};
// All slices are as they were on the servers at `asked`, or later. The memory is the shell's again.
struct CompleteSweep {
  Time asked{0};
  bool changed = false;  // a slice has another incarnation or version than after the sweep before
};
using SubscriberAction = std::variant<SendPush, Disconnect, BeginSweep, CompleteSweep, StopRole>;
using SubscriberActions = std::vector<SubscriberAction>;

class Subscriber {
 public:
  explicit Subscriber(SubscriberConfig config);

  // `term`: of the coordinator.
  void OnJoined(NodeId node, uint64_t term = 0) {
    node_ = node;
    term_ = term;
    rotation_ = node.value;  // several subscribers ask several members
  }
  // ---- control plane. The shell fills in the CPU time.
  ServeHeartbeat MakeHeartbeat();
  // True if a heartbeat should be sent without waiting for the interval: a newer view is needed.
  bool HeartbeatUrgent() const { return heartbeat_urgent_ && !stopped_; }
  SubscriberActions OnHeartbeatReply(Time now, const ServeHeartbeatReply& reply);
  // Pulls nothing more; the next heartbeat says that it leaves.
  SubscriberActions Leave() {
    leaving_ = heartbeat_urgent_ = true;
    return {};
  }
  // The membership has ended otherwise. No action, and no access to the memory, follows.
  void Abort() {
    if (!stopped_) Stop(false);
    actions_.clear();
  }

  // ---- data plane
  // `held`: what the memory has; the machine changes it, until CompleteSweep. Null: there is no memory now.
  SubscriberActions OnRoom(Time now, SubscribedValues* held);
  SubscriberActions OnPushReply(Time now, NodeId server, const PushReply& reply);
  SubscriberActions OnPushFailed(Time now, NodeId server, uint64_t sequence);
  SubscriberActions OnTimer(Time now);
  Time next_timer() const;  // Time::max(): never

  const View& view() const { return *view_; }
  uint64_t term() const { return term_; }  // term of the coordinator that it follows
  const FollowProgress& progress() const { return progress_; }
  // Since when the sweep has been under way; none: no sweep is.
  std::optional<Time> asked() const { return held_ != nullptr ? std::optional(started_) : std::nullopt; }
  // A server, or member, that the sweep waits for and that has failed; none if it waits for none.
  std::optional<NodeId> failing() const;

 private:
  // A server, or the member that is asked.
  struct Peer {
    std::shared_ptr<const PushRequest> request;  // the last one
    bool in_flight = false;
    bool contacted = false;  // there may be a connection
    Time sent{0};
    Time at{0};        // in flight: the reply's deadline; else not asked before
    bool due = false;  // there is something to ask for, at `at`
    uint32_t failures = 0;
  };

  bool Placed() const { return !view_->slices.empty() && view_->slices.size() == done_.size(); }
  void ChooseMember();
  void ChooseAnother() {
    ++rotation_;
    member_ = NodeId();
    ChooseMember();
  }
  void Advance(Time now);
  void Ask(Time now);
  void Send(Time now, NodeId server, Peer* peer, std::vector<SliceRef> slices);
  // The peer with this request in flight; null: there is none.
  Peer* FindAsked(NodeId server, uint64_t sequence);
  void TakeReply(Time now, Peer* peer, const PushReply& reply);
  void DropConnection(NodeId server, Peer* peer) {
    if (std::exchange(peer->contacted, false)) actions_.emplace_back(Disconnect{server});
  }
  void Drop(NodeId server, Peer* peer) {
    DropConnection(server, peer);
    if (peer->in_flight) Fail(started_, server, peer);
  }
  void Fail(Time now, NodeId server, Peer* peer);
  void TakeView(const Shared<View>& view);
  void Complete(Time now);
  void Stop(bool evicted);
  SubscriberActions Take() { return std::exchange(actions_, {}); }

  SubscriberConfig config_;
  NodeId node_;
  uint64_t term_ = 0;
  Shared<View> view_ = View();
  std::map<NodeId, Peer> peers_;
  NodeId member_;          // without servers: the one that is asked
  uint64_t rotation_ = 0;  // counts the members that have failed
  uint64_t last_sequence_ = 0;

  SubscribedValues* held_ = nullptr;  // null: no sweep is under way
  std::vector<bool> done_;            // by slice, in this sweep
  std::vector<bool> asked_;           // by slice: in a request in flight
  size_t open_ = 0;                   // not done
  Time started_{0};
  Duration longest_{0};  // exchange of the sweep
  Time next_sweep_{0};
  bool awaits_room_ = false;
  std::vector<SliceRef> last_;  // after the last sweep

  bool heartbeat_urgent_ = false;
  bool leaving_ = false;
  bool stopped_ = false;
  FollowProgress progress_;
  SubscriberActions actions_;
};

}  // namespace leat::protocol
