#include "run/roles/standby/journal_shipper.h"

#include <utility>
#include <variant>

#include "base/log.h"
#include "run/roles/standby/standby.h"
#include "storage/checkpoint/journal.h"

namespace leat::roles {
namespace {

constexpr Duration kLaterTermPause = std::chrono::seconds(3);  // between two questions for a later term
constexpr Duration kReadAgain = std::chrono::seconds(1);       // a journal that cannot be read

}  // namespace

JournalShipper::JournalShipper(LoopWork& work, BackgroundThread& background, BackgroundThread& others,
                               checkpoint::Store& store, CommitQueue& queue,
                               const CoordinatorOptions& coordinator, Options options)
    : work_(work),
      background_(background),
      others_(others),
      store_(store),
      queue_(queue),
      coordinator_(coordinator),
      options_(std::move(options)),
      replication_(options_.begin.config, options_.begin.electorate) {
  replication_.OnCheckpoint(options_.checkpoint);
}

bool JournalShipper::Handle(const protocol::ControlRequest& request, Answer& answer) {
  // It comes too late: this coordinator was elected without it.
  if (std::holds_alternative<protocol::Promise>(request)) {
    answer(protocol::PromiseReply{store_.term()});
    return true;
  }
  const auto* follow = std::get_if<protocol::FollowRequest>(&request);
  if (follow == nullptr) return false;
  const uint64_t call = ++last_call_;
  if (const Status good = replication_.OnFollow(Now(), call, *follow); !good.ok()) {
    answer(protocol::Refusal{good});
  } else {
    calls_[call] = std::move(answer);
  }
  Update();
  return true;
}

void JournalShipper::OnHeartbeat(uint64_t call, const protocol::ControlRequest& request) {
  const protocol::ElectorState* state = protocol::ElectorOf(request);
  if (state == nullptr) return;
  electors_[call] = *state;
  // Calls that the coordinator never answers.
  constexpr size_t kMaxCalls = 1 << 17;
  if (electors_.size() > kMaxCalls) electors_.erase(electors_.begin());
  replication_.OnElector(Now(), protocol::NodeOf(request), *state);
  Update();
}

std::optional<protocol::ControlReply> JournalShipper::EarlyReply(uint64_t call,
                                                                 const protocol::ControlRequest& request) {
  const auto at = electors_.find(call);
  const auto set = at == electors_.end() ? std::nullopt : replication_.SetFor(at->second);
  if (!set) return std::nullopt;
  const auto fill = [&](auto reply) -> protocol::ControlReply {
    reply.term = store_.term();
    reply.coordinators = set;
    reply.waiting = true;
    return reply;
  };
  if (std::holds_alternative<protocol::WorkerHeartbeat>(request))
    return fill(protocol::WorkerHeartbeatReply());
  return fill(protocol::ServerHeartbeatReply());
}

void JournalShipper::AddCoordinators(uint64_t call, protocol::ControlReply* reply) {
  const auto state = electors_.extract(call);
  if (state.empty()) return;
  if (auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(reply)) {
    worker->coordinators = replication_.SetFor(state.mapped());
  } else if (auto* server = std::get_if<protocol::ServerHeartbeatReply>(reply)) {
    server->coordinators = replication_.SetFor(state.mapped());
  }
}

uint64_t JournalShipper::OnWritten(std::span<const protocol::JournalRecord> records) {
  std::vector<Bytes> encoded;
  if (replication_.followed()) {
    for (const auto& record : records) encoded.push_back(checkpoint::EncodePayload(record));
  }
  const uint64_t position = replication_.Append(Now(), records, encoded);
  // Not from here: the caller goes on with what is agreed.
  work_.loop().Post([this] { Update(); });
  return position;
}

void JournalShipper::OnTimer() {
  replication_.OnTimer(Now());
  std::string waits_for = replication_.WaitsFor();
  if (waits_for != waits_for_ && !waits_for.empty()) spdlog::debug("the journal waits for {}", waits_for);
  waits_for_ = std::move(waits_for);
  if (!work_.ended()) LookForLaterTerm();
  Update();
}

void JournalShipper::LookForLaterTerm() {
  const Time now = Now();
  const bool unconfirmed = !queue_.Stalled().ok() && !WaitsFor().empty();
  if (unconfirmed && now - asked_ <= kLaterTermPause) return;
  asked_ = now;
  if (!unconfirmed || standbys_.empty()) return;
  const auto ask = [this, addresses = standbys_] {
    return AskForLaterTerm(addresses, options_.begin.config.coordinator, store_.term(), coordinator_);
  };
  work_.Post(others_, ask, [this](std::optional<uint64_t> term) {
    if (!term) return;
    options_.on_replaced(Status(
        Code::kStale,
        "a coordinator of term " + std::to_string(protocol::NumberOf(*term)) + " has replaced this one"));
  });
}

void JournalShipper::Update() {
  if (replaced_) return;
  if (const auto term = replication_.replaced_by()) {
    replaced_ = true;
    options_.on_replaced(Status(
        Code::kStale, "this coordinator, of term " + std::to_string(protocol::NumberOf(store_.term())) +
                          ", was replaced by one of term " + std::to_string(protocol::NumberOf(*term))));
    return;
  }
  for (auto& [call, reply] : replication_.TakeReplies()) {
    const auto at = calls_.extract(call);
    if (at.empty()) continue;
    reply.transfers = options_.transfers;
    at.mapped()(std::move(reply));
  }
  if (replication_.TakeSnapshotWanted()) ReadSnapshot();
  if (auto marker = replication_.TakeMarker()) queue_.Push({protocol::AppendJournal{std::move(*marker)}});
  // The journal is rewritten as it is now, before anything else is written to it.
  const bool settled = queue_.empty() && !replication_.MustKeepJournal();
  if (drop_ && (!replication_.shared() || (settled && replication_.HaveCheckpoint(drop_->oldest_kept)))) {
    replication_.OnDropped(drop_->oldest_kept, drop_->watermark);
    options_.drop(*std::exchange(drop_, std::nullopt));
  }
  queue_.Resume();
}

// Reads the journal behind the background thread's earlier writes: exactly their records are published by
// then.
void JournalShipper::ReadSnapshot() {
  const auto read = [this]() -> Result<Bytes> {
    LEAT_ASSIGN_OR_RETURN(const auto records, store_.ReadJournal());
    Bytes frames;
    for (const auto& record : records)
      protocol::JournalReplication::AppendFrame(checkpoint::EncodePayload(record), &frames);
    return frames;
  };
  work_.Post(background_, read, [this](Result<Bytes> frames) {
    if (frames.ok()) {
      replication_.OnSnapshot(Now(), std::move(*frames));
      return Update();
    }
    spdlog::error("no standby can get the journal: {}", frames.status().ToString());
    work_.loop().After(kReadAgain, [this] {
      replication_.OnSnapshotFailed();
      Update();
    });
  });
}

}  // namespace leat::roles
