#include <unistd.h>

#include "storage/checkpoint/sync.h"

namespace leat::checkpoint {

int SyncData(int fd) {
  return fdatasync(fd);
}

}  // namespace leat::checkpoint
