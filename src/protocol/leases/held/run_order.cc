#include "protocol/leases/held/run_order.h"

#include <algorithm>
#include <bit>
#include <set>
#include <tuple>

namespace leat::protocol {

namespace {

// An upper limit for steps; a lease beyond it is invalid.
constexpr uint64_t kMaxSteps = uint64_t{1} << 62;
// The most splits that a fast worker leases ahead; if it dies, all are leased again.
constexpr uint32_t kMaxLeasesAhead = 32;

}  // namespace

// ---- the coordinator's word

bool HeldSplits::Fits(const Lease& granted) const {
  const uint32_t runs = granted.cut.valid() ? granted.cut.runs() : 0;
  const bool fits =
      runs > 0 && granted.missing.size() == runs && granted.labels.has_value() == options_.late_labels;
  if (!options_.stepped || !fits) return fits;
  const StepLane step_lane{granted.first_step, granted.lane, granted.width, granted.needed};
  RunSet both = granted.missing;
  return granted.assigned.size() == runs && !granted.assigned.empty() && step_lane.valid() &&
         granted.first_step < kMaxSteps && (both &= granted.assigned) == granted.missing;
}

void HeldSplits::Take(const Lease& granted) {
  if (held_.contains(granted.id)) return;
  if (!Fits(granted)) {
    released_.push_back(granted.id);
    return;
  }
  HeldSplit& split = held_[granted.id];
  split.lease = granted;
  for (uint32_t i = 0; i < granted.missing.size(); ++i) {
    if ((options_.stepped ? granted.assigned : granted.missing).Has(i)) split.runs.push_back(i);
  }
  while (!split.runs.empty() && !granted.missing.Has(split.runs.back())) split.runs.pop_back();
  order_.push_back(granted.id);
  outbox_.actions.emplace_back(PrepareSplit{granted});
}

void HeldSplits::OnAnswered() {
  released_.erase(released_.begin(), released_.begin() + static_cast<std::ptrdiff_t>(reported_));
  reported_ = 0;
  completed_ = 0;
}

void HeldSplits::Report(bool claims, bool more, WorkerHeartbeat* heartbeat) {
  heartbeat->held.assign(order_.begin(), order_.end());
  heartbeat->released = released_;
  for (const uint64_t id : claims ? order_ : std::deque<uint64_t>()) {
    const Lease& lease = held_.at(id).lease;
    heartbeat->claims.push_back({id, lease.cut.partition, lease.cut.begin, lease.first_step, lease.lane});
  }
  const uint32_t has = options_.stepped ? RoundsHeld() : static_cast<uint32_t>(held_.size());
  const uint32_t wanted = Wanted();
  if (more && has < wanted) heartbeat->leases_wanted = wanted - has;
  reported_ = released_.size();
}

uint32_t HeldSplits::Wanted() const {
  // The coordinator decides how far ahead rounds are leased.
  if (options_.stepped) return options_.leases_ahead;
  return std::max(options_.leases_ahead, std::min(2 * completed_, kMaxLeasesAhead));
}

// Rounds with work for this worker.
uint32_t HeldSplits::RoundsHeld() const {
  std::set<uint64_t> rounds;
  for (const auto& [id, split] : held_) {
    if (!split.done()) rounds.insert(split.lease.first_step);
  }
  return static_cast<uint32_t>(rounds.size());
}

// ---- the splits

HeldSplit* HeldSplits::Find(uint64_t id) {
  const auto at = held_.find(id);
  return at == held_.end() ? nullptr : &at->second;
}

HeldSplit* HeldSplits::FirstReady() {
  const auto ready = std::ranges::find_if(order_, [this](uint64_t id) { return held_.at(id).ready; });
  return ready == order_.end() ? nullptr : &held_.at(*ready);
}

HeldSplit* HeldSplits::LowestStep() {
  HeldSplit* best = nullptr;
  const auto key = [](const HeldSplit& split) {
    return std::tuple(split.step(), !split.ready, split.lease.lane, split.lease.id);
  };
  for (auto& [id, split] : held_) {
    if (!split.done() && (!best || key(split) < key(*best))) best = &split;
  }
  return best;
}

bool HeldSplits::LastOfStep(const HeldSplit& split) const {
  return std::ranges::none_of(held_, [&](const auto& other) {
    const HeldSplit& one = other.second;
    return &one != &split && !one.done() && one.step() <= split.step();
  });
}

// ---- the end

void HeldSplits::Drop(uint64_t id) {
  if (held_.erase(id) == 0) return;
  std::erase(order_, id);
  outbox_.actions.emplace_back(DropSplit{id});
}

void HeldSplits::Release(uint64_t id) {
  Drop(id);
  released_.push_back(id);
}

void HeldSplits::Complete(uint64_t id) {
  Release(id);
  ++completed_;
}

void HeldSplits::ReleaseAll() {
  while (!order_.empty()) Release(order_.front());
}

void HeldSplits::DropAll() {
  while (!order_.empty()) Drop(order_.front());
}

void HeldSplits::GiveUp() {
  while (!order_.empty()) {
    const uint64_t id = order_.front();
    const bool begun = held_.at(id).next > 0;
    begun && !options_.stepped ? Release(id) : Drop(id);
  }
}

// ---- without steps

bool RunOrder::AdvanceRuns(Time now) {
  if (run_.Pull(now, run_.FetchDue())) return true;
  if (run_.active()) {
    run_.ComputeNext();
    return true;
  }
  HeldSplit* const split = splits_.FirstReady();
  if (!split) return false;
  if (split->done()) {
    splits_.Complete(split->lease.id);
  } else {
    StartRun(*split);
  }
  return true;
}

// ---- the current run

void RunOrder::StartRun(HeldSplit& split) {
  run_.Start(split.lease, split.next, split.runs[split.next]);
  last_pull_.reset();
  ask_at_.reset();
  run_.ComputeNext();
}

void RunOrder::OnBatch(Time now, const BatchOutcome& outcome) {
  run_.EndBatch();
  HeldSplit* const split = splits_.Find(run_.lease());
  if (!split || !run_.Count(outcome)) return;
  if (!strategy_.stepped()) split->next = run_.index() + 1;
  run_.OpenPush();
  Push(now, *split);
}

// Sends the run to the open exchanges.
void RunOrder::Push(Time now, const HeldSplit& split) {
  run_.FillPush(split.lease.cut);
  if (strategy_.stepped()) AddWaiting(split);
  run_.BeginPush(now);
}

void RunOrder::FinishPush(Time now, bool leaving) {
  HeldSplit* const split = splits_.Find(run_.lease());
  run_.OpenAgain(now, split != nullptr, leaving);
  if (exchanges_.open() > 0) return Push(now, *split);
  if (!run_.taken()) return;
  const bool clean = run_.End();
  if (!split) return;
  // Without steps, all other runs of the cut would be refused, too.
  if (run_.conflict() && !strategy_.stepped()) return splits_.Release(run_.lease());
  // Stepped: what was not taken everywhere is repeated without a limit.
  if (strategy_.stepped() && clean) split->next = std::max(split->next, run_.index() + 1);
}

bool RunOrder::Interrupt(Time now, bool leaving) {
  interrupt_at_.reset();
  if (!(strategy_.stepped() || leaving) || run_.phase() == CurrentRun::Phase::kComputing) return false;
  const std::optional<Time> earliest = exchanges_.InterruptibleFrom(leaving);
  if (!earliest || (!leaving && !HasEarlierStep())) return false;
  if (now < *earliest) {
    interrupt_at_ = earliest;
    return false;
  }
  exchanges_.GiveUp();
  run_.GiveUp();
  return true;
}

Time RunOrder::next_timer() const {
  const bool idle = run_.phase() == CurrentRun::Phase::kIdle;
  if (idle && splits_.empty()) return Time::max();
  return (idle ? ask_at_ : interrupt_at_).value_or(Time::max());
}

// ---- stepped

void RunOrder::Restart() {
  decided_.reset();
  versions_.Unsettle();
}

bool RunOrder::AdvanceSteps(Time now) {
  if (run_.active()) {
    run_.ComputeNext();
    return true;
  }
  SettleLeases();
  HeldSplit* const next = splits_.LowestStep();
  if (!next && splits_.empty()) return always_pull_ && run_.Pull(now, false);
  if (!next) return QueryVersions(now);
  if (QueryCountedLanes(now, *next) || PullForStep(now, next->step())) return true;
  if (outbox_.resume_at || !next->ready) return false;
  StartRun(*next);
  return true;
}

// True if all slices have completed the step, or one is so far ahead that it is settled: slices differ by at
// most `ahead` + 1 steps.
bool RunOrder::StepIsOver(const Lease& lease, uint64_t step) {
  if (step < versions_.settled()) return true;
  const auto& [lowest, highest] = versions_.SeenRange();
  if (lowest > step || highest > step + 1 + strategy_.ahead()) return true;
  return lease.needed < lease.width && versions_.SeenOf(SliceId(0)) == step + 1 && decided_ &&
         decided_->step_lane.step == step && !decided_->Has(lease.lane);
}

// Skips runs that need no training any more.
void RunOrder::SkipCompletedRuns(HeldSplit* split) {
  const auto needless = [&] {
    return !split->lease.missing.Has(split->runs[split->next]) || StepIsOver(split->lease, split->step());
  };
  while (!split->done() && needless()) ++split->next;
}

// Skips what needs no training, and releases leases that are recorded.
void RunOrder::SettleLeases() {
  const uint64_t lowest = versions_.SeenRange().first;
  const auto& order = splits_.order();
  for (size_t i = 0; i < order.size();) {
    HeldSplit& split = splits_.all().at(order[i]);
    SkipCompletedRuns(&split);
    if (split.done() && lowest >= split.end()) {
      splits_.Release(order[i]);
    } else {
      ++i;
    }
  }
}

// True if values have to be pulled before a run of the step can be computed.
bool RunOrder::PullForStep(Time now, uint64_t step) {
  const uint64_t ahead = strategy_.ahead();
  const bool exact = ahead == 0;
  const uint64_t wanted = step - std::min(step, ahead);
  const auto lacks = [&](uint32_t index) {
    const uint64_t version = versions_.known()[index].version;
    return versions_.Lacks(index) || (exact ? version != wanted : version < wanted);
  };
  uint32_t index = 0;
  while (index < versions_.size() && !lacks(index)) ++index;
  if (index == versions_.size()) {
    versions_.SetLacking(false);
    return false;
  }
  // The last pull returned nothing newer: waits, so as not to ask in a loop.
  if (last_pull_ && last_pull_->first == step && now < last_pull_->second + retry_interval_) {
    outbox_.resume_at = last_pull_->second + retry_interval_;
    return false;
  }
  last_pull_ = {step, now};
  exchanges_.AddPulls(lacks);
  for (Exchange& exchange : exchanges_.all()) {
    if (!exchange.open) continue;
    exchange.request->version_wanted = wanted;
    exchange.request->exact = exact;
    AttachCountedLanes(&exchange);
  }
  goal_ = step;
  run_.BeginPull(now);
  return true;
}

// Sets the version that the push of a run waits for.
void RunOrder::AddWaiting(const HeldSplit& split) {
  const uint64_t ahead = strategy_.ahead();
  // As far as is known, no other run of the step is computed here.
  const bool last = splits_.LastOfStep(split);
  const bool some = split.lease.needed < split.lease.width;
  goal_ = split.step() + 1;
  for (Exchange& exchange : exchanges_.all()) {
    if (!exchange.open) continue;
    PushRequest& request = *exchange.request;
    request.step_lane = split.step_lane();
    // With backup workers, only the deciding server knows when the step is complete.
    request.want_values = last && (!some || exchange.server == Decider());
    if (!request.want_values) continue;
    request.version_wanted = goal_ - std::min(goal_, ahead);
    request.exact = ahead == 0;
  }
}

// All runs are done, but not known to be recorded yet (ssp). True if servers are asked.
bool RunOrder::QueryVersions(Time now) {
  if (ask_at_ && now < *ask_at_) return false;
  ask_at_ = now + retry_interval_;
  uint64_t end = UINT64_MAX;
  for (const auto& [id, split] : splits_.all()) end = std::min(end, split.end());
  exchanges_.AddPulls([&](uint32_t index) { return versions_.SeenAt(index) < end; });
  for (Exchange& exchange : exchanges_.all()) {
    if (!exchange.open) continue;
    exchange.request->want_values = false;
    AttachCountedLanes(&exchange);
  }
  run_.BeginPull(now);
  return true;
}

// True if there is a run of a lower step than the one waited for. It was another worker's before.
bool RunOrder::HasEarlierStep() {
  return std::ranges::any_of(splits_.all(), [&](auto& one) {
    HeldSplit& split = one.second;
    if (!split.ready || (run_.phase() == CurrentRun::Phase::kPushing && split.lease.id == run_.lease()))
      return false;
    SkipCompletedRuns(&split);
    return !split.done() && split.step() < goal_;
  });
}

// ---- backup workers

std::optional<NodeId> RunOrder::Decider() const {
  const View& view = exchanges_.view();
  if (view.slices.empty()) return std::nullopt;
  return view.slices[0].server;
}

// True if the deciding server has completed the step of a run that is still open here, and must be asked
// whether its lane counts, because other slices then wait for it.
bool RunOrder::QueryCountedLanes(Time now, const HeldSplit& next) {
  if (next.lease.needed == next.lease.width || versions_.SeenOf(SliceId(0)) != next.step() + 1) return false;
  if (decided_ && decided_->step_lane.step == next.step()) return false;
  Exchange& exchange = exchanges_.With(exchanges_.view().slices[0].server);
  exchanges_.AddSlice(&exchange, versions_.IndexOf(SliceId(0)), 0, Disposition::kPull);
  exchange.request->step_lane = next.step_lane();
  exchange.request->want_values = false;
  goal_ = next.step();
  run_.BeginPull(now);
  return true;
}

// The deciding server tells the workers with lanes in a step which lanes count, and these workers tell the
// other servers. The information is attached to the next request, even of a much later step, because workers
// with lanes in the next step may not know it.
void RunOrder::AttachCountedLanes(Exchange* exchange) const {
  if (!decided_ || exchange->server == Decider()) return;
  PushRequest& request = *exchange->request;
  const bool lacks = std::ranges::any_of(request.slices, [&](const SliceRef& ref) {
    return versions_.SeenOf(ref.slice) <= decided_->step_lane.step;
  });
  if (!lacks) return;
  request.step_lane = decided_->step_lane;
  request.counted = decided_->counted;
}

void RunOrder::TakeCounted(Time now, const Exchange& exchange, const PushReply& reply) {
  const auto& step_lane = exchange.request->step_lane;
  if (!step_lane || step_lane->needed == step_lane->width || exchange.server != Decider()) return;
  uint32_t lanes = 0;
  for (uint64_t word : reply.counted) lanes += static_cast<uint32_t>(std::popcount(word));
  const size_t words = (step_lane->width + 63) / 64;
  const bool none_beyond = reply.counted.size() == words &&
                           (step_lane->width % 64 == 0 || reply.counted.back() >> step_lane->width % 64 == 0);
  if (none_beyond && lanes == step_lane->needed) {
    if (!decided_ || decided_->step_lane.step <= step_lane->step) decided_ = {*step_lane, reply.counted};
  } else if (exchange.request->disposition == Disposition::kPull && !exchange.request->want_values) {
    outbox_.resume_at = now + retry_interval_;
  }
}

}  // namespace leat::protocol
