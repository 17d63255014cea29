#include "protocol/worker.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace leat::protocol {

struct Worker::State {
  struct Held {
    Lease lease;
    bool ready = false;
    uint32_t next = 0;  // batches before this one have been pushed, or are not asked for
  };
  // What the parameters in memory are: of which life of the slice, at which version.
  struct Known {
    Incarnation incarnation;
    uint64_t version = 0;
  };
  // One request to one server, repeated until it is answered or the view says that it cannot be.
  struct Exchange {
    PushRequest request;
    bool in_flight = false;
    Time at{0};  // in flight: given up then; else sent again then
  };
  enum class Phase : uint8_t { kIdle, kPulling, kComputing, kPushing };

  explicit State(WorkerConfig c) : config(std::move(c)), known(config.table.slices.size()) {}

  void Advance(Time now);
  bool StartPull(Time now);
  bool StartBatch();
  void StartPush(Time now, uint32_t batch, const Cut& cut, const BatchOutcome& outcome);
  void Begin(Time now, std::map<NodeId, PushRequest> requests);
  void Send(Time now, NodeId server, Exchange* exchange);
  void FinishExchange(Time now, NodeId server);
  void Retry(Time now, Exchange* exchange);
  void TakeView(const View& newer);
  void TakeLease(const Lease& lease);
  void TakeValues(Time now, const PushRequest& request, const PushReply& reply);
  void Drop(uint64_t id);
  void Release(uint64_t id);
  void ReleaseAll();
  void Stop(bool evicted);
  WorkerActions Take() { return std::exchange(actions, {}); }

  WorkerConfig config;
  NodeId node;
  View view;
  std::vector<Known> known;  // by slice

  std::map<uint64_t, Held> held;
  std::deque<uint64_t> order;      // of `held`, as leased
  std::vector<uint64_t> released;  // not yet acknowledged by the coordinator
  size_t reported = 0;             // of `released`, in the heartbeat under way

  Phase phase = Phase::kIdle;
  uint64_t last_token = 0;
  uint64_t lease = 0;  // being computed
  uint32_t batch = 0;
  std::map<NodeId, Exchange> exchanges;  // of the pull or push under way
  uint64_t last_sequence = 0;
  std::set<NodeId> contacted;
  std::optional<Time> resume_at;  // a server has turned us away: nothing new before this

  bool view_wanted = false;
  bool leaving = false;
  bool stopped = false;
  WorkerActions actions;
};

// ---- the loop: pull when slices have moved, then one batch after the other

void Worker::State::Advance(Time now) {
  while (!stopped && phase == Phase::kIdle) {
    if (leaving) return ReleaseAll();
    if (!view.ready() || view.slices.size() != known.size()) return;
    if (resume_at && now < *resume_at) return;
    resume_at.reset();
    if (StartPull(now)) return;
    if (!StartBatch()) return;
  }
}

// True when there is something to pull: slices whose values are of another life, or of none.
bool Worker::State::StartPull(Time now) {
  std::map<NodeId, PushRequest> requests;
  for (uint32_t i = 0; i < known.size(); ++i) {
    const SlicePlace& place = view.slices[i];
    if (known[i].incarnation == place.incarnation) continue;
    requests[place.server].slices.push_back({SliceId(i), place.incarnation, 0});
  }
  if (requests.empty()) return false;
  phase = Phase::kPulling;
  Begin(now, std::move(requests));
  return true;
}

// False when there is nothing to compute; true when a batch was started or a split ended.
bool Worker::State::StartBatch() {
  const auto ready =
      std::find_if(order.begin(), order.end(), [this](uint64_t id) { return held.at(id).ready; });
  if (ready == order.end()) return false;
  Held& split = held.at(*ready);
  const uint32_t batches = split.lease.cut.runs();
  while (split.next < batches && !split.lease.missing.Has(split.next)) ++split.next;
  if (split.next >= batches) {
    Release(*ready);
    return true;
  }
  phase = Phase::kComputing;
  lease = *ready;
  batch = split.next;
  actions.emplace_back(Compute{++last_token, lease, batch});
  return true;
}

void Worker::State::StartPush(Time now, uint32_t index, const Cut& cut, const BatchOutcome& outcome) {
  std::map<NodeId, PushRequest> requests;
  for (uint32_t i = 0; i < known.size() && i < view.slices.size(); ++i) {
    const SlicePlace& place = view.slices[i];
    // A slice that has begun another life while we computed does without this gradient: its ledger says so,
    // and the batch comes back for it.
    if (place.server == NodeId() || known[i].incarnation != place.incarnation) continue;
    PushRequest& request = requests[place.server];
    request.slices.push_back({SliceId(i), known[i].incarnation, known[i].version});
    request.cut = cut;
    request.run = index;
    const bool empty = outcome.disposition == Disposition::kEmpty || outcome.events == 0;
    request.disposition =
        empty && outcome.disposition != Disposition::kRejected ? Disposition::kEmpty : outcome.disposition;
    request.events = request.disposition == Disposition::kEmpty ? 0 : outcome.events;
  }
  phase = Phase::kPushing;
  Begin(now, std::move(requests));
}

// ---- exchanges with servers

void Worker::State::Begin(Time now, std::map<NodeId, PushRequest> requests) {
  for (auto& [server, request] : requests) {
    request.worker = node;
    Send(now, server, &(exchanges[server] = {std::move(request), false, now}));
  }
  if (exchanges.empty()) {
    phase = Phase::kIdle;
    Advance(now);
  }
}

void Worker::State::Send(Time now, NodeId server, Exchange* exchange) {
  const Member* member = view.Find(server);
  if (!member) return Retry(now, exchange);
  exchange->in_flight = true;
  exchange->at = now + config.reply_timeout;
  exchange->request.sequence = ++last_sequence;
  exchange->request.generation = view.generation;
  contacted.insert(server);
  actions.emplace_back(SendPush{server, member->address, exchange->request});
}

void Worker::State::Retry(Time now, Exchange* exchange) {
  exchange->in_flight = false;
  exchange->at = now + config.retry_interval;
  view_wanted = true;
}

void Worker::State::FinishExchange(Time now, NodeId server) {
  exchanges.erase(server);
  if (!exchanges.empty()) return;
  phase = Phase::kIdle;
  Advance(now);
}

void Worker::State::TakeValues(Time now, const PushRequest& request, const PushReply& reply) {
  size_t next = 0;
  for (const SliceRef& ref : request.slices) {
    while (next < reply.slices.size() && reply.slices[next].slice < ref.slice) ++next;
    const SliceReply* said =
        next < reply.slices.size() && reply.slices[next].slice == ref.slice ? &reply.slices[next] : nullptr;
    if (said && said->values && said->incarnation == ref.incarnation) {
      known[ref.slice.value] = {ref.incarnation, said->version};
    } else if (!said || said->outcome == SliceOutcome::kNotHere ||
               request.disposition == Disposition::kPull) {
      // Nothing is trained before a pull has found it, wherever the next view says that it is.
      known[ref.slice.value] = {};
      view_wanted = true;
      resume_at = now + config.retry_interval;
    }
  }
}

// ---- what the coordinator says

void Worker::State::TakeView(const View& newer) {
  view = newer;
  resume_at.reset();
  for (auto at = exchanges.begin(); at != exchanges.end();) {
    auto& [server, exchange] = *at;
    auto lives = [&, of = server](const SliceRef& ref) {
      return ref.slice.value < view.slices.size() && view.slices[ref.slice.value].server == of &&
             view.slices[ref.slice.value].incarnation == ref.incarnation;
    };
    auto& slices = exchange.request.slices;
    const bool over = !view.Find(server) || std::none_of(slices.begin(), slices.end(), lives);
    if (!over) {
      // One that is under way is answered for the slices that are no longer there, too.
      if (!exchange.in_flight) std::erase_if(slices, [&](const SliceRef& ref) { return !lives(ref); });
      ++at;
      continue;
    }
    if (exchange.in_flight && contacted.erase(server) > 0) actions.emplace_back(Disconnect{server});
    at = exchanges.erase(at);
  }
  for (auto at = contacted.begin(); at != contacted.end();) {
    if (view.Find(*at)) {
      ++at;
      continue;
    }
    actions.emplace_back(Disconnect{*at});
    at = contacted.erase(at);
  }
  if (exchanges.empty() && phase != Phase::kComputing) phase = Phase::kIdle;
}

void Worker::State::TakeLease(const Lease& granted) {
  if (held.contains(granted.id)) return;
  if (leaving || !granted.cut.valid() || granted.missing.size() != granted.cut.runs()) {
    released.push_back(granted.id);
    return;
  }
  held[granted.id] = {granted, false, 0};
  order.push_back(granted.id);
  actions.emplace_back(PrepareSplit{granted});
}

void Worker::State::Drop(uint64_t id) {
  if (held.erase(id) == 0) return;
  std::erase(order, id);
  actions.emplace_back(DropSplit{id});
}

void Worker::State::Release(uint64_t id) {
  Drop(id);
  released.push_back(id);
}

void Worker::State::ReleaseAll() {
  while (!order.empty()) Release(order.front());
}

void Worker::State::Stop(bool evicted) {
  stopped = true;
  while (!order.empty()) Drop(order.front());
  for (NodeId server : contacted) actions.emplace_back(Disconnect{server});
  contacted.clear();
  exchanges.clear();
  actions.emplace_back(StopRole{evicted});
}

// ---- the public face

Worker::Worker(WorkerConfig config) : state_(std::make_unique<State>(std::move(config))) {}

Worker::~Worker() = default;

void Worker::OnJoined(NodeId node) {
  state_->node = node;
}

WorkerHeartbeat Worker::MakeHeartbeat() {
  State& s = *state_;
  WorkerHeartbeat beat;
  beat.node = s.node;
  beat.generation = s.view.generation;
  beat.held.assign(s.order.begin(), s.order.end());
  beat.released = s.released;
  beat.leaving = s.leaving && s.phase == State::Phase::kIdle && s.held.empty();
  if (!s.leaving && !s.stopped && s.held.size() < s.config.leases_ahead) {
    beat.leases_wanted = s.config.leases_ahead - static_cast<uint32_t>(s.held.size());
  }
  s.reported = s.released.size();
  s.view_wanted = false;
  return beat;
}

bool Worker::HeartbeatUrgent() const {
  const State& s = *state_;
  if (s.stopped) return false;
  const bool gone = s.leaving && s.phase == State::Phase::kIdle && s.held.empty();
  return s.released.size() > s.reported || s.view_wanted || gone;
}

WorkerActions Worker::OnHeartbeatReply(Time now, const WorkerHeartbeatReply& reply) {
  State& s = *state_;
  if (s.stopped) return {};
  if (reply.evicted || reply.stop) {
    s.Stop(reply.evicted);
    return s.Take();
  }
  s.released.erase(s.released.begin(), s.released.begin() + static_cast<std::ptrdiff_t>(s.reported));
  s.reported = 0;
  for (uint64_t id : reply.revoked) s.Drop(id);
  if (reply.view && reply.view->generation > s.view.generation) s.TakeView(*reply.view);
  for (const Lease& lease : reply.leases) s.TakeLease(lease);
  s.Advance(now);
  return s.Take();
}

WorkerActions Worker::Leave(Time now) {
  state_->leaving = true;
  state_->Advance(now);
  return state_->Take();
}

WorkerActions Worker::OnSplitReady(Time now, uint64_t lease) {
  State& s = *state_;
  if (const auto at = s.held.find(lease); at != s.held.end()) at->second.ready = true;
  s.Advance(now);
  return s.Take();
}

WorkerActions Worker::OnSplitFailed(Time now, uint64_t lease) {
  State& s = *state_;
  if (s.held.contains(lease)) s.Release(lease);
  s.Advance(now);
  return s.Take();
}

WorkerActions Worker::OnComputed(Time now, uint64_t token, const BatchOutcome& outcome) {
  State& s = *state_;
  if (s.stopped || s.phase != State::Phase::kComputing || token != s.last_token) return {};
  const auto at = s.held.find(s.lease);
  if (at == s.held.end()) {  // taken from us meanwhile
    s.phase = State::Phase::kIdle;
    s.Advance(now);
    return s.Take();
  }
  at->second.next = s.batch + 1;
  s.StartPush(now, s.batch, at->second.lease.cut, outcome);
  return s.Take();
}

WorkerActions Worker::OnPushReply(Time now, NodeId server, const PushReply& reply) {
  State& s = *state_;
  const auto at = s.exchanges.find(server);
  if (s.stopped || at == s.exchanges.end() || !at->second.in_flight ||
      at->second.request.sequence != reply.sequence) {
    return {};
  }
  s.TakeValues(now, at->second.request, reply);
  s.FinishExchange(now, server);
  return s.Take();
}

WorkerActions Worker::OnPushFailed(Time now, NodeId server, uint64_t sequence, const Status&) {
  State& s = *state_;
  const auto at = s.exchanges.find(server);
  if (s.stopped || at == s.exchanges.end() || !at->second.in_flight ||
      at->second.request.sequence != sequence) {
    return {};
  }
  s.Retry(now, &at->second);
  return s.Take();
}

WorkerActions Worker::OnTimer(Time now) {
  State& s = *state_;
  if (s.stopped) return {};
  for (auto& [server, exchange] : s.exchanges) {
    if (exchange.at > now) continue;
    if (!exchange.in_flight) {
      s.Send(now, server, &exchange);
    } else {
      s.contacted.erase(server);
      s.actions.emplace_back(Disconnect{server});
      s.Retry(now, &exchange);
    }
  }
  s.Advance(now);
  return s.Take();
}

Time Worker::next_timer() const {
  const State& s = *state_;
  Time next = Time::max();
  if (s.stopped) return next;
  for (const auto& [server, exchange] : s.exchanges) next = std::min(next, exchange.at);
  if (s.phase == State::Phase::kIdle && s.resume_at) next = std::min(next, *s.resume_at);
  return next;
}

const View& Worker::view() const {
  return state_->view;
}

const Lease* Worker::FindLease(uint64_t lease) const {
  const auto at = state_->held.find(lease);
  return at == state_->held.end() ? nullptr : &at->second.lease;
}

bool Worker::idle() const {
  return state_->held.empty();
}

}  // namespace leat::protocol
