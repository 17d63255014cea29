// Stepped strategies: which run is next, what it needs, and what is waited for.
#include <algorithm>
#include <bit>
#include <set>

#include "protocol/worker/worker_state.h"

namespace leat::protocol {

uint64_t Worker::State::SeenAt(uint32_t place) const {
  return seen[place].incarnation == incarnations[place] ? seen[place].version : 0;
}

uint64_t Worker::State::SeenOf(SliceId slice) const {
  return SeenAt(place_of[slice.value]);
}

const std::pair<uint64_t, uint64_t>& Worker::State::SeenRange() {
  if (!seen_range) {
    auto& [lowest, highest] = seen_range.emplace(UINT64_MAX, 0);
    for (uint32_t place = 0; place < seen.size(); ++place) {
      lowest = std::min(lowest, SeenAt(place));
      highest = std::max(highest, SeenAt(place));
    }
  }
  return *seen_range;
}

// The step was completed by all slices, or by so many that whatever it was made of is settled: no slice is
// further than `ahead` steps and one from any other.
bool Worker::State::StepIsOver(const Lease& lease, uint64_t step) {
  const auto& [lowest, highest] = SeenRange();
  if (lowest > step || highest > step + 1 + strategy().ahead()) return true;
  return lease.needed < lease.width && SeenOf(SliceId(0)) == step + 1 && decided &&
         decided->step_lane.step == step && !decided->Has(lease.lane);
}

// Runs that need not be trained any more.
void Worker::State::SkipCompletedRuns(HeldLease* split) {
  const auto needless = [&] {
    return !split->lease.missing.Has(split->runs[split->next]) || StepIsOver(split->lease, split->step());
  };
  while (!split->done() && needless()) ++split->next;
}

// Passes by what need not be trained, and gives back what is noted.
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

// Of the lowest step, one that is ready if there is one.
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

// False when there is nothing to do but wait; true when something was started or has ended.
bool Worker::State::AdvanceSteps(Time now) {
  if (run.active) {
    ComputeNext();
    return true;
  }
  SettleLeases();
  HeldLease* next = NextStep();
  if (!next) return !held.empty() && QueryVersions(now);
  if (QueryCountedLanes(now, *next) || StartStepPull(now, next->step())) return true;
  if (resume_at || !next->ready) return false;
  StartRun(*next);
  return true;
}

// True when values have to be pulled before a run of the step is computed.
bool Worker::State::StartStepPull(Time now, uint64_t step) {
  const uint64_t ahead = strategy().ahead();
  const bool exact = ahead == 0;
  const uint64_t wanted = step - std::min(step, ahead);
  const auto lacks = [&](uint32_t place) {
    return known[place].incarnation != incarnations[place] ||
           (exact ? known[place].version != wanted : known[place].version < wanted);
  };
  uint32_t place = 0;
  while (place < known.size() && !lacks(place)) ++place;
  if (place == known.size()) {
    lacking = false;
    return false;
  }
  // It was to no avail: whoever answers at once is not asked in a loop.
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

// How what is pushed of a run waits for the next step.
void Worker::State::AddWaiting(const HeldLease& split) {
  const uint64_t ahead = strategy().ahead();
  const bool last = LastOfStep(split);
  const bool some = split.lease.needed < split.lease.width;
  goal = split.step() + 1;
  for (Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    PushRequest& request = *exchange.request;
    request.step_lane = split.step_lane();
    // Where not all lanes count, only who decides which can say when the step is complete.
    request.want_values = last && (!some || exchange.server == Decider());
    if (!request.want_values) continue;
    request.version_wanted = goal - std::min(goal, ahead);
    request.exact = ahead == 0;
  }
}

// No other run of the step is to be computed here, as far as is known.
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

// True when the server that decides has completed the step of a run that is still to be done here, and has to
// be asked whether its lane is among those that count: then other slices wait for it.
bool Worker::State::QueryCountedLanes(Time now, const HeldLease& next) {
  if (next.lease.needed == next.lease.width || SeenOf(SliceId(0)) != next.step() + 1) return false;
  if (decided && decided->step_lane.step == next.step()) return false;
  Exchange& exchange = ExchangeWith(view->slices[0].server);
  AddSlice(&exchange, place_of[0], 0, Disposition::kPull);
  exchange.request->step_lane = next.step_lane();
  exchange.request->want_values = false;
  goal = next.step();
  Begin(now, Phase::kPulling);
  return true;
}

// Who has a lane in a step is told by the server that decides which of them count; other servers complete the
// step by what they are told in turn. It goes with whatever they are asked for next, be it a much later step:
// those that have a lane in the next one may not know.
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

// All runs are behind us, but not yet noted as far as we know (ssp). True when servers are asked.
bool Worker::State::QueryVersions(Time now) {
  if (ask_at && now < *ask_at) return false;
  ask_at = now + config.retry_interval;
  uint64_t end = UINT64_MAX;
  for (const auto& [id, split] : held) end = std::min(end, split.end());
  AddPulls([&](uint32_t place) { return SeenAt(place) < end; });
  for (Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    exchange.request->want_values = false;
    AttachCountedLanes(&exchange);
  }
  Begin(now, Phase::kPulling);
  return true;
}

// A run of a lower step than what is waited for leads to: it was somebody else's.
bool Worker::State::HasEarlierStep() {
  return std::any_of(held.begin(), held.end(), [&](auto& one) {
    HeldLease& split = one.second;
    if (!split.ready || (phase == Phase::kPushing && split.lease.id == run.lease)) return false;
    SkipCompletedRuns(&split);
    return !split.done() && split.step() < goal;
  });
}

// A pull or push whose answer waits for others is given up for what they may be waiting for; whether it
// arrived is not known, and neither are values that it was to bring. Not before it had time to arrive. True
// when the phase is idle now.
bool Worker::State::Interrupt(Time now) {
  interrupt_at.reset();
  if (!stepped() || phase == Phase::kComputing) return false;
  Time earliest{0};
  for (const Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    if (!exchange.waits()) return false;
    earliest = std::max(earliest, exchange.sent + config.retry_interval);
  }
  if (!leaving && !HasEarlierStep()) return false;
  if (now < earliest) {
    interrupt_at = earliest;
    return false;
  }
  for (Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    for (const SliceRef& ref : exchange.request->slices) Forget(place_of[ref.slice.value]);
    if (exchange.in_flight) {
      exchange.contacted = false;
      actions.emplace_back(Disconnect{exchange.server});
    }
    exchange.open = false;
  }
  open = 0;
  phase = Phase::kIdle;
  run.active = false;
  return true;
}

// Rounds that it has something to do for.
uint32_t Worker::State::RoundsHeld() const {
  std::set<uint64_t> rounds;
  for (const auto& [id, split] : held) {
    if (!split.done()) rounds.insert(split.lease.first_step);
  }
  return static_cast<uint32_t>(rounds.size());
}

}  // namespace leat::protocol
