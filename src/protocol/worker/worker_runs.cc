// Computing and pushing runs one after the other, and, in strategies without steps, the order of runs.
#include <algorithm>

#include "protocol/worker/worker_state.h"

namespace leat::protocol {

void Worker::State::Advance(Time now) {
  while (!stopped) {
    if (phase == Phase::kPushing && open == 0) FinishPush(now);
    if (phase != Phase::kIdle && !Interrupt(now)) return;
    if (run.active && (leaving || !held.contains(run.lease))) AbandonRun();
    if (leaving) return GiveUpLeases();
    if (!view_ready) return;
    if (resume_at && now < *resume_at) return;
    resume_at.reset();
    if (!(stepped() ? AdvanceSteps(now) : AdvanceRuns(now))) return;
  }
}

// False if there is nothing to do; true if something was started or a split ended.
bool Worker::State::AdvanceRuns(Time now) {
  const bool fetch =
      strategy().kind == StrategyKind::kDownpour && since_fetch >= std::max(strategy().n_fetch, 1u);
  if (StartPull(now, fetch)) return true;
  if (run.active) {
    ComputeNext();
    return true;
  }
  const auto ready =
      std::find_if(order.begin(), order.end(), [this](uint64_t id) { return held.at(id).ready; });
  if (ready == order.end()) return false;
  HeldLease& split = held.at(*ready);
  if (split.done()) {
    Release(*ready);
    ++ended;
  } else {
    StartRun(split);
  }
  return true;
}

// True if there is something to pull: slices without values of their current incarnation, or `all`.
bool Worker::State::StartPull(Time now, bool all) {
  if (!all && !lacking) return false;
  AddPulls([&](uint32_t index) { return all || known[index].incarnation != incarnations[index]; });
  lacking = open > 0;
  if (open == 0) return false;
  if (all) since_fetch = 0;
  if (run.active && run.from.empty()) run.from = known;
  Begin(now, Phase::kPulling);
  return true;
}

void Worker::State::StartRun(HeldLease& split) {
  const Cut& cut = split.lease.cut;
  run.active = true;
  run.lease = split.lease.id;
  run.index = split.next;
  run.run = split.runs[split.next];
  run.begin = run.batch = run.run * cut.run;
  run.end = run.begin + cut.BatchesOf(run.run);
  run.events = 0;
  run.rejected = false;
  run.clean = true;
  run.conflict = false;
  run.from.clear();
  run.version = known.empty() ? 0 : known[0].version;
  for (const SliceRef& slice : known) run.version = std::min(run.version, slice.version);
  run.rate = split.lease.rate;
  last_pull.reset();
  ask_at.reset();
  ComputeNext();
}

void Worker::State::ComputeNext() {
  phase = Phase::kComputing;
  actions.emplace_back(Compute{++last_token, run.lease, run.batch, run.batch == run.begin,
                               run.batch + 1 == run.end, run.version, run.rate});
}

void Worker::State::OnBatch(Time now, const BatchOutcome& outcome) {
  phase = Phase::kIdle;
  const auto at = held.find(run.lease);
  if (at != held.end()) {
    run.rejected = outcome.disposition == Disposition::kRejected;
    if (outcome.disposition != Disposition::kEmpty) run.events += outcome.events;
    ++since_fetch;
    if (++run.batch == run.end || run.rejected) {
      if (!stepped()) at->second.next = run.index + 1;
      StartPush(now, at->second);
    }
  }
  Advance(now);
}

// Revoked or left between two of its batches: local steps are not undone.
void Worker::State::AbandonRun() {
  run.active = false;
  if (!strategy().local_steps()) return;
  if (stepped()) {
    ForgetValues();
  } else {
    since_fetch = strategy().n_fetch;
  }
}

Disposition Worker::State::RunDisposition() const {
  if (run.rejected) return Disposition::kRejected;
  return run.events == 0 ? Disposition::kEmpty : Disposition::kGradient;
}

void Worker::State::StartPush(Time now, const HeldLease& split) {
  const std::vector<SliceRef>& from = run.from.empty() ? known : run.from;
  const Disposition disposition = RunDisposition();
  untaken.clear();
  for (Exchange& exchange : exchanges) {
    // The values of all slices are of their current incarnation.
    if (!lacking && run.from.empty()) {
      if (exchange.first == exchange.end) continue;
      const auto begin = known.begin();
      Open(&exchange, disposition).slices.assign(begin + exchange.first, begin + exchange.end);
      continue;
    }
    for (uint32_t index = exchange.first; index < exchange.end; ++index) {
      // A slice restored during the computation does not get this gradient: its ledger lacks the run, which
      // is therefore leased again.
      if (exchange.server != NodeId() && from[index].incarnation == incarnations[index]) {
        AddSlice(&exchange, index, from[index].version, disposition);
      } else {
        run.clean = false;
      }
    }
  }
  // Fetching after a rejected run undoes its local steps.
  run.fetch = strategy().kind != StrategyKind::kDownpour || run.rejected ||
              since_fetch >= std::max(strategy().n_fetch, 1u);
  if (run.fetch) since_fetch = 0;
  BeginPush(now, split);
}

// Sends the run to the open exchanges.
void Worker::State::BeginPush(Time now, const HeldLease& split) {
  // The steps of averaging are local, and have their rate already.
  const float rate = strategy().kind == StrategyKind::kAveraging ? 1.0f : run.rate;
  for (Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    PushRequest& request = *exchange.request;
    request.cut = split.lease.cut;
    request.run = run.run;
    request.events = run.events;
    request.rate = rate;
    request.want_values = run.fetch;
  }
  if (stepped()) AddWaiting(split);
  Begin(now, Phase::kPushing);
}

// All servers have answered. Pushes again to slices that have not taken the run, and then ends the run.
void Worker::State::FinishPush(Time now) {
  if (!untaken.empty()) RepeatPush(now);
  if (open > 0 || !untaken.empty()) return;
  phase = Phase::kIdle;
  run.active = false;
  const auto at = held.find(run.lease);
  if (run.clean) conflicts_in_a_row = 0;
  // Without steps, all other runs of the cut would be refused, too.
  if (run.conflict && !stepped() && at != held.end()) return Release(run.lease);
  // Stepped: what was not taken everywhere is repeated without a limit.
  if (stepped() && run.clean && at != held.end()) at->second.next = std::max(at->second.next, run.index + 1);
}

void Worker::State::RepeatPush(Time now) {
  const auto split = held.find(run.lease);
  if (split == held.end() || run.conflict) {
    run.clean = false;
    untaken.clear();
    return;
  }
  std::ranges::sort(untaken, {}, [](const Untaken& one) { return one.ref.slice; });
  std::erase_if(untaken, [&](Untaken& one) {
    const uint32_t index = index_of[one.ref.slice.value];
    const auto holder = std::ranges::find_if(exchanges, [index](const Exchange& exchange) {
      return exchange.first <= index && index < exchange.end;
    });
    const bool placed = holder != exchanges.end() && holder->server != NodeId();
    // A slice that is restored lacks the run.
    const bool lost = !placed || incarnations[index] != one.ref.incarnation || (leaving && one.at > now);
    if (lost) run.clean = false;
    if (lost || one.at > now) return lost;
    AddSlice(&*holder, index, one.ref.version, RunDisposition());
    return true;
  });
  if (open > 0) BeginPush(now, split->second);
}

}  // namespace leat::protocol
