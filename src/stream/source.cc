#include "stream/source.h"

#include <cstring>

namespace leat::stream {

bool Follows(const LabelMark& mark, const LabelMark& last) {
  return mark.events > last.events && mark.labels_begin >= last.labels_begin &&
         mark.labels_end >= last.labels_end;
}

Status Check(const PartitionRange& range) {
  for (size_t i = 1; i < range.marks.size(); ++i) {
    if (!Follows(range.marks[i], range.marks[i - 1]))
      return {Code::kDataLoss, StrCat("marks[", i, "] does not follow the mark before it")};
  }
  return {};
}

size_t IndexOf(std::span<const Attribute> attributes, Attribute::Kind kind) {
  return static_cast<size_t>(std::ranges::find(attributes, kind, &Attribute::kind) - attributes.begin());
}

bool RecordBatch::IsAbsent(size_t record) const {
  const auto after = std::ranges::upper_bound(absent, record, {}, &Absent::begin);
  return after != absent.begin() && record < std::prev(after)->end;
}

std::optional<ByteView> RecordBatch::Value(size_t attribute, size_t record) const {
  if (attribute >= attributes.size() || record >= attributes[attribute].size()) return std::nullopt;
  return attributes[attribute][record];
}

void RecordBatch::Add(ByteView record) {
  data.insert(data.end(), record.begin(), record.end());
  offsets.push_back(data.size());
}

void RecordBatch::Restart(uint32_t of_partition, uint64_t begin) {
  partition = of_partition;
  first_offset = begin;
  offsets.assign(1, 0);
  data.clear();
  lost.clear();
  absent.clear();
  expired = 0;
  attributes.clear();
}

void AttributeValues::Append(std::optional<ByteView> value) {
  if (value) data_.insert(data_.end(), value->begin(), value->end());
  ends_.push_back(data_.size() | (value ? 0 : kNone));
}

std::optional<ByteView> AttributeValues::operator[](size_t record) const {
  if (ends_[record] & kNone) return std::nullopt;
  const uint64_t begin = record == 0 ? 0 : ends_[record - 1] & ~kNone;
  return ByteView(data_).subspan(begin, ends_[record] - begin);
}

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
  return Status(Code::kFailedPrecondition,
                StrCat("partition ", partition, " has no offsets ", begin, " to ", end));
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

Status TimedSource::ReadTimes(uint32_t partition, uint64_t begin, uint64_t end, RecordTimes* times) {
  RecordBatch batch;
  batch.wanted = {{Attribute::Kind::kTimestamp, ""}};
  LEAT_RETURN_IF_ERROR(Read(partition, begin, end, &batch));
  *times = TimesOf(batch, 0);
  return {};
}

std::optional<int64_t> TimeOf(std::optional<ByteView> timestamp) {
  int64_t ms = 0;
  if (!timestamp || timestamp->size() != sizeof(ms)) return std::nullopt;
  std::memcpy(&ms, timestamp->data(), sizeof(ms));
  return ms;
}

RecordTimes TimesOf(const RecordBatch& batch, size_t attribute) {
  RecordTimes times;
  times.reserve(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) times.push_back(TimeOf(batch.Value(attribute, i)));
  return times;
}

}  // namespace leat::stream
