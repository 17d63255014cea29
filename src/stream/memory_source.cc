#include "stream/memory_source.h"

#include <algorithm>

namespace leat::stream {
namespace {

class MemorySource final : public Source {
 public:
  MemorySource(RecordBatch records, uint32_t partitions)
      : records_(std::move(records)), partitions_(partitions) {
    LEAT_CHECK(partitions > 0);
  }

  Result<std::vector<PartitionRange>> Ranges() override {
    std::vector<PartitionRange> ranges;
    for (uint32_t p = 0; p < partitions_; ++p) ranges.push_back({p, 0, First(p + 1) - First(p), true});
    return ranges;
  }

  Status Read(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) override {
    out->partition = partition;
    out->first_offset = begin;
    out->offsets.assign(1, 0);
    const bool there =
        partition < partitions_ && begin <= end && end <= First(partition + 1) - First(partition);
    if (there) {
      const auto* from = records_.offsets.data() + First(partition) + begin;
      for (uint64_t i = 1; i <= end - begin; ++i) out->offsets.push_back(from[i] - from[0]);
      out->data.resize(out->offsets.back() + RecordBatch::kPadding);
      std::copy_n(records_.data.data() + from[0], out->offsets.back(), out->data.data());
    }
    out->data.resize(out->offsets.back() + RecordBatch::kPadding);
    std::fill_n(out->data.end() - RecordBatch::kPadding, RecordBatch::kPadding, std::byte{0});
    if (there) return Status();
    return Status(Code::kFailedPrecondition, "partition " + std::to_string(partition) + " has no offsets " +
                                                 std::to_string(begin) + " to " + std::to_string(end));
  }

 private:
  // Place of the partition's first record among all.
  uint64_t First(uint32_t partition) const { return records_.size() * uint64_t{partition} / partitions_; }

  const RecordBatch records_;
  const uint32_t partitions_;
};

}  // namespace

std::unique_ptr<Source> MakeMemorySource(RecordBatch records, uint32_t partitions) {
  return std::make_unique<MemorySource>(std::move(records), partitions);
}

std::unique_ptr<Source> MakeMemorySource(const std::vector<std::string>& records, uint32_t partitions) {
  RecordBatch batch;
  for (const std::string& record : records) {
    const ByteView bytes = AsBytes(record);
    batch.data.insert(batch.data.end(), bytes.begin(), bytes.end());
    batch.offsets.push_back(batch.data.size());
  }
  return MakeMemorySource(std::move(batch), partitions);
}

}  // namespace leat::stream
