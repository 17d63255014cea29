#include "protocol/checkpoints/kept_checkpoints.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include "protocol/records/journal.h"

namespace leat::protocol {

void CheckManifest(const Manifest& manifest, size_t slices, size_t partitions) {
  if (manifest.watermark.size() != partitions) {
    throw std::invalid_argument("checkpoint " + std::to_string(manifest.id) + " has " +
                                std::to_string(manifest.watermark.size()) + " partitions; the stream has " +
                                std::to_string(partitions));
  }
  std::vector<int> copies(slices, 0);
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      if (incarnation.slice.value >= slices || ++copies[incarnation.slice.value] > 1) {
        throw std::invalid_argument("checkpoint " + std::to_string(manifest.id) + " has slice " +
                                    ToString(incarnation.slice) +
                                    " twice, or the job does not have it: " + shard.file);
      }
    }
  }
  const auto lacking = std::find(copies.begin(), copies.end(), 0);
  if (lacking != copies.end()) {
    throw std::invalid_argument("checkpoint " + std::to_string(manifest.id) + " lacks slice " +
                                std::to_string(lacking - copies.begin()));
  }
}

void KeptCheckpoints::Add(Manifest manifest) {
  const uint64_t id = manifest.id;
  newest_ = kept_[id] = std::move(manifest);
  while (kept_.size() > std::max(keep_, 1u)) kept_.erase(kept_.begin());
}

uint64_t KeptCheckpoints::bytes() const {
  uint64_t bytes = 0;
  for (const ManifestShard& shard : newest_->shards) bytes += shard.bytes;
  return bytes;
}

bool KeptCheckpoints::Suspect(const Status& why) {
  if (!newest_) return false;
  if (!suspicion_) {
    suspicion_ = {newest_->id, {}};
    const auto at = kept_.find(newest_->id);
    std::optional<Manifest> before;
    if (at != kept_.begin()) before = std::prev(at)->second;
    outbox_.Request(VerifyCheckpoint{newest_->id, std::move(before)});
  }
  if (suspicion_->why.ok()) suspicion_->why = why;
  return true;
}

KeptCheckpoints::Verdict KeptCheckpoints::OnVerified(uint64_t id, const Status& status, bool stopping) {
  if (!suspicion_ || suspicion_->checkpoint != id) return {};
  const Status why = std::exchange(suspicion_, std::nullopt)->why;
  if (stopping) return {};
  if (status.code() != Code::kDataLoss) {
    // Whatever else it is, another checkpoint would not be read either.
    return {.end = newest_->id == id ? why : Status()};
  }
  kept_.erase(id);
  damage_ += PassedOver(status);
  if (kept_.empty()) return {.end = Status(Code::kDataLoss, damage_ + "this run has made none")};
  if (newest_->id != id) return {};  // a newer one has taken its place
  newest_ = kept_.rbegin()->second;
  return {.replaced = true};
}

}  // namespace leat::protocol
