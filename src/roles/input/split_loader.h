// From a lease to rows in training order: read, decode, shuffle, on a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "protocol/messages_control.h"
#include "roles/background_thread.h"
#include "stream/schema.h"
#include "stream/source.h"

namespace leat::train {

// A split ready to be trained.
struct PreparedSplit {
  protocol::Lease lease;
  stream::DecodedRows rows;
  // Rows of batch i: order[starts[i], starts[i + 1]), good records only.
  std::vector<uint32_t> order;
  std::vector<uint32_t> starts;

  std::span<const uint32_t> Batch(uint32_t i) const {
    return std::span(order).subspan(starts[i], starts[i + 1] - starts[i]);
  }
};

// What a batch's random choices are a function of: its identity, so that whoever trains it makes the same
// ones.
uint64_t RandomSeedOf(const protocol::Cut& cut, uint32_t batch);

// Puts decoded rows into the cut's training order; records that did not decode leave their batch shorter.
void OrderRows(const protocol::Cut& cut, PreparedSplit* split);

// One thread at a time.
class SplitReader {
 public:
  SplitReader(std::unique_ptr<stream::Source> source, const stream::Schema& schema)
      : source_(std::move(source)), decoder_(stream::MakeDecoder(schema)) {}
  // The rows of the cut that `split->lease` names, in training order; the memory of those before is used
  // again.
  Status Read(PreparedSplit* split);

 private:
  std::unique_ptr<stream::Source> source_;
  std::unique_ptr<stream::Decoder> decoder_;
  stream::RecordBatch records_;
};

// Loop's thread only. Splits come in the order asked for.
class SplitLoader {
 public:
  using Done = std::function<void(uint64_t lease, Result<std::unique_ptr<PreparedSplit>>)>;
  // `done` runs on the loop.
  SplitLoader(net::Loop& loop, std::unique_ptr<stream::Source> source, const stream::Schema& schema,
              Done done);
  ~SplitLoader();
  void Prepare(const protocol::Lease& lease);
  // Memory of a split that is done with, to be used again.
  void Recycle(std::unique_ptr<PreparedSplit> split);

 private:
  struct State;
  net::Loop& loop_;
  Done done_;
  std::shared_ptr<State> state_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  BackgroundThread background_;
};

}  // namespace leat::train
