#include "lab/sim/hosts/machines.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/prefetch.h"
#include "lab/sim/cluster/concerns.h"
#include "protocol/prefetch.h"

namespace leat::sim {

using namespace protocol;

namespace {

// Rounding errors of `work_`.
constexpr double kSlackNs = 1;

// Splits come in parts, so that they share links with other messages, and the source with other workers.
constexpr uint64_t kChunkBytes = 128 << 10;
// Pause between attempts of a group's member to read a split; no other member has that lane.
constexpr Duration kReadAgain = std::chrono::milliseconds(50);

}  // namespace

Machines::Machines(ClusterConcerns& all) : Concern(all) {
  for (const Link& zone : options_.zones) zones_.push_back({LinkQueue(zone), LinkQueue(zone)});
  for (const Host& host : options_.hosts) {
    hosts_.emplace_back() = {.down = LinkQueue(host.link),
                             .up = LinkQueue(host.link),
                             .latency = host.link.latency,
                             .zone = host.zone};
  }
  std::vector<uint32_t> threads(options_.hosts.size(), 0);
  for (const uint32_t host : options_.server_hosts) ++threads[host];
  for (const uint32_t host : options_.worker_hosts)
    threads[host] += options_.compute_threads + (options_.input.decode > 0 ? 1 : 0);
  for (size_t i = 0; i < options_.hosts.size(); ++i) {
    const double cores = options_.hosts[i].cores;
    if (cores <= 0 || cores >= threads[i]) continue;
    hosts_[i].cores = static_cast<uint32_t>(shared_.size());
    shared_.emplace_back(cores);
  }
}

void Machines::PutOnHost(RoleProcess* p, uint32_t host) {
  const bool server = p->role == Role::kServer;
  const auto& of_role = server ? options_.server_hosts : options_.worker_hosts;
  if (options_.hosts.empty()) {
    const Link& link = server ? options_.server_link : options_.worker_link;
    p->host = &hosts_.emplace_back();
    *p->host = {.down = LinkQueue(link), .up = LinkQueue(link), .latency = link.latency};
  } else {
    p->host_index = host != HostState::kAny ? host
                    : of_role.empty()       ? 0
                                            : of_role[p->started % of_role.size()];
    p->host = &hosts_[p->host_index];
    p->speed = options_.hosts[p->host_index].speed;
  }
  const MessageCost& cost = server                           ? options_.server_cost
                            : options_.strategy.on_servers() ? options_.worker_cost
                                                             : options_.member_cost;
  p->cost = {FromSeconds(Seconds(cost.message) / p->speed), cost.byte / p->speed};
}

topology::HostPlace Machines::PlaceOf(const RoleProcess& p) const {
  if (!options_.hosts.empty()) return options_.hosts[p.host_index].place;
  const auto& places = options_.server_places;
  return p.role == Role::kServer && !places.empty() ? places[p.started % places.size()]
                                                    : topology::HostPlace();
}

Duration Machines::RoundTripOf(const RoleProcess& p) const {
  Duration there = p.host->latency;
  if (!options_.zones.empty()) there += options_.zones[p.host->zone].latency;
  return 2 * there;
}

Departure Machines::Leaves(RoleProcess* from, const RoleProcess* to, uint64_t bytes, Time at, Time* in_order,
                           double share) {
  const bool local = to != nullptr && to->host == from->host;
  LinkQueue::Passage left{at, at};
  if (!local) left = from->host->up.Take(at, bytes);
  const Duration latency = Latency(local ? options_.local_latency : from->host->latency, share);
  Departure departure{.left = left.last, .first = left.first + latency};
  if (in_order != nullptr) *in_order = departure.first = std::max(departure.first, *in_order);
  departure.last = std::max(departure.first, left.last + latency);
  if (local) {
    departure.route = Route::kLocal;
  } else if (to != nullptr && !zones_.empty() && to->host->zone != from->host->zone) {
    departure.route = Route::kOutOf;
  }
  return departure;
}

Time Machines::Comes(RoleProcess* to, uint64_t bytes, Time last_byte, Route route) {
  if (route == Route::kLocal) return std::max(now(), last_byte);
  return std::max(to->host->down.Take(now(), bytes).last, last_byte);
}

Time Machines::Crosses(const RoleProcess* from, const RoleProcess* to, uint64_t bytes, Time* last_byte,
                       Route* route) {
  const bool out = *route == Route::kOutOf;
  // A process that is gone has no zone; its messages, in both directions, come to nothing.
  const RoleProcess* const end = out ? from : to;
  *route = out ? Route::kInto : Route::kLink;
  if (end == nullptr) return now();
  ZoneLink& link = zones_[end->host->zone];
  const LinkQueue::Passage passage = (out ? link.out : link.in).Take(now(), bytes);
  const Duration latency = options_.zones[end->host->zone].latency;
  *last_byte = std::max(*last_byte, passage.last) + latency;
  return passage.first + latency;
}

void Machines::CrossBoth(const RoleProcess& from, const RoleProcess& to, uint64_t bytes,
                         Departure* departure) {
  if (departure->route != Route::kOutOf) return;
  for (const auto& [link, zone] : {std::pair(&zones_[from.host->zone].out, from.host->zone),
                                   {&zones_[to.host->zone].in, to.host->zone}}) {
    const LinkQueue::Passage passage = link->Take(departure->first, bytes);
    departure->first = passage.first + options_.zones[zone].latency;
    departure->last = std::max(departure->last, passage.last) + options_.zones[zone].latency;
  }
  departure->route = Route::kLink;
}

void Machines::PassWindow(const HostState& from, HostState* to, uint64_t window, Route route) {
  if (route == Route::kLink) {
    to->down.Take(now(), window);
    return;
  }
  const bool out = route == Route::kOutOf;
  const uint32_t zone = out ? from.zone : to->zone;
  ZoneLink& link = zones_[zone];
  const Time first = (out ? link.out : link.in).Take(now(), window).first + options_.zones[zone].latency;
  queue_.After(first - now(), [this, &from, to, window, next = out ? Route::kInto : Route::kLink] {
    PassWindow(from, to, window, next);
  });
}

double SharedCores::Share(uint32_t more) const {
  const uint32_t threads = threads_ + more;
  return threads <= cores_ ? 1 : cores_ / threads;
}

void SharedCores::Advance(Time now) {
  work_ += Share() * static_cast<double>((now - now_).count());
  now_ = now;
}

void SharedCores::Begin(Time now, uint32_t task, Duration work, uint32_t threads) {
  Advance(now);
  tasks_.push_back({work_ + static_cast<double>(work.count()), ++order_, task, threads});
  std::push_heap(tasks_.begin(), tasks_.end());
  threads_ += threads;
}

Time SharedCores::NextEnd() const {
  if (tasks_.empty()) return Time::max();
  const double left = std::max(0.0, tasks_.front().end - work_);
  return now_ + Duration(static_cast<int64_t>(std::ceil(left / Share())));
}

bool SharedCores::End(Time now, uint32_t* task) {
  Advance(now);
  if (tasks_.empty() || tasks_.front().end > work_ + kSlackNs) return false;
  std::pop_heap(tasks_.begin(), tasks_.end());
  *task = tasks_.back().task;
  threads_ -= tasks_.back().threads;
  tasks_.pop_back();
  return true;
}

// ---- cores

SharedCores* Machines::Of(const RoleProcess& p) {
  return p.host->cores == HostState::kEnoughCores ? nullptr : &shared_[p.host->cores];
}

void Machines::Begin(const RoleProcess& p, uint32_t task, Duration work, uint32_t threads) {
  SharedCores& cores = shared_[p.host->cores];
  cores.Begin(now(), task, work, threads);
  queue_.At(cores.NextEnd(), kCores, p.host->cores);
}

void Machines::OnCores(uint32_t index) {
  bool any = false;
  for (uint32_t task = 0; shared_[index].End(now(), &task);) {
    any = true;
    if (task == kServes) continue;
    if (task >= kDecodes) {
      OnDecoded(task - kDecodes);
    } else {
      OnComputed(task);
    }
  }
  // Otherwise a task has begun meanwhile, and an event is due at its time.
  if (const Time next = shared_[index].NextEnd(); any && next != Time::max()) queue_.At(next, kCores, index);
}

Duration Machines::Busy(RoleProcess* p, uint64_t bytes) {
  const Duration work = p->cost.Of(bytes);
  if (p->server) p->progress.cpu_seconds += Seconds(work);
  SharedCores* const cores = Of(*p);
  if (cores == nullptr || work == Duration(0)) return work;
  const double share = cores->Share(1);
  Begin(*p, kServes, work, 1);
  return FromSeconds(Seconds(work) / share);
}

// ---- batches

void Machines::Execute(const ProcessPtr& p, const Compute& a) {
  const BatchOutcome outcome = Train(p, *p->worker->FindLease(a.lease), a.batch, a.first);
  EndAfter(p, DrawTime(p.get()), a.token, outcome);
}

BatchOutcome Machines::Train(const ProcessPtr& p, const Lease& lease, uint32_t batch, bool first) {
  Trained trained;
  if (p->memory) {
    trained = p->memory->Compute(lease, batch, first);
  } else {
    const uint64_t before = uint64_t{batch} * lease.cut.batch_size;
    trained.outcome.events =
        static_cast<uint32_t>(std::min<uint64_t>(lease.cut.batch_size, lease.cut.events() - before));
  }
  ++p->progress.steps;
  if (trained.outcome.disposition == Disposition::kRejected) {
    ++p->progress.rejected_batches;
  } else {
    p->progress.events += trained.outcome.events;
    p->progress.loss_sum += trained.loss_sum;
    p->progress.correct += trained.correct;
  }
  return trained.outcome;
}

Duration Machines::DrawTime(RoleProcess* p) {
  double seconds = Seconds(options_.compute.Draw(rng_));
  if (p->started < options_.slowness.size()) seconds *= options_.slowness[p->started];
  seconds = seconds / p->speed + Seconds(std::exchange(p->owed, Duration(0)));
  p->progress.cpu_seconds += seconds;
  return FromSeconds(seconds);
}

void Machines::EndAfter(const ProcessPtr& p, Duration takes, uint64_t token, const BatchOutcome& outcome) {
  const uint32_t index = computations_.Allocate();
  computations_[index] = {p->slot, p->incarnation, token, outcome};
  if (Of(*p) != nullptr) return Begin(*p, index, takes, options_.compute_threads);
  queue_.At(now() + takes, kComputed, index);
}

void Machines::OnComputed(uint32_t index) {
  const Computation computation = computations_[index];
  const ProcessPtr p = processes_[computation.slot];
  if (p && now() < p->paused_until) return queue_.At(p->paused_until, kComputed, index);
  computations_.Free(index);
  if (!p || p->incarnation != computation.incarnation) return;
  if (p->group_member) {
    p->group_member->computing = 0;
    return all_.members.ExecuteAll(
        p, p->group_member->machine->OnComputed(computation.token, computation.outcome));
  }
  all_.members.ExecuteAll(p, p->worker->OnComputed(now(), computation.token, computation.outcome));
}

void Machines::PrefetchEvent(uint32_t index, int hop) {
  const Computation& computation = computations_[index];
  if (hop == 0) return Prefetch(&computation, sizeof(computation));
  const RoleProcess* const p = processes_[computation.slot].get();
  if (hop == 1) return Prefetch(p, kHotProcessBytes);
  if (p && p->worker) PrefetchHints::Pushes(*p->worker, hop - 2);
}

// ---- splits

void Machines::Execute(const ProcessPtr& p, const PrepareSplit& a) {
  if (options_.check) all_.lease_check.CheckTaken(*p, a.lease);
  if (p->group_member) p->group_member->leases[a.lease.id] = a.lease;
  if (options_.input.event_bytes > 0 || options_.input.decode > 0) {
    p->input.waiting.push_back({a.lease.id, a.lease.cut.events()});
    return ReadNext(p);
  }
  ScheduleIn(p, options_.prepare.Draw(rng_), [this, p, incarnation = p->incarnation, id = a.lease.id] {
    if (incarnation == p->incarnation) OnReady(p, id);
  });
}

void Machines::Execute(const ProcessPtr& p, const DropSplit& a) {
  if (p->group_member) p->group_member->leases.erase(a.lease);
}

void Machines::ReadNext(const ProcessPtr& p) {
  InputQueue& input = p->input;
  if (input.reading || input.waiting.empty()) return;
  input.reading = true;
  input.unrequested = input.missing =
      static_cast<uint64_t>(options_.input.event_bytes * static_cast<double>(input.waiting.front().events));
  if (input.missing == 0) return Decode(p);
  RequestChunk(p.get());
}

void Machines::RequestChunk(RoleProcess* p) {
  const uint64_t bytes = std::min(kChunkBytes, p->input.unrequested);
  p->input.unrequested -= bytes;
  const LinkQueue::Passage passage = source_.Take(now(), bytes);
  const Duration latency = options_.input.link.latency + p->host->latency;
  const uint32_t index = chunks_.Allocate();
  chunks_[index] = {p->slot, p->incarnation, bytes, passage.last + latency};
  queue_.At(passage.first + latency, kChunkArrives, index);
}

void Machines::OnChunkArrives(uint32_t index) {
  const Chunk& chunk = chunks_[index];
  RoleProcess* const p = processes_[chunk.slot].get();
  if (p == nullptr || p->incarnation != chunk.incarnation) return chunks_.Free(index);
  const Time there = Comes(p, chunk.bytes, chunk.last_byte, Route::kLink);
  // The source sends on while this part arrives.
  if (p->input.unrequested > 0) RequestChunk(p);
  queue_.At(there, kChunkDelivered, index);
}

void Machines::OnChunkDelivered(uint32_t index) {
  const Chunk chunk = chunks_[index];
  const ProcessPtr p = processes_[chunk.slot];
  if (p && now() < p->paused_until) return queue_.At(p->paused_until, kChunkDelivered, index);
  chunks_.Free(index);
  if (!p || p->incarnation != chunk.incarnation) return;
  p->input.missing -= chunk.bytes;
  if (p->input.missing == 0) Decode(p);
}

void Machines::Decode(const ProcessPtr& p) {
  const uint32_t index = decodings_.Allocate();
  decodings_[index] = {p->slot, p->incarnation};
  const double events = static_cast<double>(p->input.waiting.front().events);
  const Duration takes = FromSeconds(options_.input.decode * events / p->speed);
  if (Of(*p) != nullptr) return Begin(*p, kDecodes + index, takes, 1);
  ScheduleIn(p, takes, [this, index] { OnDecoded(index); });
}

void Machines::OnDecoded(uint32_t index) {
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

void Machines::OnReady(const ProcessPtr& p, uint64_t lease) {
  const bool unreadable = Chance(options_.faults.split_unreadable);
  if (p->group_member) {
    if (unreadable)
      return all_.groups.Later(p, kReadAgain, [lease](GroupMember& m) { return m.OnSplitFailed(lease); });
    return all_.members.ExecuteAll(p, p->group_member->machine->OnSplitReady(lease));
  }
  all_.members.ExecuteAll(
      p, unreadable ? p->worker->OnSplitFailed(now(), lease) : p->worker->OnSplitReady(now(), lease));
}

}  // namespace leat::sim
