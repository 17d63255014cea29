#include "protocol/worker/worker.h"

#include <algorithm>
#include <utility>

#include "protocol/guards.h"
#include "protocol/worker/worker_state.h"

namespace leat::protocol {

namespace {

// An upper limit for steps; a lease beyond it is invalid.
constexpr uint64_t kMaxSteps = uint64_t{1} << 62;
// The most splits that a fast worker leases ahead; if it dies, all are leased again.
constexpr uint32_t kMaxLeasesAhead = 32;

}  // namespace

Worker::State::State(WorkerConfig c) : config(std::move(c)) {
  known.reserve(config.table.slices.size());
  index_of.reserve(config.table.slices.size());
  for (uint32_t i = 0; i < config.table.slices.size(); ++i) {
    known.push_back({SliceId(i), {}, 0});
    index_of.push_back(i);
  }
  incarnations.resize(known.size());
  if (stepped()) seen.resize(known.size());
}

// ---- inputs from the coordinator

void Worker::State::TakeView(const Shared<View>& newer) {
  // The values that it has kept are as old as it has stood by.
  const Member* const before = view->Find(node);
  const Member* const now = newer->Find(node);
  if (before && now && before->state == Member::State::kStandby && now->state != before->state)
    ForgetValues();
  if (stepped() && view->slices.size() == newer->slices.size()) {
    // Stepped strategies restore all slices together: training continues from an earlier step.
    const auto same = [](const SliceLocation& a, const SliceLocation& b) {
      return a.incarnation == b.incarnation;
    };
    if (!std::equal(view->slices.begin(), view->slices.end(), newer->slices.begin(), same)) {
      ReleaseAll();
      decided.reset();
      settled = 0;
    }
  }
  DropExchanges(*newer);
  for (Untaken& one : untaken) one.at = Time(0);
  view = newer;
  view_ready = view->ready() && view->slices.size() == known.size();
  lacking = true;
  ArrangeExchanges();
  resume_at.reset();
  last_pull.reset();
}

void Worker::State::TakeLease(const Lease& granted) {
  // A worker that leaves does not begin the lease: it belongs to others once the worker has left.
  if (leaving || held.contains(granted.id)) return;
  const uint32_t runs = granted.cut.valid() ? granted.cut.runs() : 0;
  bool fits = runs > 0 && granted.missing.size() == runs && granted.labels.has_value() == config.late_labels;
  if (stepped()) {
    const StepLane step_lane{granted.first_step, granted.lane, granted.width, granted.needed};
    RunSet both = granted.missing;
    fits = fits && granted.assigned.size() == runs && !granted.assigned.empty() && step_lane.valid() &&
           granted.first_step < kMaxSteps && (both &= granted.assigned) == granted.missing;
  }
  if (!fits) {
    released.push_back(granted.id);
    return;
  }
  HeldLease& split = held[granted.id];
  split.lease = granted;
  for (uint32_t i = 0; i < runs; ++i) {
    if ((stepped() ? granted.assigned : granted.missing).Has(i)) split.runs.push_back(i);
  }
  while (!split.runs.empty() && !granted.missing.Has(split.runs.back())) split.runs.pop_back();
  order.push_back(granted.id);
  actions.emplace_back(PrepareSplit{granted});
}

uint32_t Worker::State::LeasesWanted() const {
  // The coordinator decides how far ahead rounds are leased.
  if (stepped()) return config.leases_ahead;
  return std::max(config.leases_ahead, std::min(2 * ended, kMaxLeasesAhead));
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

// All leases belong to others once the worker has left. Splits that it has begun are released, so that
// servers are asked first about the runs that they may have. Other splits are dropped, and so are lanes,
// because the other workers wait for them.
void Worker::State::GiveUpLeases() {
  while (!order.empty()) {
    const uint64_t id = order.front();
    const bool begun = held.at(id).next > 0;
    begun && !stepped() ? Release(id) : Drop(id);
  }
}

void Worker::State::Stop(bool evicted) {
  stopped = true;
  while (!order.empty()) Drop(order.front());
  for (const Exchange& exchange : exchanges) {
    if (exchange.contacted) actions.emplace_back(Disconnect{exchange.server});
  }
  exchanges.clear();
  untaken.clear();
  open = 0;
  actions.emplace_back(StopRole{evicted});
}

bool Worker::State::Waiting() const {
  if (phase != Phase::kIdle) return phase != Phase::kComputing;
  // Reading a split is work; what is ready waits for a step or a server.
  return held.empty() || held.at(order.front()).ready;
}

// ---- public interface

Worker::Worker(WorkerConfig config) : state_(std::make_unique<State>(std::move(config))) {}

Worker::~Worker() = default;

void Worker::OnJoined(NodeId node, uint64_t term) {
  state_->node = node;
  state_->term = term;
  state_->rng = Rng(node.value);
}

WorkerHeartbeat Worker::MakeHeartbeat(Time now) {
  State& s = *state_;
  WorkerHeartbeat heartbeat;
  heartbeat.node = s.node;
  heartbeat.term = s.term;
  heartbeat.generation = s.view->generation;
  heartbeat.held.assign(s.order.begin(), s.order.end());
  heartbeat.released = s.released;
  for (const uint64_t id : s.introduces ? s.order : std::deque<uint64_t>()) {
    const Lease& lease = s.held.at(id).lease;
    heartbeat.claims.push_back({id, lease.cut.partition, lease.cut.begin, lease.first_step, lease.lane});
  }
  heartbeat.leaving = s.leaving && s.phase == State::Phase::kIdle && s.held.empty();
  heartbeat.waiting = s.Waiting();
  heartbeat.unreachable = s.Unreachable(now);
  const uint32_t has = s.stepped() ? s.RoundsHeld() : static_cast<uint32_t>(s.held.size());
  const uint32_t wanted = s.LeasesWanted();
  if (!s.leaving && !s.stopped && has < wanted) heartbeat.leases_wanted = wanted - has;
  s.reported = s.released.size();
  s.view_wanted = false;
  return heartbeat;
}

bool Worker::HeartbeatUrgent() const {
  const State& s = *state_;
  if (s.stopped) return false;
  const bool gone = s.leaving && s.phase == State::Phase::kIdle && s.held.empty();
  return s.released.size() > s.reported || s.view_wanted || s.introduces || gone;
}

WorkerActions Worker::OnHeartbeatReply(Time now, const WorkerHeartbeatReply& reply) {
  State& s = *state_;
  if (s.stopped || !guards::CurrentTerm(reply.term, s.term)) return {};
  if (reply.evicted || reply.stop) {
    s.Stop(reply.evicted && !s.leaving);
    return s.Take();
  }
  s.introduces = reply.term != s.term;
  s.term = reply.term;
  if (s.introduces) return {};
  if (reply.drain) s.leaving = true;
  s.released.erase(s.released.begin(), s.released.begin() + static_cast<std::ptrdiff_t>(s.reported));
  s.reported = 0;
  s.ended = 0;
  for (uint64_t id : reply.revoked) s.Drop(id);
  if (reply.view && reply.view->generation > s.view->generation) s.TakeView(reply.view);
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
  s.OnBatch(now, outcome);
  return s.Take();
}

WorkerActions Worker::OnPushReply(Time now, NodeId server, const PushReply& reply) {
  State& s = *state_;
  State::Exchange* exchange = s.stopped ? nullptr : s.Find(server, reply.sequence);
  if (!exchange) return {};
  s.TakeReply(now, *exchange, reply);
  s.FinishExchange(now, exchange);
  return s.Take();
}

WorkerActions Worker::OnPushFailed(Time now, NodeId server, uint64_t sequence, const Status&) {
  State& s = *state_;
  State::Exchange* exchange = s.stopped ? nullptr : s.Find(server, sequence);
  if (!exchange) return {};
  s.NoteFailure(now, exchange);
  return s.Take();
}

void Worker::OnSilence(NodeId server, bool silent) {
  State& s = *state_;
  if (silent) {
    s.failing[server].silent = true;
  } else if (const auto at = s.failing.find(server); at != s.failing.end()) {
    at->second.silent = false;
  }
}

WorkerActions Worker::OnTimer(Time now) {
  State& s = *state_;
  if (s.stopped) return {};
  s.OnLate(now);
  s.Advance(now);
  return s.Take();
}

Time Worker::next_timer() const {
  const State& s = *state_;
  Time next = Time::max();
  if (s.stopped) return next;
  for (const State::Exchange& exchange : s.exchanges) {
    if (exchange.open) next = std::min(next, exchange.at);
  }
  for (const State::Untaken& one : s.untaken) {
    if (s.open == 0) next = std::min(next, one.at);
  }
  const bool idle = s.phase == State::Phase::kIdle;
  if (idle && s.resume_at) next = std::min(next, *s.resume_at);
  if (idle && s.ask_at && !s.held.empty()) next = std::min(next, *s.ask_at);
  if (!idle && s.interrupt_at) next = std::min(next, *s.interrupt_at);
  return next;
}

const View& Worker::view() const {
  return *state_->view;
}

uint64_t Worker::term() const {
  return state_->term;
}

const Lease* Worker::FindLease(uint64_t lease) const {
  const auto at = state_->held.find(lease);
  return at == state_->held.end() ? nullptr : &at->second.lease;
}

bool Worker::idle() const {
  return state_->held.empty();
}

bool Worker::computing() const {
  return state_->phase == State::Phase::kComputing;
}

uint64_t Worker::push_retries() const {
  return state_->push_retries;
}
bool Worker::stands_by() const {
  const Member* const self = state_->view->Find(state_->node);
  return self != nullptr && self->state == Member::State::kStandby;
}

bool Worker::has_values() const {
  const State& s = *state_;
  if (!s.view_ready || s.phase == State::Phase::kPulling) return false;
  for (size_t index = 0; index < s.known.size(); ++index) {
    if (s.known[index].incarnation != s.incarnations[index]) return false;
  }
  return true;
}

}  // namespace leat::protocol
