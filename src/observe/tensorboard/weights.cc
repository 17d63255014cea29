#include "observe/tensorboard/weights.h"

#include "checkpoint/shard.h"
#include "observe/tensorboard/distribution.h"

namespace leat::tensorboard {

Result<std::vector<std::pair<std::string, Histogram>>> WeightHistograms(const std::string& directory,
                                                                        const protocol::Manifest& manifest,
                                                                        const protocol::SliceTable& table) {
  std::vector<Distribution> values(table.variables.size());
  std::vector<float> slice;
  for (const auto& shard : manifest.shards) {
    LEAT_ASSIGN_OR_RETURN(const auto reader,
                          checkpoint::ShardReader::Open(directory + "/" + shard.file, shard.checksum));
    for (const auto& [id, incarnation] : shard.slices) {
      if (id.value >= table.slices.size())
        return Status(Code::kDataLoss, directory + ": has slice " + std::to_string(id.value) +
                                           ", the job has " + std::to_string(table.slices.size()));
      const auto& spec = table.slices[id.value];
      if (table.variables[spec.variable].role == optim::VariableRole::kMoments) continue;
      slice.resize(spec.elements());
      LEAT_RETURN_IF_ERROR(reader->ReadValues(table, id, slice));
      values[spec.variable].Add(slice);
    }
  }
  std::vector<std::pair<std::string, Histogram>> found;
  for (size_t v = 0; v < values.size(); ++v) {
    if (values[v].count() > 0) found.emplace_back(table.variables[v].name, values[v].ToHistogram());
  }
  return found;
}

}  // namespace leat::tensorboard
