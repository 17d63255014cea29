#include "lab/sim/invariants.h"

namespace leat::sim {

using namespace protocol;

std::string Violation::ToString() const {
  return "violated after " + std::to_string(Seconds(at)) + " s: " + std::string(fields::NameOf(invariant)) +
         ": " + what;
}

std::string NameOf(SliceId slice) {
  return "slice " + leat::ToString(slice);
}

std::string NameOf(const Position& at) {
  return "epoch " + std::to_string(at.epoch) + " offset " + std::to_string(at.offset);
}

std::string NameOf(const SliceRef& ref) {
  return "incarnation " + leat::ToString(ref.incarnation) + " version " + std::to_string(ref.version);
}

std::string Lacks(const std::vector<PartitionLedger>& ledger, const std::vector<Position>& watermark) {
  for (size_t p = 0; p < watermark.size(); ++p) {
    if (p < ledger.size() && ledger[p].done >= watermark[p]) continue;
    return "partition " + std::to_string(p) + " is held up to " +
           (p < ledger.size() ? NameOf(ledger[p].done) : "nowhere") + ", the watermark is at " +
           NameOf(watermark[p]);
  }
  return "";
}

}  // namespace leat::sim
