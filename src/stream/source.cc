#include "stream/source.h"

#include <algorithm>

namespace leat::stream {

bool Follows(const LabelMark& mark, const LabelMark& last) {
  return mark.events > last.events && mark.labels_begin >= last.labels_begin &&
         mark.labels_end >= last.labels_end;
}

Status Check(const PartitionRange& range) {
  for (size_t i = 1; i < range.marks.size(); ++i) {
    if (!Follows(range.marks[i], range.marks[i - 1]))
      return {Code::kDataLoss, "marks[" + std::to_string(i) + "] does not follow the mark before it"};
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

void AttributeValues::FillTo(size_t records) {
  if (ends_.size() < records) ends_.resize(records, data_.size() | kNone);
}

std::optional<ByteView> AttributeValues::operator[](size_t record) const {
  if (ends_[record] & kNone) return std::nullopt;
  const uint64_t begin = record == 0 ? 0 : ends_[record - 1] & ~kNone;
  return ByteView(data_).subspan(begin, ends_[record] - begin);
}

}  // namespace leat::stream
