#include "protocol/guards.h"

namespace leat::protocol::guards {

bool IsMember(bool in_view) {
  return in_view;
}

}  // namespace leat::protocol::guards
