#include "lab/sim/members/role_process.h"

#include <algorithm>
#include <span>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

ProcessPtr ProcessTable::Add(Role role, bool standby, const std::string& address) {
  auto p = std::make_shared<RoleProcess>();
  p->role = role;
  p->standby = standby;
  p->slot = static_cast<uint32_t>(by_slot_.size());
  p->started = role == Role::kServer ? started_servers_++ : started_workers_++;
  // Only processes that others connect to have an address.
  if (role == Role::kServer || !options_.strategy.on_servers()) {
    const char* const name = role == Role::kServer ? "ps-" : "worker-";
    p->address_id = AddressIdOf(address.empty() ? name + std::to_string(++last_address_) : address);
    addresses_[p->address_id].slot = p->slot;
  }
  by_slot_.push_back(p);
  return p;
}

void ProcessTable::Remove(const RoleProcess& p) {
  if (Address& address = addresses_[p.address_id]; address.slot == p.slot) address.slot = kNobody;
  by_slot_[p.slot] = nullptr;
}

std::vector<ProcessPtr> ProcessTable::All(Role role) const {
  std::vector<ProcessPtr> all;
  for (const ProcessPtr& p : by_slot_) {
    if (p && p->role == role) all.push_back(p);
  }
  return all;
}

ProcessPtr ProcessTable::Any(Role role) {
  const auto some = All(role);
  return some.empty() ? nullptr : some[rng_.Below(some.size())];
}

uint32_t ProcessTable::AddressIdOf(const std::string& address) {
  if (address.empty()) return 0;
  const auto [at, fresh] = address_ids_.try_emplace(address, static_cast<uint32_t>(addresses_.size()));
  if (fresh) addresses_.push_back({address});
  return at->second;
}

uint32_t ProcessTable::FindAddress(const std::string& address) const {
  const auto at = address_ids_.find(address);
  return at == address_ids_.end() ? 0 : at->second;
}

bool ProcessTable::Values(std::vector<float>* values) const {
  values->assign(world_.elements, 0);
  std::vector<bool> there(world_.slice_ranges.size(), false);
  const auto set = [&](uint32_t slice, std::span<const float> newest) {
    std::ranges::copy(newest,
                      values->begin() + static_cast<std::ptrdiff_t>(world_.slice_ranges[slice].begin));
    there[slice] = true;
  };
  // All-reduce: the values of the worker that is furthest.
  const GroupMemberParts* farthest = nullptr;
  for (const auto& p : by_slot_) {
    if (!p || !p->group_member || !p->group_member->parameters || !p->group_member->machine->holds())
      continue;
    if (farthest == nullptr ||
        p->group_member->machine->state().header().step > farthest->machine->state().header().step)
      farthest = p->group_member.get();
  }
  for (uint32_t i = 0; farthest != nullptr && i < there.size(); ++i)
    set(i, farthest->parameters->values(SliceId(i)));
  // A server may still have an earlier state of a slice that has moved.
  std::vector<std::pair<Incarnation, uint64_t>> newest(there.size());
  for (const auto& p : by_slot_) {
    if (!p || !p->server) continue;
    for (uint32_t i = 0; i < there.size(); ++i) {
      const Slice* slice = p->server->Find(SliceId(i));
      if (!slice || !slice->memory || std::pair(slice->incarnation, slice->version) < newest[i]) continue;
      newest[i] = {slice->incarnation, slice->version};
      set(i, slice->values());
    }
  }
  return std::ranges::find(there, false) == there.end();
}

}  // namespace leat::sim
