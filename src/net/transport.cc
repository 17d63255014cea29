#include "net/transport.h"

namespace leat::net {

bool Linger(Loop& loop, const Transport& transport, Duration deadline) {
  loop.RunUntil([&transport] { return transport.lingering() == 0; }, loop.Now() + deadline);
  return transport.lingering() == 0;
}

}  // namespace leat::net
