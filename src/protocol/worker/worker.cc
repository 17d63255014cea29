#include "protocol/worker/worker.h"

#include <algorithm>
#include <utility>

#include "protocol/guards.h"
#include "protocol/worker/worker_state.h"

namespace leat::protocol {

Worker::State::State(WorkerConfig c)
    : config(std::move(c)),
      retries(config.times),
      versions(config.table.slices.size(), config.strategy.stepped()),
      exchanges(versions, retries, outbox),
      run(config.strategy, versions, exchanges, retries, outbox),
      splits({config.strategy.stepped(), config.leases_ahead, config.late_labels}, outbox),
      order(config.strategy, config.times.retry_interval, config.always_pull, splits, versions, exchanges,
            run, outbox) {}

void Worker::State::Advance(Time now) {
  while (!stopped) {
    if (run.phase() == Phase::kPushing && exchanges.open() == 0) order.FinishPush(now, leaving);
    if (run.phase() != Phase::kIdle && !order.Interrupt(now, leaving)) return;
    if (run.active() && (leaving || !splits.Holds(run.lease()))) run.Abandon();
    if (leaving) return splits.GiveUp();
    if (!exchanges.ready()) return;
    if (outbox.resume_at && now < *outbox.resume_at) return;
    outbox.resume_at.reset();
    if (!order.Advance(now)) return;
  }
}

void Worker::State::TakeView(const Shared<View>& newer) {
  const View& older = exchanges.view();
  // The values that it has kept are as old as it has stood by.
  const Member* const before = older.Find(node);
  const Member* const now = newer->Find(node);
  if (before && now && before->state == Member::State::kStandby && now->state != before->state)
    versions.ForgetAll();
  if (config.strategy.stepped() && older.slices.size() == newer->slices.size()) {
    // Stepped strategies restore all slices together: training continues from an earlier step.
    const auto same = [](const SliceLocation& a, const SliceLocation& b) {
      return a.incarnation == b.incarnation;
    };
    if (!std::ranges::equal(older.slices, newer->slices, same)) {
      splits.ReleaseAll();
      order.Restart();
    }
  }
  run.OnDropped(exchanges.DropObsolete(*newer));
  exchanges.SetView(newer);
  outbox.resume_at.reset();
  order.OnView();
}

void Worker::State::Stop(bool evicted) {
  stopped = true;
  splits.DropAll();
  exchanges.Stop();
  run.Stop();
  outbox.actions.emplace_back(StopRole{evicted});
}

bool Worker::State::Waiting() const {
  if (run.phase() != Phase::kIdle) return run.phase() != Phase::kComputing;
  // Reading a split is work; what is ready waits for a step or a server.
  return splits.FirstIsReady();
}

// ---- public interface

Worker::Worker(WorkerConfig config) : state_(std::make_unique<State>(std::move(config))) {}

Worker::~Worker() = default;

void Worker::OnJoined(NodeId node, uint64_t term) {
  state_->node = node;
  state_->term = term;
  state_->exchanges.OnJoined(node);
  state_->retries.OnJoined(node);
}

WorkerHeartbeat Worker::MakeHeartbeat(Time now) {
  State& s = *state_;
  WorkerHeartbeat heartbeat;
  heartbeat.node = s.node;
  heartbeat.term = s.term;
  heartbeat.generation = s.exchanges.view().generation;
  s.splits.Report(s.introduces, !s.leaving && !s.stopped, &heartbeat);
  heartbeat.leaving = s.gone();
  heartbeat.waiting = s.Waiting();
  heartbeat.unreachable = s.exchanges.Unreachable(now);
  s.outbox.view_wanted = false;
  return heartbeat;
}

bool Worker::HeartbeatUrgent() const {
  const State& s = *state_;
  return !s.stopped && (s.splits.has_news() || s.outbox.view_wanted || s.introduces || s.gone());
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
  s.splits.OnAnswered();
  for (const uint64_t id : reply.revoked) s.splits.Drop(id);
  if (reply.view && reply.view->generation > s.exchanges.view().generation) s.TakeView(reply.view);
  // A worker that leaves does not begin the lease: it belongs to others once the worker has left.
  for (const Lease& lease : reply.leases) {
    if (!s.leaving) s.splits.Take(lease);
  }
  return s.Advanced(now);
}

WorkerActions Worker::Leave(Time now) {
  state_->leaving = true;
  return state_->Advanced(now);
}

WorkerActions Worker::OnSplitReady(Time now, uint64_t lease) {
  State& s = *state_;
  if (HeldSplit* const split = s.splits.Find(lease)) split->ready = true;
  return s.Advanced(now);
}

WorkerActions Worker::OnSplitFailed(Time now, uint64_t lease) {
  State& s = *state_;
  if (s.splits.Holds(lease)) s.splits.Release(lease);
  return s.Advanced(now);
}

WorkerActions Worker::OnComputed(Time now, uint64_t token, const BatchOutcome& outcome) {
  State& s = *state_;
  if (s.stopped || !s.run.Awaits(token)) return {};
  s.order.OnBatch(now, outcome);
  return s.Advanced(now);
}

WorkerActions Worker::OnPushReply(Time now, NodeId server, const PushReply& reply) {
  State& s = *state_;
  Exchange* const exchange = s.stopped ? nullptr : s.exchanges.Find(server, reply.sequence);
  if (!exchange) return {};
  s.run.TakeReply(now, *exchange, reply);
  if (s.versions.stepped()) s.order.TakeCounted(now, *exchange, reply);
  if (!s.exchanges.Close(exchange)) return s.Take();
  s.run.EndPull();
  return s.Advanced(now);
}

WorkerActions Worker::OnPushFailed(Time now, NodeId server, uint64_t sequence, const Status&) {
  State& s = *state_;
  Exchange* const exchange = s.stopped ? nullptr : s.exchanges.Find(server, sequence);
  if (!exchange) return {};
  s.exchanges.OnFailed(now, exchange);
  return s.Take();
}

void Worker::OnSilence(NodeId server, bool silent) {
  state_->retries.OnSilence(server, silent);
}

WorkerActions Worker::OnTimer(Time now) {
  State& s = *state_;
  if (s.stopped) return {};
  s.exchanges.RepeatLate(now, s.leaving);
  return s.Advanced(now);
}

Time Worker::next_timer() const {
  const State& s = *state_;
  if (s.stopped) return Time::max();
  Time next = std::min({s.exchanges.next_timer(), s.run.next_timer(), s.order.next_timer()});
  if (s.run.phase() == State::Phase::kIdle) next = std::min(next, s.outbox.resume_at.value_or(Time::max()));
  return next;
}

const View& Worker::view() const {
  return state_->exchanges.view();
}

uint64_t Worker::term() const {
  return state_->term;
}

const Lease* Worker::FindLease(uint64_t lease) const {
  const HeldSplit* const split = state_->splits.Find(lease);
  return split ? &split->lease : nullptr;
}

bool Worker::idle() const {
  return state_->splits.empty();
}

bool Worker::computing() const {
  return state_->run.phase() == State::Phase::kComputing;
}

uint64_t Worker::push_retries() const {
  return state_->retries.count();
}

bool Worker::stands_by() const {
  const Member* const self = state_->exchanges.view().Find(state_->node);
  return self != nullptr && self->state == Member::State::kStandby;
}

bool Worker::has_values() const {
  const State& s = *state_;
  return s.exchanges.ready() && s.run.phase() != State::Phase::kPulling && !s.versions.LacksAny();
}

}  // namespace leat::protocol
