#include "protocol/outbox/outbox.h"

#include <algorithm>

namespace leat::protocol {

namespace {

constexpr uint64_t kIdBlock = 4096;
constexpr uint64_t kNodeBlock = 64;

// The reply leases something, ends a role, or says that a command was obeyed.
bool NeedsTerm(const ControlReply& reply, bool stopping) {
  if (std::holds_alternative<AdminReply>(reply)) return true;
  if (const auto* worker = std::get_if<WorkerHeartbeatReply>(&reply)) {
    return worker->stop || !worker->leases.empty() || !worker->rescores.empty() || !worker->rounds.empty();
  }
  return stopping;
}

}  // namespace

void Outbox::Counter::Restore(uint64_t used) {
  next = reserved = std::max(reserved, used);
}

void Outbox::Restore(const IdsReserved& used) {
  nodes_.Restore(used.node);
  ids_.Restore(used.lease);
}

void Outbox::Reserve(Counter* counter, uint64_t block) {
  if (counter->next < counter->reserved) return;
  counter->reserved = counter->next + block;
  Journal(IdsReserved{nodes_.reserved, ids_.reserved});
}

uint64_t Outbox::NextId() {
  Reserve(&ids_, kIdBlock);
  return ids_.next++;
}

NodeId Outbox::NextNode() {
  Reserve(&nodes_, kNodeBlock);
  return NodeId(nodes_.next++);
}

CoordinatorActions Outbox::DrainActions(bool stopping) {
  CoordinatorActions actions;
  // A record in the journal shows the same.
  const bool confirm = journals_.empty() && std::ranges::any_of(replies_, [stopping](const Reply& r) {
                         return NeedsTerm(r.reply, stopping);
                       });
  if (confirm) actions.emplace_back(ConfirmTerm{});
  for (auto& journal : journals_) actions.emplace_back(std::move(journal));
  for (auto& reply : replies_) actions.emplace_back(std::move(reply));
  for (auto& request : requests_) actions.push_back(std::move(request));
  Discard();
  return actions;
}

void Outbox::Discard() {
  journals_.clear();
  replies_.clear();
  requests_.clear();
}

const Shared<View>& Outbox::RefreshView() {
  if (!std::exchange(view_changed_, false)) return view_;
  View& fresh = view_.emplace();
  fresh.generation = Generation(NextId());
  fill_view_(&fresh);
  return view_;
}

}  // namespace leat::protocol
