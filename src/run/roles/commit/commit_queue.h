// Requests of members, the actions that follow from them, and the journal, which comes before the replies.
// Loop's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "net/loop.h"
#include "protocol/messages_control.h"
#include "protocol/outbox/outbox.h"
#include "protocol/records/journal.h"
#include "run/roles/background_thread.h"
#include "storage/checkpoint/store.h"
#include "stream/source.h"

namespace leat::roles {

// Executes a coordinator's actions in order. Actions behind a journal record wait until the record is on
// disk; a background thread writes it, with all others that are waiting by then. Then they wait until
// standbys with directories of their own have it, too (Agreement).
//
// A write that fails is repeated, less and less often, until it succeeds. Meanwhile nothing behind it is
// executed. If another coordinator has taken over, nothing is executed any more.
class CommitQueue {
 public:
  // Runs on the background thread; all records are on disk if it returns ok, else none (WriteAhead).
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
  ~CommitQueue() { *alive_ = false; }
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
  bool Agreed(const Batch& batch) const {
    return abandoned_ || agreement_.agreed == nullptr || batch.position <= agreement_.agreed();
  }

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

// Syncs the stream up to the ends of the records' cuts and label marks, then appends the records to the
// journal. The journal thus never names an offset that a power failure can take from the stream. Labels are
// the source's business: it marks only those that are on disk. Blocks. After a failure the journal has none
// of the records, and the call can be repeated.
Status WriteAhead(stream::Source& source, checkpoint::Store& store,
                  std::span<const protocol::JournalRecord> records);

// Requests of members that are not answered yet.
class OpenCalls {
 public:
  using Answer = std::function<void(protocol::ControlReply)>;
  struct Call {
    Answer answer;
    std::optional<protocol::JoinRequest> join;  // none: the request is another one
    // A heartbeat of a member that has not heard of this coordinator yet, but of a former one of the job.
    bool former = false;
  };
  // `term`: this coordinator's.
  explicit OpenCalls(uint64_t term) : term_(term) {}

  // Returns the number of the call.
  uint64_t Open(const protocol::ControlRequest& request, Answer answer) {
    Call& call = calls_[++last_];
    call.answer = std::move(answer);
    if (const auto* join = std::get_if<protocol::JoinRequest>(&request)) call.join = *join;
    const uint64_t term = protocol::TermOf(request);
    call.former = term != 0 && term < term_ && protocol::SameRun(term, term_);
    return last_;
  }
  bool IsFormer(uint64_t number) const {
    const auto call = calls_.find(number);
    return call != calls_.end() && call->second.former;
  }
  // The reply that comes later is dropped.
  void AnswerEarly(uint64_t number, protocol::ControlReply reply) {
    std::exchange(calls_[number].answer, [](const protocol::ControlReply&) {})(std::move(reply));
  }
  // None: there is no such call, or it has been closed.
  std::optional<Call> Close(uint64_t number) {
    auto call = calls_.extract(number);
    if (call.empty()) return std::nullopt;
    return std::move(call.mapped());
  }

 private:
  const uint64_t term_;
  std::map<uint64_t, Call> calls_;
  uint64_t last_ = 0;
};

// Replies to heartbeats while the journal cannot be written: they say nothing that depends on a record which
// is not on disk. They change nothing, so that members do not take the coordinator for lost.
class StalledReplies {
 public:
  // The coordinator is going to answer the server's heartbeat, which knows this coordinator.
  void OnServer(uint64_t call, NodeId node) { calls_[call] = node; }
  // The reply is sent. The last one to each server is kept.
  void OnReply(uint64_t call, const protocol::ControlReply& reply);
  // Forgets servers that are no members.
  void OnView(const protocol::View& view) {
    std::erase_if(last_, [&](const auto& server) { return view.Find(server.first) == nullptr; });
  }

  // Removes what depends on the journal from a reply. `knows_coordinator`: the member has heard of this
  // coordinator. `may_end`: the reply may send the member away, because no other coordinator can have taken
  // over. False: the request gets its reply later.
  bool Strip(const protocol::ControlRequest& request, bool knows_coordinator, bool may_end,
             protocol::ControlReply* reply) const;

 private:
  bool StripServer(const protocol::ServerHeartbeat& heartbeat, bool knows_coordinator,
                   protocol::ServerHeartbeatReply* reply) const;

  std::map<uint64_t, NodeId> calls_;  // heartbeats of servers that are not answered yet
  std::map<NodeId, protocol::ServerHeartbeatReply> last_;
};

}  // namespace leat::roles
