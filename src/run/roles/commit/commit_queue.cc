#include "run/roles/commit/commit_queue.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

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

CommitQueue::~CommitQueue() {
  *alive_ = false;
}

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

bool CommitQueue::Agreed(const Batch& batch) const {
  return abandoned_ || agreement_.agreed == nullptr || batch.position <= agreement_.agreed();
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

}  // namespace leat::roles
