#include "protocol/push/rejected_gradients.h"

#include <algorithm>
#include <string>
#include <vector>

namespace leat::protocol {

Status CheckRejected(const Roster& roster, uint32_t limit, uint32_t consecutive,
                     const std::optional<RejectedRun>& last) {
  if (consecutive < std::max(limit, 1u)) return {};
  std::string why = std::to_string(consecutive) + " gradients in a row were not finite";
  const std::string advice = "; lower the learning rate, or set clip_norm in the optimizer";
  if (!last) return {Code::kFailedPrecondition, why + advice};
  const auto& [node, cut, run] = *last;
  why += ": the last by worker ";
  if (const MemberState* const worker = roster.Find(node)) why += std::to_string(worker->member.index) + " ";
  why += "(node " + ToString(node) + ")";
  if (cut.valid() && run < cut.runs()) {
    std::vector<uint32_t> order;
    TrainingOrder(cut, &order);
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(uint64_t{run} * cut.run * cut.batch_size);
    const auto [least, most] =
        std::minmax_element(first, first + static_cast<std::ptrdiff_t>(cut.EventsOf(run)));
    why += ", partition " + std::to_string(cut.partition) + " offsets " +
           std::to_string(cut.begin.offset + *least) + " to " + std::to_string(cut.begin.offset + *most + 1);
  }
  return {Code::kFailedPrecondition, why + advice};
}

}  // namespace leat::protocol
