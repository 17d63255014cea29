#include "run/roles/commit/commit_queue.h"

#include <algorithm>
#include <string>

#include "base/log.h"

namespace leat::roles {
namespace {

// Tells a member to do something, other than to end.
bool TellsMember(const protocol::CoordinatorAction& action) {
  const auto* reply = std::get_if<protocol::Reply>(&action);
  if (reply == nullptr) return false;
  const auto tells = [](const auto* told) { return told != nullptr && !told->stop && !told->evicted; };
  return tells(std::get_if<protocol::WorkerHeartbeatReply>(&reply->reply)) ||
         tells(std::get_if<protocol::ServerHeartbeatReply>(&reply->reply));
}

}  // namespace

CommitQueue::CommitQueue(net::Loop& loop, BackgroundThread& background, Write write, Execute execute,
                         OnReplaced on_replaced, Agreement agreement)
    : loop_(loop),
      background_(background),
      write_(std::move(write)),
      execute_(std::move(execute)),
      on_replaced_(std::move(on_replaced)),
      agreement_(std::move(agreement)) {}

void CommitQueue::Push(protocol::CoordinatorActions actions) {
  if (actions.empty()) return;
  Batch batch;
  for (auto& action : actions) {
    if (auto* journal = std::get_if<protocol::AppendJournal>(&action)) {
      if (!abandoned_) batch.records.push_back(std::move(journal->record));
    } else if (std::holds_alternative<protocol::ConfirmTerm>(action)) {
      batch.confirm = !abandoned_;
    } else {
      batch.actions.push_back(std::move(action));
    }
  }
  // A confirmation alone is dropped while batches wait: they are going to find out the same.
  if (batch.records.empty() && batch.actions.empty() && !batches_.empty()) return;
  batches_.push_back(std::move(batch));
  Advance();
}

void CommitQueue::Advance() {
  if (running_) return;
  running_ = true;
  bool waits = false;
  const uint64_t before = first_;
  while (!batches_.empty() && !batches_.front().unwritten()) {
    waits = !Agreed(batches_.front());
    if (waits) break;
    Batch batch = std::move(batches_.front());
    batches_.pop_front();
    ++first_;
    for (auto& action : batch.actions) execute_(action);
  }
  if (!waits || first_ != before) disagreed_.reset();
  if (waits && !disagreed_) disagreed_ = loop_.Now();
  if (!writing_ && std::ranges::any_of(batches_, &Batch::unwritten)) StartWrite();
  running_ = false;
}

void CommitQueue::StartWrite() {
  if (!writing_ || failure_.ok()) write_started_ = loop_.Now();
  writing_ = true;
  std::vector<protocol::JournalRecord> records;
  for (const Batch& batch : batches_)
    records.insert(records.end(), batch.records.begin(), batch.records.end());
  // The queue may be gone when the write ends.
  background_.Post([this, alive = alive_, &loop = loop_, write = write_, end = first_ + batches_.size(),
                    records = std::move(records)] {
    Status status = write(records);
    loop.Post([this, alive, end, status = std::move(status)] {
      if (*alive) OnWritten(end, status);
    });
  });
}

void CommitQueue::OnWritten(uint64_t end, const Status& status) {
  if (abandoned_) return;
  if (status.code() == Code::kStale) {
    batches_.clear();
    return on_replaced_(status);
  }
  if (!status.ok()) {
    if (failure_.message() != status.message())
      spdlog::error("the journal cannot be written: {}", status.message());
    failure_ = status;
    loop_.After(retry_, [this, alive = alive_] {
      if (*alive && !abandoned_) StartWrite();
    });
    retry_ = std::min(2 * retry_, kLastRetry);
    return;
  }
  if (!failure_.ok()) spdlog::info("the journal is written again");
  failure_ = Status();
  retry_ = kFirstRetry;
  std::vector<protocol::JournalRecord> written;
  const auto count = static_cast<std::ptrdiff_t>(end - first_);
  for (auto batch = batches_.begin(); batch != batches_.begin() + count; ++batch)
    written.insert(written.end(), batch->records.begin(), batch->records.end());
  const uint64_t position = agreement_.on_written == nullptr ? 0 : agreement_.on_written(written);
  for (auto batch = batches_.begin(); batch != batches_.begin() + count; ++batch) {
    if (batch->unwritten()) batch->position = position;
    batch->records.clear();
    batch->confirm = false;
  }
  writing_ = false;
  Advance();
}

Status CommitQueue::Stalled() const {
  if (failure_.ok() && disagreed_ && loop_.Now() - *disagreed_ >= kSlowWrite)
    return Status(Code::kUnavailable, "it waits for a standby");
  if (!failure_.ok() || !writing_) return failure_;
  const Duration took = loop_.Now() - write_started_;
  if (took < kSlowWrite) return Status();
  return Status(Code::kUnavailable,
                "a write has taken " + std::to_string(static_cast<int64_t>(Seconds(took))) + " s so far");
}

void CommitQueue::Abandon() {
  abandoned_ = true;
  writing_ = false;
  failure_ = Status();
  for (Batch& batch : batches_) {
    batch.records.clear();
    batch.confirm = false;
    // Another coordinator may go on without these records.
    std::erase_if(batch.actions, TellsMember);
  }
  Advance();
}

Status WriteAhead(stream::Source& source, checkpoint::Store& store,
                  std::span<const protocol::JournalRecord> records) {
  std::map<uint32_t, uint64_t> ends;  // by partition
  const auto add = [&ends](uint32_t partition, uint64_t end) {
    ends[partition] = std::max(ends[partition], end);
  };
  for (const auto& record : records) {
    if (const auto* made = std::get_if<protocol::CutsMade>(&record)) {
      for (const auto& cut : made->cuts) add(cut.partition, cut.end);
    } else if (const auto* round = std::get_if<protocol::RoundMade>(&record)) {
      for (const auto& lane : round->lanes) add(lane.cut.partition, lane.cut.end);
    } else if (const auto* marked = std::get_if<protocol::LabelsMarked>(&record)) {
      for (const auto& mark : marked->marks) add(marked->partition, mark.events);
    }
  }
  for (const auto& [partition, end] : ends) LEAT_RETURN_IF_ERROR(source.Sync(partition, end));
  return store.AppendJournal(records);
}

void StalledReplies::OnReply(uint64_t call, const protocol::ControlReply& reply) {
  const auto server = calls_.extract(call);
  if (!server) return;
  // A member of another run is evicted, whatever its node.
  const auto* const sent = std::get_if<protocol::ServerHeartbeatReply>(&reply);
  if (sent == nullptr || sent->evicted) return;
  last_[server.mapped()] = *sent;
  last_[server.mapped()].record.reset();
}

bool StalledReplies::Strip(const protocol::ControlRequest& request, bool knows_coordinator, bool may_end,
                           protocol::ControlReply* reply) const {
  auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(reply);
  auto* server = std::get_if<protocol::ServerHeartbeatReply>(reply);
  // A member is not sent away by a coordinator that may have been replaced.
  const auto ends = [](const auto* told) { return told != nullptr && (told->evicted || told->stop); };
  if (!may_end && (ends(worker) || ends(server))) return false;
  if (worker != nullptr) {
    *worker = {
        .term = worker->term, .evicted = worker->evicted, .stop = worker->stop, .revoked = worker->revoked};
    return true;
  }
  if (server != nullptr)
    return StripServer(std::get<protocol::ServerHeartbeat>(request), knows_coordinator, server);
  if (auto* feed = std::get_if<protocol::FeedHeartbeatReply>(reply)) {
    feed->drain = false;
    return true;
  }
  if (auto* serve = std::get_if<protocol::ServeHeartbeatReply>(reply)) {
    serve->drain = false;
    serve->view = {};
    return true;
  }
  return std::holds_alternative<protocol::BotsHeartbeatReply>(*reply) ||
         std::holds_alternative<protocol::JobReply>(*reply);
}

bool StalledReplies::StripServer(const protocol::ServerHeartbeat& heartbeat, bool knows_coordinator,
                                 protocol::ServerHeartbeatReply* reply) const {
  if (reply->evicted || reply->stop || !knows_coordinator) return true;
  const auto last = last_.find(heartbeat.node);
  if (last == last_.end()) return false;  // it has not been told its slices
  *reply = last->second;
  reply->view = {};
  reply->checkpoint.reset();
  // It keeps the slices that have arrived: they may be its own by now.
  for (const protocol::MoveReport& move : heartbeat.moves) reply->incoming.push_back(move.id);
  return true;
}

}  // namespace leat::roles
