#include "protocol/outbox/outbox.h"

namespace leat::protocol {

namespace {

// The reply leases something, ends a role, or says that a command was obeyed.
bool NeedsTerm(const ControlReply& reply, bool stopping) {
  if (std::holds_alternative<AdminReply>(reply)) return true;
  if (const auto* worker = std::get_if<WorkerHeartbeatReply>(&reply)) {
    return worker->stop || !worker->leases.empty() || !worker->rescores.empty() || !worker->rounds.empty();
  }
  return stopping;
}

}  // namespace

uint64_t Outbox::Take(Counter* counter, uint64_t block) {
  if (counter->next >= counter->reserved) {
    counter->reserved = counter->next + block;
    Journal(IdsReserved{nodes_.reserved, ids_.reserved});
  }
  return counter->next++;
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

const Shared<View>& Outbox::RefreshView() {
  if (!std::exchange(view_changed_, false)) return view_;
  View& fresh = view_.emplace();
  fresh.generation = Generation(NextId());
  fill_view_(&fresh);
  return view_;
}

}  // namespace leat::protocol
