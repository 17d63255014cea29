#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Majority(size_t votes, size_t electors) {
  return 2 * votes > electors;
}

}  // namespace leat::protocol::guards
