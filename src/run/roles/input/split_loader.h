// A worker's input: the job's stream, from its host's own copies or from a feed, and the rows of a lease in
// training order, for which a background thread reads, decodes and shuffles its split.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/recorder/recorder.h"
#include "job/job.h"
#include "net/loop.h"
#include "protocol/messages_control.h"
#include "run/feed/client.h"
#include "run/roles/background_thread.h"
#include "run/roles/role.h"
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
  SplitLoader(net::Loop& loop, SplitReader reader, Done done, timeline::Track* track = nullptr);
  ~SplitLoader();
  void Prepare(const protocol::Lease& lease);
  // Returns a finished split, whose memory is reused.
  void Recycle(std::unique_ptr<PreparedSplit> split);

 private:
  struct State;
  // On the background thread.
  Result<std::unique_ptr<PreparedSplit>> Record(State& state, const protocol::Lease& lease);

  net::Loop& loop_;
  Done done_;
  timeline::Track* const track_;
  std::shared_ptr<State> state_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  BackgroundThread background_;
};

}  // namespace leat::roles
