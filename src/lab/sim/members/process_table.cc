#include "lab/sim/members/role_process.h"

namespace leat::sim {

using namespace protocol;

ProcessPtr ProcessTable::Add(Role role, bool standby, const std::string& address) {
  auto p = std::make_shared<RoleProcess>();
  p->role = role;
  p->standby = standby;
  p->slot = static_cast<uint32_t>(processes_.size());
  p->started = role == Role::kServer ? started_servers_++ : started_workers_++;
  // Only processes that others connect to have an address.
  if (role == Role::kServer || !world_.options.strategy.on_servers()) {
    const char* const name = role == Role::kServer ? "ps-" : "worker-";
    p->address_id = AddressIdOf(address.empty() ? name + std::to_string(++last_address_) : address);
    addresses_[p->address_id].slot = p->slot;
  }
  processes_.push_back(p);
  return p;
}

void ProcessTable::Remove(const RoleProcess& p) {
  if (Address& address = addresses_[p.address_id]; address.slot == p.slot) address.slot = kNobody;
  processes_[p.slot] = nullptr;
}

std::vector<ProcessPtr> ProcessTable::All(Role role) const {
  std::vector<ProcessPtr> all;
  for (const ProcessPtr& p : processes_) {
    if (p && p->role == role) all.push_back(p);
  }
  return all;
}

ProcessPtr ProcessTable::Any(Role role) {
  const auto some = All(role);
  return some.empty() ? nullptr : some[world_.rng.Below(some.size())];
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

}  // namespace leat::sim
