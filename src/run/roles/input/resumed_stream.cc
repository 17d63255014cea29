#include "run/roles/input/resumed_stream.h"

#include <algorithm>
#include <stdexcept>

namespace leat::roles {

Status PinStream(const job::Job& job, stream::Source& source, const protocol::RecoveredState& restored,
                 const std::vector<stream::PartitionRange>& ranges) {
  const auto from = [&](const std::vector<protocol::Position>& watermark, size_t p) {
    // With more epochs to come, every event will be wanted again.
    const bool once = restored.manifest && job.stream->epochs == 1 && p < watermark.size();
    return once ? std::max(ranges[p].begin, watermark[p].offset) : ranges[p].begin;
  };
  for (size_t p = 0; p < ranges.size(); ++p) {
    const uint32_t partition = ranges[p].partition;
    Status pinned = source.Pin(job.PinOwner(), partition, from(restored.oldest_watermark, p));
    if (pinned.code() == Code::kNotFound && restored.manifest)
      pinned = source.Pin(job.PinOwner(), partition, from(restored.manifest->watermark, p));
    LEAT_RETURN_IF_ERROR(pinned);
  }
  return {};
}

void WithDamage(const checkpoint::IntactCheckpoint& found, const std::function<void()>& check) {
  try {
    check();
  } catch (const std::invalid_argument& error) {
    if (found.damaged.empty()) throw;
    throw std::invalid_argument(checkpoint::NoneLeft(found.damaged, error.what()));
  }
}

}  // namespace leat::roles
