#include "protocol/guards.h"

namespace leat::protocol::guards {

bool SameLife(Incarnation said, Incarnation now) {
  return said == now;
}

}  // namespace leat::protocol::guards
