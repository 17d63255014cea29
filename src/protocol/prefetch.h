// Prefetch hints for a simulator with more servers and workers than fit into the cache. They affect only
// speed, and no role uses them. With 1,000 workers and 20 servers (bench simulator) they save a third of the
// CPU time.
//
// Most hints take several hops (0, 1, …), some time apart: the memory fetched by one hop contains the address
// for the next.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace leat::protocol {

class Server;
class SliceLedgers;
class Worker;
struct Cut;
struct PushRequest;

struct PrefetchHints {
  // Prefetches the ledger entry and the slices that recording the push will access.
  static void Push(const Server& server, const PushRequest& request);
  // Prefetches the worker's memory that handling the reply to a push will access.
  static void Reply(const Worker& worker, NodeId server, uint64_t sequence, int hop);
  // Prefetches the worker's memory that making the next pushes will access.
  static void Pushes(const Worker& worker, int hop);

 private:
  static void LedgerEntry(const SliceLedgers& ledgers, uint32_t slice, const Cut& cut);
};

}  // namespace leat::protocol
