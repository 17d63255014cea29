#include "stream/memory_source.h"

namespace leat::stream {
namespace {

class MemorySource final : public NumberedSource {
 public:
  MemorySource(RecordBatch records, uint32_t partitions, uint64_t shared)
      : NumberedSource(records.size(), partitions, shared), records_(std::move(records)) {}

 private:
  void Append(uint64_t begin, uint64_t end, RecordBatch* out) const override {
    const auto* const from = records_.offsets.data() + begin;
    for (uint64_t i = 1; i <= end - begin; ++i) out->offsets.push_back(from[i] - from[0]);
    out->data.reserve(out->offsets.back() + RecordBatch::kPadding);
    const auto bytes = ByteView(records_.data).subspan(from[0], out->offsets.back());
    out->data.insert(out->data.end(), bytes.begin(), bytes.end());
  }

  const RecordBatch records_;
};

}  // namespace

NumberedSource::NumberedSource(uint64_t records, uint32_t partitions, uint64_t shared)
    : records_(records), shared_(shared), partitions_(partitions) {
  LEAT_CHECK(partitions > 0 && shared <= records);
}

uint64_t NumberedSource::First(uint32_t partition) const {
  if (partition >= partitions_) return records_;
  return static_cast<uint64_t>(static_cast<unsigned __int128>(shared_) * partition / partitions_);
}

Result<std::vector<PartitionRange>> NumberedSource::Ranges() {
  std::vector<PartitionRange> ranges;
  for (uint32_t p = 0; p < partitions_; ++p) ranges.push_back({p, 0, First(p + 1) - First(p), true});
  return ranges;
}

Status NumberedSource::Read(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) {
  out->Restart(partition, begin);
  const bool there =
      partition < partitions_ && begin <= end && end <= First(partition + 1) - First(partition);
  if (there) Append(First(partition) + begin, First(partition) + end, out);
  out->data.resize(out->data.size() + RecordBatch::kPadding);
  if (there) return Status();
  return Status(Code::kFailedPrecondition, "partition " + std::to_string(partition) + " has no offsets " +
                                               std::to_string(begin) + " to " + std::to_string(end));
}

std::unique_ptr<Source> MakeMemorySource(RecordBatch records, uint32_t partitions,
                                         std::optional<uint64_t> shared) {
  const uint64_t count = shared.value_or(records.size());
  return std::make_unique<MemorySource>(std::move(records), partitions, count);
}

std::unique_ptr<Source> MakeMemorySource(const std::vector<std::string>& records, uint32_t partitions) {
  RecordBatch batch;
  for (const std::string& record : records) batch.Add(AsBytes(record));
  return MakeMemorySource(std::move(batch), partitions);
}

}  // namespace leat::stream
