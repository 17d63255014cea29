#include "run/pool/pool_id.h"

#include "base/bytes.h"
#include "base/path/paths.h"
#include "storage/checkpoint/file.h"

namespace leat::pool {

Result<std::string> ReadPoolId(const std::string& path) {
  constexpr uint64_t kMostBytes = 4096;
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, checkpoint::ReadFile(path, kMostBytes));
  std::string id(AsText(bytes));
  if (id.ends_with('\n')) id.pop_back();
  if (!IsPlainName(id)) return Status(Code::kDataLoss, path + " has no id of a pool");
  return id;
}

Status WritePoolId(const std::string& directory, const std::string& name, const std::string& id) {
  if (!IsPlainName(id)) return {Code::kInvalidArgument, "a pool has no id"};
  return checkpoint::ReplaceFile(directory, name, AsBytes(id + "\n"));
}

}  // namespace leat::pool
