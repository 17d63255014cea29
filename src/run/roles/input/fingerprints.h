// Finds out that a topic was deleted and made again under its name: its offsets would count as trained,
// although other records have them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "protocol/records/manifest.h"
#include "run/roles/background_thread.h"
#include "stream/source.h"

namespace leat::roles {

// kDataLoss: a partition has another record than when one of these was taken; the message names it. Records
// that retention has removed since cannot be compared. Blocks as Source::Fingerprint does, once for each
// partition.
Status CheckFingerprints(stream::Source& source, std::span<const protocol::Fingerprint> taken);

// The fingerprints at the watermark, or the last ones where the source knows none. Checks the last ones
// first.
Result<std::vector<protocol::Fingerprint>> TakeFingerprints(stream::Source& source,
                                                            std::span<const protocol::Position> watermark,
                                                            std::span<const protocol::Fingerprint> last);

// Takes fingerprints on a thread of its own: of a thousand partitions they take many seconds. Thread-safe.
class FingerprintThread {
 public:
  using Done = std::function<void(Result<std::vector<protocol::Fingerprint>>)>;

  explicit FingerprintThread(std::unique_ptr<stream::Source> source) : source_(std::move(source)) {}
  // Calls `done` on the thread with the outcome of TakeFingerprints. False: nothing is done, because the
  // fingerprints before are not taken yet.
  bool Take(std::vector<protocol::Position> watermark, std::vector<protocol::Fingerprint> last, Done done);

 private:
  const std::unique_ptr<stream::Source> source_;
  std::atomic<bool> busy_ = false;
  BackgroundThread thread_;  // uses the members above
};

}  // namespace leat::roles
