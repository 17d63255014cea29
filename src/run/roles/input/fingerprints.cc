#include "run/roles/input/fingerprints.h"

#include <string>
#include <utility>

namespace leat::roles {

Status CheckFingerprints(stream::Source& source, std::span<const protocol::Fingerprint> taken) {
  for (uint32_t partition = 0; partition < taken.size(); ++partition) {
    const auto& [offset, hash] = taken[partition];
    if (hash == 0) continue;
    LEAT_ASSIGN_OR_RETURN(const uint64_t now, source.Fingerprint(partition, offset));
    if (now == 0 || now == hash) continue;
    return {Code::kDataLoss, "partition " + std::to_string(partition) + " has another record before offset " +
                                 std::to_string(offset) +
                                 " than the one that was trained: the topic was deleted and made again"};
  }
  return {};
}

Result<std::vector<protocol::Fingerprint>> TakeFingerprints(stream::Source& source,
                                                            std::span<const protocol::Position> watermark,
                                                            std::span<const protocol::Fingerprint> last) {
  LEAT_RETURN_IF_ERROR(CheckFingerprints(source, last));
  std::vector<protocol::Fingerprint> taken(last.begin(), last.end());
  taken.resize(watermark.size());
  for (uint32_t partition = 0; partition < watermark.size(); ++partition) {
    const uint64_t offset = watermark[partition].offset;
    if (offset == 0 || offset == taken[partition].offset) continue;
    LEAT_ASSIGN_OR_RETURN(const uint64_t hash, source.Fingerprint(partition, offset));
    if (hash != 0) taken[partition] = {offset, hash};
  }
  return taken;
}

bool FingerprintThread::Take(std::vector<protocol::Position> watermark,
                             std::vector<protocol::Fingerprint> last, Done done) {
  if (busy_.exchange(true)) return false;
  thread_.Post([this, watermark = std::move(watermark), last = std::move(last), done = std::move(done)] {
    auto taken = TakeFingerprints(*source_, watermark, last);
    busy_ = false;
    done(std::move(taken));
  });
  return true;
}

}  // namespace leat::roles
