#include "stream/publish/publish.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"

namespace leat::stream {
namespace {

// Limits of the records that are handed over at a time.
constexpr uint64_t kTurn = 32'768;
constexpr uint64_t kTurnBytes = 4 << 20;
constexpr uint64_t kFirstTurn = 256;  // their size is not known yet
// A paced publisher wakes up this often, and less often if no record is due.
constexpr Duration kTick = std::chrono::milliseconds(10);

class Publisher {
 public:
  Publisher(Source& rows, TopicWriter& writer, const PublishOptions& options, const PublishHooks& hooks)
      : rows_(rows), writer_(writer), options_(options), hooks_(hooks), parts_(writer.partitions()) {}

  Status Run(Published* done) {
    LEAT_ASSIGN_OR_RETURN(const auto ranges, rows_.Ranges());
    total_ = ranges.at(0).end;
    if (options_.shuffle) {
      order_.resize(total_);
      Permutation(std::span(order_), *options_.shuffle);
    }
    const Status status = PublishAll();
    *done = Done();
    return status;
  }

 private:
  // Without the records that are on their way, or have failed.
  Published Done() const {
    Published done = sent_;
    done.records -= std::min(done.records, writer_.waiting());
    return done;
  }

  Status PublishAll() {
    const Time start = hooks_.clock.Now();
    while (sent_.records < total_ && !hooks_.stopped()) {
      const uint64_t due = Due(hooks_.clock.Now() - start);
      if (due == 0) {
        hooks_.wait(std::max<Duration>(kTick, NextDue() - (hooks_.clock.Now() - start)));
        continue;
      }
      LEAT_RETURN_IF_ERROR(PublishNext(due));
      hooks_.progress(Done());
    }
    return writer_.Flush();
  }

  // Records to publish now, after this time.
  uint64_t Due(Duration elapsed) const {
    uint64_t most = kFirstTurn;
    if (sent_.bytes > 0) most = std::clamp<uint64_t>(kTurnBytes * sent_.records / sent_.bytes, 1, kTurn);
    uint64_t end = total_;
    if (options_.rate > 0) {
      const double by_now = Seconds(elapsed) * options_.rate;
      if (by_now < static_cast<double>(total_)) end = static_cast<uint64_t>(by_now);
    }
    return std::min(most, end - std::min(end, sent_.records));
  }
  // When the next record is due.
  Duration NextDue() const { return FromSeconds(static_cast<double>(sent_.records + 1) / options_.rate); }

  // Publishes the next records: each partition's together.
  Status PublishNext(uint64_t count) {
    LEAT_RETURN_IF_ERROR(Read(sent_.records, count));
    keys_.resize(count);
    for (auto& part : parts_) part.clear();
    for (size_t i = 0; i < count; ++i) Place(i);
    for (uint32_t partition = 0; partition < parts_.size(); ++partition) {
      const auto& part = parts_[partition];
      if (part.empty()) continue;
      LEAT_RETURN_IF_ERROR(writer_.Send(partition, part));
      sent_.records += part.size();
      for (const TopicRecord& record : part) sent_.bytes += record.value.size();
    }
    return {};
  }

  // Puts a record of the turn into its partition.
  void Place(size_t i) {
    TopicRecord record{.value = AsText(batch_[i])};
    // Numbers of this run: the place in the file, unless it is shuffled.
    auto partition = static_cast<uint32_t>((sent_.records + i) % parts_.size());
    if (options_.key != nullptr) {
      if (const auto key = options_.key->Find(batch_[i])) {
        record.key = keys_[i] = *key;
        partition = PartitionOfKey(record.key, writer_.partitions());
      } else {
        ++sent_.without_key;
      }
    }
    parts_[partition].push_back(record);
  }

  Status Read(uint64_t begin, uint64_t count) {
    if (order_.empty()) return rows_.Read(0, begin, begin + count, &batch_);
    batch_.Restart(0, begin);
    for (uint64_t i = begin; i < begin + count; ++i) {
      LEAT_RETURN_IF_ERROR(rows_.Read(0, order_[i], order_[i] + 1, &one_));
      batch_.Add(one_[0]);
    }
    batch_.data.resize(batch_.data.size() + RecordBatch::kPadding);
    return {};
  }

  Source& rows_;
  TopicWriter& writer_;
  const PublishOptions& options_;
  const PublishHooks& hooks_;
  uint64_t total_ = 0;
  std::vector<uint64_t> order_;  // order of the records, if it is random
  Published sent_;
  // State of the current turn.
  RecordBatch batch_, one_;
  std::vector<std::string> keys_;
  std::vector<std::vector<TopicRecord>> parts_;  // by partition
};

}  // namespace

Status Publish(Source& rows, TopicWriter& writer, const PublishOptions& options, const PublishHooks& hooks,
               Published* done) {
  return Publisher(rows, writer, options, hooks).Run(done);
}

}  // namespace leat::stream
