#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Unsealed(bool sealed_before) {
  return !sealed_before;
}

}  // namespace leat::protocol::guards
