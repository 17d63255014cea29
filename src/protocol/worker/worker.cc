#include "protocol/worker/worker.h"

#include <algorithm>

#include "protocol/guards.h"

namespace leat::protocol {

Worker::Worker(WorkerConfig config)
    : config_(std::move(config)),
      retries_(config_.times),
      versions_(config_.table.slices.size(), config_.strategy.stepped()),
      exchanges_(versions_, retries_, outbox_),
      run_(config_.strategy, versions_, exchanges_, retries_, outbox_),
      splits_({config_.strategy.stepped(), config_.leases_ahead, config_.late_labels}, outbox_),
      order_(config_.strategy, config_.times.retry_interval, config_.always_pull, splits_, versions_,
             exchanges_, run_, outbox_) {}

void Worker::Advance(Time now) {
  while (!stopped_) {
    if (run_.phase() == Phase::kPushing && exchanges_.open() == 0) order_.FinishPush(now, leaving_);
    if (run_.phase() != Phase::kIdle && !order_.Interrupt(now, leaving_)) return;
    if (run_.active() && (leaving_ || !splits_.Holds(run_.lease()))) run_.Abandon();
    if (leaving_) return splits_.GiveUp();
    if (!exchanges_.ready()) return;
    if (outbox_.resume_at && now < *outbox_.resume_at) return;
    outbox_.resume_at.reset();
    if (!order_.Advance(now)) return;
  }
}

void Worker::TakeView(const Shared<View>& newer) {
  const View& older = exchanges_.view();
  // The values that it has kept are as old as it has stood by.
  const Member* const before = older.Find(node_);
  const Member* const now = newer->Find(node_);
  if (before && now && before->state == Member::State::kStandby && now->state != before->state)
    versions_.ForgetAll();
  if (config_.strategy.stepped() && older.slices.size() == newer->slices.size()) {
    // Stepped strategies restore all slices together: training continues from an earlier step.
    const auto same = [](const SliceLocation& a, const SliceLocation& b) {
      return a.incarnation == b.incarnation;
    };
    if (!std::ranges::equal(older.slices, newer->slices, same)) {
      splits_.ReleaseAll();
      order_.Restart();
    }
  }
  run_.OnDropped(exchanges_.DropObsolete(*newer));
  exchanges_.SetView(newer);
  outbox_.resume_at.reset();
  order_.OnView();
}

void Worker::Stop(bool evicted) {
  stopped_ = true;
  splits_.DropAll();
  exchanges_.Stop();
  run_.Stop();
  outbox_.actions.emplace_back(StopRole{evicted});
}

// ---- public interface

WorkerHeartbeat Worker::MakeHeartbeat(Time now) {
  WorkerHeartbeat heartbeat;
  heartbeat.node = node_;
  heartbeat.term = term_;
  heartbeat.generation = exchanges_.view().generation;
  splits_.Report(introduces_, !leaving_ && !stopped_, &heartbeat);
  heartbeat.leaving = gone();
  heartbeat.waiting = Waiting();
  heartbeat.unreachable = exchanges_.Unreachable(now);
  outbox_.view_wanted = false;
  return heartbeat;
}

WorkerActions Worker::OnHeartbeatReply(Time now, const WorkerHeartbeatReply& reply) {
  if (stopped_ || !guards::CurrentTerm(reply.term, term_)) return {};
  if (reply.evicted || reply.stop) {
    Stop(reply.evicted && !leaving_);
    return Take();
  }
  introduces_ = reply.term != term_;
  term_ = reply.term;
  if (introduces_) return {};
  if (reply.drain) leaving_ = true;
  splits_.OnAnswered();
  for (const uint64_t id : reply.revoked) splits_.Drop(id);
  if (reply.view && reply.view->generation > exchanges_.view().generation) TakeView(reply.view);
  // A worker that leaves does not begin the lease: it belongs to others once the worker has left.
  for (const Lease& lease : reply.leases) {
    if (!leaving_) splits_.Take(lease);
  }
  return Advanced(now);
}

WorkerActions Worker::OnComputed(Time now, uint64_t token, const BatchOutcome& outcome) {
  if (stopped_ || !run_.Awaits(token)) return {};
  order_.OnBatch(now, outcome);
  return Advanced(now);
}

WorkerActions Worker::OnPushReply(Time now, NodeId server, const PushReply& reply) {
  Exchange* const exchange = stopped_ ? nullptr : exchanges_.Find(server, reply.sequence);
  if (!exchange) return {};
  run_.TakeReply(now, *exchange, reply);
  if (versions_.stepped()) order_.TakeCounted(now, *exchange, reply);
  if (!exchanges_.Close(exchange)) return Take();
  run_.EndPull();
  return Advanced(now);
}

WorkerActions Worker::OnPushFailed(Time now, NodeId server, uint64_t sequence, const Status&) {
  Exchange* const exchange = stopped_ ? nullptr : exchanges_.Find(server, sequence);
  if (!exchange) return {};
  exchanges_.OnFailed(now, exchange);
  return Take();
}

Time Worker::next_timer() const {
  if (stopped_) return Time::max();
  Time next = std::min({exchanges_.next_timer(), run_.next_timer(), order_.next_timer()});
  if (run_.phase() == Phase::kIdle) next = std::min(next, outbox_.resume_at.value_or(Time::max()));
  return next;
}

}  // namespace leat::protocol
