// Finds out that a topic was deleted and made again under its name: its offsets would count as trained,
// although other records have them.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "protocol/coordinator/coordinator.h"
#include "stream/source.h"

namespace leat::roles {

// kDataLoss: a partition has another record than when one of these was taken; the message names it. Those
// that retention has removed since cannot be compared. Blocks as Source::Fingerprint does, once for each
// partition.
Status CheckFingerprints(stream::Source& source, std::span<const protocol::Fingerprint> taken);

// The fingerprints at the watermark, or the last ones where the source knows none. Checks the last ones
// first.
Result<std::vector<protocol::Fingerprint>> TakeFingerprints(stream::Source& source,
                                                            std::span<const protocol::Position> watermark,
                                                            std::span<const protocol::Fingerprint> last);

}  // namespace leat::roles
