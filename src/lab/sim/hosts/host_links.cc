#include "lab/sim/hosts/host_links.h"

#include <algorithm>
#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

HostLinks::HostLinks(ClusterConcerns& all) : Concern(all) {
  for (const Link& zone : options_.zones) zones_.push_back({LinkQueue(zone), LinkQueue(zone)});
  for (const Host& host : options_.hosts) {
    hosts_.emplace_back() = {.down = LinkQueue(host.link),
                             .up = LinkQueue(host.link),
                             .latency = host.link.latency,
                             .zone = host.zone};
  }
}

void HostLinks::PutOnHost(RoleProcess* p, uint32_t host) {
  const bool server = p->role == Role::kServer;
  const auto& of_role = server ? options_.server_hosts : options_.worker_hosts;
  if (options_.hosts.empty()) {
    const Link& link = server ? options_.server_link : options_.worker_link;
    p->host = &hosts_.emplace_back();
    *p->host = {.down = LinkQueue(link), .up = LinkQueue(link), .latency = link.latency};
  } else {
    p->host_index = host != kAnyHost ? host : of_role.empty() ? 0 : of_role[p->started % of_role.size()];
    p->host = &hosts_[p->host_index];
    p->speed = options_.hosts[p->host_index].speed;
  }
  const MessageCost& cost = server                           ? options_.server_cost
                            : options_.strategy.on_servers() ? options_.worker_cost
                                                             : options_.member_cost;
  p->cost = {FromSeconds(Seconds(cost.message) / p->speed), cost.byte / p->speed};
}

topology::HostPlace HostLinks::PlaceOf(const RoleProcess& p) const {
  if (!options_.hosts.empty()) return options_.hosts[p.host_index].place;
  const auto& places = options_.server_places;
  return p.role == Role::kServer && !places.empty() ? places[p.started % places.size()]
                                                    : topology::HostPlace();
}

Duration HostLinks::RoundTripOf(const RoleProcess& p) const {
  Duration there = p.host->latency;
  if (!options_.zones.empty()) there += options_.zones[p.host->zone].latency;
  return 2 * there;
}

Departure HostLinks::Leaves(RoleProcess* from, const RoleProcess* to, uint64_t bytes, Time at, Time* in_order,
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

Time HostLinks::Comes(RoleProcess* to, uint64_t bytes, Time last_byte, Route route) {
  if (route == Route::kLocal) return std::max(now(), last_byte);
  return std::max(to->host->down.Take(now(), bytes).last, last_byte);
}

Time HostLinks::Crosses(const RoleProcess* from, const RoleProcess* to, uint64_t bytes, Time* last_byte,
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

void HostLinks::CrossBoth(const RoleProcess& from, const RoleProcess& to, uint64_t bytes,
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

void HostLinks::PassWindow(const HostState& from, HostState* to, uint64_t window, Route route) {
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

// ---- cores

HostCores::HostCores(ClusterConcerns& all) : Concern(all) {
  std::vector<uint32_t> threads(options_.hosts.size(), 0);
  for (const uint32_t host : options_.server_hosts) ++threads[host];
  for (const uint32_t host : options_.worker_hosts)
    threads[host] += options_.compute_threads + (options_.input.decode > 0 ? 1 : 0);
  for (size_t i = 0; i < options_.hosts.size(); ++i) {
    const double cores = options_.hosts[i].cores;
    if (cores <= 0 || cores >= threads[i]) continue;
    all.links.hosts()[i].cores = static_cast<uint32_t>(shared_.size());
    shared_.emplace_back(cores);
  }
}

SharedCores* HostCores::Of(const RoleProcess& p) {
  return p.host->cores == HostState::kEnoughCores ? nullptr : &shared_[p.host->cores];
}

void HostCores::Begin(const RoleProcess& p, uint32_t task, Duration work, uint32_t threads) {
  SharedCores& cores = shared_[p.host->cores];
  cores.Begin(now(), task, work, threads);
  queue_.At(cores.NextEnd(), kCores, p.host->cores);
}

void HostCores::OnCores(uint32_t index) {
  bool any = false;
  for (uint32_t task = 0; shared_[index].End(now(), &task);) {
    any = true;
    if (task == kServes) continue;
    if (task >= kDecodes) {
      all_.inputs.OnDecoded(task - kDecodes);
    } else {
      all_.compute.OnComputed(task);
    }
  }
  // Otherwise a task has begun meanwhile, and an event is due at its time.
  if (const Time next = shared_[index].NextEnd(); any && next != Time::max()) queue_.At(next, kCores, index);
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
