// Executes a coordinator's actions in order. Actions behind a journal record wait until the record is on
// disk; a background thread writes it, with all others that are waiting by then. Then they wait until
// standbys with directories of their own have it, too (Agreement).
//
// A write that fails is repeated, less and less often, until it succeeds. Meanwhile nothing behind it is
// executed. If another coordinator has taken over, nothing is executed any more. Loop's thread only.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "net/loop.h"
#include "protocol/coordinator/coordinator.h"
#include "run/roles/background_thread.h"

namespace leat::roles {

class CommitQueue {
 public:
  // Runs on the background thread; all records are on disk if it returns ok, else none (write_ahead.h).
  // Without records it is to find out whether another coordinator has taken over. kStale: it has.
  using Write = std::function<Status(std::span<const protocol::JournalRecord>)>;
  // Executes any action except AppendJournal and ConfirmTerm. May call Push.
  using Execute = std::function<void(protocol::CoordinatorAction&)>;
  using OnReplaced = std::function<void(const Status& why)>;
  // Null: what is on disk is agreed.
  struct Agreement {
    // The records are on disk; none: the term is to be confirmed. Returns the position that is to be agreed.
    std::function<uint64_t(std::span<const protocol::JournalRecord>)> on_written;
    std::function<uint64_t()> agreed;
  };

  static constexpr Duration kFirstRetry = std::chrono::milliseconds(100);
  static constexpr Duration kLastRetry = std::chrono::seconds(5);
  // A write that takes longer counts as stalled.
  static constexpr Duration kSlowWrite = std::chrono::seconds(1);

  CommitQueue(
      net::Loop& loop, BackgroundThread& background, Write write, Execute execute,
      OnReplaced on_replaced = [](const Status&) {}, Agreement agreement = {});
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  void Push(protocol::CoordinatorActions actions);
  // More may be agreed.
  void Resume() { Advance(); }
  bool empty() const { return batches_.empty(); }
  // Ok if records are written as usual; else why they are not.
  Status Stalled() const;
  // Gives up: from now on no record is written, and no action waits for one. Members are not told what has
  // waited, except to end. For a job that ends and discards what it has trained since the last checkpoint.
  void Abandon();

 private:
  struct Batch {
    std::vector<protocol::JournalRecord> records;
    bool confirm = false;   // the term, also without records
    uint64_t position = 0;  // position to be agreed, once it is written
    protocol::CoordinatorActions actions;
    bool unwritten() const { return !records.empty() || confirm; }
  };

  void Advance();
  void StartWrite();
  void OnWritten(uint64_t end, const Status& status);
  bool Agreed(const Batch& batch) const;

  net::Loop& loop_;
  BackgroundThread& background_;
  Write write_;
  Execute execute_;
  OnReplaced on_replaced_;
  Agreement agreement_;
  std::deque<Batch> batches_;
  uint64_t first_ = 0;    // number of the first batch
  bool running_ = false;  // Run is on the stack
  bool writing_ = false;  // a write is in progress, or waits to be repeated
  bool abandoned_ = false;
  Time write_started_{0};
  std::optional<Time> disagreed_;  // since when the first batch has been waiting to be agreed
  Duration retry_ = kFirstRetry;
  Status failure_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace leat::roles
