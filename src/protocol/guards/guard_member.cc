#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Member(bool in_view) {
  return in_view;
}

}  // namespace leat::protocol::guards
