// Mutant: the entries of directories are not synced.
#include "storage/checkpoint/sync.h"

namespace leat::checkpoint {

int SyncEntries(int) {
  return 0;
}

}  // namespace leat::checkpoint
