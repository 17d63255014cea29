#include "run/roles/standby/journal_shipper.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.h"
#include "storage/checkpoint/journal.h"

namespace leat::roles {
namespace {

constexpr Duration kReadAgain = std::chrono::seconds(1);  // a journal that cannot be read

}  // namespace

JournalShipper::JournalShipper(net::Loop& loop, BackgroundThread& background, checkpoint::Store& store,
                               CommitQueue& queue, Options options)
    : loop_(loop),
      background_(background),
      store_(store),
      queue_(queue),
      options_(std::move(options)),
      replication_(options_.begin.config, options_.begin.electorate) {
  replication_.OnCheckpoint(options_.checkpoint);
}

JournalShipper::~JournalShipper() {
  *alive_ = false;
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
  if (const Status good = replication_.OnFollow(loop_.Now(), call, *follow); !good.ok()) {
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
  replication_.OnElector(loop_.Now(), protocol::NodeOf(request), *state);
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
  const uint64_t position = replication_.Append(loop_.Now(), records, encoded);
  // Not from here: the caller goes on with what is agreed.
  loop_.Post([this, alive = alive_] {
    if (*alive) Update();
  });
  return position;
}

void JournalShipper::OnCheckpoint(uint64_t id) {
  replication_.OnCheckpoint(id);
  Update();
}

void JournalShipper::Drop(protocol::DropCheckpoints what) {
  drop_ = std::move(what);
  Update();
}

void JournalShipper::OnTimer() {
  replication_.OnTimer(loop_.Now());
  std::string waits_for = replication_.WaitsFor();
  if (waits_for != waits_for_ && !waits_for.empty()) spdlog::debug("the journal waits for {}", waits_for);
  waits_for_ = std::move(waits_for);
  Update();
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
  background_.Post([this, alive = alive_, &loop = loop_, &store = store_] {
    auto records = std::make_shared<Result<std::vector<protocol::JournalRecord>>>(store.ReadJournal());
    auto frames = std::make_shared<Bytes>();
    if (records->ok()) {
      for (const auto& record : **records)
        protocol::JournalReplication::AppendFrame(checkpoint::EncodePayload(record), frames.get());
    }
    loop.Post([this, alive, records, frames] {
      if (!*alive) return;
      if (!records->ok()) {
        spdlog::error("no standby can get the journal: {}", records->status().ToString());
        loop_.After(kReadAgain, [this, alive] {
          if (!*alive) return;
          replication_.OnSnapshotFailed();
          Update();
        });
        return;
      }
      replication_.OnSnapshot(loop_.Now(), std::move(*frames));
      Update();
    });
  });
}

}  // namespace leat::roles
