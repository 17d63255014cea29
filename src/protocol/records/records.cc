#include "protocol/records/journal.h"

#include <algorithm>
#include <set>

#include "base/path/paths.h"
#include "protocol/messages_data.h"

namespace leat::protocol {

static_assert(StrategyConfig::kMaxLanes == StepLane::kMaxWidth);

Status Check(const RoundMade& round) {
  if (round.needed == 0 || round.needed > round.lanes.size())
    return {Code::kInvalidArgument, "needed is " + std::to_string(round.needed) + " of " +
                                        std::to_string(round.lanes.size()) + " lanes"};
  const uint32_t runs = round.lanes.front().assigned.count();
  const bool even = std::ranges::all_of(
      round.lanes, [runs](const RoundMade::Lane& lane) { return lane.assigned.count() == runs; });
  if (runs > 0 && even) return {};
  return {Code::kInvalidArgument, "its lanes do not have as many runs each, of at least one"};
}

Status Check(const PassesPlanned& planned) {
  const auto empty = std::ranges::find_if(planned.partitions, &Passes::empty);
  if (empty == planned.partitions.end()) return {};
  return {Code::kInvalidArgument,
          "partition " + std::to_string(empty - planned.partitions.begin()) + " has no passes"};
}

Status Check(const RateRaised& raised) {
  if (!ValidRate(raised.factor))
    return {Code::kInvalidArgument, "factor is " + std::to_string(raised.factor)};
  if (raised.first.size() == raised.last.size()) return {};
  return {Code::kInvalidArgument, "it begins in " + std::to_string(raised.first.size()) +
                                      " partitions and ends in " + std::to_string(raised.last.size())};
}

Status Check(const LabelsMarked& marked) {
  LabelMark before;
  for (const LabelMark& mark : marked.marks) {
    if (!mark.Follows(before))
      return {Code::kInvalidArgument, "the mark of " + std::to_string(mark.events) +
                                          " events does not follow that of " + std::to_string(before.events)};
    before = mark;
  }
  return {};
}

Status Check(const ScaleSet& scale) {
  if (scale.workers.valid()) return {};
  return {Code::kInvalidArgument, "workers is " + ToString(scale.workers)};
}

Status Check(const ManifestShard& shard) {
  if (IsPlainName(shard.file)) return {};
  return {Code::kInvalidArgument, "'" + shard.file + "' is not a plain file name"};
}

Status Check(const Manifest& manifest) {
  if (!IsPlainName(manifest.directory))
    return {Code::kInvalidArgument, "'" + manifest.directory + "' is not a plain directory name"};
  std::set<SliceId> seen;
  for (const ManifestShard& shard : manifest.shards) {
    for (const auto& [slice, incarnation] : shard.slices) {
      if (!seen.insert(slice).second)
        return {Code::kInvalidArgument, "slice " + std::to_string(slice.value) + " appears twice"};
    }
  }
  return {};
}

std::string PassedOver(const Status& why) {
  return why.message() + "; the checkpoint before it cannot be used either: ";
}

}  // namespace leat::protocol
