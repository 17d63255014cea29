// Prefetch hints for a simulator that drives more servers and workers than fit into the cache. They change
// nothing but speed; no role uses them. Measured on 1,000 workers and 20 servers (bench simulator), they save
// a third of the processor time.
//
// Memory is found step by step, so most hints are given in several hops (0, 1, …), each a while after the one
// before: what has arrived by then tells where the next is.
#pragma once

#include <cstdint>

#include "protocol/server/server.h"
#include "protocol/worker/worker.h"

namespace leat::protocol {

class SliceLedgers;

struct PrefetchHints {
  // What the push will be noted in.
  static void Push(const Server& server, const PushRequest& request);
  // What the reply to a push will be handled with.
  static void Reply(const Worker& worker, NodeId server, uint64_t sequence, int hop);
  // What the next pushes are made from.
  static void Pushes(const Worker& worker, int hop);

 private:
  static void Notes(const SliceLedgers& ledgers, uint32_t slice, const Cut& cut);
};

}  // namespace leat::protocol
