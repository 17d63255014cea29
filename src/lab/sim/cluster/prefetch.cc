// A thousand workers have tens of megabytes of state, so the data of each message is no longer in the cache.
// Since events are known some time ahead, many cache lines can be fetched in parallel instead of waiting for
// one after the other. Each hop loads the addresses for the next.
#include "base/prefetch.h"
#include "lab/sim/cluster/cluster_state.h"
#include "protocol/prefetch.h"

namespace leat::sim {

namespace {

// The part of a process that each message needs.
constexpr size_t kProcessBytes = 128;

}  // namespace

void Cluster::State::PrefetchEvent(const EventQueue::Event& event, int hop) {
  if (event.kind == kComputed) {
    if (hop == 0) return Prefetch(&computations[event.what], sizeof(Computation));
    return PrefetchForComputed(computations[event.what], hop);
  }
  if (event.kind != kArrive && event.kind != kDeliver) return;
  const Message& message = messages[event.what];
  if (hop == 0) return Prefetch(&message, sizeof(message));
  if (hop == 1) Prefetch(roles[message.from].get(), kProcessBytes);
  if (const RoleProcess* const p = roles[message.from].get(); hop == 2 && p)
    Prefetch(p->host, sizeof(HostState));
  if (!message.back) return PrefetchForPush(message, hop);
  if (event.kind == kDeliver) PrefetchForReply(message, hop);
}

void Cluster::State::PrefetchForPush(const Message& message, int hop) {
  const PushRequest& request = *message.request;
  if (hop == 1) {
    Prefetch(&request, sizeof(request));
    Prefetch(message.way, sizeof(Connection));
    Prefetch(message.reply.slices.data(), message.reply.slices.capacity() * sizeof(SliceReply));
  } else if (hop == 2) {
    Prefetch(request.slices.data(), request.slices.size() * sizeof(SliceRef));
  } else if (const uint32_t slot = address_slots[message.address_id].slot;
             hop == 3 && slot != AddressSlot::kNobody) {
    PrefetchHints::Push(*roles[slot]->server, request);
  }
}

void Cluster::State::PrefetchForReply(const Message& message, int hop) {
  const RoleProcess* const p = roles[message.from].get();
  if (!p || p->incarnation != message.from_incarnation || message.failed) return;
  const PushRequest& request = *message.request;
  if (hop == 1) {
    Prefetch(&request, sizeof(request));
    Prefetch(message.way, sizeof(Connection));
    Prefetch(message.reply.slices.data(), message.reply.slices.size() * sizeof(SliceReply));
  } else {
    if (hop == 2) Prefetch(request.slices.data(), request.slices.size() * sizeof(SliceRef));
    PrefetchHints::Reply(*p->worker, message.way->server, request.sequence, hop - 2);
  }
}

void Cluster::State::PrefetchForComputed(const Computation& computation, int hop) {
  const RoleProcess* const p = roles[computation.slot].get();
  if (hop == 1) return Prefetch(p, kProcessBytes);
  if (p && p->worker) PrefetchHints::Pushes(*p->worker, hop - 2);
}

}  // namespace leat::sim
