#include "protocol/server.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "protocol/guards.h"

namespace leat::protocol {

namespace {

// Staleness of up to so many updates is told apart.
constexpr size_t kStalenessBins = 129;

uint64_t MemoryBytes(uint64_t elements, uint32_t slots) {
  return elements * (1 + slots) * sizeof(float);
}

Status Bad(std::string what) {
  return Status(Code::kInvalidArgument, "push: " + std::move(what));
}

}  // namespace

std::span<float> Slice::values() const {
  return {reinterpret_cast<float*>(memory.data()), elements};
}

std::span<float> Slice::slot(uint32_t i) const {
  LEAT_CHECK(i < slots);
  return {reinterpret_cast<float*>(memory.data()) + (i + 1) * elements, elements};
}

struct Server::State {
  // A slice that is ordered here: being read, not to be had, or alive.
  struct Place {
    SliceOrder order;
    bool failed = false;
    std::shared_ptr<Slice> slice;  // null until it is alive
    bool being_saved = false;      // its memory is read by whoever saves it: an update takes new memory
  };
  struct Save {
    uint64_t checkpoint = 0;
    std::vector<SliceLife> slices;
  };

  // How the slices of one variable are updated.
  struct Rule {
    optim::OptimizerConfig optimizer;
    uint32_t slots = 0;
  };

  explicit State(ServerConfig c) : config(std::move(c)), places(config.table.slices.size()) {
    progress.staleness.resize(kStalenessBins);
    for (const auto& variable : config.table.variables) {
      const auto rule = optim::RuleFor(config.optimizer, variable);
      rules.push_back({rule, static_cast<uint32_t>(optim::SlotNames(rule).size())});
    }
  }

  const Rule& RuleOf(SliceId id) const { return rules[config.table.slices[id.value].variable]; }

  Slice* Alive(SliceId id) const {
    if (id.value >= places.size() || !places[id.value]) return nullptr;
    return places[id.value]->slice.get();
  }
  bool Outsider(const PushRequest& request) const {
    // A worker whose view is newer has joined since ours was made.
    return request.generation <= view.generation &&
           !guards::Member(std::binary_search(members.begin(), members.end(), request.worker));
  }

  void TakeView(const View& newer) {
    view = newer;
    members.clear();
    for (const Member& member : view.members) members.push_back(member.node);
    std::sort(members.begin(), members.end());
  }
  void TakeOrders(const std::vector<SliceOrder>& orders, LoadSlices* loads);
  std::shared_ptr<Slice> Make(const SliceOrder& order) const;
  Status Fits(const Slice& slice) const;
  void Update(Place& place, std::span<const float> gradient, uint64_t seen_version);

  ServerConfig config;
  std::vector<Rule> rules;  // by variable
  NodeId node;
  View view;
  std::vector<NodeId> members;  // of the view, ordered
  std::vector<Position> start;
  std::vector<std::optional<Place>> places;  // by slice id
  std::string failure;
  std::optional<Save> saving;
  uint64_t last_checkpoint = 0;
  std::optional<ShardReport> shard;
  ServerProgress progress;
  bool news = false;  // that the coordinator waits for
};

void Server::State::TakeOrders(const std::vector<SliceOrder>& orders, LoadSlices* loads) {
  std::vector<const SliceOrder*> ordered(places.size(), nullptr);
  for (const SliceOrder& order : orders) {
    if (order.slice.value < places.size()) ordered[order.slice.value] = &order;
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const SliceOrder* order = ordered[i];
    if (order && places[i] && places[i]->order.incarnation == order->incarnation) continue;
    places[i].reset();
    if (!order) continue;
    places[i] = Place{*order, false, nullptr, false};
    if (order->directory.empty()) {
      places[i]->slice = Make(*order);
      news = true;
    } else {
      loads->orders.push_back(*order);
    }
  }
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
  slice->memory = Buffer(MemoryBytes(slice->elements, rule.slots));
  optim::Initialise(variable.init, config.table.seed, variable.name, spec.begin, slice->values());
  for (uint32_t i = 0; i < rule.slots; ++i) {
    std::ranges::fill(slice->slot(i), optim::InitialSlot(rule.optimizer, i));
  }
  return slice;
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

void Server::State::Update(Place& place, std::span<const float> gradient, uint64_t seen_version) {
  Slice& slice = *place.slice;
  if (place.being_saved && !config.modelled) {
    Buffer memory(slice.memory.size());
    std::memcpy(memory.data(), slice.memory.data(), slice.memory.size());
    slice.memory = std::move(memory);
    place.being_saved = false;
  }
  const Rule& rule = RuleOf(slice.id);
  const uint64_t staleness = slice.version - std::min(seen_version, slice.version);
  ++slice.version;
  if (!config.modelled) {
    std::array<std::span<float>, optim::kMostSlots> slot_spans;
    LEAT_CHECK(rule.slots <= slot_spans.size());
    for (uint32_t i = 0; i < rule.slots; ++i) slot_spans[i] = slice.slot(i);
    optim::Apply(rule.optimizer, slice.values(), gradient, std::span(slot_spans).first(rule.slots),
                 slice.version, 1.0f);
  }
  ++progress.staleness[std::min<uint64_t>(staleness, kStalenessBins - 1)];
  progress.staleness_sum += staleness;
  ++progress.staleness_count;
}

Server::Server(ServerConfig config) : state_(std::make_unique<State>(std::move(config))) {}

Server::~Server() = default;

void Server::OnJoined(NodeId node) {
  state_->node = node;
}

// ---- control plane

ServerHeartbeat Server::MakeHeartbeat() {
  State& s = *state_;
  ServerHeartbeat beat;
  beat.node = s.node;
  beat.generation = s.view.generation;
  s.progress.bytes_held = 0;
  for (uint32_t i = 0; i < s.places.size(); ++i) {
    if (!s.places[i]) continue;
    const SliceLife life{SliceId(i), s.places[i]->order.incarnation};
    if (s.places[i]->failed) beat.failed.push_back(life);
    const Slice* slice = s.places[i]->slice.get();
    if (!slice) continue;
    s.progress.bytes_held += MemoryBytes(slice->elements, slice->slots);
    auto same = std::find_if(beat.ledgers.begin(), beat.ledgers.end(), [&](const LedgerReport& report) {
      return report.partitions == slice->ledger.partitions();
    });
    if (same == beat.ledgers.end()) {
      beat.ledgers.push_back({{}, slice->events, slice->ledger.partitions()});
      same = std::prev(beat.ledgers.end());
    }
    same->slices.push_back(life);
    same->events = std::min(same->events, slice->events);
  }
  if (!beat.failed.empty()) beat.failure = s.failure;
  beat.shard = s.shard;
  beat.progress = s.progress;
  s.news = false;
  return beat;
}

bool Server::HeartbeatUrgent() const {
  return state_->news;
}

std::vector<ServerAction> Server::OnHeartbeatReply(const ServerHeartbeatReply& reply) {
  State& s = *state_;
  std::vector<ServerAction> actions;
  if (reply.evicted) {
    for (auto& place : s.places) place.reset();
    s.TakeView({});
    actions.emplace_back(StopRole{true});
    return actions;
  }
  if (reply.view) s.TakeView(*reply.view);
  if (!reply.start.empty()) s.start = reply.start;
  LoadSlices loads;
  s.TakeOrders(reply.orders, &loads);
  if (!loads.orders.empty()) actions.emplace_back(std::move(loads));

  if (reply.checkpoint && reply.checkpoint->id > s.last_checkpoint && !s.saving) {
    SaveShard save{*reply.checkpoint, {}};
    s.last_checkpoint = reply.checkpoint->id;
    s.saving = State::Save{reply.checkpoint->id, {}};
    s.shard.reset();
    for (auto& place : s.places) {
      if (!place || !place->slice) continue;
      // A copy of the slice and its ledger; the memory is shared until the next update.
      save.slices.push_back(std::make_shared<const Slice>(*place->slice));
      s.saving->slices.push_back({place->slice->id, place->slice->incarnation});
      place->being_saved = true;
    }
    actions.emplace_back(std::move(save));
  }
  if (reply.stop) actions.emplace_back(StopRole{false});
  return actions;
}

void Server::OnSliceLoaded(const SliceOrder& order, Result<Slice> loaded) {
  State& s = *state_;
  if (order.slice.value >= s.places.size() || !s.places[order.slice.value]) return;
  State::Place& place = *s.places[order.slice.value];
  if (place.order.incarnation != order.incarnation || place.slice || place.failed) return;
  Status status = loaded.status();
  if (status.ok()) {
    loaded->id = order.slice;
    loaded->incarnation = order.incarnation;
    status = s.Fits(*loaded);
  }
  s.news = true;
  if (!status.ok()) {
    place.failed = true;
    s.failure = status.With(order.directory + "/" + order.file).ToString();
    return;
  }
  place.slice = std::make_shared<Slice>(std::move(loaded).value());
}

void Server::OnShardSaved(ShardReport report) {
  State& s = *state_;
  if (!s.saving || s.saving->checkpoint != report.checkpoint) return;
  report.slices = std::move(s.saving->slices);
  s.saving.reset();
  for (auto& place : s.places) {
    if (place) place->being_saved = false;
  }
  s.shard = std::move(report);
  s.news = true;
}

// ---- data plane

Result<std::vector<uint64_t>> Server::Begin(const PushRequest& request) {
  State& s = *state_;
  const bool gradient = request.disposition == Disposition::kGradient;
  std::vector<uint64_t> elements;
  elements.reserve(std::min(request.slices.size(), s.places.size()));
  for (size_t i = 0; i < request.slices.size(); ++i) {
    const SliceId id = request.slices[i].slice;
    if (id.value >= s.places.size()) {
      return Bad("slice " + ToString(id) + " of " + std::to_string(s.places.size()));
    }
    if (i > 0 && id <= request.slices[i - 1].slice) return Bad("slice " + ToString(id) + " is out of order");
    elements.push_back(gradient ? s.config.table.slices[id.value].elements() : 0);
  }
  if (request.disposition > Disposition::kRejected) return Bad("unknown disposition");
  if (request.disposition == Disposition::kPull) {
    ++s.progress.pulls;
    return elements;
  }
  const Cut& cut = request.cut;
  if (!cut.valid()) return Bad("a cut that is none");
  if (!s.start.empty() && cut.partition >= s.start.size()) {
    return Bad("partition " + std::to_string(cut.partition) + " of " + std::to_string(s.start.size()));
  }
  if (request.run >= cut.runs()) {
    return Bad("run " + std::to_string(request.run) + " of " + std::to_string(cut.runs()));
  }
  const uint64_t most = cut.EventsOf(request.run);
  const bool weight_fits = request.disposition == Disposition::kEmpty ? request.events == 0
                           : gradient ? request.events >= 1 && request.events <= most
                                      : request.events <= most;
  if (!weight_fits) {
    return Bad(std::to_string(request.events) + " events in a batch of " + std::to_string(most));
  }
  ++s.progress.pushes;
  return elements;
}

SliceReply Server::Apply(const PushRequest& request, size_t i, std::span<const float> gradient) {
  State& s = *state_;
  const SliceRef& ref = request.slices[i];
  SliceReply reply{ref.slice, ref.incarnation, SliceOutcome::kNotHere, 0, false};
  Slice* slice = s.Alive(ref.slice);
  if (!slice || s.Outsider(request) || !guards::SameLife(ref.incarnation, slice->incarnation)) return reply;
  if (request.disposition == Disposition::kPull) {
    reply.outcome = SliceOutcome::kPulled;
  } else {
    switch (slice->ledger.Note(request.cut, request.run)) {
      case Ledger::Entry::kConflict:
        reply.outcome = SliceOutcome::kConflict;
        reply.version = slice->version;
        return reply;
      case Ledger::Entry::kDuplicate:
        reply.outcome = SliceOutcome::kDuplicate;
        ++s.progress.duplicates;
        break;
      case Ledger::Entry::kNew:
        reply.outcome = SliceOutcome::kApplied;
        if (request.disposition == Disposition::kGradient) {
          LEAT_CHECK(s.config.modelled || gradient.size() == slice->elements);
          s.Update(*s.places[ref.slice.value], gradient, ref.version);
          slice->events += request.events;
        }
        break;
    }
  }
  reply.version = slice->version;
  reply.values = request.want_values;
  return reply;
}

std::optional<PushReply> Server::Finish(uint64_t, const PushRequest& request,
                                        std::vector<SliceReply> slices) {
  State& s = *state_;
  PushReply reply{request.sequence, s.view.generation, s.Outsider(request), {}, std::move(slices)};
  for (SliceReply& slice : reply.slices) {
    // Between its Apply and now a slice may have been ordered away.
    const Slice* alive = s.Alive(slice.slice);
    if (slice.values && (!alive || alive->incarnation != slice.incarnation)) slice.values = false;
  }
  return reply;
}

std::vector<Server::Ready> Server::TakeReady() {
  return {};
}

void Server::Expire(uint64_t) {}

void Server::Forget(uint64_t) {}

Server::HeldValues Server::Values(SliceId slice, uint64_t) const {
  const Slice* alive = state_->Alive(slice);
  LEAT_CHECK(alive != nullptr);
  return {alive->memory, alive->values()};
}

const Slice* Server::Find(SliceId slice) const {
  return state_->Alive(slice);
}

const View& Server::view() const {
  return state_->view;
}

}  // namespace leat::protocol
