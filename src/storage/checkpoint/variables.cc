#include "storage/checkpoint/variables.h"

#include "storage/checkpoint/shard.h"
#include "storage/checkpoint/store.h"

namespace leat::checkpoint {

Result<std::vector<std::vector<float>>> ReadVariables(const std::string& directory,
                                                      const protocol::Manifest& manifest,
                                                      const protocol::SliceTable& table) {
  std::vector<std::vector<float>> variables;
  for (const auto& variable : table.variables) {
    variables.emplace_back(static_cast<size_t>(variable.shape.elements()));
  }
  const std::string path = directory + "/" + manifest.directory;
  std::vector<bool> read(table.slices.size());
  for (const auto& shard : manifest.shards) {
    LEAT_ASSIGN_OR_RETURN(const auto reader, ShardReader::Open(path + "/" + shard.file, shard.checksum));
    for (const auto& slice_incarnation : shard.slices) {
      const uint32_t id = slice_incarnation.slice.value;
      if (id >= table.slices.size()) {
        return Status(Code::kFailedPrecondition, path + ": has slice " + std::to_string(id) +
                                                     ", the job has " + std::to_string(table.slices.size()));
      }
      const auto& spec = table.slices[id];
      const auto out = std::span(variables[spec.variable]).subspan(spec.begin, spec.elements());
      LEAT_RETURN_IF_ERROR(reader->ReadValues(table, slice_incarnation.slice, out));
      read[id] = true;
    }
  }
  for (size_t id = 0; id < read.size(); ++id) {
    if (!read[id]) return Status(Code::kDataLoss, path + ": slice " + std::to_string(id) + " is in no shard");
  }
  return variables;
}

Result<NewestVariables> ReadNewestVariables(const std::string& directory, const protocol::SliceTable& table) {
  LEAT_ASSIGN_OR_RETURN(const IntactCheckpoint newest, ReadIntact(directory));
  if (!newest.manifest) return Status(Code::kNotFound, directory + ": there is no complete checkpoint");
  LEAT_ASSIGN_OR_RETURN(auto variables, ReadVariables(directory, *newest.manifest, table));
  return NewestVariables{std::move(variables), UsedInstead(newest)};
}

}  // namespace leat::checkpoint
