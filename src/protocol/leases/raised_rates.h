// Spans of the stream that are trained with a higher learning rate.
//
// The factor of a batch depends on the journaled spans and on where its cut begins, and on nothing else. A
// batch that is trained again after a failure therefore gets the same rate as before.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/records/journal.h"

namespace leat::protocol {

class RaisedRates {
 public:
  // False if it begins where the last one begins, so that it adds nothing.
  bool Add(RateRaised span);
  // The largest factor of the spans that contain the position; 1 outside of all spans.
  float At(uint32_t partition, Position begin) const;
  float Of(const Cut& cut) const { return At(cut.partition, cut.begin); }
  // Forgets the spans before a watermark that no slice will fall behind.
  void DropBefore(const std::vector<Position>& watermark);
  size_t size() const { return spans_.size(); }

 private:
  std::vector<RateRaised> spans_;
};

}  // namespace leat::protocol
