#include "stream/source.h"

#include <algorithm>

namespace leat::stream {

bool RecordBatch::IsAbsent(size_t record) const {
  const auto after = std::ranges::upper_bound(absent, record, {}, &Absent::begin);
  return after != absent.begin() && record < std::prev(after)->end;
}

void RecordBatch::Restart(uint32_t of_partition, uint64_t begin) {
  partition = of_partition;
  first_offset = begin;
  offsets.assign(1, 0);
  data.clear();
  lost.clear();
  absent.clear();
}

}  // namespace leat::stream
