#include "lab/sim/hosts/host_links.h"

#include <algorithm>
#include <utility>

#include "lab/sim/members/role_process.h"

namespace leat::sim {

using namespace protocol;

HostLinks::HostLinks(World& world) : world_(world) {
  for (const Link& zone : world_.options.zones) zones_.push_back({LinkQueue(zone), LinkQueue(zone)});
  for (const Host& host : world_.options.hosts) {
    hosts_.emplace_back() = {.down = LinkQueue(host.link),
                             .up = LinkQueue(host.link),
                             .latency = host.link.latency,
                             .zone = host.zone};
  }
}

void HostLinks::PutOnHost(RoleProcess* p, uint32_t host) {
  const bool server = p->role == Role::kServer;
  const auto& of_role = server ? world_.options.server_hosts : world_.options.worker_hosts;
  if (world_.options.hosts.empty()) {
    const Link& link = server ? world_.options.server_link : world_.options.worker_link;
    p->host = &hosts_.emplace_back();
    *p->host = {.down = LinkQueue(link), .up = LinkQueue(link), .latency = link.latency};
  } else {
    p->host_index = host != kAnyHost ? host : of_role.empty() ? 0 : of_role[p->started % of_role.size()];
    p->host = &hosts_[p->host_index];
    p->speed = world_.options.hosts[p->host_index].speed;
  }
  const MessageCost& cost = server                                 ? world_.options.server_cost
                            : world_.options.strategy.on_servers() ? world_.options.worker_cost
                                                                   : world_.options.member_cost;
  p->cost = {FromSeconds(Seconds(cost.message) / p->speed), cost.byte / p->speed};
}

topology::HostPlace HostLinks::PlaceOf(const RoleProcess& p) const {
  if (!world_.options.hosts.empty()) return world_.options.hosts[p.host_index].place;
  const auto& places = world_.options.server_places;
  return p.role == Role::kServer && !places.empty() ? places[p.started % places.size()]
                                                    : topology::HostPlace();
}

Duration HostLinks::RoundTripOf(const RoleProcess& p) const {
  Duration there = p.host->latency;
  if (!world_.options.zones.empty()) there += world_.options.zones[p.host->zone].latency;
  return 2 * there;
}

Departure HostLinks::Leaves(RoleProcess* from, const RoleProcess* to, uint64_t bytes, Time at, Time* in_order,
                            double share) {
  const bool local = to != nullptr && to->host == from->host;
  LinkQueue::Passage left{at, at};
  if (!local) left = from->host->up.Take(at, bytes);
  const Duration latency = world_.Latency(local ? world_.options.local_latency : from->host->latency, share);
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

Time HostLinks::Comes(RoleProcess* to, uint64_t bytes, Time last_byte, Route route) {
  if (route == Route::kLocal) return std::max(world_.now(), last_byte);
  return std::max(to->host->down.Take(world_.now(), bytes).last, last_byte);
}

Time HostLinks::Crosses(const RoleProcess* from, const RoleProcess* to, uint64_t bytes, Time* last_byte,
                        Route* route) {
  const bool out = *route == Route::kOutOf;
  // A process that is gone has no zone; its messages, in both directions, come to nothing.
  const RoleProcess* const end = out ? from : to;
  *route = out ? Route::kInto : Route::kLink;
  if (end == nullptr) return world_.now();
  ZoneLink& link = zones_[end->host->zone];
  const LinkQueue::Passage passage = (out ? link.out : link.in).Take(world_.now(), bytes);
  const Duration latency = world_.options.zones[end->host->zone].latency;
  *last_byte = std::max(*last_byte, passage.last) + latency;
  return passage.first + latency;
}

void HostLinks::CrossBoth(const RoleProcess& from, const RoleProcess& to, uint64_t bytes,
                          Departure* departure) {
  if (departure->route != Route::kOutOf) return;
  for (const auto& [link, zone] : {std::pair(&zones_[from.host->zone].out, from.host->zone),
                                   {&zones_[to.host->zone].in, to.host->zone}}) {
    const LinkQueue::Passage passage = link->Take(departure->first, bytes);
    departure->first = passage.first + world_.options.zones[zone].latency;
    departure->last = std::max(departure->last, passage.last) + world_.options.zones[zone].latency;
  }
  departure->route = Route::kLink;
}

void HostLinks::PassWindow(const HostState& from, HostState* to, uint64_t window, Route route) {
  if (route == Route::kLink) {
    to->down.Take(world_.now(), window);
    return;
  }
  const bool out = route == Route::kOutOf;
  const uint32_t zone = out ? from.zone : to->zone;
  ZoneLink& link = zones_[zone];
  const Time first =
      (out ? link.out : link.in).Take(world_.now(), window).first + world_.options.zones[zone].latency;
  world_.queue.After(first - world_.now(),
                     [this, &from, to, window, next = out ? Route::kInto : Route::kLink] {
                       PassWindow(from, to, window, next);
                     });
}

// ---- cores

HostCores::HostCores(World& world, HostLinks& links) : world_(world) {
  const ClusterOptions& options = world_.options;
  std::vector<uint32_t> threads(options.hosts.size(), 0);
  for (const uint32_t host : options.server_hosts) ++threads[host];
  for (const uint32_t host : options.worker_hosts)
    threads[host] += options.compute_threads + (options.input.decode > 0 ? 1 : 0);
  for (size_t i = 0; i < options.hosts.size(); ++i) {
    const double cores = options.hosts[i].cores;
    if (cores <= 0 || cores >= threads[i]) continue;
    links.hosts()[i].cores = static_cast<uint32_t>(shared_.size());
    shared_.emplace_back(cores);
  }
}

SharedCores* HostCores::Of(const RoleProcess& p) {
  return p.host->cores == HostState::kEnoughCores ? nullptr : &shared_[p.host->cores];
}

void HostCores::Begin(const RoleProcess& p, uint32_t task, Duration work, uint32_t threads) {
  SharedCores& cores = shared_[p.host->cores];
  cores.Begin(world_.now(), task, work, threads);
  world_.queue.At(cores.NextEnd(), kCores, p.host->cores);
}

Duration HostCores::Busy(RoleProcess* p, uint64_t bytes) {
  const Duration work = p->cost.Of(bytes);
  if (p->server) p->progress.cpu_seconds += Seconds(work);
  SharedCores* const cores = Of(*p);
  if (cores == nullptr || work == Duration(0)) return work;
  const double share = cores->Share(1);
  Begin(*p, kServes, work, 1);
  return FromSeconds(Seconds(work) / share);
}

}  // namespace leat::sim
