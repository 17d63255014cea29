#include "roles/input/split_loader.h"

#include "base/rng.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace leat::roles {
namespace {

constexpr uint32_t kNoRow = ~uint32_t{0};

}  // namespace

uint64_t RandomSeedOf(const protocol::Cut& cut, uint32_t batch) {
  return Mix(Mix(Mix(Mix(cut.hash, cut.begin.epoch), cut.partition), cut.begin.offset), batch);
}

void OrderRows(const protocol::Cut& cut, PreparedSplit* split) {
  std::vector<uint32_t> row_of(cut.events(), kNoRow);
  for (uint32_t row = 0; row < split->rows.index.size(); ++row) row_of[split->rows.index[row]] = row;
  std::vector<uint32_t> training;
  protocol::TrainingOrder(cut, &training);
  split->order.clear();
  split->starts.assign(1, 0);
  for (uint32_t batch = 0; batch < cut.batches(); ++batch) {
    const size_t end = std::min<size_t>(training.size(), size_t{batch + 1} * cut.batch_size);
    for (size_t k = size_t{batch} * cut.batch_size; k < end; ++k) {
      if (row_of[training[k]] != kNoRow) split->order.push_back(row_of[training[k]]);
    }
    split->starts.push_back(static_cast<uint32_t>(split->order.size()));
  }
}

Status SplitReader::Read(PreparedSplit* split) {
  const auto& cut = split->lease.cut;
  LEAT_RETURN_IF_ERROR(source_->Read(cut.partition, cut.begin.offset, cut.end, &records_));
  split->rows.clear();
  decoder_->Decode(records_, &split->rows);
  OrderRows(cut, split);
  return {};
}

// Used by the background thread only, except for the spare splits.
struct SplitLoader::State {
  State(std::unique_ptr<stream::Source> source, const stream::Schema& schema)
      : reader(std::move(source), schema) {}

  SplitReader reader;
  std::mutex mutex;
  std::vector<std::unique_ptr<PreparedSplit>> spares;

  Result<std::unique_ptr<PreparedSplit>> Load(const protocol::Lease& lease) {
    std::unique_ptr<PreparedSplit> split;
    {
      std::lock_guard lock(mutex);
      if (!spares.empty()) {
        split = std::move(spares.back());
        spares.pop_back();
      }
    }
    if (split == nullptr) split = std::make_unique<PreparedSplit>();
    split->lease = lease;
    LEAT_RETURN_IF_ERROR(reader.Read(split.get()));
    return split;
  }
};

SplitLoader::SplitLoader(net::Loop& loop, std::unique_ptr<stream::Source> source,
                         const stream::Schema& schema, Done done)
    : loop_(loop), done_(std::move(done)), state_(std::make_shared<State>(std::move(source), schema)) {}

SplitLoader::~SplitLoader() {
  *alive_ = false;
}

void SplitLoader::Prepare(const protocol::Lease& lease) {
  background_.Post([this, lease, alive = alive_, state = state_] {
    auto split = state->Load(lease);
    auto shared = std::make_shared<Result<std::unique_ptr<PreparedSplit>>>(std::move(split));
    loop_.Post([this, alive, id = lease.id, shared] {
      if (*alive) done_(id, std::move(*shared));
    });
  });
}

void SplitLoader::Recycle(std::unique_ptr<PreparedSplit> split) {
  constexpr size_t kSpares = 3;
  std::lock_guard lock(state_->mutex);
  if (state_->spares.size() < kSpares) state_->spares.push_back(std::move(split));
}

}  // namespace leat::roles
