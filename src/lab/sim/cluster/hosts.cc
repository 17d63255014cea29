// Links and cores of hosts.
#include <algorithm>
#include <utility>

#include "lab/sim/cluster/cluster_state.h"

namespace leat::sim {

namespace {

// Tasks of shared cores: batches by their index in State::computations, and
constexpr uint32_t kDecodes = 1u << 31;   // splits, by that in State::decodings
constexpr uint32_t kServes = UINT32_MAX;  // a server's work on a message

}  // namespace

void Cluster::State::MakeHosts() {
  source_link = LinkQueue(options.input.link);
  for (const Link& zone : options.zones) zone_links.push_back({LinkQueue(zone), LinkQueue(zone)});
  std::vector<uint32_t> threads(options.hosts.size(), 0);
  for (const uint32_t host : options.server_hosts) ++threads[host];
  for (const uint32_t host : options.worker_hosts)
    threads[host] += options.compute_threads + (options.input.decode > 0 ? 1 : 0);
  for (size_t i = 0; i < options.hosts.size(); ++i) {
    const Host& host = options.hosts[i];
    HostState& state = hosts_of_roles.emplace_back();
    state = {.down = LinkQueue(host.link),
             .up = LinkQueue(host.link),
             .latency = host.link.latency,
             .zone = host.zone};
    if (host.cores <= 0 || host.cores >= threads[i]) continue;
    state.cores = static_cast<uint32_t>(shared_cores.size());
    shared_cores.emplace_back(host.cores);
  }
}

topology::HostPlace Cluster::State::PlaceOf(const RoleProcess& p) const {
  if (!options.hosts.empty()) return options.hosts[p.host_index].place;
  const auto& places = options.server_places;
  return p.role == Role::kServer && !places.empty() ? places[p.started % places.size()]
                                                    : topology::HostPlace();
}

void Cluster::State::PutOnHost(RoleProcess* p, uint32_t host) {
  const bool server = p->role == Role::kServer;
  const auto& of_role = server ? options.server_hosts : options.worker_hosts;
  if (options.hosts.empty()) {
    const Link& link = server ? options.server_link : options.worker_link;
    p->host = &hosts_of_roles.emplace_back();
    *p->host = {.down = LinkQueue(link), .up = LinkQueue(link), .latency = link.latency};
  } else {
    p->host_index = host != kAnyHost ? host : of_role.empty() ? 0 : of_role[p->started % of_role.size()];
    p->host = &hosts_of_roles[p->host_index];
    p->speed = options.hosts[p->host_index].speed;
  }
  const MessageCost& cost = server                          ? options.server_cost
                            : options.strategy.on_servers() ? options.worker_cost
                                                            : options.member_cost;
  p->cost = {FromSeconds(Seconds(cost.message) / p->speed), cost.byte / p->speed};
}

Cluster::State::Departure Cluster::State::Leaves(RoleProcess* from, const RoleProcess* to, uint64_t bytes,
                                                 Time at, Time* in_order, double share) {
  const bool local = to != nullptr && to->host == from->host;
  LinkQueue::Passage left{at, at};
  if (!local) left = from->host->up.Take(at, bytes);
  const Duration latency = Latency(local ? options.local_latency : from->host->latency, share);
  Departure departure{.left = left.last, .first = left.first + latency};
  if (in_order != nullptr) *in_order = departure.first = std::max(departure.first, *in_order);
  departure.last = std::max(departure.first, left.last + latency);
  if (local) {
    departure.route = Route::kLocal;
  } else if (to != nullptr && !zone_links.empty() && to->host->zone != from->host->zone) {
    departure.route = Route::kOutOf;
  }
  return departure;
}

Time Cluster::State::Comes(RoleProcess* to, uint64_t bytes, Time last_byte, Route route) {
  if (route == Route::kLocal) return std::max(now(), last_byte);
  return std::max(to->host->down.Take(now(), bytes).last, last_byte);
}

Time Cluster::State::Crosses(const RoleProcess* from, const RoleProcess* to, uint64_t bytes, Time* last_byte,
                             Route* route) {
  const bool out = *route == Route::kOutOf;
  // A process that is gone has no zone; its messages, in both directions, come to nothing.
  const RoleProcess* const end = out ? from : to;
  *route = out ? Route::kInto : Route::kLink;
  if (end == nullptr) return now();
  ZoneLink& link = zone_links[end->host->zone];
  const LinkQueue::Passage passage = (out ? link.out : link.in).Take(now(), bytes);
  const Duration latency = options.zones[end->host->zone].latency;
  *last_byte = std::max(*last_byte, passage.last) + latency;
  return passage.first + latency;
}

void Cluster::State::CrossBoth(const RoleProcess& from, const RoleProcess& to, uint64_t bytes,
                               Departure* departure) {
  if (departure->route != Route::kOutOf) return;
  for (const auto& [link, zone] : {std::pair(&zone_links[from.host->zone].out, from.host->zone),
                                   {&zone_links[to.host->zone].in, to.host->zone}}) {
    const LinkQueue::Passage passage = link->Take(departure->first, bytes);
    departure->first = passage.first + options.zones[zone].latency;
    departure->last = std::max(departure->last, passage.last) + options.zones[zone].latency;
  }
  departure->route = Route::kLink;
}

void Cluster::State::PassWindow(const HostState& from, HostState* to, uint64_t window, Route route) {
  if (route == Route::kLink) {
    to->down.Take(now(), window);
    return;
  }
  const bool out = route == Route::kOutOf;
  const uint32_t zone = out ? from.zone : to->zone;
  ZoneLink& link = zone_links[zone];
  const Time first = (out ? link.out : link.in).Take(now(), window).first + options.zones[zone].latency;
  queue.After(first - now(), [this, &from, to, window, next = out ? Route::kInto : Route::kLink] {
    PassWindow(from, to, window, next);
  });
}

void Cluster::State::OnCrosses(uint32_t m) {
  Message& message = messages[m];
  const RoleProcess* const worker = roles[message.from].get();
  const RoleProcess* const server = ServerOf(message);
  const Time next = Crosses(message.back ? server : worker, message.back ? worker : server, message.unsent,
                            &message.last_byte, &message.route);
  queue.At(next, message.route == Route::kLink ? kArrive : kCrosses, m);
}

void Cluster::State::OnPieceCrosses(uint32_t m) {
  Piece& piece = pieces[m];
  const Time next =
      Crosses(roles[piece.from].get(), roles[piece.to].get(), piece.bytes, &piece.last_byte, &piece.route);
  queue.At(next, piece.route == Route::kLink ? kPieceArrives : kPieceCrosses, m);
}

// ---- cores

SharedCores* Cluster::State::CoresOf(const RoleProcess& p) {
  return p.host->cores == HostState::kEnoughCores ? nullptr : &shared_cores[p.host->cores];
}

void Cluster::State::BeginTask(const RoleProcess& p, uint32_t task, Duration work, uint32_t threads) {
  SharedCores& cores = shared_cores[p.host->cores];
  cores.Begin(now(), task, work, threads);
  queue.At(cores.NextEnd(), kCores, p.host->cores);
}

void Cluster::State::OnCores(uint32_t index) {
  bool any = false;
  for (uint32_t task = 0; shared_cores[index].End(now(), &task);) {
    any = true;
    if (task == kServes) continue;
    if (task >= kDecodes) {
      OnDecoded(task - kDecodes);
    } else {
      OnComputed(task);
    }
  }
  // Otherwise a task has begun meanwhile, and an event is due at its time.
  if (const Time next = shared_cores[index].NextEnd(); any && next != Time::max())
    queue.At(next, kCores, index);
}

Duration Cluster::State::Busy(RoleProcess* p, uint64_t bytes) {
  const Duration work = p->cost.Of(bytes);
  if (p->server) p->progress.cpu_seconds += Seconds(work);
  SharedCores* const cores = CoresOf(*p);
  if (cores == nullptr || work == Duration(0)) return work;
  const double share = cores->Share(1);
  BeginTask(*p, kServes, work, 1);
  return FromSeconds(Seconds(work) / share);
}

void Cluster::State::ComputedAfter(const ProcessPtr& p, Duration takes, uint64_t token,
                                   const BatchOutcome& outcome) {
  const uint32_t index = computations.Allocate();
  computations[index] = {p->slot, p->incarnation, token, outcome};
  if (CoresOf(*p) != nullptr) return BeginTask(*p, index, takes, options.compute_threads);
  queue.At(now() + takes, kComputed, index);
}

// Decodes the split that has been read.
void Cluster::State::DecodeSplit(const ProcessPtr& p) {
  const uint32_t index = decodings.Allocate();
  decodings[index] = {p->slot, p->incarnation};
  const double events = static_cast<double>(p->input.waiting.front().events);
  const Duration takes = FromSeconds(options.input.decode * events / p->speed);
  if (CoresOf(*p) != nullptr) return BeginTask(*p, kDecodes + index, takes, 1);
  ScheduleIn(p, takes, [this, index] { OnDecoded(index); });
}

}  // namespace leat::sim
