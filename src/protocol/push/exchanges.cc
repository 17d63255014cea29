#include "protocol/push/exchanges.h"

#include <tuple>

namespace leat::protocol {

// ---- retries

Duration Retries::BackOff(uint32_t earlier, Duration longest) {
  constexpr uint32_t kMaxDoublings = 16;
  const Duration pause = std::min(longest, times_.retry_interval * (1 << std::min(earlier, kMaxDoublings)));
  return pause + FromSeconds(0.5 * rng_.Uniform() * Seconds(pause));
}

Duration Retries::OnFailed(Time now, NodeId server) {
  Failure& failure = failing_[server];
  // After a longer time there was a connection in between.
  const bool again = failure.last == Time::min() || now - failure.last <= times_.failure_gap;
  if (failure.since == Time::max() || !again) {
    failure.since = now;
    failure.in_a_row = 0;
  }
  failure.last = now;
  ++count_;
  return BackOff(failure.in_a_row++, times_.max_retry_interval);
}

void Retries::OnSilence(NodeId server, bool silent) {
  if (silent) {
    failing_[server].silent = true;
  } else if (const auto at = failing_.find(server); at != failing_.end()) {
    at->second.silent = false;
  }
}

std::vector<NodeId> Retries::Unreachable(Time now) const {
  std::vector<NodeId> servers;
  for (const auto& [server, failure] : failing_) {
    const bool fails = failure.last != Time::min() &&
                       failure.last - failure.since >= times_.unreachable_after &&
                       now - failure.last <= times_.failure_gap;
    if (fails || failure.silent) servers.push_back(server);
  }
  return servers;
}

// ---- versions of slices

SliceVersions::SliceVersions(size_t slices, bool stepped) : incarnations_(slices) {
  known_.reserve(slices);
  index_of_.reserve(slices);
  for (uint32_t i = 0; i < slices; ++i) {
    known_.push_back({SliceId(i), {}, 0});
    index_of_.push_back(i);
  }
  if (stepped) seen_.resize(slices);
}

void SliceVersions::Arrange(const View& view, std::vector<uint32_t> index_of) {
  const auto before = std::tuple(known_, seen_);
  const auto& [known_before, seen_before] = before;
  for (uint32_t i = 0; i < known_.size(); ++i) {
    const uint32_t from = index_of_[i], to = index_of[i];
    known_[to] = known_before[from];
    if (!seen_.empty()) seen_[to] = seen_before[from];
    incarnations_[to] = i < view.slices.size() ? view.slices[i].incarnation : Incarnation();
  }
  index_of_ = std::move(index_of);
  range_.reset();
}

std::vector<SliceRef> SliceVersions::KnownBySlice() const {
  std::vector<SliceRef> known;
  known.reserve(known_.size());
  for (const uint32_t index : index_of_) known.push_back(known_[index]);
  return known;
}

bool SliceVersions::LacksAny() const {
  for (uint32_t index = 0; index < known_.size(); ++index) {
    if (Lacks(index)) return true;
  }
  return false;
}

uint64_t SliceVersions::LowestKnown() const {
  uint64_t lowest = known_.empty() ? 0 : known_[0].version;
  for (const SliceRef& slice : known_) lowest = std::min(lowest, slice.version);
  return lowest;
}

const std::pair<uint64_t, uint64_t>& SliceVersions::SeenRange() {
  if (!range_) {
    auto& [lowest, highest] = range_.emplace(UINT64_MAX, 0);
    for (uint32_t index = 0; index < seen_.size(); ++index) {
      lowest = std::min(lowest, SeenAt(index));
      highest = std::max(highest, SeenAt(index));
    }
  }
  return *range_;
}

// ---- exchanges

std::vector<Exchange>::iterator Exchanges::PositionOf(NodeId server) {
  return std::ranges::lower_bound(exchanges_, server, {}, &Exchange::server);
}

Exchange& Exchanges::With(NodeId server) {
  auto at = PositionOf(server);
  if (at == exchanges_.end() || at->server != server) {
    at = exchanges_.emplace(at);
    at->server = server;
  }
  return *at;
}

// ---- the view

Exchanges::Dropped Exchanges::DropObsolete(const View& newer) {
  Dropped dropped;
  for (Exchange& exchange : exchanges_) {
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
        dropped.untaken.push_back(ref);
      } else {
        dropped.any_lost = true;
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
      if (exchange.in_flight && exchange.request->want_values) versions_.Forget(versions_.IndexOf(ref.slice));
    }
    if (exchange.in_flight && exchange.contacted) DropConnection(&exchange);
    exchange.open = false;
    --open_;
  }
  for (Exchange& exchange : exchanges_) {
    if (!newer.Find(exchange.server) && exchange.contacted) DropConnection(&exchange);
  }
  std::erase_if(exchanges_, [&](const Exchange& e) { return !e.open && !newer.Find(e.server); });
  retries_.DropAbsent(newer);
  return dropped;
}

void Exchanges::SetView(const Shared<View>& newer) {
  view_ = newer;
  const size_t slices = versions_.size();
  ready_ = view_->ready() && view_->slices.size() == slices;
  for (const SliceLocation& slice : view_->slices) With(slice.server);
  // The exchange of each slice, or the number of exchanges if it has none.
  std::vector<size_t> exchange_of(slices, exchanges_.size());
  std::vector<uint32_t> next(exchanges_.size() + 2);
  for (size_t i = 0; i < slices; ++i) {
    if (i < view_->slices.size()) {
      exchange_of[i] = static_cast<size_t>(PositionOf(view_->slices[i].server) - exchanges_.begin());
    }
    ++next[exchange_of[i] + 1];
  }
  for (size_t e = 0; e < exchanges_.size(); ++e) {
    Exchange& exchange = exchanges_[e];
    exchange.member = view_->Find(exchange.server);
    next[e + 1] += next[e];
    exchange.first = next[e];
    exchange.end = next[e + 1];
  }
  std::vector<uint32_t> index_of(slices);
  for (size_t i = 0; i < slices; ++i) index_of[i] = next[exchange_of[i]]++;
  versions_.Arrange(*view_, std::move(index_of));
  versions_.SetLacking(true);
}

// ---- the next requests

// An empty request, in the memory of the previous one if nobody else holds it.
PushRequest& Exchanges::Fresh(Exchange* exchange) {
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
PushRequest& Exchanges::Own(Exchange* exchange) {
  if (exchange->request.use_count() > 1) {
    exchange->request = std::make_shared<PushRequest>(*exchange->request);
  }
  return *exchange->request;
}

PushRequest& Exchanges::Open(Exchange* exchange, Disposition disposition) {
  exchange->open = true;
  ++open_;
  PushRequest& request = Fresh(exchange);
  request.worker = node_;
  request.disposition = disposition;
  return request;
}

void Exchanges::AddSlice(Exchange* exchange, uint32_t index, uint64_t version, Disposition disposition) {
  PushRequest& request = exchange->open ? *exchange->request : Open(exchange, disposition);
  request.slices.push_back({versions_.known()[index].slice, versions_.incarnation(index), version});
}

void Exchanges::SendOpen(Time now) {
  first_sequence_ = last_sequence_ + 1;
  outbox_.actions.reserve(outbox_.actions.size() + open_);
  for (Exchange& exchange : exchanges_) {
    if (exchange.open) Send(now, &exchange);
  }
}

void Exchanges::Send(Time now, Exchange* exchange) {
  if (!exchange->member || exchange->member->address.empty())
    return RepeatAfter(now, exchange, retries_.times().retry_interval);
  exchange->in_flight = exchange->contacted = true;
  exchange->sent = now;
  exchange->at = now + retries_.times().reply_timeout;
  PushRequest& request = Own(exchange);
  request.sequence = ++last_sequence_;
  request.generation = view_->generation;
  outbox_.actions.emplace_back(SendPush{exchange->server, exchange->member->address, exchange->request});
}

// ---- answers

const Exchange* Exchanges::Asked(NodeId server, uint64_t sequence) const {
  const uint64_t index = sequence - first_sequence_;
  return index < exchanges_.size() && exchanges_[index].server == server ? &exchanges_[index] : nullptr;
}

Exchange* Exchanges::Find(NodeId server, uint64_t sequence) {
  const Exchange* const asked = Asked(server, sequence);
  const auto at = asked ? exchanges_.begin() + (asked - exchanges_.data()) : PositionOf(server);
  const bool found = at != exchanges_.end() && at->server == server && at->open && at->in_flight &&
                     at->request->sequence == sequence;
  return found ? &*at : nullptr;
}

void Exchanges::RepeatLate(Time now, bool leaving) {
  for (Exchange& exchange : exchanges_) {
    if (!exchange.open || exchange.at > now) continue;
    if (!exchange.in_flight) {
      if (!leaving) Send(now, &exchange);
    } else {
      DropConnection(&exchange);
      retries_.OnLate(now, exchange.server);
      RepeatAfter(now, &exchange, retries_.times().retry_interval);
    }
  }
}

Time Exchanges::next_timer() const {
  Time next = Time::max();
  for (const Exchange& exchange : exchanges_) {
    if (exchange.open) next = std::min(next, exchange.at);
  }
  return next;
}

std::vector<NodeId> Exchanges::Unreachable(Time now) const {
  std::vector<NodeId> servers = retries_.Unreachable(now);
  std::erase_if(servers, [this](NodeId server) {
    const auto at = std::ranges::find(exchanges_, server, &Exchange::server);
    return at == exchanges_.end() || !at->open;
  });
  return servers;
}

// ---- the end

std::optional<Time> Exchanges::InterruptibleFrom(bool leaving) const {
  Time earliest{0};
  for (const Exchange& exchange : exchanges_) {
    if (!exchange.open) continue;
    if (!exchange.waits() && (exchange.in_flight || !leaving)) return std::nullopt;
    earliest = std::max(earliest, exchange.sent + retries_.times().retry_interval);
  }
  return earliest;
}

void Exchanges::GiveUp() {
  for (Exchange& exchange : exchanges_) {
    if (!exchange.open) continue;
    for (const SliceRef& ref : exchange.request->slices) versions_.Forget(versions_.IndexOf(ref.slice));
    if (exchange.in_flight) DropConnection(&exchange);
    exchange.open = false;
  }
  open_ = 0;
}

void Exchanges::Stop() {
  for (const Exchange& exchange : exchanges_) {
    if (exchange.contacted) outbox_.actions.emplace_back(Disconnect{exchange.server});
  }
  exchanges_.clear();
  open_ = 0;
}

}  // namespace leat::protocol
