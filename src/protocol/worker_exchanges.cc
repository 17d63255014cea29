// Requests to servers, until they are answered or the view says that they cannot be.
#include <algorithm>
#include <utility>

#include "protocol/worker_state.h"

namespace leat::protocol {

std::vector<Worker::State::Exchange>::iterator Worker::State::PlaceOf(NodeId server) {
  return std::ranges::lower_bound(exchanges, server, {}, &Exchange::server);
}

Worker::State::Exchange& Worker::State::ExchangeWith(NodeId server) {
  auto at = PlaceOf(server);
  if (at == exchanges.end() || at->server != server) {
    at = exchanges.emplace(at);
    at->server = server;
  }
  return *at;
}

// By the view: one exchange for each server that has slices, and those that are open.
void Worker::State::ArrangeExchanges() {
  for (const SlicePlace& place : view.slices) ExchangeWith(place.server);
  for (Exchange& exchange : exchanges) exchange.address = AddressOf(exchange.server);
  exchange_of.clear();
  for (const SlicePlace& place : view.slices) {
    exchange_of.push_back(static_cast<uint32_t>(PlaceOf(place.server) - exchanges.begin()));
  }
}

std::string Worker::State::AddressOf(NodeId server) const {
  const Member* member = view.Find(server);
  return member ? member->address : std::string();
}

// A request with nothing in it, of the memory of the last one when nobody else holds that any more.
PushRequest& Worker::State::Fresh(Exchange* exchange) {
  if (!exchange->request || exchange->request.use_count() > 1) {
    exchange->request = std::make_shared<PushRequest>();
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

// The request, to be changed: what was sent stays as it is.
PushRequest& Worker::State::Own(Exchange* exchange) {
  if (exchange->request.use_count() > 1) {
    exchange->request = std::make_shared<PushRequest>(*exchange->request);
  }
  return *exchange->request;
}

// To the request that the slice's server is sent by the next Begin.
void Worker::State::AddSlice(size_t slice, uint64_t version, Disposition disposition) {
  const SlicePlace& place = view.slices[slice];
  Exchange& exchange = exchanges[exchange_of[slice]];
  if (!exchange.open) {
    exchange.open = true;
    ++open;
    PushRequest& request = Fresh(&exchange);
    request.worker = node;
    request.disposition = disposition;
  }
  exchange.request->slices.push_back({SliceId(static_cast<uint32_t>(slice)), place.incarnation, version});
}

void Worker::State::Begin(Time now, Phase what) {
  phase = what;
  interrupt_at.reset();
  actions.reserve(actions.size() + open);
  for (Exchange& exchange : exchanges) {
    if (exchange.open) Send(now, &exchange);
  }
  if (open > 0) return;
  phase = Phase::kIdle;
  if (what == Phase::kPushing) run.active = false;
}

void Worker::State::Send(Time now, Exchange* exchange) {
  if (exchange->address.empty()) return Retry(now, exchange);
  exchange->in_flight = exchange->contacted = true;
  exchange->sent = now;
  exchange->at = now + config.reply_timeout;
  PushRequest& request = Own(exchange);
  request.sequence = ++last_sequence;
  request.generation = view.generation;
  actions.emplace_back(SendPush{exchange->server, exchange->address, exchange->request});
}

void Worker::State::Retry(Time now, Exchange* exchange) {
  exchange->in_flight = false;
  exchange->at = now + config.retry_interval;
  view_wanted = true;
}

void Worker::State::FinishExchange(Time now, Exchange* exchange) {
  exchange->open = false;
  if (--open > 0) return;
  const Phase was = std::exchange(phase, Phase::kIdle);
  if (was == Phase::kPushing) {
    run.active = false;
    const auto at = held.find(run.lease);
    // Steps are counted: what was not taken everywhere is done again, however often.
    if (stepped() && run.clean && at != held.end())
      at->second.next = std::max(at->second.next, run.place + 1);
  }
  Advance(now);
}

Worker::State::Exchange* Worker::State::Find(NodeId server, uint64_t sequence) {
  const auto at = PlaceOf(server);
  const bool it = at != exchanges.end() && at->server == server && at->open && at->in_flight &&
                  at->request->sequence == sequence;
  return it ? &*at : nullptr;
}

// What the newer view has no use for is given up.
void Worker::State::DropExchanges(const View& newer) {
  for (Exchange& exchange : exchanges) {
    if (!exchange.open) continue;
    auto lives = [&](const SliceRef& ref) {
      return ref.slice.value < newer.slices.size() &&
             newer.slices[ref.slice.value].server == exchange.server &&
             newer.slices[ref.slice.value].incarnation == ref.incarnation;
    };
    const auto& slices = exchange.request->slices;
    const bool over = !newer.Find(exchange.server) || std::none_of(slices.begin(), slices.end(), lives);
    if (!over) {
      // One that is under way is answered for the slices that are no longer there, too.
      if (!exchange.in_flight && !std::ranges::all_of(slices, lives)) {
        std::erase_if(Own(&exchange).slices, [&](const SliceRef& ref) { return !lives(ref); });
        run.clean = false;
      }
      continue;
    }
    if (exchange.in_flight && std::exchange(exchange.contacted, false)) {
      actions.emplace_back(Disconnect{exchange.server});
    }
    exchange.open = false;
    --open;
    run.clean = false;
  }
  for (Exchange& exchange : exchanges) {
    if (!newer.Find(exchange.server) && std::exchange(exchange.contacted, false)) {
      actions.emplace_back(Disconnect{exchange.server});
    }
  }
  if (open == 0 && (phase == Phase::kPulling || phase == Phase::kPushing)) {
    if (phase == Phase::kPushing) run.active = false;
    phase = Phase::kIdle;
  }
  std::erase_if(exchanges, [&](const Exchange& e) { return !e.open && !newer.Find(e.server); });
}

void Worker::State::TakeReply(Time now, const Exchange& exchange, const PushReply& reply) {
  const PushRequest& request = *exchange.request;
  size_t next = 0;
  for (const SliceRef& ref : request.slices) {
    const size_t slice = ref.slice.value;
    while (next < reply.slices.size() && reply.slices[next].slice < ref.slice) ++next;
    const bool there = next < reply.slices.size() && reply.slices[next].slice == ref.slice &&
                       reply.slices[next].incarnation == ref.incarnation &&
                       reply.slices[next].outcome != SliceOutcome::kNotHere;
    if (!there) {
      // Nothing is trained before a pull has found it, wherever the next view says that it is.
      Forget(slice);
      view_wanted = true;
      resume_at = now + config.retry_interval;
      run.clean = false;
      continue;
    }
    const SliceReply& said = reply.slices[next];
    if (stepped()) {
      if (seen[slice].incarnation != ref.incarnation) seen[slice] = {ref.incarnation, 0};
      seen[slice].version = std::max(seen[slice].version, said.version);
    }
    if (said.values) {
      known[slice] = {ref.incarnation, said.version};
    } else if (request.disposition == Disposition::kPull && request.want_values) {
      Forget(slice);
      view_wanted = true;
      resume_at = now + config.retry_interval;
    }
    if (said.outcome == SliceOutcome::kConflict && stepped()) {
      run.clean = false;
      view_wanted = true;
      resume_at = now + config.retry_interval;
    }
  }
  if (stepped()) TakeCounted(now, exchange, reply);
}

// Servers that have not answered in time, and those to be asked once more.
void Worker::State::OnLate(Time now) {
  for (Exchange& exchange : exchanges) {
    if (!exchange.open || exchange.at > now) continue;
    if (!exchange.in_flight) {
      Send(now, &exchange);
    } else {
      exchange.contacted = false;
      actions.emplace_back(Disconnect{exchange.server});
      Retry(now, &exchange);
    }
  }
}

}  // namespace leat::protocol
