// Slices that move between servers.
//
// A slice moves whole, with its ledger and the slots of its optimizer, between two steps if there are steps.
// Every update changes all of it, so a copy made while it goes on would have to be sent again: it is frozen
// while it is sent, and only the coordinator ends that. Nobody applies a run to it in the meantime. So at any
// time one server at most applies runs to an incarnation of a slice, and the incarnation's ledger only grows,
// on whichever server it is.
#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "protocol/guards.h"
#include "protocol/server/server_state.h"

namespace leat::protocol {

namespace {

// Arrived moves that are kept without an order: the coordinator makes one at a time.
constexpr size_t kMaxArrived = 4;
// Every kTrafficInterval heartbeats, report the traffic of kMaxTraffic slices.
constexpr uint32_t kMaxTraffic = 8192;
constexpr uint64_t kTrafficInterval = 32;

}  // namespace

// ---- moves from this server

// The slice that the move takes away, or null if it is not here any more.
Server::State::HostedSlice* Server::State::Taken(const SliceIncarnation& which) {
  const Slice* const slice = Alive(which.slice);
  return slice && guards::SameIncarnation(which.incarnation, slice->incarnation)
             ? &*hosted_slices[which.slice.value]
             : nullptr;
}

void Server::State::FailMove(OutgoingMove* move, std::string why) {
  if (!move->failure.empty()) return;
  move->failure = std::move(why);
  heartbeat_urgent = true;
}

void Server::State::BeginMove(const MoveOrder& order) {
  OutgoingMove& move = outgoing[order.id];
  move.order = order;
  if (order.slices.empty()) return FailMove(&move, "no slices");
  for (const SliceIncarnation& which : order.slices) {
    if (!Taken(which)) return FailMove(&move, "slice " + ToString(which.slice) + " is not here");
    if (hosted_slices[which.slice.value]->move != 0)
      return FailMove(&move, "slice " + ToString(which.slice) + " moves already");
  }
  for (const SliceIncarnation& which : order.slices) hosted_slices[which.slice.value]->move = order.id;
  // The replicas are there.
  if (order.kind == MoveOrder::Kind::kHandOver) return BeginFreeze(&move);
  move_actions.emplace_back(ConnectMove{order.id, order.to, order.address});
}

void Server::State::BeginFreeze(OutgoingMove* move) {
  move->connected = true;
  move->front = Front(*move);
  for (const SliceIncarnation& which : move->order.slices) {
    hot[which.slice.value].moving = true;
    FreezeIfWhole(&*hosted_slices[which.slice.value]);
  }
}

// The first step of which no slice of the move has a lane yet. Usually all slices are as far as each other;
// one that has come lately, or was a replica, may be behind.
uint64_t Server::State::Front(const OutgoingMove& move) const {
  uint64_t front = 0;
  for (const SliceIncarnation& which : move.order.slices) {
    const auto& hosted = hosted_slices[which.slice.value];
    if (!hosted || !hosted->slice || hosted->move != move.order.id) continue;
    front = std::max(front, hosted->slice->version);
    for (size_t i = 0; i < hosted->open.size(); ++i) {
      if (hosted->open[i].in > 0) front = std::max(front, hosted->slice->version + i + 1);
    }
  }
  return front;
}

// The slices that are still ordered from this server go on here.
void Server::State::EndMove(const OutgoingMove& move) {
  for (const SliceIncarnation& which : move.order.slices) {
    HostedSlice* const hosted = Taken(which);
    if (!hosted || hosted->move != move.order.id) continue;
    hosted->move = 0;
    hosted->frozen = hosted->handed_over = false;
    hot[which.slice.value].moving = false;
  }
  wake = true;
  move_actions.emplace_back(DropMove{move.order.id});
}

void Server::State::TakeMoves(const ServerHeartbeatReply& reply) {
  for (auto at = outgoing.begin(); at != outgoing.end();) {
    const auto order = std::ranges::find(reply.moves, at->first, &MoveOrder::id);
    if (order == reply.moves.end()) {
      EndMove(at->second);
      at = outgoing.erase(at);
      continue;
    }
    OutgoingMove& move = at->second;
    move.order.version = order->version;
    for (const SliceIncarnation& which : move.order.slices) {
      HostedSlice* const hosted = Taken(which);
      if (!hosted || hosted->move != at->first) {
        FailMove(&move, "slice " + ToString(which.slice) + " is not here");
      } else if (move.connected) {
        FreezeIfWhole(hosted);
      }
    }
    ++at;
  }
  for (const MoveOrder& order : reply.moves) {
    if (!outgoing.contains(order.id)) BeginMove(order);
  }
  std::erase_if(arrived, [&](const auto& entry) {
    const auto& [id, move] = entry;
    if (!move.reported || std::ranges::count(reply.incoming, id) > 0) return false;
    move_actions.emplace_back(
        AnswerMove{id, Status(Code::kAborted, "the coordinator has given the move up")});
    wake = true;
    return true;
  });
}

bool Server::State::AnyLaneIn(const HostedSlice& hosted) const {
  return std::ranges::any_of(hosted.open, [](const OpenStep& open) { return open.in > 0; });
}

// A slice at a step is frozen before any lane of the step has come to it, or to another slice of the move: a
// worker whose push a frozen slice refuses does not go on, and the other slices would wait for its next one.
// If workers compute on the values of exactly that step, none may need its values of the step before: so all
// slices must have reached it.
void Server::State::FreezeIfWhole(HostedSlice* hosted) {
  if (hosted->frozen || (stepped() && AnyLaneIn(*hosted))) return;
  const OutgoingMove& move = outgoing.at(hosted->move);
  if (stepped() && config.strategy.ahead() == 0) {
    if (hosted->slice->version > move.order.version || hosted->slice->version < Front(move)) return;
  } else if (stepped() && hosted->slice->version < move.front) {
    return;
  }
  Freeze(hosted);
}

void Server::State::Freeze(HostedSlice* hosted) {
  hosted->frozen = true;
  OutgoingMove& move = outgoing.at(hosted->move);
  if (++move.frozen == move.order.slices.size()) heartbeat_urgent = true;
}

bool Server::State::HeldBack(HostedSlice* hosted, const PushRequest& request) {
  if (hosted->frozen) return true;
  if (!stepped()) return false;
  const uint64_t step = request.step_lane->step;
  const OutgoingMove& move = outgoing.at(hosted->move);
  if (config.strategy.ahead() > 0) return step >= move.front;
  // Its worker has the values of this version of all slices, which have thus reached it.
  if (step != hosted->slice->version || AnyLaneIn(*hosted) || step < Front(move)) return false;
  Freeze(hosted);
  return true;
}

SliceOutcome Server::State::OutcomeWhileMoving(const HostedSlice& hosted, const PushRequest& request) {
  if (const auto known = OutcomeOf(ledgers.Lookup(hosted.order.slice.value))) return *known;
  return stepped() && request.step_lane->step < hosted.slice->version ? SliceOutcome::kLate
                                                                      : SliceOutcome::kMoving;
}

bool Server::State::StillMoving(const SliceReply& slice) const {
  const Slice* const alive = Alive(slice.slice);
  if (!alive) return Arriving({slice.slice, slice.incarnation});
  return alive->incarnation == slice.incarnation && hot[slice.slice.value].moving &&
         !hosted_slices[slice.slice.value]->handed_over;
}

// Backup workers: a server that begins to choose lanes answers, for the last steps, what has been chosen.
std::vector<DecidedStep> Server::State::DecidedSteps() const {
  std::vector<DecidedStep> decided;
  for (const auto& [number, step] : steps) {
    if (!step.counted.empty()) decided.push_back({number, step.width, step.needed, step.counted});
  }
  return decided;
}

// ---- moves to this server

const Slice* Server::State::FindArrived(const SliceIncarnation& which) const {
  for (const auto& [id, move] : arrived) {
    for (const MovedSlice& moved : move.slices) {
      if (moved.slice->id == which.slice && moved.slice->incarnation == which.incarnation)
        return moved.slice.get();
    }
  }
  return nullptr;
}

std::shared_ptr<Slice> Server::State::TakeArrived(const SliceOrder& order, HostedSlice* hosted) {
  const auto move = arrived.find(order.move);
  if (move == arrived.end()) return nullptr;
  auto& slices = move->second.slices;
  const auto at = std::ranges::find_if(slices, [&](const MovedSlice& moved) {
    return moved.slice->id == order.slice && moved.slice->incarnation == order.incarnation;
  });
  if (at == slices.end()) return nullptr;
  auto slice = std::make_shared<Slice>(*at->slice);
  hosted->saved = at->saved;
  TakeDecided(at->decided);
  slices.erase(at);
  wake = true;
  if (slices.empty()) {
    move_actions.emplace_back(AnswerMove{order.move, {}});
    arrived.erase(move);
  }
  return slice;
}

bool Server::State::Valid(const DecidedStep& decided) const {
  const uint32_t width = decided.width;
  const StepLane step_lane{decided.step, 0, width, decided.needed};
  if (!FitsStrategy(step_lane) || decided.needed == width || decided.counted.size() != (width + 63) / 64)
    return false;
  uint32_t lanes = 0;
  for (const uint64_t word : decided.counted) lanes += static_cast<uint32_t>(std::popcount(word));
  return lanes == decided.needed && (width % 64 == 0 || decided.counted.back() >> (width % 64) == 0);
}

void Server::State::TakeDecided(const std::vector<DecidedStep>& decided) {
  for (const DecidedStep& its : decided) {
    Step* const step = OpenStepOf({its.step, 0, its.width, its.needed});
    if (!step || !step->counted.empty()) continue;
    step->counted = its.counted;
    NoteDecided(its.step, *step);
  }
}

// ---- heartbeats

void Server::State::ReportMoves(ServerHeartbeat* heartbeat) {
  for (const auto& [id, move] : outgoing) {
    if (!move.failure.empty()) {
      heartbeat->moves.push_back({id, MoveReport::Stage::kFailed, move.failure});
    } else if (move.frozen == move.order.slices.size() && Confirmed(move)) {
      heartbeat->moves.push_back({id, MoveReport::Stage::kFrozen, ""});
    }
  }
  for (auto& [id, move] : arrived) {
    // The coordinator is to know the whole ledgers before.
    if (!move.in_report || heartbeat->more) continue;
    heartbeat->moves.push_back({id, MoveReport::Stage::kArrived, ""});
    move.reported = true;
  }
}

void Server::State::ReportTraffic(ServerHeartbeat* heartbeat) {
  const auto end = static_cast<uint32_t>(hot.size());
  if (++heartbeats % kTrafficInterval != 0 && traffic_reported == 0) return;
  for (; traffic_reported < end && heartbeat->traffic.size() < kMaxTraffic; ++traffic_reported) {
    const HotSlice& slice = hot[traffic_reported];
    if (slice.alive) heartbeat->traffic.push_back({SliceId(traffic_reported), slice.requests, slice.bytes});
  }
  if (traffic_reported == end) traffic_reported = 0;
}

// ---- public interface

std::vector<MoveAction> Server::TakeMoveActions() {
  State& s = *state_;
  for (auto& [id, move] : s.outgoing) {
    if (move.sent || !move.failure.empty() || move.frozen < move.order.slices.size()) continue;
    // The replica of a slice stays where it is, and has to have all that is sent.
    if (move.order.kind == MoveOrder::Kind::kHandOver || !s.Confirmed(move)) continue;
    move.sent = true;
    SendMove send{id, {}};
    for (const SliceIncarnation& which : move.order.slices) {
      State::HostedSlice& hosted = *s.hosted_slices[which.slice.value];
      MovedSlice moved{std::make_shared<const Slice>(s.WithLedger(&hosted)), hosted.saved, {}};
      if (which.slice == SliceId(0) && s.config.strategy.backup > 0) moved.decided = s.DecidedSteps();
      send.slices.push_back(std::move(moved));
    }
    s.move_actions.emplace_back(std::move(send));
  }
  return std::exchange(s.move_actions, {});
}

void Server::OnMoveConnected(uint64_t id) {
  State& s = *state_;
  const auto at = s.outgoing.find(id);
  if (at == s.outgoing.end() || at->second.connected || !at->second.failure.empty()) return;
  s.BeginFreeze(&at->second);
}

void Server::OnMoveTaken(uint64_t id) {
  State& s = *state_;
  const auto at = s.outgoing.find(id);
  if (at == s.outgoing.end() || !at->second.sent || !at->second.failure.empty()) return;
  // The next reply ends the wait.
  if (at->second.order.kind == MoveOrder::Kind::kCopy) {
    s.heartbeat_urgent = true;
    return;
  }
  for (const SliceIncarnation& which : at->second.order.slices)
    s.hosted_slices[which.slice.value]->handed_over = true;
  s.wake = true;
}

void Server::OnMoveFailed(uint64_t id, const Status& why) {
  State& s = *state_;
  const auto at = s.outgoing.find(id);
  if (at != s.outgoing.end()) s.FailMove(&at->second, why.ToString());
}

std::optional<uint64_t> Server::SliceBytes(SliceId slice) const {
  const State& s = *state_;
  if (slice.value >= s.config.table.slices.size()) return std::nullopt;
  return s.config.table.slices[slice.value].elements() * (1 + s.RuleOf(slice).slots) * sizeof(float);
}

Buffer Server::NewSliceMemory(SliceId slice) const {
  return state_->NewMemory(*SliceBytes(slice));
}

Slice Server::ArrivedSlice(SliceId id, Buffer memory) const {
  Slice slice;
  slice.id = id;
  slice.slots = state_->RuleOf(id).slots;
  slice.elements = state_->config.table.slices[id.value].elements();
  slice.memory = std::move(memory);
  return slice;
}

Status Server::OnMoveArrived(uint64_t id, std::vector<MovedSlice> slices) {
  State& s = *state_;
  const auto bad = [](std::string what) {
    return Status(Code::kInvalidArgument, "move: " + std::move(what));
  };
  if (slices.empty()) return bad("no slices");
  std::optional<SliceId> before;
  for (const MovedSlice& moved : slices) {
    const SliceId slice = moved.slice->id;
    if (slice.value >= s.hosted_slices.size() || (before && slice <= *before))
      return bad("slice " + ToString(slice) + " is unknown or out of order");
    before = slice;
    if (const Status fits = s.Fits(*moved.slice); !fits.ok()) return bad(fits.message());
    for (const DecidedStep& decided : moved.decided) {
      if (!s.Valid(decided)) return bad("wrong lanes of step " + std::to_string(decided.step));
    }
  }
  // It has been taken before, and the answer was lost.
  const bool held = std::ranges::all_of(slices, [&](const MovedSlice& moved) {
    const auto& hosted = s.hosted_slices[moved.slice->id.value];
    return hosted && hosted->slice && hosted->order.move == id;
  });
  if (held) {
    s.move_actions.emplace_back(AnswerMove{id, {}});
    return {};
  }
  if (s.arrived.size() >= kMaxArrived && !s.arrived.contains(id))
    return Status(Code::kResourceExhausted,
                  std::to_string(s.arrived.size()) + " moves wait for their orders");
  s.arrived[id] = {.slices = std::move(slices)};
  s.heartbeat_urgent = true;
  return {};
}

void Server::Leave() {
  state_->leaving = state_->heartbeat_urgent = true;
}

bool Server::leaving() const {
  return state_->leaving;
}

}  // namespace leat::protocol
