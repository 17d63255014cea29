// A topic in memory whose records have keys and times, for tests.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stream/source.h"

namespace leat::stream {

struct MemoryTopic {
  struct Record {
    std::optional<std::string> key;
    std::optional<int64_t> time;
    std::string value = "{}";
    bool absent = false;
  };
  struct Partition {
    std::vector<Record> records;
    uint64_t begin = 0;   // records before it have expired
    std::string unasked;  // PartitionRange::unasked
  };
  std::vector<Partition> partitions;
  bool sealed = false;
  uint64_t reads = 0;                   // records that were read, times apart
  std::optional<uint64_t> fails_after;  // the call after so many more fails
  std::function<void()> before_times;   // called before times are read

  void Append(uint32_t partition, Record record) {
    partitions.at(partition).records.push_back(std::move(record));
  }
};

// Any number of them can have the same topic.
class MemoryTimedSource final : public TimedSource {
 public:
  explicit MemoryTimedSource(std::shared_ptr<MemoryTopic> topic) : topic_(std::move(topic)) {}

  Result<std::vector<PartitionRange>> Ranges() override {
    LEAT_RETURN_IF_ERROR(Fail());
    std::vector<PartitionRange> ranges;
    for (uint32_t p = 0; p < topic_->partitions.size(); ++p)
      ranges.push_back({p, Of(p).begin, Of(p).records.size(), topic_->sealed, {}, Of(p).unasked});
    return ranges;
  }
  Status Read(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) override {
    out->Restart(partition, begin);
    out->data.resize(RecordBatch::kPadding);
    LEAT_RETURN_IF_ERROR(Check(partition, begin, end));
    out->data.clear();
    out->attributes.resize(out->wanted.size());
    for (uint64_t o = begin; o < end; ++o) Append(Of(partition).records[o], o - begin, out);
    out->data.resize(out->data.size() + RecordBatch::kPadding);
    topic_->reads += end - begin;
    return {};
  }
  Result<uint64_t> FirstSince(uint32_t partition, int64_t time_ms) override {
    LEAT_RETURN_IF_ERROR(Fail());
    const auto& records = Of(partition).records;
    for (uint64_t o = Of(partition).begin; o < records.size(); ++o) {
      if (records[o].time && *records[o].time >= time_ms && !records[o].absent) return o;
    }
    return records.size();
  }
  Status ReadTimes(uint32_t partition, uint64_t begin, uint64_t end, RecordTimes* times) override {
    if (topic_->before_times) topic_->before_times();
    const uint64_t before = topic_->reads;
    const Status read = TimedSource::ReadTimes(partition, begin, end, times);
    topic_->reads = before;
    return read;
  }

 private:
  MemoryTopic::Partition& Of(uint32_t partition) { return topic_->partitions.at(partition); }
  Status Fail() {
    if (!topic_->fails_after || (*topic_->fails_after)-- > 0) return {};
    topic_->fails_after.reset();
    return {Code::kUnavailable, "no broker"};
  }
  Status Check(uint32_t partition, uint64_t begin, uint64_t end) {
    LEAT_RETURN_IF_ERROR(Fail());
    if (partition >= topic_->partitions.size() || begin > end || end > Of(partition).records.size())
      return {Code::kFailedPrecondition, "no such records"};
    if (begin < end && begin < Of(partition).begin) return {Code::kNotFound, "expired"};
    return {};
  }
  static void Append(const MemoryTopic::Record& record, uint64_t index, RecordBatch* out) {
    if (record.absent) out->absent.push_back({index, index + 1});
    if (!record.absent) {
      const ByteView value = AsBytes(record.value);
      out->data.insert(out->data.end(), value.begin(), value.end());
    }
    out->offsets.push_back(out->data.size());
    for (size_t i = 0; i < out->wanted.size(); ++i) {
      std::optional<ByteView> value;
      if (!record.absent && out->wanted[i].kind == Attribute::Kind::kKey && record.key)
        value = AsBytes(*record.key);
      if (!record.absent && out->wanted[i].kind == Attribute::Kind::kTimestamp && record.time)
        value = AsBytes(std::string_view(reinterpret_cast<const char*>(&*record.time), sizeof(int64_t)));
      out->attributes[i].Append(value);
    }
  }

  const std::shared_ptr<MemoryTopic> topic_;
};

}  // namespace leat::stream
