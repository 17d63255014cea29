// Sources whose records have a time, in milliseconds since 1970, as those of Kafka have.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "stream/source.h"

namespace leat::stream {

// The time of a record that is absent, or has none, is empty.
using RecordTimes = std::vector<std::optional<int64_t>>;

class TimedSource : public Source {
 public:
  // The first offset of a partition whose record has this time or a later one: every record before it is
  // earlier. The partition's end if there is none.
  virtual Result<uint64_t> FirstSince(uint32_t partition, int64_t time_ms) = 0;
  // Replaces `times` by those of the records [begin, end). The errors are those of Read. Sources that can do
  // without the records' bytes override it.
  virtual Status ReadTimes(uint32_t partition, uint64_t begin, uint64_t end, RecordTimes* times);
};

// The value of a timestamp (Attribute::Kind::kTimestamp).
std::optional<int64_t> TimeOf(std::optional<ByteView> timestamp);
// The timestamps of a batch, which are the attribute with this index.
RecordTimes TimesOf(const RecordBatch& batch, size_t attribute);

}  // namespace leat::stream
