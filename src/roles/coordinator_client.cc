#include "roles/coordinator_client.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <variant>

namespace leat::roles {
namespace {

// Calls per heartbeat timeout of the coordinator: this many replies in a row may be lost.
constexpr int kCallsInSilence = 4;
constexpr Duration kShortestCall = std::chrono::milliseconds(250);
constexpr Duration kMaxCall = std::chrono::seconds(5);
constexpr Duration kJoinRetry = std::chrono::milliseconds(100);

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
  const Time until = loop_.Now() + options_.join_deadline;
  while (true) {
    const Duration left = until - loop_.Now();
    auto reply = client_->Call(request, std::max(left, Duration(std::chrono::milliseconds(1))));
    if (reply.ok()) {
      auto* join = std::get_if<protocol::JoinReply>(&*reply);
      if (join == nullptr)
        return Status(Code::kDataLoss,
                      "the coordinator at " + options_.coordinator + " sent a reply of the wrong type");
      if (join->status.code() == Code::kUnavailable && loop_.Now() + kJoinRetry < until) {
        std::this_thread::sleep_for(kJoinRetry);
        continue;
      }
      if (!join->status.ok()) return join->status;
      call_deadline_ = std::clamp(join->heartbeat_timeout / kCallsInSilence, kShortestCall, kMaxCall);
      keep_alive_.emplace(client_, KeepAliveThread::Options{.node = join->node,
                                                            .silence = call_deadline_,
                                                            .call_deadline = call_deadline_,
                                                            .progress = progress_});
      return std::move(*join);
    }
    const bool worth_trying =
        reply.status().code() == Code::kUnavailable || reply.status().code() == Code::kDeadlineExceeded;
    if (!worth_trying || loop_.Now() + kJoinRetry >= until) {
      return reply.status().With("cannot join the coordinator at " + options_.coordinator);
    }
    std::this_thread::sleep_for(kJoinRetry);
  }
}

void CoordinatorClient::Send(protocol::ControlRequest request,
                             std::function<void(Result<protocol::ControlReply>)> done) {
  busy_ = true;
  background_.Post([this, alive = alive_, client = client_, request = std::move(request), sent = loop_.Now(),
                    deadline = call_deadline_, done = std::move(done)]() mutable {
    auto reply = client->Call(request, deadline);
    loop_.Post([this, alive, sent, reply = std::move(reply), done = std::move(done)]() mutable {
      if (!*alive) return;
      busy_ = false;
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
