#include "protocol/prefetch.h"

#include "base/prefetch.h"
#include "protocol/server/server.h"
#include "protocol/slices/server/slice_ledgers.h"
#include "protocol/worker/worker.h"

namespace leat::protocol {

void PrefetchHints::Push(const Server& server, const PushRequest& request) {
  if (!request.slices.empty())
    LedgerEntry(server.slices_.ledgers(), request.slices[0].slice.value, request.cut);
  // The first cache line of each slice, since slices lie apart in memory.
  for (const SliceRef& ref : request.slices) Prefetch(server.slices_.Alive(ref.slice), 1);
}

void PrefetchHints::LedgerEntry(const SliceLedgers& ledgers, uint32_t slice, const Cut& cut) {
  const auto& class_of = ledgers.class_of_;
  if (slice >= class_of.size() || class_of[slice] == SliceLedgers::kNone) return;
  const auto& partitions = ledgers.classes_[class_of[slice]].ledger.partitions();
  if (cut.partition >= partitions.size()) return;
  const PartitionLedger& partition = partitions[cut.partition];
  const size_t guess = GuessIndex(partition, cut);
  if (guess < partition.open.size()) Prefetch(&partition.open[guess], sizeof(OpenSplit));
}

void PrefetchHints::Reply(const Worker& worker, NodeId server, uint64_t sequence, int hop) {
  if (hop == 0) return Prefetch(&worker.leaving_, Worker::kNearBytes);
  const auto& exchanges = worker.exchanges_.all();
  if (hop == 1 && sequence - worker.exchanges_.first_sequence() < exchanges.size()) {
    Prefetch(&exchanges[sequence - worker.exchanges_.first_sequence()], sizeof(Exchange));
  }
  if (hop != 2) return;
  const Exchange* exchange = worker.exchanges_.Asked(server, sequence);
  if (!exchange) return;
  const size_t slices = exchange->end - exchange->first;
  Prefetch(worker.versions_.known().data() + exchange->first, slices * sizeof(SliceRef));
  if (worker.versions_.stepped())
    Prefetch(worker.versions_.seen().data() + exchange->first, slices * sizeof(SliceVersions::Seen));
}

void PrefetchHints::Pushes(const Worker& worker, int hop) {
  if (hop == 0) return Prefetch(&worker.leaving_, Worker::kNearBytes);
  const auto& exchanges = worker.exchanges_.all();
  if (hop == 1) {
    Prefetch(exchanges.data(), exchanges.size() * sizeof(Exchange));
    Prefetch(worker.versions_.known().data(), worker.versions_.size() * sizeof(SliceRef));
    return;
  }
  for (const Exchange& exchange : exchanges) {
    if (!exchange.request) continue;
    if (hop == 2) {
      Prefetch(exchange.request.get(), sizeof(PushRequest));
      Prefetch(exchange.member, sizeof(Member));
    }
    if (hop == 3)
      Prefetch(exchange.request->slices.data(), exchange.request->slices.size() * sizeof(SliceRef));
  }
}

}  // namespace leat::protocol
