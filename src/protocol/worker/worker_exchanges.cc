// Requests to servers, until they are answered or the view makes them obsolete.
#include <algorithm>
#include <tuple>
#include <utility>

#include "protocol/worker/worker_state.h"

namespace leat::protocol {

namespace {

// The retry intervals after which a slice that has left its server is pushed there again, without a newer
// view.
constexpr int kLookAgain = 10;

}  // namespace

std::vector<Worker::State::Exchange>::iterator Worker::State::PositionOf(NodeId server) {
  return std::ranges::lower_bound(exchanges, server, {}, &Exchange::server);
}

Worker::State::Exchange& Worker::State::ExchangeWith(NodeId server) {
  auto at = PositionOf(server);
  if (at == exchanges.end() || at->server != server) {
    at = exchanges.emplace(at);
    at->server = server;
  }
  return *at;
}

// Rebuilds the exchanges from the view: one for each server with slices, in addition to open ones. Reindexes
// the slices.
void Worker::State::ArrangeExchanges() {
  for (const SliceLocation& index : view->slices) ExchangeWith(index.server);
  // The exchange of each slice, or the number of exchanges if it has none.
  std::vector<size_t> exchange_of(known.size(), exchanges.size());
  std::vector<uint32_t> next(exchanges.size() + 2);
  for (size_t i = 0; i < known.size(); ++i) {
    if (i < view->slices.size()) {
      exchange_of[i] = static_cast<size_t>(PositionOf(view->slices[i].server) - exchanges.begin());
    }
    ++next[exchange_of[i] + 1];
  }
  for (size_t e = 0; e < exchanges.size(); ++e) {
    Exchange& exchange = exchanges[e];
    exchange.member = view->Find(exchange.server);
    next[e + 1] += next[e];
    exchange.first = next[e];
    exchange.end = next[e + 1];
  }
  const auto before = std::tuple(known, seen, run.from, index_of);
  const auto& [known_before, seen_before, from_before, places_before] = before;
  for (uint32_t i = 0; i < known.size(); ++i) {
    const uint32_t from = places_before[i], to = next[exchange_of[i]]++;
    index_of[i] = to;
    known[to] = known_before[from];
    if (!seen.empty()) seen[to] = seen_before[from];
    if (!run.from.empty()) run.from[to] = from_before[from];
    incarnations[to] = i < view->slices.size() ? view->slices[i].incarnation : Incarnation();
  }
  seen_range.reset();
}

// An empty request, in the memory of the previous one if nobody else holds it.
PushRequest& Worker::State::Fresh(Exchange* exchange) {
  if (!exchange->request || exchange->request.use_count() > 1) {
    exchange->request = std::make_shared<PushRequest>();
    // All that there may be, beside the request: a simulator has a million of them.
    exchange->request->slices.reserve(exchange->end - exchange->first);
    return *exchange->request;
  }
  PushRequest& request = *exchange->request;
  auto slices = std::move(request.slices);
  auto counted = std::move(request.counted);
  slices.clear();
  counted.clear();
  request = {};
  request.slices = std::move(slices);
  request.counted = std::move(counted);
  return request;
}

// The request, to be changed: a copy if it may still be referenced by a sender.
PushRequest& Worker::State::Own(Exchange* exchange) {
  if (exchange->request.use_count() > 1) {
    exchange->request = std::make_shared<PushRequest>(*exchange->request);
  }
  return *exchange->request;
}

// Starts a request for the next Begin, without slices.
PushRequest& Worker::State::Open(Exchange* exchange, Disposition disposition) {
  exchange->open = true;
  ++open;
  PushRequest& request = Fresh(exchange);
  request.worker = node;
  request.disposition = disposition;
  return request;
}

void Worker::State::AddSlice(Exchange* exchange, uint32_t index, uint64_t version, Disposition disposition) {
  PushRequest& request = exchange->open ? *exchange->request : Open(exchange, disposition);
  request.slices.push_back({known[index].slice, incarnations[index], version});
}

void Worker::State::Begin(Time now, Phase what) {
  phase = what;
  interrupt_at.reset();
  first_sequence = last_sequence + 1;
  actions.reserve(actions.size() + open);
  for (Exchange& exchange : exchanges) {
    if (exchange.open) Send(now, &exchange);
  }
  if (open > 0) return;
  phase = Phase::kIdle;
  if (what == Phase::kPushing) run.active = false;
}

void Worker::State::Send(Time now, Exchange* exchange) {
  if (!exchange->member || exchange->member->address.empty())
    return Retry(now, exchange, config.retry_interval);
  exchange->in_flight = exchange->contacted = true;
  exchange->sent = now;
  exchange->at = now + config.reply_timeout;
  PushRequest& request = Own(exchange);
  request.sequence = ++last_sequence;
  request.generation = view->generation;
  actions.emplace_back(SendPush{exchange->server, exchange->member->address, exchange->request});
}

// Twice retry_interval for each of `earlier` attempts in a row, up to `longest`; half as long again at most,
// at random, so that workers do not return together.
Duration Worker::State::BackOff(uint32_t earlier, Duration longest) {
  constexpr uint32_t kMaxDoublings = 16;
  const Duration pause = std::min(longest, config.retry_interval * (1 << std::min(earlier, kMaxDoublings)));
  return pause + FromSeconds(0.5 * rng.Uniform() * Seconds(pause));
}

void Worker::State::Retry(Time now, Exchange* exchange, Duration after) {
  exchange->in_flight = false;
  exchange->at = now + after;
  view_wanted = true;
}

void Worker::State::NoteFailure(Time now, Exchange* exchange) {
  Failing& its = failing[exchange->server];
  // After a longer time there was a connection in between.
  const bool again = its.last == Time::min() || now - its.last <= config.failure_gap;
  if (its.since == Time::max() || !again) {
    its.since = now;
    its.in_a_row = 0;
  }
  its.last = now;
  ++push_retries;
  Retry(now, exchange, BackOff(its.in_a_row++, config.max_retry_interval));
}

// Servers with an open request whose hosts are silent, or whose requests failed again after
// unreachable_after, and not long ago.
std::vector<NodeId> Worker::State::Unreachable(Time now) const {
  std::vector<NodeId> servers;
  for (const auto& [server, its] : failing) {
    const bool fails = its.last != Time::min() && its.last - its.since >= config.unreachable_after &&
                       now - its.last <= config.failure_gap;
    if (!fails && !its.silent) continue;
    const auto at = std::ranges::lower_bound(exchanges, server, {}, &Exchange::server);
    if (at != exchanges.end() && at->server == server && at->open) servers.push_back(server);
  }
  return servers;
}

void Worker::State::FinishExchange(Time now, Exchange* exchange) {
  exchange->open = false;
  if (!failing.empty()) failing.erase(exchange->server);
  if (--open > 0) return;
  if (phase != Phase::kPushing) phase = Phase::kIdle;
  Advance(now);
}

// Usually all servers are asked at once, in order, so the sequence gives the index. Null if it does not.
const Worker::State::Exchange* Worker::State::Asked(NodeId server, uint64_t sequence) const {
  const uint64_t index = sequence - first_sequence;
  return index < exchanges.size() && exchanges[index].server == server ? &exchanges[index] : nullptr;
}

Worker::State::Exchange* Worker::State::Find(NodeId server, uint64_t sequence) {
  const Exchange* const asked = Asked(server, sequence);
  const auto at = asked ? exchanges.begin() + (asked - exchanges.data()) : PositionOf(server);
  const bool it = at != exchanges.end() && at->server == server && at->open && at->in_flight &&
                  at->request->sequence == sequence;
  return it ? &*at : nullptr;
}

// Gives up exchanges that the newer view makes obsolete.
void Worker::State::DropExchanges(const View& newer) {
  for (Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    const bool push = exchange.request->disposition != Disposition::kPull;
    const auto survives = [&](const SliceRef& ref) {
      return ref.slice.value < newer.slices.size() &&
             newer.slices[ref.slice.value].incarnation == ref.incarnation &&
             newer.slices[ref.slice.value].server != NodeId();
    };
    const auto stays = [&](const SliceRef& ref) {
      return survives(ref) && newer.slices[ref.slice.value].server == exchange.server;
    };
    const auto drop = [&](const SliceRef& ref) {
      if (stays(ref)) return false;
      // Its former server does not take the run any more, if it has not taken it before.
      if (push && survives(ref)) {
        untaken.push_back({ref});
      } else {
        run.clean = false;
      }
      return true;
    };
    const auto& slices = exchange.request->slices;
    const bool over = !newer.Find(exchange.server) || std::none_of(slices.begin(), slices.end(), stays);
    if (!over) {
      // A request in flight is answered also for slices that have moved.
      if (!exchange.in_flight && !std::ranges::all_of(slices, stays)) {
        std::erase_if(Own(&exchange).slices, drop);
      }
      continue;
    }
    for (const SliceRef& ref : slices) {
      drop(ref);
      // Values may have been arriving.
      if (exchange.in_flight && exchange.request->want_values) Forget(index_of[ref.slice.value]);
    }
    if (exchange.in_flight && std::exchange(exchange.contacted, false)) {
      actions.emplace_back(Disconnect{exchange.server});
    }
    exchange.open = false;
    --open;
  }
  for (Exchange& exchange : exchanges) {
    if (!newer.Find(exchange.server) && std::exchange(exchange.contacted, false)) {
      actions.emplace_back(Disconnect{exchange.server});
    }
  }
  if (open == 0 && (phase == Phase::kPulling || phase == Phase::kPushing)) {
    if (phase == Phase::kPushing && untaken.empty()) run.active = false;
    if (phase == Phase::kPulling || untaken.empty()) phase = Phase::kIdle;
  }
  std::erase_if(exchanges, [&](const Exchange& e) { return !e.open && !newer.Find(e.server); });
  std::erase_if(failing, [&](const auto& entry) { return !newer.Find(entry.first); });
}

void Worker::State::TakeReply(Time now, const Exchange& exchange, const PushReply& reply) {
  const PushRequest& request = *exchange.request;
  const auto end = reply.slices.end();
  auto said = reply.slices.begin();
  const bool by_steps = stepped();
  uint32_t index = exchange.first;
  for (const SliceRef& ref : request.slices) {
    // In index order, unless not all were requested or the view has changed.
    if (index >= exchange.end || known[index].slice != ref.slice) index = index_of[ref.slice.value];
    const uint32_t at = index++;
    while (said != end && said->slice < ref.slice) ++said;
    const bool there = said != end && said->slice == ref.slice && said->incarnation == ref.incarnation &&
                       said->outcome != SliceOutcome::kNotHere;
    const bool moving = there && said->outcome == SliceOutcome::kMoving;
    if ((!there || moving) && request.disposition != Disposition::kPull) {
      // The slice is pushed again as soon as it is known to be on a server.
      const bool known_there = moving || at < exchange.first || at >= exchange.end;
      untaken.push_back({ref, known_there ? now : now + kLookAgain * config.retry_interval});
      view_wanted = view_wanted || !known_there;
      continue;
    }
    if (!there) {
      // Nothing is trained before a pull has found it again, wherever the next view places it.
      Forget(at);
      view_wanted = true;
      PauseUntil(now + config.retry_interval);
      run.clean = false;
      continue;
    }
    if (by_steps) {
      if (seen[at].incarnation != ref.incarnation) seen[at] = {ref.incarnation, 0};
      seen[at].version = std::max(seen[at].version, said->version);
      // The slice has no values of that version any more, because nobody needs them: it is further ahead, or
      // has moved or been restored since.
      if (said->values && request.exact && said->version > request.version_wanted)
        settled = std::max(settled, request.version_wanted + 1);
    }
    if (said->values) {
      known[at] = {ref.slice, ref.incarnation, said->version};
    } else if (request.disposition == Disposition::kPull && request.want_values) {
      Forget(at);
      view_wanted = true;
      PauseUntil(now + config.retry_interval);
    }
    if (said->outcome == SliceOutcome::kConflict) OnConflict(now);
  }
  if (!by_steps) return;
  seen_range.reset();
  TakeCounted(now, exchange, reply);
}

// The cut contradicts another one in a ledger, or the ledger has too many open splits. Only the training of
// other splits can change that.
void Worker::State::OnConflict(Time now) {
  run.clean = false;
  view_wanted = true;
  if (std::exchange(run.conflict, true)) return;
  PauseUntil(now + BackOff(conflicts_in_a_row++, config.max_conflict_pause));
}

// Repeats requests that timed out, or are due. A worker that leaves does not: see Interrupt.
void Worker::State::OnLate(Time now) {
  for (Exchange& exchange : exchanges) {
    if (!exchange.open || exchange.at > now) continue;
    if (!exchange.in_flight) {
      if (!leaving) Send(now, &exchange);
    } else {
      exchange.contacted = false;
      actions.emplace_back(Disconnect{exchange.server});
      Failing& its = failing[exchange.server];
      its = {.since = now, .silent = its.silent};
      ++push_retries;
      Retry(now, &exchange, config.retry_interval);
    }
  }
}

}  // namespace leat::protocol
