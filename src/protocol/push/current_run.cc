#include "protocol/push/current_run.h"

#include <utility>

namespace leat::protocol {

namespace {

// The retry intervals after which a slice that has left its server is pushed there again, without a newer
// view.
constexpr int kViewWait = 10;

}  // namespace

void CurrentRun::Begin(Time now, Phase what) {
  phase_ = what;
  exchanges_.SendOpen(now);
  if (exchanges_.open() > 0) return;
  phase_ = Phase::kIdle;
  if (what == Phase::kPushing) run_.active = false;
}

// ---- pulling

bool CurrentRun::Pull(Time now, bool all) {
  if (!all && !versions_.lacking()) return false;
  exchanges_.AddPulls([&](uint32_t index) { return all || versions_.Lacks(index); });
  versions_.SetLacking(exchanges_.open() > 0);
  if (exchanges_.open() == 0) return false;
  if (all) since_fetch_ = 0;
  if (run_.active && run_.from.empty()) run_.from = versions_.KnownBySlice();
  BeginPull(now);
  return true;
}

// ---- computing

void CurrentRun::Start(const Lease& lease, uint32_t index, uint32_t run) {
  const Cut& cut = lease.cut;
  const uint32_t begin = run * cut.run;
  auto from = std::move(run_.from);  // its memory
  from.clear();
  run_ = {.active = true,
          .lease = lease.id,
          .index = index,
          .run = run,
          .begin = begin,
          .end = begin + cut.BatchesOf(run),
          .batch = begin,
          .from = std::move(from),
          .version = versions_.LowestKnown(),
          .rate = lease.rate};
}

void CurrentRun::ComputeNext() {
  phase_ = Phase::kComputing;
  outbox_.actions.emplace_back(Compute{++last_token_, run_.lease, run_.batch, run_.batch == run_.begin,
                                       run_.batch + 1 == run_.end, run_.version, run_.rate});
}

bool CurrentRun::Count(const BatchOutcome& outcome) {
  run_.rejected = outcome.disposition == Disposition::kRejected;
  if (outcome.disposition != Disposition::kEmpty) run_.events += outcome.events;
  ++since_fetch_;
  return ++run_.batch == run_.end || run_.rejected;
}

void CurrentRun::Abandon() {
  run_.active = false;
  if (!strategy_.local_steps()) return;
  if (strategy_.stepped()) {
    versions_.ForgetAll();
  } else {
    since_fetch_ = strategy_.n_fetch;
  }
}

// ---- pushing

Disposition CurrentRun::RunDisposition() const {
  if (run_.rejected) return Disposition::kRejected;
  return run_.events == 0 ? Disposition::kEmpty : Disposition::kGradient;
}

void CurrentRun::OpenPush() {
  const std::vector<SliceRef>& known = versions_.known();
  const Disposition disposition = RunDisposition();
  untaken_.clear();
  for (Exchange& exchange : exchanges_.all()) {
    // The values of all slices are of their current incarnation.
    if (!versions_.lacking() && run_.from.empty()) {
      if (exchange.first == exchange.end) continue;
      exchanges_.Open(&exchange, disposition)
          .slices.assign(known.begin() + exchange.first, known.begin() + exchange.end);
      continue;
    }
    for (uint32_t index = exchange.first; index < exchange.end; ++index) {
      const SliceRef& from = run_.from.empty() ? known[index] : run_.from[known[index].slice.value];
      // A slice restored during the computation does not get this gradient: its ledger lacks the run, which
      // is therefore leased again.
      if (exchange.server != NodeId() && from.incarnation == versions_.incarnation(index)) {
        exchanges_.AddSlice(&exchange, index, from.version, disposition);
      } else {
        run_.clean = false;
      }
    }
  }
  // Fetching after a rejected run undoes its local steps.
  run_.fetch = strategy_.kind != StrategyKind::kDownpour || run_.rejected || FetchDue();
  if (run_.fetch) since_fetch_ = 0;
}

void CurrentRun::FillPush(const Cut& cut) {
  // The steps of averaging are local, and have their rate already.
  const float rate = strategy_.kind == StrategyKind::kAveraging ? 1.0f : run_.rate;
  for (Exchange& exchange : exchanges_.all()) {
    if (!exchange.open) continue;
    PushRequest& request = *exchange.request;
    request.cut = cut;
    request.run = run_.run;
    request.events = run_.events;
    request.rate = rate;
    request.want_values = run_.fetch;
  }
}

void CurrentRun::OpenAgain(Time now, bool held, bool leaving) {
  if (untaken_.empty()) return;
  if (!held || run_.conflict) {
    run_.clean = false;
    untaken_.clear();
    return;
  }
  std::ranges::sort(untaken_, {}, [](const Untaken& one) { return one.ref.slice; });
  std::erase_if(untaken_, [&](Untaken& one) {
    const uint32_t index = versions_.IndexOf(one.ref.slice);
    const auto holder = std::ranges::find_if(exchanges_.all(), [index](const Exchange& exchange) {
      return exchange.first <= index && index < exchange.end;
    });
    const bool placed = holder != exchanges_.all().end() && holder->server != NodeId();
    // A slice that is restored lacks the run.
    const bool lost =
        !placed || versions_.incarnation(index) != one.ref.incarnation || (leaving && one.at > now);
    if (lost) run_.clean = false;
    if (lost || one.at > now) return lost;
    exchanges_.AddSlice(&*holder, index, one.ref.version, RunDisposition());
    return true;
  });
}

// ---- from servers and the view

void CurrentRun::OnDropped(const Exchanges::Dropped& dropped) {
  for (const SliceRef& ref : dropped.untaken) untaken_.push_back({ref});
  if (dropped.any_lost) run_.clean = false;
  if (exchanges_.open() == 0 && (phase_ == Phase::kPulling || phase_ == Phase::kPushing)) {
    if (phase_ == Phase::kPushing && untaken_.empty()) run_.active = false;
    if (phase_ == Phase::kPulling || untaken_.empty()) phase_ = Phase::kIdle;
  }
  for (Untaken& one : untaken_) one.at = Time(0);
}

void CurrentRun::TakeReply(Time now, const Exchange& exchange, const PushReply& reply) {
  const PushRequest& request = *exchange.request;
  const auto end = reply.slices.end();
  auto said = reply.slices.begin();
  const bool by_steps = versions_.stepped();
  const std::vector<SliceRef>& known = versions_.known();
  const auto pause = [this] { return retries_.times().retry_interval; };
  uint32_t index = exchange.first;
  for (const SliceRef& ref : request.slices) {
    // In index order, unless not all were requested or the view has changed.
    if (index >= exchange.end || known[index].slice != ref.slice) index = versions_.IndexOf(ref.slice);
    const uint32_t at = index++;
    while (said != end && said->slice < ref.slice) ++said;
    const bool there = said != end && said->slice == ref.slice && said->incarnation == ref.incarnation &&
                       said->outcome != SliceOutcome::kNotHere;
    const bool moving = there && said->outcome == SliceOutcome::kMoving;
    if ((!there || moving) && request.disposition != Disposition::kPull) {
      // The slice is pushed again as soon as it is known to be on a server.
      const bool known_there = moving || at < exchange.first || at >= exchange.end;
      untaken_.push_back({ref, known_there ? now : now + kViewWait * pause()});
      outbox_.view_wanted = outbox_.view_wanted || !known_there;
      continue;
    }
    if (!there) {
      // Nothing is trained before a pull has found it again, wherever the next view places it.
      versions_.Forget(at);
      outbox_.view_wanted = true;
      outbox_.PauseUntil(now + pause());
      run_.clean = false;
      continue;
    }
    if (by_steps) {
      versions_.See(at, ref.incarnation, said->version);
      // The slice has no values of that version any more, because nobody needs them: it is further ahead, or
      // has moved or been restored since.
      if (said->values && request.exact && said->version > request.version_wanted)
        versions_.Settle(request.version_wanted + 1);
    }
    if (said->values) {
      versions_.Take(at, {ref.slice, ref.incarnation, said->version});
    } else if (request.disposition == Disposition::kPull && request.want_values) {
      versions_.Forget(at);
      outbox_.view_wanted = true;
      outbox_.PauseUntil(now + pause());
    }
    if (said->outcome == SliceOutcome::kConflict) OnConflict(now);
  }
}

// The cut contradicts another one in a ledger, or the ledger has too many open splits. Only the training of
// other splits can change that.
void CurrentRun::OnConflict(Time now) {
  run_.clean = false;
  outbox_.view_wanted = true;
  if (std::exchange(run_.conflict, true)) return;
  outbox_.PauseUntil(now + retries_.BackOff(conflicts_in_a_row_++, retries_.times().max_conflict_pause));
}

Time CurrentRun::next_timer() const {
  Time next = Time::max();
  for (const Untaken& one : untaken_) {
    if (exchanges_.open() == 0) next = std::min(next, one.at);
  }
  return next;
}

}  // namespace leat::protocol
