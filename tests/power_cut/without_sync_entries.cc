// Mutant: the entries of directories are not synced.
#include "checkpoint/sync.h"

namespace leat::checkpoint {

int SyncEntries(int) {
  return 0;
}

}  // namespace leat::checkpoint
