#include "lab/sim/allreduce/group_network.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

// Pause between attempts to reach a member.
constexpr Duration kRedial = std::chrono::milliseconds(100);
// Approximate size of a piece's headers.
constexpr uint64_t kPieceHeaderBytes = 64;
// Relative to the probabilities for other messages: a step takes a hundred pieces, and a lost one ends the
// group.
constexpr double kShareOfFaults = 0.01;

}  // namespace

void GroupNetwork::Connect(const ProcessPtr& p) {
  GroupMemberParts& r = *p->group_member;
  Within(p);
  r.newest_group = r.in.group;
  for (const uint32_t rank : r.in.connections->Calls()) Dial(p, rank);
  for (const uint32_t m : std::exchange(r.callers, {})) {
    if (!TakeCall(p, m)) Free(m);
  }
  if (r.in.peers.empty()) OnConnected(p);
}

// Calls the process that currently has the address.
void GroupNetwork::Dial(const ProcessPtr& p, uint32_t rank) {
  Membership& in = p->group_member->in;
  const uint32_t there = processes_.SlotAt(processes_.AddressIdOf(in.members[rank].address));
  if (there == ProcessTable::kNobody || Chance(options_.faults.lost)) return Redial(p, rank);
  Membership::Peer& peer = *in.Find(rank);
  peer.connection = ++last_connection_;
  peer.slot = there;
  peer.incarnation = 0;
  Send(p, New(p, Piece::Kind::kCall, peer), &peer.there, 1);
}

void GroupNetwork::Redial(const ProcessPtr& p, uint32_t rank) {
  ScheduleIn(p, kRedial, [this, p, rank, group = p->group_member->in.group] {
    const Membership& in = p->group_member->in;
    if (in.group == group && in.connections && in.connections->running()) Dial(p, rank);
  });
}

bool GroupNetwork::TakeCall(const ProcessPtr& p, uint32_t m) {
  const Piece piece = pieces_[m];
  Membership& in = p->group_member->in;
  const CallVerdict verdict = JudgeCall(piece.greet.group, p->group_member->newest_group);
  if (verdict == CallVerdict::kKeep) {
    p->group_member->callers.push_back(m);
    return true;
  }
  if (verdict == CallVerdict::kReject || !in.connections || !in.connections->Accept(piece.greet)) {
    NotifyLost(piece.from, piece.connection, p->host->latency, "a member has joined another group");
    return false;
  }
  Membership::Peer* peer = in.Find(piece.greet.rank);
  peer->connection = piece.connection;
  peer->slot = piece.from;
  peer->incarnation = piece.from_incarnation;
  Send(p, New(p, Piece::Kind::kAnswer, *peer), &peer->there, 1);
  if (in.connections->formed()) OnConnected(p);
  return false;
}

void GroupNetwork::TakeAnswer(const ProcessPtr& p, const Piece& piece) {
  Membership& in = p->group_member->in;
  Membership::Peer* peer = in.On(piece.connection);
  if (peer == nullptr || in.broken) return;
  if (!in.connections->Answers(peer->rank, piece.greet)) {
    return Break(p, Status(Code::kDataLoss, "a greeting of another group or rank"));
  }
  peer->incarnation = piece.from_incarnation;
  in.connections->Answered(peer->rank, ChannelKind::kData);
  if (in.connections->formed()) OnConnected(p);
}

void GroupNetwork::OnConnected(const ProcessPtr& p) {
  Membership& in = p->group_member->in;
  in.connected = true;
  in.deadline = Time::max();
  all_.groups.Later(p, Duration(0), [group = in.group](GroupMember& machine) {
    return machine.OnConnected(group, Status());
  });
}

void GroupNetwork::NotifyLost(uint32_t slot, uint64_t connection, Duration latency, const char* why) {
  const ProcessPtr p = processes_[slot];
  if (!p || all_.faults.Isolated(p.get(), nullptr) || Chance(options_.faults.lost))
    return;  // it only notices its timeout
  ScheduleIn(p, Latency(latency), [this, p, connection, why] {
    if (!p->group_member) return;
    Membership& in = p->group_member->in;
    std::erase_if(p->group_member->callers, [&](uint32_t m) {
      if (pieces_[m].connection != connection) return false;
      Free(m);
      return true;
    });
    const Membership::Peer* peer = in.On(connection);
    if (peer == nullptr ||
        in.connections->Closed(peer->rank, ChannelKind::kData) != PeerConnections::Loss::kPeer)
      return;
    Break(p, Status(Code::kUnavailable, why));
  });
}

void GroupNetwork::NotifyPeers(const ProcessPtr& p) {
  for (const Membership::Peer& peer : p->group_member->in.peers) {
    if (peer.connection != 0) NotifyLost(peer.slot, peer.connection, p->host->latency, "a member is lost");
  }
}

void GroupNetwork::Break(const ProcessPtr& p, Status why) {
  Membership& in = p->group_member->in;
  if (in.group == 0 || in.broken) return;
  in.broken = std::move(why);
  in.connections->Stop();
  in.connections->End();
  in.deadline = Time::max();
  in.runs.clear();
  for (const uint32_t m : std::exchange(in.early, {})) Free(m);
  NotifyPeers(p);
  all_.groups.FailUnderWay(p);
}

void GroupNetwork::Leave(const ProcessPtr& p) {
  Membership& in = p->group_member->in;
  if (in.group == 0) return;
  if (!in.broken) NotifyPeers(p);
  for (const uint32_t m : in.early) Free(m);
}

void GroupNetwork::DropCallers(const ProcessPtr& p) {
  for (const uint32_t m : std::exchange(p->group_member->callers, {})) {
    NotifyLost(pieces_[m].from, pieces_[m].connection, p->host->latency, "a member is lost");
    Free(m);
  }
}

void GroupNetwork::Within(const ProcessPtr& p) {
  GroupMemberParts& r = *p->group_member;
  if (r.in.deadline == Time::max()) r.in.deadline = now() + options_.reply_timeout;
  if (std::exchange(r.watched, true)) return;
  ScheduleIn(p, r.in.deadline - now(), [this, p, incarnation = p->incarnation] {
    if (p->incarnation != incarnation) return;
    p->group_member->watched = false;
    const Time deadline = p->group_member->in.deadline;
    if (deadline == Time::max()) return;
    if (deadline > now()) return Within(p);
    Break(p, Status(Code::kDeadlineExceeded, "other members did not take part in time"));
  });
}

bool GroupNetwork::OneShot(const RoleProcess& p) const {
  return options_.reduce.one_shot && !options_.strategy.deterministic &&
         p.group_member->in.members.size() <= kMaxOneShotMembers;
}

// ---- reductions

void GroupNetwork::StartBucket(const ProcessPtr& p, BucketRun::Kind kind, uint64_t begin, uint64_t end,
                               uint64_t bytes) {
  Membership& in = p->group_member->in;
  const bool sums = kind == BucketRun::Kind::kSums;
  ReduceShape shape{.path = PathOf(sums && options_.strategy.deterministic, sums && OneShot(*p), bytes,
                                   options_.reduce.exchange_bytes),
                    .members = static_cast<uint32_t>(in.members.size()),
                    .bytes = bytes,
                    .piece_bytes = options_.reduce.piece_bytes,
                    .eager_bytes = options_.reduce.eager_bytes};
  if (shape.path == ReducePath::kOneShot) shape.eager_bytes = kOneShotEagerBytes;
  const uint64_t bucket = in.next_bucket++;
  BucketRun& run =
      in.runs.emplace(bucket, BucketRun{kind, begin, end, Reduction(shape, in.rank)}).first->second;
  Within(p);
  run.reduction.Begin();
  if (!in.early.empty()) {
    // Messages that arrived before.
    std::vector<uint32_t> come;
    std::erase_if(in.early, [&](uint32_t m) {
      if (pieces_[m].bucket != bucket) return false;
      come.push_back(m);
      return true;
    });
    bool fits = true;
    for (const uint32_t m : come) {
      fits = fits && Accept(p, &run, m);
      Free(m);
    }
    if (!fits) return Break(p, Status(Code::kDataLoss, "a member sent an invalid piece"));
  }
  Proceed(p, bucket);
}

bool GroupNetwork::Take(const ProcessPtr& p, uint32_t m) {
  const Piece& piece = pieces_[m];
  if (piece.kind == Piece::Kind::kCall) return TakeCall(p, m);
  if (piece.kind == Piece::Kind::kAnswer) {
    TakeAnswer(p, piece);
    return false;
  }
  Membership& in = p->group_member->in;
  if (in.On(piece.connection) == nullptr || in.broken) return false;
  if (options_.check) all_.groups.CheckPiece(*p, piece);
  const auto run = in.runs.find(piece.bucket);
  if (run == in.runs.end() && piece.bucket >= in.next_bucket) {
    in.early.push_back(m);
    return true;
  }
  if (run != in.runs.end() && Accept(p, &run->second, m)) {
    Proceed(p, run->first);
  } else if (run != in.runs.end() || piece.kind == Piece::Kind::kData) {
    Break(p, Status(Code::kDataLoss, "a member sent an invalid piece"));
  }
  return false;
}

bool GroupNetwork::Accept(const ProcessPtr& p, BucketRun* run, uint32_t m) {
  const Piece& piece = pieces_[m];
  Reduction& reduction = run->reduction;
  const uint32_t rank = p->group_member->in.On(piece.connection)->rank;
  if (piece.kind == Piece::Kind::kReady) {
    reduction.PeerReady(rank);
    return true;
  }
  const Hop hop{rank, piece.phase, piece.piece};
  const Reduction::Verdict verdict = reduction.Expects(hop);
  if (piece.bucket_bytes != reduction.shape().bytes || verdict == Reduction::Verdict::kWrong ||
      reduction.piece(hop.piece).bytes != piece.payload_bytes ||
      (piece.payload != nullptr) != Carries(*run)) {
    return false;
  }
  if (piece.payload && verdict == Reduction::Verdict::kInPlace) {
    const uint64_t at = run->begin + reduction.piece(hop.piece).begin / sizeof(float);
    std::ranges::copy(*piece.payload, p->group_member->sums.begin() + static_cast<std::ptrdiff_t>(at));
  } else if (piece.payload) {
    run->buffered.push_back({hop, piece.payload});
  }
  reduction.Arrived(hop);
  return true;
}

void GroupNetwork::Proceed(const ProcessPtr& p, uint64_t bucket) {
  Membership& in = p->group_member->in;
  BucketRun& run = in.runs.at(bucket);
  ReduceAction action;
  while (!in.broken && run.reduction.Next(&action)) {
    switch (action.kind) {
      case ReduceAction::Kind::kCombine:
      case ReduceAction::Kind::kOwn:
        if (Carries(run)) Combine(p.get(), &run, action);
        break;
      case ReduceAction::Kind::kSend:
        SendHop(p, bucket, &run, action.hop);
        break;
      case ReduceAction::Kind::kReady: {
        Membership::Peer* peer = in.Find(action.hop.peer);
        const uint32_t m = New(p, Piece::Kind::kReady, *peer);
        pieces_[m].bucket = bucket;
        Send(p, m, &peer->there, kShareOfFaults);
        break;
      }
      case ReduceAction::Kind::kFinished: {
        const BucketRun::Kind kind = run.kind;
        if (run.reduction.shape().path == ReducePath::kOneShot && Carries(run)) {
          // Each member adds all contributions when it applies the step.
          in.contributions.resize(in.members.size());
          for (BucketRun::BufferedPiece& piece : run.buffered)
            in.contributions[piece.hop.peer] = std::move(piece.payload);
          in.contributions[in.rank] = std::make_shared<const std::vector<float>>(p->group_member->sums);
        }
        in.runs.erase(bucket);
        if (kind == BucketRun::Kind::kState) return all_.groups.OnStateShared(p);
        if (in.reducing && in.runs.empty()) all_.groups.OnReduced(p);
        return;
      }
    }
  }
}

void GroupNetwork::Combine(RoleProcess* p, BucketRun* run, const ReduceAction& action) {
  GroupMemberParts& r = *p->group_member;
  const PieceRange range = run->reduction.piece(action.hop.piece);
  const uint64_t begin = run->begin + range.begin / sizeof(float), n = range.bytes / sizeof(float);
  std::shared_ptr<const std::vector<float>> came;
  if (action.kind == ReduceAction::Kind::kCombine) {
    const auto buffered_piece = std::ranges::find(run->buffered, action.hop, &BucketRun::BufferedPiece::hop);
    LEAT_CHECK(buffered_piece != run->buffered.end());
    came = std::move(buffered_piece->payload);
    run->buffered.erase(buffered_piece);
  }
  float* const into = r.sums.data() + begin;
  if (run->reduction.shape().path != ReducePath::kChain) {
    for (uint64_t i = 0; i < n; ++i) into[i] = (*came)[i] + into[i];
    return;
  }
  // This member's lanes one after the other, after those of lower ranks.
  size_t lane = 0;
  if (came) {
    std::ranges::copy(*came, into);
  } else if (r.lanes_used > 0) {
    std::copy_n(r.lanes[lane++].data() + begin, n, into);
  }
  for (; lane < r.lanes_used; ++lane) {
    for (uint64_t i = 0; i < n; ++i) into[i] += r.lanes[lane][begin + i];
  }
}

void GroupNetwork::SendHop(const ProcessPtr& p, uint64_t bucket, BucketRun* run, const Hop& hop) {
  Membership::Peer* peer = p->group_member->in.Find(hop.peer);
  const PieceRange range = run->reduction.piece(hop.piece);
  const uint32_t m = New(p, Piece::Kind::kData, *peer);
  Piece& piece = pieces_[m];
  piece.bucket = bucket;
  piece.bucket_bytes = run->reduction.shape().bytes;
  piece.phase = hop.phase;
  piece.piece = hop.piece;
  piece.payload_bytes = range.bytes;
  piece.bytes = kPieceHeaderBytes + range.bytes;
  if (Carries(*run)) {
    const float* from = p->group_member->sums.data() + run->begin + range.begin / sizeof(float);
    piece.payload = std::make_shared<const std::vector<float>>(from, from + range.bytes / sizeof(float));
  }
  if (Chance(options_.faults.lost * kShareOfFaults)) {
    // Lost silently: both only notice their timeouts. Otherwise the connection breaks.
    Free(m);
    if (!rng_.Chance(0.3)) {
      NotifyLost(p->slot, peer->connection, p->host->latency, "connection lost");
      NotifyLost(peer->slot, peer->connection, p->host->latency, "connection lost");
    }
    return run->reduction.Sent(hop);
  }
  if (Chance(options_.faults.duplicated * kShareOfFaults)) {
    const uint32_t copy = New(p, Piece::Kind::kData, *peer);
    pieces_[copy] = pieces_[m];
    Send(p, copy, nullptr, 1);
  }
  const Time left = Send(p, m, &peer->there, kShareOfFaults);
  if (left <= now()) return run->reduction.Sent(hop);
  const uint32_t index = sendings_.Allocate();
  sendings_[index] = {p->slot, p->incarnation, p->group_member->in.group, bucket, hop};
  queue_.At(left, kPieceSent, index);
}

void GroupNetwork::OnPieceSent(uint32_t index) {
  const Sending sending = sendings_[index];
  const ProcessPtr p = processes_[sending.slot];
  if (p && now() < p->paused_until) return queue_.At(p->paused_until, kPieceSent, index);
  sendings_.Free(index);
  if (!p || p->incarnation != sending.incarnation || p->group_member->in.group != sending.group) return;
  const auto run = p->group_member->in.runs.find(sending.bucket);
  if (run == p->group_member->in.runs.end()) return;
  run->second.reduction.Sent(sending.hop);
  Proceed(p, sending.bucket);
}

// ---- messages

uint32_t GroupNetwork::New(const ProcessPtr& from, Piece::Kind kind, const Membership::Peer& to) {
  const uint32_t m = pieces_.Allocate();
  Piece& piece = pieces_[m];
  piece = Piece();
  piece.kind = kind;
  piece.from = from->slot;
  piece.from_incarnation = from->incarnation;
  piece.to = to.slot;
  piece.to_incarnation = to.incarnation;
  piece.connection = to.connection;
  piece.group = from->group_member->in.group;
  piece.bytes = kPieceHeaderBytes;
  if (kind == Piece::Kind::kCall || kind == Piece::Kind::kAnswer) {
    piece.greet = from->group_member->in.connections->MyGreet(ChannelKind::kData);
  }
  return m;
}

void GroupNetwork::Free(uint32_t m) {
  pieces_[m].payload.reset();
  pieces_.Free(m);
}

Time GroupNetwork::Send(const ProcessPtr& from, uint32_t m, Time* in_order, double share_of_slow) {
  ++result_.messages;
  Piece& piece = pieces_[m];
  const Departure departure =
      all_.machines.Leaves(from.get(), processes_[piece.to].get(), piece.bytes,
                           std::max(now(), from->busy_until), in_order, share_of_slow);
  piece.last_byte = departure.last;
  piece.route = departure.route;
  from->bytes.out += piece.bytes;
  queue_.At(departure.first, departure.route == Route::kOutOf ? kPieceCrosses : kPieceArrives, m);
  return departure.left;
}

void GroupNetwork::Drop(uint32_t m) {
  const Piece& piece = pieces_[m];
  if (const ProcessPtr caller = processes_[piece.from]; piece.kind == Piece::Kind::kCall && caller) {
    const Membership::Peer* peer = caller->group_member->in.On(piece.connection);
    if (peer != nullptr) Redial(caller, peer->rank);
  }
  Free(m);
}

void GroupNetwork::OnArrives(uint32_t m) {
  Piece& piece = pieces_[m];
  const ProcessPtr p = processes_[piece.to];
  if (!p || (piece.to_incarnation != 0 && p->incarnation != piece.to_incarnation)) return Drop(m);
  if (all_.faults.Isolated(p.get(), processes_[piece.from].get())) return Drop(m);
  const Time there = all_.machines.Comes(p.get(), piece.bytes, piece.last_byte, piece.route);
  if (there > now()) return queue_.At(there, kPieceDelivered, m);
  OnDelivered(m);
}

void GroupNetwork::OnDelivered(uint32_t m) {
  const ProcessPtr p = processes_[pieces_[m].to];
  if (!p || !p->group_member ||
      (pieces_[m].to_incarnation != 0 && p->incarnation != pieces_[m].to_incarnation))
    return Drop(m);
  if (now() < p->paused_until) return queue_.At(p->paused_until, kPieceDelivered, m);
  p->bytes.in += pieces_[m].bytes;
  p->busy_until = std::max(p->busy_until, now()) + all_.machines.Busy(p.get(), pieces_[m].bytes);
  if (!Take(p, m)) Free(m);
}

void GroupNetwork::OnCrosses(uint32_t m) {
  Piece& piece = pieces_[m];
  const Time next = all_.machines.Crosses(processes_[piece.from].get(), processes_[piece.to].get(),
                                          piece.bytes, &piece.last_byte, &piece.route);
  queue_.At(next, piece.route == Route::kLink ? kPieceArrives : kPieceCrosses, m);
}

}  // namespace leat::sim
