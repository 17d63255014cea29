#include "protocol/guards.h"

namespace leat::protocol::guards {

bool SameIncarnation(Incarnation said, Incarnation now) {
  return said == now;
}

}  // namespace leat::protocol::guards
