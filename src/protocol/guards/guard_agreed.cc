#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Agreed(bool all_have_it) {
  return all_have_it;
}

}  // namespace leat::protocol::guards
