#include "protocol/records/manifest.h"

#include <set>

#include "base/path/paths.h"
#include "protocol/records/recovered_state.h"

namespace leat::protocol {

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
