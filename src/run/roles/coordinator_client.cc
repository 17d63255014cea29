#include "run/roles/coordinator_client.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <variant>

#include "base/log.h"
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

Result<protocol::JoinReply> CoordinatorClient::Join(const protocol::JoinRequest& request) {
  return JoinUntil(request, loop_.Now() + options_.join_deadline, nullptr);
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
      keep_alive_.emplace(client_, KeepAliveThread::Options{.node = join->node,
                                                            .silence = call_deadline_,
                                                            .call_deadline = call_deadline_,
                                                            .progress = progress_,
                                                            .round_trips = round_trips});
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
        if (keep_alive_) keep_alive_->OnAnswer();
      } else if (!failing_since_) {
        failing_since_ = sent;
      }
      done(std::move(reply));
    });
  });
}

bool CoordinatorClient::lost() const {
  return failing_since_ && loop_.Now() - *failing_since_ > options_.silence_limit;
}

}  // namespace leat::roles
