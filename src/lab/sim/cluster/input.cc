// Splits that workers read from elsewhere. A worker reads and decodes one after the other, ahead of its
// training.
#include <algorithm>

#include "lab/sim/cluster/cluster_state.h"

namespace leat::sim {

namespace {

// Splits come in parts, so that they share links with other messages, and the source with other workers.
constexpr uint64_t kChunkBytes = 128 << 10;

}  // namespace

void Cluster::State::ReadNext(const ProcessPtr& p) {
  InputQueue& input = p->input;
  if (input.reading || input.waiting.empty()) return;
  input.reading = true;
  input.unrequested = input.missing =
      static_cast<uint64_t>(options.input.event_bytes * static_cast<double>(input.waiting.front().events));
  if (input.missing == 0) return DecodeSplit(p);
  RequestChunk(p.get());
}

void Cluster::State::RequestChunk(RoleProcess* p) {
  const uint64_t bytes = std::min(kChunkBytes, p->input.unrequested);
  p->input.unrequested -= bytes;
  const LinkQueue::Passage passage = source_link.Take(now(), bytes);
  const Duration latency = options.input.link.latency + p->host->latency;
  const uint32_t index = chunks.Allocate();
  chunks[index] = {p->slot, p->incarnation, bytes, passage.last + latency};
  queue.At(passage.first + latency, kChunkArrives, index);
}

void Cluster::State::OnChunkArrives(uint32_t index) {
  const Chunk& chunk = chunks[index];
  RoleProcess* const p = roles[chunk.slot].get();
  if (p == nullptr || p->incarnation != chunk.incarnation) return chunks.Free(index);
  const Time there = Comes(p, chunk.bytes, chunk.last_byte, Route::kLink);
  // The source sends on while this part arrives.
  if (p->input.unrequested > 0) RequestChunk(p);
  queue.At(there, kChunkDelivered, index);
}

void Cluster::State::OnChunkDelivered(uint32_t index) {
  const Chunk chunk = chunks[index];
  const ProcessPtr p = roles[chunk.slot];
  if (p && now() < p->paused_until) return queue.At(p->paused_until, kChunkDelivered, index);
  chunks.Free(index);
  if (!p || p->incarnation != chunk.incarnation) return;
  p->input.missing -= chunk.bytes;
  if (p->input.missing == 0) DecodeSplit(p);
}

void Cluster::State::OnDecoded(uint32_t index) {
  const Decoding decoding = decodings[index];
  decodings.Free(index);
  const ProcessPtr p = roles[decoding.slot];
  if (!p || p->incarnation != decoding.incarnation) return;
  const uint64_t lease = p->input.waiting.front().lease;
  p->input.waiting.pop_front();
  p->input.reading = false;
  ReadNext(p);
  SplitReady(p, lease);
}

void Cluster::State::SplitReady(const ProcessPtr& p, uint64_t lease) {
  const bool unreadable = Chance(options.faults.split_unreadable);
  if (p->group_member) {
    if (unreadable) return ReadAgain(p, lease);
    return Do(p, p->group_member->machine->OnSplitReady(lease));
  }
  Do(p, unreadable ? p->worker->OnSplitFailed(now(), lease) : p->worker->OnSplitReady(now(), lease));
}

}  // namespace leat::sim
