#include "stream/join/timed_source.h"

#include <cstring>

namespace leat::stream {

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
