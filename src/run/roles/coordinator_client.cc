#include "run/roles/coordinator_client.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/threads/thread.h"
#include "protocol/topology/topology_settings.h"
#include "run/roles/role.h"

namespace leat::roles {
namespace {

// Calls per heartbeat timeout of the coordinator: this many replies in a row may be lost.
constexpr int kCallsInSilence = 4;
constexpr Duration kShortestCall = std::chrono::milliseconds(250);
constexpr Duration kMaxCall = std::chrono::seconds(5);
constexpr Duration kJoinRetry = std::chrono::milliseconds(100);
// A coordinator that cannot be reached is waited for so many times as long as one that refuses for a while.
constexpr int kAwayDeadlines = 6;
constexpr const char* kToldToLeave = "told to leave before it had joined the job";

}  // namespace

// Sends protocol::KeepAlive whenever the coordinator has answered nothing for `silence`, the limit of a call.
// Failed calls are repeated after `silence`. While heartbeats are answered it sends a few at the beginning,
// and then one every kMeasure, which also report the round trip to the coordinator.
class CoordinatorClient::KeepAliveThread {
 public:
  // `round_trips`: of the calls so far.
  KeepAliveThread(CoordinatorClient& owner, NodeId node, const topology::RoundTrips& round_trips)
      : client_(owner.client_),
        progress_(owner.progress_),
        node_(node),
        silence_(owner.call_deadline_),
        last_answer_(clock_.Now()),
        round_trips_(round_trips),
        thread_(StartThread([this] { Run(); })) {}
  // Waits for a call that is under way: Abort() on the client ends it.
  ~KeepAliveThread() {
    stop_.Set();
    thread_.join();
  }

  // The coordinator has answered a heartbeat. Thread-safe.
  void OnAnswer() { last_answer_.store(clock_.Now(), std::memory_order_relaxed); }

 private:
  static constexpr Duration kMeasure = std::chrono::seconds(10);

  void Run() {
    Time due = clock_.Now() + silence_, measure = due;
    while (!stop_.Await(std::max(due - clock_.Now(), Duration::zero()))) {
      if (const Time next = last_answer_.load(std::memory_order_relaxed) + silence_;
          clock_.Now() < std::min(next, measure)) {
        due = std::min(next, measure);
        continue;
      }
      const Time sent = clock_.Now();
      const auto reply = client_->Call(
          protocol::KeepAlive{
              .node = node_, .progress = progress_->kernels(), .round_trip = round_trips_.least()},
          silence_);
      if (reply.ok()) {
        OnAnswer();
        round_trips_.Add(clock_.Now() - sent);
        if (round_trips_.added() >= topology::RoundTrips::kLast) measure = clock_.Now() + kMeasure;
      }
      due = clock_.Now() + silence_;
    }
  }

  const std::shared_ptr<control::ControlClient> client_;
  const std::shared_ptr<const engine::Progress> progress_;
  const NodeId node_;
  const Duration silence_;
  const MonotonicClock clock_;
  std::atomic<Time> last_answer_;  // to a heartbeat or a keep-alive
  topology::RoundTrips round_trips_;
  StopEvent stop_;
  std::thread thread_;
};

CoordinatorClient::CoordinatorClient(net::Loop& loop, CoordinatorClientOptions options,
                                     std::shared_ptr<const engine::Progress> progress)
    : loop_(loop),
      options_(std::move(options)),
      client_(control::ControlClient::Make(options_.coordinator, options_.token, options_.tls)),
      progress_(std::move(progress)),
      call_deadline_(kMaxCall) {}

CoordinatorClient::~CoordinatorClient() {
  *alive_ = false;
  client_->Abort();
}

Result<protocol::JoinReply> CoordinatorClient::JoinAgain(const protocol::JoinRequest& request,
                                                         Duration call_deadline, protocol::Promises* former) {
  call_deadline_ = call_deadline;
  return JoinUntil(request, loop_.Now() + std::max(options_.join_deadline, options_.silence_limit), former);
}

void CoordinatorClient::AbortJoin() {
  const std::lock_guard lock(join_mutex_);
  if (joining_ == Joining::kJoined) return;
  joining_ = Joining::kAborted;
  client_->AbortUnsent(true);
}

bool CoordinatorClient::JoinAborted() {
  const std::lock_guard lock(join_mutex_);
  return joining_ == Joining::kAborted;
}

// True once a coordinator has answered that acts.
bool CoordinatorClient::Vote(protocol::Role role, protocol::Promises* former) {
  const auto reply = client_->Call(former->MakeHeartbeat(role), call_deadline_);
  if (!reply.ok()) return !NoAnswer(reply.status());
  const auto* candidacy = std::get_if<protocol::Candidacy>(&*reply);
  // A coordinator that was just elected waits for its electors; this member may be one of them.
  if (candidacy == nullptr) return former->OnReply(*reply);
  // If the promise is lost, the next heartbeat asks for it again.
  const auto taken = client_->Call(former->OnCandidacy(*candidacy), call_deadline_);
  return !taken.ok() && !NoAnswer(taken.status());
}

Result<protocol::JoinReply> CoordinatorClient::JoinUntil(protocol::JoinRequest request, Time until,
                                                         protocol::Promises* former) {
  topology::RoundTrips round_trips;
  // An absent coordinator is waited for as long as while the job runs: it may be started again, and wait for
  // others itself.
  const Time until_back = std::max(
      until, loop_.Now() + std::min(options_.silence_limit, kAwayDeadlines * options_.join_deadline));
  bool said = false;
  while (true) {
    if (JoinAborted()) return Status(Code::kAborted, kToldToLeave);
    if (former != nullptr && loop_.Now() + kJoinRetry < until && !Vote(request.role, former)) {
      std::this_thread::sleep_for(kJoinRetry);
      continue;
    }
    const Duration left = std::max<Duration>(until_back - loop_.Now(), std::chrono::milliseconds(1));
    const Time sent = loop_.Now();
    auto reply = client_->Call(
        request, std::min<Duration>(left, former != nullptr ? kMaxCall : options_.join_deadline));
    if (reply.ok()) {
      round_trips.Add(loop_.Now() - sent);
      request.round_trip = round_trips.least();
      request.attempts = static_cast<uint32_t>(round_trips.added());
      auto* join = std::get_if<protocol::JoinReply>(&*reply);
      if (join == nullptr)
        return Status(Code::kDataLoss,
                      "the coordinator at " + options_.coordinator + " sent a reply of the wrong type");
      if (join->status.code() == Code::kUnavailable && loop_.Now() + kJoinRetry < until) {
        std::this_thread::sleep_for(kJoinRetry);
        continue;
      }
      if (!join->status.ok()) return join->status;
      {
        const std::lock_guard lock(join_mutex_);
        joining_ = Joining::kJoined;
        client_->AbortUnsent(false);
      }
      call_deadline_ = std::clamp(join->heartbeat_timeout / kCallsInSilence, kShortestCall, kMaxCall);
      keep_alive_ = std::make_unique<KeepAliveThread>(*this, join->node, round_trips);
      return std::move(*join);
    }
    if (JoinAborted()) return Status(Code::kAborted, kToldToLeave);
    if (!NoAnswer(reply.status()) || loop_.Now() + kJoinRetry >= until_back) {
      return reply.status().With("cannot join the coordinator at " + options_.coordinator);
    }
    if (!std::exchange(said, true))
      spdlog::warn("waits for the coordinator at {}: {}", options_.coordinator, reply.status().message());
    std::this_thread::sleep_for(kJoinRetry);
  }
}

void CoordinatorClient::Send(protocol::ControlRequest request,
                             std::function<void(Result<protocol::ControlReply>)> done) {
  ++calls_;
  background_.Post([this, alive = alive_, client = client_, request = std::move(request), sent = loop_.Now(),
                    deadline = call_deadline_, done = std::move(done)]() mutable {
    auto reply = client->Call(request, deadline);
    loop_.Post([this, alive, sent, reply = std::move(reply), done = std::move(done)]() mutable {
      if (!*alive) return;
      --calls_;
      if (reply.ok()) {
        failing_since_.reset();
        if (keep_alive_ != nullptr) keep_alive_->OnAnswer();
      } else if (!failing_since_) {
        failing_since_ = sent;
      }
      done(std::move(reply));
    });
  });
}

}  // namespace leat::roles
