#include "run/roles/standby/standby.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/text.h"
#include "base/threads/thread.h"
#include "net/address.h"
#include "net/rpc/client.h"
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

// A standby with the job's directory: a member of the job, until it is to take over. It does so when the
// coordinator does not answer for a while and nobody has claimed a later term in the directory.
class SharedStandby {
 public:
  SharedStandby(const StandbyOptions& options, std::string address)
      : options_(options),
        address_(std::move(address)),
        metrics_(options.coordinator.metrics != nullptr ? options.coordinator.metrics->address() : ""),
        client_(control::ControlClient::Make(options.leader, options.coordinator.token,
                                             options.coordinator.tls)) {}

  // As AwaitElection.
  Status AwaitTurn() {
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
    LEAT_ASSIGN_OR_RETURN(const auto job, checkpoint::ReadJob(options_.directory));
    if (job == joined.job) return {};
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

constexpr Duration kElectionTurn = std::chrono::milliseconds(20);
// Members give up after a minute without a coordinator.
constexpr Duration kElectionLimit = std::chrono::seconds(90);
// Between questions whether another one has been elected.
constexpr Duration kElectionAsk = std::chrono::seconds(1);

uint64_t RandomSeed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// The addresses of the standbys in a journal.
std::vector<std::string> StandbysIn(const std::vector<protocol::JournalRecord>& records) {
  std::map<NodeId, std::string> standbys;
  for (const auto& record : records) {
    if (const auto* joined = std::get_if<protocol::MemberJoined>(&record);
        joined != nullptr && joined->member.role == protocol::Role::kCoordinator) {
      standbys[joined->member.node] = joined->member.address;
    } else if (const auto* left = std::get_if<protocol::MembersLeft>(&record)) {
      for (const NodeId node : left->nodes) standbys.erase(node);
    }
  }
  std::vector<std::string> addresses;
  for (const auto& [node, address] : standbys) addresses.push_back(address);
  return addresses;
}

}  // namespace

Status RunStandby(StandbyOptions options) {
  CoordinatorOptions& coordinator = options.coordinator;
  coordinator.resume = true;
  std::optional<SharedStandby> shared;
  if (!options.own_directory) {
    coordinator.take_over = true;
    {
      // Nothing listens there before the job is taken over, so that roles that try the address go on at once.
      LEAT_ASSIGN_OR_RETURN(const auto server, control::ControlServer::Start(
                                                   coordinator.listen, coordinator.token, [](auto, auto) {},
                                                   control::ControlServer::Limits(), coordinator.tls));
      coordinator.listen = server->address();
    }
    LEAT_ASSIGN_OR_RETURN(std::string address,
                          net::AdvertisedAddress(coordinator.advertise, coordinator.listen));
    shared.emplace(options, std::move(address));
  }
  while (true) {
    const Status turn = shared ? shared->AwaitTurn() : AwaitElection(&options);
    if (turn.code() == Code::kAborted) {
      spdlog::info("{}", turn.message());
      return {};
    }
    LEAT_RETURN_IF_ERROR(turn);
    const Status outcome = RunCoordinator(options.load(), coordinator);
    if (outcome.code() != Code::kStale) return outcome;
    spdlog::warn("{}; this one is a standby again", outcome.message());
  }
}

Result<std::unique_ptr<Election>> Election::Start(const CoordinatorOptions& options) {
  std::unique_ptr<Election> made(new Election());
  LEAT_ASSIGN_OR_RETURN(
      made->server_, control::ControlServer::Start(
                         options.listen, options.token,
                         [election = made.get()](const protocol::ControlRequest& request,
                                                 const std::function<void(protocol::ControlReply)>& answer) {
                           answer(election->Answer(request));
                         },
                         control::ControlServer::Limits(), options.tls));
  return made;
}

void Election::Stand(protocol::CandidateConfig config, protocol::Electorate electorate) {
  config.seed = RandomSeed();
  std::lock_guard lock(mutex_);
  candidate_.emplace(config, std::move(electorate));
}

Election::Outcome Election::Look() {
  std::lock_guard lock(mutex_);
  if (!candidate_) return {};
  candidate_->OnTimer(clock_.Now());
  return {candidate_->elected(), candidate_->excluded()};
}

protocol::ControlReply Election::Answer(const protocol::ControlRequest& request) {
  const protocol::Refusal standby{Status(Code::kUnavailable, "this is a standby, not the coordinator")};
  std::lock_guard lock(mutex_);
  if (!candidate_) return standby;
  if (const auto* promise = std::get_if<protocol::Promise>(&request)) {
    candidate_->OnPromise(*promise);
    return protocol::PromiseReply{candidate_->term()};
  }
  // Its heartbeats are to stay at this address while it is asked.
  if (std::holds_alternative<protocol::KeepAlive>(request)) return protocol::KeepAliveReply();
  const auto* state = protocol::ElectorOf(request);
  if (state == nullptr) return standby;
  const auto candidacy =
      candidate_->OnCall(clock_.Now(), true, protocol::NodeOf(request), protocol::TermOf(request), *state);
  if (!candidacy) return standby;
  return *candidacy;
}

std::optional<uint64_t> AskForLaterTerm(const std::vector<std::string>& addresses, uint64_t coordinator,
                                        uint64_t term, const CoordinatorOptions& options) {
  constexpr Duration kDeadline = std::chrono::milliseconds(500);
  const auto client = control::ControlClient::Make(Joined(addresses, ","), options.token, options.tls);
  // A process that is a standby itself refuses.
  const auto reply =
      client->Call(protocol::FollowRequest{.coordinator = coordinator, .term = term}, kDeadline);
  if (!reply.ok()) return std::nullopt;
  const uint64_t found = std::get<protocol::FollowReply>(*reply).term;
  if (!protocol::SameRun(found, term) || found <= term) return std::nullopt;
  return found;
}

Result<uint64_t> ElectRestarted(const std::string& directory, protocol::Role elector_role,
                                const CoordinatorOptions& options) {
  protocol::CandidateConfig config;
  protocol::Electorate electorate(elector_role);
  std::vector<std::string> others;
  {
    // Its coordinator may still be alive: nothing is locked.
    LEAT_ASSIGN_OR_RETURN(const std::string newest, checkpoint::NewestTerm(directory));
    LEAT_ASSIGN_OR_RETURN(const checkpoint::JournalContents journal, checkpoint::ReadJournal(newest));
    LEAT_ASSIGN_OR_RETURN(const checkpoint::HighestTerm highest, checkpoint::FindHighestTerm(directory));
    others = StandbysIn(journal.records);
    bool shared = highest.copy;
    for (const auto& record : journal.records) {
      shared = shared || std::holds_alternative<protocol::JournalAgreed>(record);
      electorate.OnRecord(0, record);
    }
    // A coordinator that has ended in order has told its standbys.
    LEAT_ASSIGN_OR_RETURN(const checkpoint::Claimed claimed, checkpoint::NewestClaimed(directory));
    if (!shared || claimed.ended) return uint64_t{0};
    LEAT_ASSIGN_OR_RETURN(config.coordinator, checkpoint::CoordinatorNumber(directory));
    LEAT_ASSIGN_OR_RETURN(const uint32_t run, checkpoint::ReadRun(directory));
    config.founder = !highest.copy;
    config.term = protocol::MakeTerm(run, highest.number);
  }
  LEAT_ASSIGN_OR_RETURN(const auto election, Election::Start(options));
  spdlog::info("standbys may have the journal, too: asking the members for their promises at {}",
               election->address());
  election->Stand(config, std::move(electorate));
  StopEvent stopped;
  launcher::SignalWatch signals([&](int) { stopped.Set(); });
  const MonotonicClock clock;
  const Time until = clock.Now() + kElectionLimit;
  Time ask = clock.Now() + kElectionAsk;
  while (!stopped.Await(kElectionTurn)) {
    const Election::Outcome outcome = election->Look();
    if (outcome.elected) return protocol::NumberOf(*outcome.elected);
    bool replaced = outcome.excluded;
    if (!replaced && !others.empty() && clock.Now() >= ask) {
      replaced = AskForLaterTerm(others, config.coordinator, config.term, options).has_value();
      ask = clock.Now() + kElectionAsk;
    }
    if (replaced) {
      return Status(Code::kStale, directory +
                                      ": another coordinator has taken the job over since, and this "
                                      "directory lacks what it has done");
    }
    if (clock.Now() >= until) {
      return Status(Code::kUnavailable,
                    directory + ": no majority of the job's " +
                        (elector_role == protocol::Role::kServer ? "servers" : "workers") +
                        " has called within " + std::to_string(static_cast<int>(Seconds(kElectionLimit))) +
                        " s, and another coordinator may have taken over; if no process of the job is alive "
                        "any more, resume with --new-members");
    }
  }
  return Status(Code::kAborted, "stopped");
}

}  // namespace leat::roles
