// Stepped strategies: the next run, what it needs, and what it waits for.
#include <algorithm>
#include <bit>
#include <set>

#include "protocol/worker/worker_state.h"

namespace leat::protocol {

uint64_t Worker::State::SeenAt(uint32_t index) const {
  return seen[index].incarnation == incarnations[index] ? seen[index].version : 0;
}

uint64_t Worker::State::SeenOf(SliceId slice) const {
  return SeenAt(index_of[slice.value]);
}

const std::pair<uint64_t, uint64_t>& Worker::State::SeenRange() {
  if (!seen_range) {
    auto& [lowest, highest] = seen_range.emplace(UINT64_MAX, 0);
    for (uint32_t index = 0; index < seen.size(); ++index) {
      lowest = std::min(lowest, SeenAt(index));
      highest = std::max(highest, SeenAt(index));
    }
  }
  return *seen_range;
}

// True if all slices have completed the step, or one is so far ahead that it is settled: slices differ by at
// most `ahead` + 1 steps.
bool Worker::State::StepIsOver(const Lease& lease, uint64_t step) {
  if (step < settled) return true;
  const auto& [lowest, highest] = SeenRange();
  if (lowest > step || highest > step + 1 + strategy().ahead()) return true;
  return lease.needed < lease.width && SeenOf(SliceId(0)) == step + 1 && decided &&
         decided->step_lane.step == step && !decided->Has(lease.lane);
}

// Skips runs that need no training any more.
void Worker::State::SkipCompletedRuns(HeldLease* split) {
  const auto needless = [&] {
    return !split->lease.missing.Has(split->runs[split->next]) || StepIsOver(split->lease, split->step());
  };
  while (!split->done() && needless()) ++split->next;
}

// Skips what needs no training, and releases leases that are recorded.
void Worker::State::SettleLeases() {
  const uint64_t lowest = SeenRange().first;
  for (size_t i = 0; i < order.size();) {
    HeldLease& split = held.at(order[i]);
    SkipCompletedRuns(&split);
    if (split.done() && lowest >= split.end()) {
      Release(order[i]);
    } else {
      ++i;
    }
  }
}

// A lease of the lowest step, preferably one that is ready.
Worker::State::HeldLease* Worker::State::NextStep() {
  HeldLease* best = nullptr;
  const auto key = [](const HeldLease& split) {
    return std::tuple(split.step(), !split.ready, split.lease.lane, split.lease.id);
  };
  for (auto& [id, split] : held) {
    if (!split.done() && (!best || key(split) < key(*best))) best = &split;
  }
  return best;
}

// False if there is nothing to do but wait; true if something was started or ended.
bool Worker::State::AdvanceSteps(Time now) {
  if (run.active) {
    ComputeNext();
    return true;
  }
  SettleLeases();
  HeldLease* next = NextStep();
  if (!next && held.empty()) return config.always_pull && StartPull(now, false);
  if (!next) return QueryVersions(now);
  if (QueryCountedLanes(now, *next) || StartStepPull(now, next->step())) return true;
  if (resume_at || !next->ready) return false;
  StartRun(*next);
  return true;
}

// True if values have to be pulled before a run of the step can be computed.
bool Worker::State::StartStepPull(Time now, uint64_t step) {
  const uint64_t ahead = strategy().ahead();
  const bool exact = ahead == 0;
  const uint64_t wanted = step - std::min(step, ahead);
  const auto lacks = [&](uint32_t index) {
    return known[index].incarnation != incarnations[index] ||
           (exact ? known[index].version != wanted : known[index].version < wanted);
  };
  uint32_t index = 0;
  while (index < known.size() && !lacks(index)) ++index;
  if (index == known.size()) {
    lacking = false;
    return false;
  }
  // The last pull returned nothing newer: waits, so as not to ask in a loop.
  if (last_pull && last_pull->first == step && now < last_pull->second + config.retry_interval) {
    resume_at = last_pull->second + config.retry_interval;
    return false;
  }
  last_pull = {step, now};
  AddPulls(lacks);
  for (Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    exchange.request->version_wanted = wanted;
    exchange.request->exact = exact;
    AttachCountedLanes(&exchange);
  }
  goal = step;
  Begin(now, Phase::kPulling);
  return true;
}

// Sets the version that the push of a run waits for.
void Worker::State::AddWaiting(const HeldLease& split) {
  const uint64_t ahead = strategy().ahead();
  const bool last = LastOfStep(split);
  const bool some = split.lease.needed < split.lease.width;
  goal = split.step() + 1;
  for (Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    PushRequest& request = *exchange.request;
    request.step_lane = split.step_lane();
    // With backup workers, only the deciding server knows when the step is complete.
    request.want_values = last && (!some || exchange.server == Decider());
    if (!request.want_values) continue;
    request.version_wanted = goal - std::min(goal, ahead);
    request.exact = ahead == 0;
  }
}

// As far as is known, no other run of the step is computed here.
bool Worker::State::LastOfStep(const HeldLease& split) const {
  return std::none_of(held.begin(), held.end(), [&](const auto& other) {
    const HeldLease& one = other.second;
    return &one != &split && !one.done() && one.step() <= split.step();
  });
}

// ---- backup workers

std::optional<NodeId> Worker::State::Decider() const {
  if (view->slices.empty()) return std::nullopt;
  return view->slices[0].server;
}

// True if the deciding server has completed the step of a run that is still open here, and must be asked
// whether its lane counts, because other slices then wait for it.
bool Worker::State::QueryCountedLanes(Time now, const HeldLease& next) {
  if (next.lease.needed == next.lease.width || SeenOf(SliceId(0)) != next.step() + 1) return false;
  if (decided && decided->step_lane.step == next.step()) return false;
  Exchange& exchange = ExchangeWith(view->slices[0].server);
  AddSlice(&exchange, index_of[0], 0, Disposition::kPull);
  exchange.request->step_lane = next.step_lane();
  exchange.request->want_values = false;
  goal = next.step();
  Begin(now, Phase::kPulling);
  return true;
}

// The deciding server tells the workers with lanes in a step which lanes count, and these workers tell the
// other servers. The information is attached to the next request, even of a much later step, because workers
// with lanes in the next step may not know it.
void Worker::State::AttachCountedLanes(Exchange* exchange) const {
  if (!decided || exchange->server == Decider()) return;
  PushRequest& request = *exchange->request;
  const bool lacks = std::ranges::any_of(
      request.slices, [&](const SliceRef& ref) { return SeenOf(ref.slice) <= decided->step_lane.step; });
  if (!lacks) return;
  request.step_lane = decided->step_lane;
  request.counted = decided->counted;
}

void Worker::State::TakeCounted(Time now, const Exchange& exchange, const PushReply& reply) {
  const auto& step_lane = exchange.request->step_lane;
  if (!step_lane || step_lane->needed == step_lane->width || exchange.server != Decider()) return;
  uint32_t lanes = 0;
  for (uint64_t word : reply.counted) lanes += static_cast<uint32_t>(std::popcount(word));
  const size_t words = (step_lane->width + 63) / 64;
  const bool none_beyond = reply.counted.size() == words &&
                           (step_lane->width % 64 == 0 || reply.counted.back() >> step_lane->width % 64 == 0);
  if (none_beyond && lanes == step_lane->needed) {
    if (!decided || decided->step_lane.step <= step_lane->step) decided = {*step_lane, reply.counted};
  } else if (exchange.request->disposition == Disposition::kPull && !exchange.request->want_values) {
    resume_at = now + config.retry_interval;
  }
}

// ---- waiting

// All runs are done, but not known to be recorded yet (ssp). True if servers are asked.
bool Worker::State::QueryVersions(Time now) {
  if (ask_at && now < *ask_at) return false;
  ask_at = now + config.retry_interval;
  uint64_t end = UINT64_MAX;
  for (const auto& [id, split] : held) end = std::min(end, split.end());
  AddPulls([&](uint32_t index) { return SeenAt(index) < end; });
  for (Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    exchange.request->want_values = false;
    AttachCountedLanes(&exchange);
  }
  Begin(now, Phase::kPulling);
  return true;
}

// True if there is a run of a lower step than the one waited for. It was another worker's before.
bool Worker::State::HasEarlierStep() {
  return std::any_of(held.begin(), held.end(), [&](auto& one) {
    HeldLease& split = one.second;
    if (!split.ready || (phase == Phase::kPushing && split.lease.id == run.lease)) return false;
    SkipCompletedRuns(&split);
    return !split.done() && split.step() < goal;
  });
}

// Gives up a pull or push whose reply waits for others, if they may be waiting for this worker; one that
// leaves also gives up servers that it does not reach. Whether it arrived is unknown, and so are the values
// that it would return. Not before it had time to arrive. True if the phase is idle now.
bool Worker::State::Interrupt(Time now) {
  interrupt_at.reset();
  if (!(stepped() || leaving) || phase == Phase::kComputing) return false;
  Time earliest{0};
  for (const Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    if (!exchange.waits() && (exchange.in_flight || !leaving)) return false;
    earliest = std::max(earliest, exchange.sent + config.retry_interval);
  }
  if (!leaving && !HasEarlierStep()) return false;
  if (now < earliest) {
    interrupt_at = earliest;
    return false;
  }
  for (Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    for (const SliceRef& ref : exchange.request->slices) Forget(index_of[ref.slice.value]);
    if (exchange.in_flight) {
      exchange.contacted = false;
      actions.emplace_back(Disconnect{exchange.server});
    }
    exchange.open = false;
  }
  open = 0;
  untaken.clear();
  phase = Phase::kIdle;
  run.active = false;
  return true;
}

// Rounds with work for this worker.
uint32_t Worker::State::RoundsHeld() const {
  std::set<uint64_t> rounds;
  for (const auto& [id, split] : held) {
    if (!split.done()) rounds.insert(split.lease.first_step);
  }
  return static_cast<uint32_t>(rounds.size());
}

}  // namespace leat::protocol
