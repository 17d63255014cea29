#include "storage/transfer/content.h"

#include <fcntl.h>

namespace leat::transfer {

Result<std::shared_ptr<const Content>> FileContent::Open(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(checkpoint::File file, checkpoint::File::Open(path, O_RDONLY));
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
  return std::shared_ptr<const Content>(std::make_shared<FileContent>(std::move(file), size));
}

}  // namespace leat::transfer
