#include "protocol/guards.h"

namespace leat::protocol::guards {

bool OnReplica(bool acknowledged) {
  return acknowledged;
}

}  // namespace leat::protocol::guards
