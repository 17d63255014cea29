#include "run/roles/standby/election.h"

#include <map>
#include <random>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/threads/thread.h"
#include "net/rpc/client.h"
#include "run/launcher/signals.h"
#include "storage/checkpoint/journal.h"
#include "storage/checkpoint/store.h"

namespace leat::roles {
namespace {

constexpr Duration kElectionTurn = std::chrono::milliseconds(20);
// Members give up after a minute without a coordinator.
constexpr Duration kElectionLimit = std::chrono::seconds(90);
// Between questions whether another one has been elected.
constexpr Duration kElectionAsk = std::chrono::seconds(1);

constexpr Duration kLaterTermPause = std::chrono::seconds(3);  // between two questions for a later term

uint64_t RandomSeed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

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

void Election::Withdraw() {
  std::lock_guard lock(mutex_);
  candidate_.reset();
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
  std::string with_commas;
  for (const std::string& address : addresses) with_commas += (with_commas.empty() ? "" : ",") + address;
  const auto client = control::ControlClient::Make(with_commas, options.token, options.tls);
  // A process that is a standby itself refuses.
  const auto reply =
      client->Call(protocol::FollowRequest{.coordinator = coordinator, .term = term}, kDeadline);
  if (!reply.ok()) return std::nullopt;
  const uint64_t found = std::get<protocol::FollowReply>(*reply).term;
  if (!protocol::SameRun(found, term) || found <= term) return std::nullopt;
  return found;
}

LaterTermWatch::LaterTermWatch(net::Loop& loop, BackgroundThread& others, const CoordinatorOptions& options,
                               uint64_t coordinator, uint64_t term,
                               std::function<void(const Status&)> on_replaced)
    : loop_(loop),
      others_(others),
      options_(options),
      coordinator_(coordinator),
      term_(term),
      on_replaced_(std::move(on_replaced)) {}

void LaterTermWatch::OnView(const protocol::View& view) {
  if (auto standbys = view.standbys(); !standbys.empty()) standbys_ = std::move(standbys);
}

void LaterTermWatch::OnTimer(Time now, bool unconfirmed) {
  if (!unconfirmed) {
    asked_ = now;
    return;
  }
  if (now - asked_ <= kLaterTermPause) return;
  asked_ = now;
  if (standbys_.empty()) return;
  others_.Post([this, addresses = standbys_] {
    const auto term = AskForLaterTerm(addresses, coordinator_, term_, options_);
    if (!term) return;
    loop_.Post([this, term] {
      on_replaced_(Status(Code::kStale, "a coordinator of term " + std::to_string(protocol::NumberOf(*term)) +
                                            " has replaced this one"));
    });
  });
}

namespace {

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
