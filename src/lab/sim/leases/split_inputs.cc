#include "lab/sim/leases/split_inputs.h"

#include <algorithm>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

// Splits come in parts, so that they share links with other messages, and the source with other workers.
constexpr uint64_t kChunkBytes = 128 << 10;

}  // namespace

void SplitInputs::Execute(const ProcessPtr& p, const PrepareSplit& a) {
  if (options_.check) all_.lease_check.CheckTaken(*p, a.lease);
  if (p->group_member) p->group_member->leases[a.lease.id] = a.lease;
  if (HasInput()) {
    p->input.waiting.push_back({a.lease.id, a.lease.cut.events()});
    return ReadNext(p);
  }
  ScheduleIn(p, options_.prepare.Draw(rng_), [this, p, incarnation = p->incarnation, id = a.lease.id] {
    if (incarnation == p->incarnation) OnReady(p, id);
  });
}

void SplitInputs::Execute(const ProcessPtr& p, const DropSplit& a) {
  if (p->group_member) p->group_member->leases.erase(a.lease);
}

void SplitInputs::ReadNext(const ProcessPtr& p) {
  InputQueue& input = p->input;
  if (input.reading || input.waiting.empty()) return;
  input.reading = true;
  input.unrequested = input.missing =
      static_cast<uint64_t>(options_.input.event_bytes * static_cast<double>(input.waiting.front().events));
  if (input.missing == 0) return Decode(p);
  RequestChunk(p.get());
}

void SplitInputs::RequestChunk(RoleProcess* p) {
  const uint64_t bytes = std::min(kChunkBytes, p->input.unrequested);
  p->input.unrequested -= bytes;
  const LinkQueue::Passage passage = source_.Take(now(), bytes);
  const Duration latency = options_.input.link.latency + p->host->latency;
  const uint32_t index = chunks_.Allocate();
  chunks_[index] = {p->slot, p->incarnation, bytes, passage.last + latency};
  queue_.At(passage.first + latency, kChunkArrives, index);
}

void SplitInputs::OnChunkArrives(uint32_t index) {
  const Chunk& chunk = chunks_[index];
  RoleProcess* const p = processes_[chunk.slot].get();
  if (p == nullptr || p->incarnation != chunk.incarnation) return chunks_.Free(index);
  const Time there = all_.machines.Comes(p, chunk.bytes, chunk.last_byte, Route::kLink);
  // The source sends on while this part arrives.
  if (p->input.unrequested > 0) RequestChunk(p);
  queue_.At(there, kChunkDelivered, index);
}

void SplitInputs::OnChunkDelivered(uint32_t index) {
  const Chunk chunk = chunks_[index];
  const ProcessPtr p = processes_[chunk.slot];
  if (p && now() < p->paused_until) return queue_.At(p->paused_until, kChunkDelivered, index);
  chunks_.Free(index);
  if (!p || p->incarnation != chunk.incarnation) return;
  p->input.missing -= chunk.bytes;
  if (p->input.missing == 0) Decode(p);
}

void SplitInputs::Decode(const ProcessPtr& p) {
  const uint32_t index = decodings_.Allocate();
  decodings_[index] = {p->slot, p->incarnation};
  const double events = static_cast<double>(p->input.waiting.front().events);
  const Duration takes = FromSeconds(options_.input.decode * events / p->speed);
  if (all_.machines.Of(*p) != nullptr) return all_.machines.Begin(*p, Machines::kDecodes + index, takes, 1);
  ScheduleIn(p, takes, [this, index] { OnDecoded(index); });
}

void SplitInputs::OnDecoded(uint32_t index) {
  const Decoding decoding = decodings_[index];
  decodings_.Free(index);
  const ProcessPtr p = processes_[decoding.slot];
  if (!p || p->incarnation != decoding.incarnation) return;
  const uint64_t lease = p->input.waiting.front().lease;
  p->input.waiting.pop_front();
  p->input.reading = false;
  ReadNext(p);
  OnReady(p, lease);
}

void SplitInputs::OnReady(const ProcessPtr& p, uint64_t lease) {
  const bool unreadable = Chance(options_.faults.split_unreadable);
  if (p->group_member) {
    if (unreadable) return all_.groups.ReadAgain(p, lease);
    return all_.members.ExecuteAll(p, p->group_member->machine->OnSplitReady(lease));
  }
  all_.members.ExecuteAll(
      p, unreadable ? p->worker->OnSplitFailed(now(), lease) : p->worker->OnSplitReady(now(), lease));
}

}  // namespace leat::sim
