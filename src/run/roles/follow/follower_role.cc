#include "run/roles/follow/follower_role.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "base/log.h"
#include "net/frames/frame.h"
#include "protocol/subscribers/subscriber.h"
#include "run/roles/membership.h"
#include "train/collective/port.h"
#include "train/ps/client.h"

namespace leat::roles {
namespace {

// A round that takes longer waits for something that is away.
constexpr Duration kAway = std::chrono::seconds(2);
// Until a member that leaves is told so by the coordinator.
constexpr Duration kLeaveWait = std::chrono::seconds(1);
constexpr Duration kFirstFollowPause = std::chrono::milliseconds(50);
constexpr Duration kLongestPause = std::chrono::seconds(5);
// Time limit of one attempt to join, so that `stop` is noticed.
constexpr Duration kFollowerJoinDeadline = std::chrono::seconds(2);

// Tells the sink of the first state, and of each change.
class Connected {
 public:
  explicit Connected(ValueSink& sink) : sink_(sink) {}
  void Set(bool connected, const std::string& why) {
    if (connected_ == connected) return;
    connected_ = connected;
    sink_.OnConnected(connected, why);
  }

 private:
  ValueSink& sink_;
  std::optional<bool> connected_;
};

// The shell around protocol::Subscriber. Everything runs on the loop's thread but the calls to the
// coordinator.
class FollowerRole {
 public:
  FollowerRole(net::Loop& loop, Membership& membership, net::Transport& transport, const job::Job& job,
               Duration refresh, ValueSink& sink, Connected& connected)
      : loop_(loop),
        membership_(membership),
        sink_(sink),
        connected_(connected),
        client_(transport, {.on_reply =
                                [this](NodeId server, const protocol::PushReply& reply) {
                                  ExecuteAll(machine_.OnPushReply(loop_.Now(), server, reply));
                                },
                            .on_failed =
                                [this](NodeId server, uint64_t sequence, const Status& why) {
                                  spdlog::debug("pull from server {}: {}", server.value, why.ToString());
                                  ExecuteAll(machine_.OnPushFailed(loop_.Now(), server, sequence));
                                }}),
        machine_({.table = job.Slices(), .on_servers = job.strategy.on_servers(), .refresh = refresh}) {}

  // Returns once it is to leave or has been told to, the job is over, this node is evicted, or the
  // coordinator is lost.
  Status Run(const std::stop_token& stop) {
    machine_.OnJoined(membership_.node(), membership_.joined().term);
    const std::stop_callback on_stop(stop, [this] {
      loop_.Post([this] {
        if (!membership_.over()) Leave();
      });
    });
    watch_ = loop_.After(kAway / 4, [this] { Watch(); });
    const Status outcome =
        membership_.Run({.make_heartbeat =
                             [this] {
                               auto heartbeat = machine_.MakeHeartbeat();
                               heartbeat.progress.cpu_seconds = OwnCpuSeconds();
                               return heartbeat;
                             },
                         .on_reply =
                             [this](const protocol::ControlReply& reply) {
                               const auto* answer = std::get_if<protocol::ServeHeartbeatReply>(&reply);
                               if (answer == nullptr) return;
                               if (answer->drain && !std::exchange(leaves_, true))
                                 spdlog::info("told to leave");
                               ExecuteAll(machine_.OnHeartbeatReply(loop_.Now(), *answer));
                             },
                         .on_leave = [this] { Leave(); },
                         .urgent = [this] { return machine_.HeartbeatUrgent(); },
                         .steady = [this] { return machine_.asked() || machine_.progress().rounds > 0; },
                         .next_timer = [this] { return machine_.next_timer(); },
                         .on_timer = [this](Time now) { ExecuteAll(machine_.OnTimer(now)); }});
    loop_.Cancel(watch_);
    machine_.Abort();
    return outcome;
  }

  bool leaves() const { return leaves_; }
  uint64_t rounds() const { return machine_.progress().rounds; }

 private:
  void Leave() {
    leaves_ = true;
    ExecuteAll(machine_.Leave());
    loop_.After(kLeaveWait, [this] {
      if (!membership_.over()) membership_.Stop(false);
    });
  }

  void Watch() {
    if (membership_.over()) return;
    watch_ = loop_.After(kAway / 4, [this] { Watch(); });
    const auto asked = machine_.asked();
    if (!asked || loop_.Now() - *asked < kAway) return;
    const auto failing = machine_.failing();
    connected_.Set(false, failing ? "server " + std::to_string(failing->value) + " does not answer"
                                  : "slices are on no server now");
  }

  void ExecuteAll(const protocol::SubscriberActions& actions) {
    for (const auto& action : actions) {
      if (membership_.over()) return;
      std::visit([this](const auto& one) { Execute(one); }, action);
    }
    membership_.Update();
  }
  void Execute(const protocol::SendPush& a) { client_.Send(a); }
  void Execute(const protocol::Disconnect& a) { client_.Disconnect(a.server); }
  void Execute(const protocol::BeginSweep&) {
    parameters_ = sink_.Begin();
    client_.ReceiveInto(parameters_);
    ExecuteAll(machine_.OnRoom(loop_.Now(), parameters_ != nullptr ? &parameters_->held() : nullptr));
  }
  void Execute(const protocol::CompleteSweep& a) {
    connected_.Set(true, "");
    sink_.Complete(std::exchange(parameters_, nullptr), a.asked, a.changed);
  }
  void Execute(const protocol::StopRole& a) { membership_.Stop(a.evicted); }

  net::Loop& loop_;
  Membership& membership_;
  ValueSink& sink_;
  Connected& connected_;
  ps::Client client_;
  protocol::Subscriber machine_;
  protocol::Parameters* parameters_ = nullptr;  // parameters of the current round
  uint64_t watch_ = 0;                          // timer
  bool leaves_ = false;
};

// Waits, but not longer than until `stop`.
void Pause(Duration pause, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, pause, [] { return false; });
}

// The coordinator refuses this process whenever it asks.
bool Refused(const Status& status) {
  return status.code() == Code::kPermissionDenied || status.code() == Code::kFailedPrecondition ||
         status.code() == Code::kInvalidArgument;
}

struct Once {
  Status status;
  bool joined = false;
  bool accepted = false;  // by the sink
  bool leaves = false;
  uint64_t rounds = 0;
  std::string why;  // it is away now
};

// From joining to the end of the job, or until this node is evicted.
Once FollowOnce(net::Loop& loop, Membership& membership, const FollowOptions& options, ValueSink& sink,
                Connected& connected, const std::stop_token& stop) {
  Once once;
  const auto job = [&] {
    const std::stop_callback on_stop(stop, [&membership] { membership.AbortJoin(); });
    return membership.Join("");
  }();
  if (!job.ok()) {
    once.status = job.status();
    once.why = job.status().message();
    return once;
  }
  once.joined = true;
  if (once.status = sink.OnJob(*job); !once.status.ok()) {
    once.why = once.status.message();
    return once;
  }
  once.accepted = true;
  const auto port = job->strategy.on_servers() ? wire::ServerPort() : collective::MemberPort();
  const auto transport = MakeTransport(loop, options.role, port);
  transport->TrustNetwork(job->trusted_network);
  FollowerRole role(loop, membership, *transport, *job, options.refresh, sink, connected);
  once.status = role.Run(stop);
  once.leaves = role.leaves();
  once.rounds = role.rounds();
  once.why = !once.status.ok()      ? once.status.message()
             : membership.evicted() ? "this member was evicted"
                                    : "the job has ended";
  return once;
}

// Takes one round.
class OneRound final : public ValueSink {
 public:
  explicit OneRound(std::stop_source& stop) : stop_(stop) {}

  Status OnJob(const job::Job& job) override {
    job_ = job;
    parameters_ = std::make_unique<protocol::Parameters>(job.Slices(), protocol::WithoutGradients());
    return {};
  }
  protocol::Parameters* Begin() override { return complete_ ? nullptr : parameters_.get(); }
  void Complete(protocol::Parameters*, Time, bool) override {
    complete_ = true;
    stop_.request_stop();
  }
  void OnConnected(bool connected, const std::string& why) override { why_ = connected ? "" : why; }

  Result<FetchedValues> Take() {
    if (!complete_) {
      return Status(Code::kDeadlineExceeded,
                    "the job's values did not come in time" + (why_.empty() ? "" : ": " + why_));
    }
    FetchedValues fetched{std::move(*job_), {}};
    for (size_t v = 0; v < parameters_->table().variables.size(); ++v) {
      const auto values = parameters_->values(v);
      fetched.variables.emplace_back(values.begin(), values.end());
    }
    return fetched;
  }

 private:
  std::stop_source& stop_;
  std::optional<job::Job> job_;
  std::unique_ptr<protocol::Parameters> parameters_;
  bool complete_ = false;
  std::string why_;
};

}  // namespace

Status Follow(const FollowOptions& options, ValueSink& sink, std::stop_token stop) {
  CoordinatorClientOptions client = options.role.coordinator_client;
  client.join_deadline = std::min(client.join_deadline, kFollowerJoinDeadline);
  FormerNode former{.process = NewProcess()};
  Connected connected(sink);
  Duration pause = kFirstFollowPause;
  std::string said;
  bool ever = false;
  while (!stop.stop_requested()) {
    net::Loop loop;
    Membership membership(loop, client, protocol::Role::kServe, former);
    const Once once = FollowOnce(loop, membership, options, sink, connected, stop);
    if (once.leaves || (!once.joined && stop.stop_requested())) return {};
    if (!once.joined && !ever && Refused(once.status)) return once.status;
    ever = ever || once.accepted;
    if (once.joined) {
      former = membership.AsFormer();
      former.job_hash = 0;  // the job may have been started again, with other settings
    }
    connected.Set(false, once.why);
    if (std::exchange(said, once.why) != once.why)
      spdlog::warn("the job is away, joining again until it is there: {}", once.why);
    if (once.rounds > 0) pause = kFirstFollowPause;
    Pause(pause, stop);
    pause = std::min(2 * pause, kLongestPause);
  }
  return {};
}

Result<FetchedValues> FetchValues(const RoleOptions& options, Duration deadline) {
  std::stop_source stop;
  OneRound sink(stop);
  Status outcome;
  {
    const std::jthread limit([&stop, deadline](const std::stop_token& over) {
      Pause(deadline, over);
      stop.request_stop();
    });
    outcome = Follow({.role = options}, sink, stop.get_token());
  }
  if (!outcome.ok()) return outcome;
  return sink.Take();
}

}  // namespace leat::roles
