#include "protocol/server/server.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "protocol/guards.h"
#include "protocol/server/server_state.h"

namespace leat::protocol {

namespace {

uint64_t MemoryBytes(uint64_t elements, uint32_t slots) {
  return elements * (1 + slots) * sizeof(float);
}

}  // namespace

Server::State::State(ServerConfig c)
    : config(std::move(c)),
      hosted_slices(config.table.slices.size()),
      hot(config.table.slices.size()),
      ledgers(config.table.slices.size()),
      reports(config.table.slices.size(), config.max_report_bytes) {
  progress.staleness.resize(kStalenessBins);
  for (const auto& variable : config.table.variables) {
    const auto rule = optim::RuleFor(config.optimizer, variable);
    rules.push_back({rule, static_cast<uint32_t>(optim::SlotNames(rule).size()),
                     optim::MeanRuleFor(config.strategy.sum, config.strategy.full_run, variable.role),
                     optim::NeedsWholeVariables(rule) || variable.role == optim::VariableRole::kMoments,
                     variable.role});
  }
}

void Server::State::Rule::Add(bool first, std::span<float> sum, std::span<const float> pushed,
                              float weight) const {
  if (!moments()) return (first ? optim::SetWeighted : optim::AddWeighted)(sum, pushed, weight);
  if (!first) return optim::MergeMoments(sum, pushed);
  std::ranges::copy(pushed, sum.begin());
}

void Server::State::Rule::Apply(std::span<float> values, std::span<const float> pushed,
                                std::span<const std::span<float>> slot_spans, uint64_t version,
                                float rate) const {
  if (moments()) return optim::MergeMoments(values, pushed);
  optim::Apply(optimizer, values, pushed, slot_spans, version, rate);
}

bool Server::State::InView(NodeId worker) {
  const bool there = none_missing ? members.front() <= worker && worker <= members.back()
                                  : std::binary_search(members.begin(), members.end(), worker);
  if (!guards::IsMember(there)) return false;
  last_member = worker;
  return true;
}

void Server::State::TakeView(const Shared<View>& newer) {
  view = newer;
  members.clear();
  followers.clear();
  for (const Member& member : view->members) {
    members.push_back(member.node);
    if (member.role == Role::kServe) followers.push_back(member.node);
  }
  std::sort(members.begin(), members.end());
  std::sort(followers.begin(), followers.end());
  none_missing = !members.empty() && members.back().value - members.front().value + 1 == members.size();
  last_member.reset();
  std::erase_if(link_of, [this](const auto& entry) { return !view->Find(entry.first); });
  wake = true;
}

void Server::State::TakeOrders(const ServerHeartbeatReply& reply, LoadSlices* loads) {
  std::vector<const SliceOrder*> ordered(hosted_slices.size(), nullptr);
  for (const SliceOrder& order : reply.orders) {
    if (order.slice.value < hosted_slices.size()) ordered[order.slice.value] = &order;
  }
  std::vector<bool> stays(hosted_slices.size(), false);  // as a replica
  for (const ReplicaGroup& group : reply.replicas) {
    for (const SliceIncarnation& which : group.slices) {
      if (which.slice.value >= stays.size() || ordered[which.slice.value]) continue;
      const auto& hosted = hosted_slices[which.slice.value];
      stays[which.slice.value] = hosted && hosted->is_replica;
    }
  }
  bool promoted = false;
  // All outdated slices go first, so that a new history starts without remains of the old one.
  for (size_t i = 0; i < hosted_slices.size(); ++i) {
    const SliceOrder* order = ordered[i];
    if (!hosted_slices[i] || stays[i]) continue;
    const SliceOrder& had = hosted_slices[i]->order;
    if (order && GoesOn(*hosted_slices[i], {order->slice, order->incarnation}, order->move)) {
      Promote(&*hosted_slices[i], *order);
      promoted = true;
    } else if (!order || hosted_slices[i]->is_replica || had.incarnation != order->incarnation ||
               had.move != order->move) {
      // A slice that has been handed over comes back by another move, in the same incarnation.
      DropHostedSlice(&hosted_slices[i]);
    }
  }
  for (size_t i = 0; i < hosted_slices.size(); ++i) {
    if (ordered[i] && !hosted_slices[i]) TakeOrder(*ordered[i], loads);
  }
  TakeReplicas(reply);
  TakeReplicated(reply.replicated);
  if (promoted) DecideAgain();
  if (promoted || !decided_news.empty()) CompleteAll();
}

void Server::State::TakeOrder(const SliceOrder& order, LoadSlices* loads) {
  HostedSlice& hosted = hosted_slices[order.slice.value].emplace();
  hosted.order = order;
  if (order.move == 0 && !order.directory.empty()) return loads->orders.push_back(order);
  heartbeat_urgent = true;
  if (order.move == 0) return MakeLive(&hosted, Make(order));
  if (auto slice = TakeArrived(order, &hosted)) return MakeLive(&hosted, std::move(slice));
  hosted.failed = true;
  failure = "move " + std::to_string(order.move) + " has not arrived";
}

void Server::State::MakeLive(HostedSlice* hosted, std::shared_ptr<Slice> slice) {
  ++count_alive;
  ledgers.Put(slice->id.value, slice->ledger);
  if (stepped()) hosted->open.resize(config.strategy.ahead() + 1);
  HotSlice& its = hot[slice->id.value] = {};
  (hosted->is_replica ? its.replica : its.alive) = slice.get();
  if (hosted->is_replica) ++held_replicas;
  hosted->slice = std::move(slice);
  claims_outdated = true;
}

void Server::State::DropHostedSlice(std::optional<HostedSlice>* hosted) {
  if (!*hosted) return;
  wake = true;
  claims_outdated = true;
  if ((*hosted)->slice) {
    if ((*hosted)->is_replica) --held_replicas;
    ledgers.Drop((*hosted)->order.slice.value);
    hot[(*hosted)->order.slice.value] = {};
    if (--count_alive == 0) {
      // A new history: its steps are announced anew.
      steps.clear();
      found = nullptr;
      outcomes_recorded = 0;
      consecutive_rejected = 0;
    }
  }
  hosted->reset();
}

std::shared_ptr<Slice> Server::State::Make(const SliceOrder& order) const {
  const SliceSpec& spec = config.table.slices[order.slice.value];
  const optim::VariableSpec& variable = config.table.variables[spec.variable];
  auto slice = std::make_shared<Slice>();
  slice->id = order.slice;
  slice->incarnation = order.incarnation;
  const Rule& rule = RuleOf(order.slice);
  slice->slots = rule.slots;
  slice->elements = spec.elements();
  slice->ledger = Ledger(start);
  if (config.modelled) return slice;
  slice->memory = NewMemory(MemoryBytes(slice->elements, rule.slots));
  optim::Initialise(variable.init, config.table.seed, variable.name, spec.begin, slice->values());
  for (uint32_t i = 0; i < rule.slots; ++i) {
    std::ranges::fill(slice->slot(i), optim::InitialSlot(rule.optimizer, i));
  }
  return slice;
}

void Server::State::MoveToNewMemory(Slice* slice) const {
  const Buffer old = std::exchange(slice->memory, NewMemory(slice->memory.size()));
  std::memcpy(slice->memory.data(), old.data(), old.size());
}

Status Server::State::Fits(const Slice& slice) const {
  const SliceSpec& spec = config.table.slices[slice.id.value];
  const uint32_t slots = RuleOf(slice.id).slots;
  if (slice.elements == spec.elements() && slice.slots == slots &&
      (config.modelled || slice.memory.size() >= MemoryBytes(slice.elements, slots)) &&
      slice.ledger.partitions().size() == start.size()) {
    return {};
  }
  return Status(Code::kDataLoss, "slice " + ToString(slice.id) + " has " + std::to_string(slice.elements) +
                                     " elements, " + std::to_string(slice.slots) + " slots and " +
                                     std::to_string(slice.ledger.partitions().size()) +
                                     " partitions; the job has " + std::to_string(spec.elements()) + ", " +
                                     std::to_string(slots) + " and " + std::to_string(start.size()));
}

const Slice& Server::State::WithLedger(HostedSlice* hosted) {
  if (std::exchange(hot[hosted->order.slice.value].ledger_outdated, false)) {
    hosted->slice->ledger = ledgers.Get(hosted->order.slice.value);
  }
  return *hosted->slice;
}

// ---- checkpoints

std::optional<SaveShard> Server::State::TakeSave(const std::optional<CheckpointOrder>& order) {
  if (stepped()) return TakeSaveAtVersion(order);
  if (!order || order->id <= last_checkpoint || saving) return std::nullopt;
  std::vector<std::shared_ptr<const Slice>> slices;
  for (auto& hosted : hosted_slices) {
    if (!hosted || !hosted->slice || hosted->is_replica || hosted->saved >= order->id) continue;
    // A copy of the slice with its ledger; the memory is shared until the next update.
    slices.push_back(std::make_shared<const Slice>(WithLedger(&*hosted)));
    hosted->being_saved = true;
  }
  return BeginSave(*order, std::move(slices));
}

// Slices reach the version at different times: CompleteStep keeps each as it is then. The order is repeated
// until it is executed or withdrawn.
std::optional<SaveShard> Server::State::TakeSaveAtVersion(const std::optional<CheckpointOrder>& order) {
  if (saving) return std::nullopt;
  if (waiting_save != order) {
    for (auto& hosted : hosted_slices) {
      if (hosted) hosted->to_save.reset();
    }
    waiting_save.reset();
  }
  if (!order || order->id <= last_checkpoint) return std::nullopt;
  waiting_save = order;
  std::vector<std::shared_ptr<const Slice>> slices;
  bool all = true;
  for (auto& hosted : hosted_slices) {
    // The primary saves it, or its former server has saved it.
    if (!hosted || hosted->is_replica || hosted->saved >= order->id) continue;
    if (!hosted->slice) {
      all = false;
      continue;
    }
    if (!hosted->to_save && hosted->slice->version == order->version) KeepForSave(&*hosted, false);
    if (!hosted->to_save && hosted->slice->version > order->version) {
      shard = ShardReport{};
      shard->checkpoint = last_checkpoint = order->id;
      shard->status = Status(Code::kFailedPrecondition, "slice " + ToString(hosted->order.slice) +
                                                            " is already at step " +
                                                            std::to_string(hosted->slice->version) +
                                                            ", after step " + std::to_string(order->version));
      waiting_save.reset();
      heartbeat_urgent = true;
      return std::nullopt;
    }
    // Otherwise another history might follow.
    all = all && hosted->to_save && SaveConfirmed(*hosted);
    slices.push_back(hosted->to_save);
  }
  if (!all) return std::nullopt;
  waiting_save.reset();
  for (auto& hosted : hosted_slices) {
    if (hosted) hosted->to_save.reset();
  }
  return BeginSave(*order, std::move(slices));
}

void Server::State::KeepForSave(HostedSlice* hosted, bool now) {
  hosted->to_save = std::make_shared<const Slice>(WithLedger(hosted));
  hosted->to_save_at = {hosted->replica.link, hosted->replica.changed};
  const auto link = links.find(hosted->replica.server);
  if (now && link != links.end()) hosted->to_save_at.number = link->second.sent + 1;
}

SaveShard Server::State::BeginSave(const CheckpointOrder& order,
                                   std::vector<std::shared_ptr<const Slice>> slices) {
  last_checkpoint = order.id;
  shard.reset();
  saving = Save{order.id, {}, {}};
  for (const auto& slice : slices) {
    saving->incarnations.push_back({slice->id, slice->incarnation});
    hosted_slices[slice->id.value]->saved = order.id;
  }
  if (stepped()) saving->slices = slices;
  return {order, std::move(slices)};
}

// ---- control plane

Server::Server(ServerConfig config) : state_(std::make_unique<State>(std::move(config))) {}

Server::~Server() = default;

void Server::OnJoined(NodeId node, uint64_t term) {
  state_->node = node;
  state_->term = term;
  state_->reports.Restart();
}

std::vector<LedgerReport> Server::State::ReportLedgers() {
  std::vector<LedgerReport> whole;
  for (SliceLedgers::Equal& equal : ledgers.Classes()) {
    // The servers of the replicas report the others.
    std::erase_if(equal.slices, [this](uint32_t i) { return hot[i].replicated; });
    if (equal.slices.empty()) continue;
    const Slice* first = Held(hot[equal.slices[0]]);
    LedgerReport report{{}, first->events, std::move(equal.partitions), first->version};
    report.slices.reserve(equal.slices.size());
    for (const uint32_t i : equal.slices) {
      const Slice* slice = Held(hot[i]);
      report.slices.push_back({slice->id, slice->incarnation});
      report.events = std::min(report.events, slice->events);
      report.version = std::min(report.version, slice->version);
    }
    whole.push_back(std::move(report));
  }
  // Arrived slices are reported before they are held, so that the coordinator knows all runs that the former
  // server has taken when it makes the move.
  for (auto& [id, move] : arrived) {
    move.in_report = true;
    for (const MovedSlice& moved : move.slices) {
      const Slice& slice = *moved.slice;
      whole.push_back(
          {{{slice.id, slice.incarnation}}, slice.events, slice.ledger.partitions(), slice.version});
    }
  }
  return whole;
}

ServerHeartbeat Server::MakeHeartbeat() {
  State& s = *state_;
  ServerHeartbeat heartbeat;
  heartbeat.node = s.node;
  heartbeat.term = s.term;
  heartbeat.generation = s.view->generation;
  s.progress.bytes_held = 0;
  for (uint32_t i = 0; i < s.hosted_slices.size(); ++i) {
    if (!s.hosted_slices[i]) continue;
    if (s.hosted_slices[i]->failed)
      heartbeat.failed.push_back({SliceId(i), s.hosted_slices[i]->order.incarnation});
    const Slice* slice = s.hosted_slices[i]->slice.get();
    if (!slice) continue;
    s.progress.bytes_held += MemoryBytes(slice->elements, slice->slots);
  }
  s.reports.Fill([&s] { return s.ReportLedgers(); }, &heartbeat);
  s.Prune();
  if (!heartbeat.failed.empty()) heartbeat.failure = s.failure;
  heartbeat.shard = s.shard;
  heartbeat.consecutive_rejected = s.consecutive_rejected;
  heartbeat.rejected = s.rejected;
  heartbeat.progress = s.progress;
  heartbeat.leaving = s.leaving;
  s.ReportMoves(&heartbeat);
  s.ReportLost(&heartbeat);
  s.ReportTraffic(&heartbeat);
  s.heartbeat_urgent = false;
  return heartbeat;
}

bool Server::HeartbeatUrgent() const {
  return state_->heartbeat_urgent;
}

std::vector<ServerAction> Server::OnHeartbeatReply(const ServerHeartbeatReply& reply) {
  State& s = *state_;
  std::vector<ServerAction> actions;
  if (!guards::CurrentTerm(reply.term, s.term)) return actions;
  if (reply.evicted) {
    for (auto& hosted : s.hosted_slices) s.DropHostedSlice(&hosted);
    s.lost_here.clear();
    s.DropUnusedLinks();
    s.TakeMoves({});
    s.arrived.clear();
    s.waiting_save.reset();
    s.TakeView(View());
    actions.emplace_back(StopRole{true});
    return actions;
  }
  if (reply.term != s.term && !reply.stop) {
    // A new coordinator knows nothing of the slices yet.
    s.term = reply.term;
    s.reports.Restart();
    s.heartbeat_urgent = true;
    return actions;
  }
  // The next part is sent at once.
  if (s.reports.OnReply(reply.report, reply.part)) s.heartbeat_urgent = true;
  if (reply.view) s.TakeView(reply.view);
  if (!reply.start.empty()) s.start = reply.start;
  LoadSlices loads;
  s.TakeOrders(reply, &loads);
  s.TakeMoves(reply);
  if (reply.drain) s.leaving = true;
  if (!loads.orders.empty()) actions.emplace_back(std::move(loads));
  if (auto save = s.TakeSave(reply.checkpoint)) actions.emplace_back(std::move(*save));
  if (reply.stop) actions.emplace_back(StopRole{false});
  return actions;
}

void Server::OnSliceLoaded(const SliceOrder& order, Result<Slice> loaded) {
  State& s = *state_;
  if (order.slice.value >= s.hosted_slices.size() || !s.hosted_slices[order.slice.value]) return;
  State::HostedSlice& hosted = *s.hosted_slices[order.slice.value];
  if (hosted.order.incarnation != order.incarnation || hosted.slice || hosted.failed) return;
  Status status = loaded.status();
  if (status.ok()) {
    loaded->id = order.slice;
    loaded->incarnation = order.incarnation;
    status = s.Fits(*loaded);
  }
  s.heartbeat_urgent = true;
  if (!status.ok()) {
    hosted.failed = true;
    s.failure = status.With(order.directory + "/" + order.file).ToString();
    return;
  }
  // The values are sent, so they must be in memory from config.allocate.
  if (s.config.allocate && loaded->memory) s.MoveToNewMemory(&*loaded);
  s.MakeLive(&hosted, std::make_shared<Slice>(std::move(loaded).value()));
}

std::vector<uint64_t> Server::BytesToSave() const {
  std::vector<uint64_t> sizes;
  for (const auto& hosted : state_->hosted_slices) {
    if (hosted && hosted->slice) sizes.push_back(hosted->slice->memory.size());
  }
  return sizes;
}

void Server::OnSlicesRead(uint64_t checkpoint) {
  State& s = *state_;
  if (!s.saving || s.saving->checkpoint != checkpoint) return;
  s.saving->slices.clear();
  for (auto& hosted : s.hosted_slices) {
    if (hosted) hosted->being_saved = false;
  }
}

void Server::OnShardSaved(ShardReport report) {
  State& s = *state_;
  if (!s.saving || s.saving->checkpoint != report.checkpoint) return;
  OnSlicesRead(report.checkpoint);
  report.slices = std::move(s.saving->incarnations);
  s.saving.reset();
  s.shard = std::move(report);
  s.heartbeat_urgent = true;
}

const Slice* Server::Find(SliceId slice) const {
  State& s = *state_;
  return s.Alive(slice) ? &s.WithLedger(&*s.hosted_slices[slice.value]) : nullptr;
}

std::optional<SliceRef> Server::VersionOf(SliceId slice) const {
  const Slice* alive = state_->Alive(slice);
  if (!alive) return std::nullopt;
  return SliceRef{slice, alive->incarnation, alive->version};
}

bool Server::HasArrived(const SliceIncarnation& which) const {
  return state_->FindArrived(which) != nullptr;
}

const View& Server::view() const {
  return *state_->view;
}

uint64_t Server::term() const {
  return state_->term;
}

}  // namespace leat::protocol
