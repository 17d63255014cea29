// A worker's input: the job's stream, from its host's own copies or from a feed, and the rows of a lease in
// training order, for which a background thread reads, decodes and shuffles its split. Its errors: dead
// letters, and a stream that cannot be read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/recorder/recorder.h"
#include "base/status.h"
#include "job/job.h"
#include "net/loop.h"
#include "protocol/messages_control.h"
#include "run/feed/client.h"
#include "run/roles/background_thread.h"
#include "run/roles/role.h"
#include "stream/dead_letters.h"
#include "stream/decode/decoder.h"
#include "stream/schema.h"
#include "stream/source.h"

namespace leat::roles {

struct OpenedStream {
  std::unique_ptr<stream::Source> source;
  // Client that the source reads through; null: it reads this host's copies. Abort ends a read in progress.
  std::shared_ptr<feed::Client> feed;
  // Null: dead letters are kept in the job's directory.
  std::shared_ptr<stream::DeadLetterSink> dead_letters;

  void Abort() const {
    if (feed != nullptr) feed->Abort();
  }
  // Adds what was read so far.
  void Count(protocol::WorkerProgress* progress) const;
};

// Opens this host's copies if they are the job's. Otherwise reads from the job's feeds, with a warning that
// names what differs. If there are no feeds either, returns why the copies are not used.
Result<OpenedStream> OpenStream(const job::Job& job, const RoleOptions& options);

// A split that is ready for training.
struct PreparedSplit {
  protocol::Lease lease;
  stream::DecodedRows rows;
  uint64_t bytes = 0;    // size of its records
  uint64_t expired = 0;  // offsets whose records retention has removed
  Duration decoding{};   // how long it took, without the wait for the records
  // The rows of batch i are order[starts[i], starts[i + 1]), without dead letters.
  std::vector<uint32_t> order;
  std::vector<uint32_t> starts;
  // The records' keys, by offset after the cut's begin, if they were asked for. Empty: the source has none.
  stream::AttributeValues keys;

  std::span<const uint32_t> Batch(uint32_t i) const {
    return std::span(order).subspan(starts[i], starts[i + 1] - starts[i]);
  }
};

// The seed of a batch's random choices (dropout). It depends only on the batch, so every worker makes the
// same choices.
uint64_t RandomSeedOf(const protocol::Cut& cut, uint32_t batch);

// Puts decoded rows into the cut's training order. Dead letters make their batch shorter.
void OrderRows(const protocol::Cut& cut, PreparedSplit* split);

// Reads and decodes splits. Not thread-safe.
class SplitReader {
 public:
  // `dead_letters`: null: they are only in what Read returns. `keys`: of the records, for PreparedSplit.
  SplitReader(std::unique_ptr<stream::Source> source, const stream::Schema& schema,
              std::shared_ptr<stream::DeadLetterSink> dead_letters = nullptr, bool keys = false);
  // Reads the rows of the cut that `split->lease` names, in training order, joined with its labels if the job
  // has late labels. Reuses the memory of `split`.
  Status Read(PreparedSplit* split);

 private:
  std::unique_ptr<stream::Source> source_;
  std::unique_ptr<stream::Decoder> decoder_;
  std::shared_ptr<stream::DeadLetterSink> dead_letters_;
  const bool late_labels_;
  std::optional<size_t> keys_;  // index of the key in records_.wanted, if PreparedSplit is to have it
  stream::RecordBatch records_;
};

// Loads splits in the order of the calls of Prepare. Loop's thread only.
class SplitLoader {
 public:
  using Done = std::function<void(uint64_t lease, Result<std::unique_ptr<PreparedSplit>>)>;
  // `done` runs on the loop, once per call of Prepare. `track`: where loads are recorded; null: nowhere.
  SplitLoader(net::Loop& loop, SplitReader reader, Done done, timeline::Track* track = nullptr)
      : loop_(loop), reader_(std::move(reader)), done_(std::move(done)), track_(track) {}
  ~SplitLoader() { *alive_ = false; }
  void Prepare(const protocol::Lease& lease);
  // Returns a finished split, whose memory is reused.
  void Recycle(std::unique_ptr<PreparedSplit> split);

 private:
  // On the background thread.
  Result<std::unique_ptr<PreparedSplit>> Load(const protocol::Lease& lease);

  net::Loop& loop_;
  SplitReader reader_;  // used by the background thread
  Done done_;
  timeline::Track* const track_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PreparedSplit>> spares_;  // guarded by mutex_
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  BackgroundThread background_;  // uses the members above
};

// Counts and keeps dead letters, and decides when to give up on an unreadable stream. Not thread-safe.
class InputErrors {
 public:
  // Missing or damaged data are given up after `read_timeout`, errors that may heal (ExitStatus::kMayHeal)
  // after 60 times as long, others after 6 times as long. Errors are recorded in `progress`, which must
  // outlive this.
  InputErrors(const job::Job& job, Duration read_timeout, protocol::WorkerProgress* progress);

  // Starts to keep dead letters in the job's directory, if it has one.
  void OpenDeadLetters(NodeId node);
  // To be called when a split has been read. kFailedPrecondition: there are too many dead letters.
  Status OnSplit(const PreparedSplit& split);
  // To be called when a split could not be read. Ok: retry after retry_interval(), because the lease may be
  // outdated and its events expired. An error, after repeated failures: the worker ends with it.
  Status OnUnreadable(Time now, uint64_t lease, const Status& why);
  Duration retry_interval() const { return read_timeout_ / 10; }

 private:
  const std::string directory_;  // for dead letters; empty: they are not kept
  const Duration read_timeout_;
  protocol::WorkerProgress* progress_;
  stream::TextHint hint_;
  stream::DeadLetterRate rate_;
  std::unique_ptr<stream::DeadLetterFile> file_;
  std::optional<Time> unreadable_since_;  // first failure since the last successful read
};

}  // namespace leat::roles
