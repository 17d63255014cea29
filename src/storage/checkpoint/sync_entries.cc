#include <unistd.h>

#include "storage/checkpoint/sync.h"

namespace leat::checkpoint {

int SyncEntries(int fd) {
  return fsync(fd);
}

}  // namespace leat::checkpoint
