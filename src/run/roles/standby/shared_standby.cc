// A standby with the job's directory (MakeSharedStandby). It takes the job over when the coordinator does not
// answer for a while and nobody has claimed a later term in the directory.
#include "run/roles/standby/standby.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/threads/thread.h"
#include "net/address.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"
#include "run/launcher/signals.h"
#include "run/roles/role.h"
#include "storage/checkpoint/journal.h"
#include "storage/checkpoint/store.h"

namespace leat::roles {
namespace {

constexpr Duration kStandbyInterval = std::chrono::milliseconds(250);  // between keep-alives
// A coordinator is taken for lost after this time without an answer.
constexpr Duration kStandbySilence = std::chrono::seconds(2);
// Each standby waits so much longer than the one before it, so that one of them takes over.
constexpr Duration kStandbyTurn = std::chrono::seconds(1);
constexpr Duration kStandbyJoinRetry = std::chrono::milliseconds(100);
constexpr Duration kStandbyJoinDeadline = std::chrono::seconds(10);

// A member of the job, until it is to take over.
class SharedStandby : public Standby {
 public:
  SharedStandby(const StandbyOptions& options, std::string address)
      : options_(options),
        address_(std::move(address)),
        metrics_(options.coordinator.metrics != nullptr ? options.coordinator.metrics->address() : ""),
        client_(control::ControlClient::Make(options.leader, options.coordinator.token,
                                             options.coordinator.tls)) {}

  Status AwaitTurn() override {
    LEAT_RETURN_IF_ERROR(AwaitLoss());
    spdlog::warn("the coordinator does not answer; this standby takes the job over");
    return {};
  }

 private:
  enum class Found { kLost, kOther, kOver };  // kOther: a coordinator of which it is to be a member

  // Ok: the coordinator is lost. kAborted: the job is over, or a signal came.
  Status AwaitLoss() {
    launcher::SignalWatch signals([this](int) {
      stopped_.Set();
      client_->Abort();
    });
    observe::RoleMetrics* const metrics = options_.coordinator.metrics.get();
    observe::WatchedLoop loop(metrics != nullptr ? &metrics->liveness() : nullptr);
    loop_ = &loop;
    while (true) {
      const auto joined = Join();
      Found found = Found::kLost;
      if (joined.ok()) {
        LEAT_RETURN_IF_ERROR(CheckDirectory(*joined));
        spdlog::info("standby {} joined as node {}", joined->index, joined->node.value);
        term_ = std::max(term_, protocol::NumberOf(joined->term));
        found = Watch(*joined);
      } else {
        if (term_ == 0 || !NoAnswer(joined.status())) return joined.status();
        found = LookForOthers();
      }
      if (found == Found::kOver) return {Code::kAborted, "the job is over"};
      if (found == Found::kLost) return {};
    }
  }

  Result<protocol::JoinReply> Join() {
    const auto request = MakeJoinRequest(protocol::Role::kCoordinator, address_, options_.coordinator.place,
                                         process_, client_->address());
    const Time until = clock_.Now() + kStandbyJoinDeadline;
    while (true) {
      loop_->Turned();
      auto reply = client_->Call(request, std::max<Duration>(until - clock_.Now(), kStandbyJoinRetry));
      Status status = reply.status();
      if (reply.ok()) {
        auto& joined = std::get<protocol::JoinReply>(*reply);
        if (joined.status.ok()) return std::move(joined);
        status = joined.status;
      }
      if (!NoAnswer(status) || clock_.Now() + kStandbyJoinRetry >= until)
        return status.With("cannot join the coordinator at " + options_.leader);
      if (stopped_.Await(kStandbyJoinRetry)) return Status(Code::kAborted, "stopped");
    }
  }

  Status CheckDirectory(const protocol::JoinReply& joined) const {
    const auto job = checkpoint::ReadJob(options_.directory);
    if (!job.ok()) return job.status();
    if (*job == joined.job) return {};
    return {Code::kFailedPrecondition, options_.directory + ": holds another job than the coordinator at " +
                                           client_->address() +
                                           " runs; a standby needs that coordinator's directory"};
  }

  Found Watch(const protocol::JoinReply& joined) {
    const Duration patience = kStandbySilence + joined.index * kStandbyTurn;
    Time heard = clock_.Now();
    Time looked = heard;
    // The first answer has the addresses of the others, one of which may soon be the coordinator.
    do {
      loop_->Turned();
      // A pause of this process says nothing about the coordinator.
      const Time now = clock_.Now();
      if (now - std::exchange(looked, now) > kStandbyInterval + kStandbySilence + kStandbyTurn) heard = now;
      const auto reply =
          client_->Call(protocol::KeepAlive{.node = joined.node, .metrics = metrics_}, kStandbySilence);
      if (reply.ok()) {
        const auto& answer = std::get<protocol::KeepAliveReply>(*reply);
        client_->AddAddresses(answer.standbys);
        if (answer.stop) return Found::kOver;
        if (answer.evicted) return Found::kOther;
        heard = clock_.Now();
      } else if (clock_.Now() - heard >= patience) {
        const Found found = LookForOthers();
        if (found != Found::kOther) return found;
        heard = clock_.Now();
      }
    } while (!stopped_.Await(kStandbyInterval));
    return Found::kOver;
  }

  // The coordinator is silent.
  Found LookForOthers() {
    const auto claimed = checkpoint::NewestClaimed(options_.directory);
    if (!claimed.ok()) return Found::kLost;  // taking over will tell why
    if (claimed->term > term_) {
      term_ = claimed->term;
      return Found::kOther;
    }
    return claimed->ended ? Found::kOver : Found::kLost;
  }

  const StandbyOptions& options_;
  const std::string address_;
  const std::string metrics_;  // as in protocol::KeepAlive
  const MonotonicClock clock_;
  const std::unique_ptr<control::ControlClient> client_;
  observe::WatchedLoop* loop_ = nullptr;  // while it runs
  const uint64_t process_ = NewProcess();
  uint64_t term_ = 0;  // the highest that it knows; 0: it has not joined yet
  StopEvent stopped_;  // a signal came
};

// Nothing listens there before the job is taken over, so that roles that try the address go on at once.
Result<std::string> FindPort(const CoordinatorOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const auto server, control::ControlServer::Start(
                                               options.listen, options.token, [](auto, auto) {},
                                               control::ControlServer::Limits(), options.tls));
  return server->address();
}

}  // namespace

Result<std::unique_ptr<Standby>> MakeSharedStandby(StandbyOptions* options) {
  CoordinatorOptions& coordinator = options->coordinator;
  coordinator.take_over = true;
  LEAT_ASSIGN_OR_RETURN(coordinator.listen, FindPort(coordinator));
  LEAT_ASSIGN_OR_RETURN(std::string address,
                        net::AdvertisedAddress(coordinator.advertise, coordinator.listen));
  return std::unique_ptr<Standby>(std::make_unique<SharedStandby>(*options, std::move(address)));
}

}  // namespace leat::roles
