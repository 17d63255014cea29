// Connections among the members of a group, and the pieces of all-reduces on their way.
//
// A connection that fails ends the group for both: each closes what it has, and so the others hear of it.
// What was sent on a connection that has ended finds nobody who takes it.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/cluster/cluster_state.h"

namespace leat::sim {

namespace {

// What is around the payload of a piece, about.
constexpr uint64_t kPieceBytes = 64;
// Between two attempts to reach a member that does not answer.
constexpr Duration kRedial = std::chrono::milliseconds(100);
// Of the chances for other messages: a step is made of a hundred pieces, and one that does not come ends the
// group.
constexpr double kShareOfFaults = 0.01;

}  // namespace

// ---- memory of what is on its way

uint32_t Cluster::State::NewPiece(const ProcessPtr& from, Piece::Kind kind, const Membership::Peer& to) {
  const uint32_t m = pieces.Take();
  Piece& piece = pieces[m];
  piece = Piece();
  piece.kind = kind;
  piece.from = from->slot;
  piece.from_incarnation = from->incarnation;
  piece.to = to.slot;
  piece.to_incarnation = to.incarnation;
  piece.connection = to.connection;
  piece.group = from->group_member->in.group;
  piece.bytes = kPieceBytes;
  if (kind == Piece::Kind::kCall || kind == Piece::Kind::kAnswer) {
    piece.greet = from->group_member->in.connections->MyGreet(ChannelKind::kData);
  }
  return m;
}

void Cluster::State::FreePiece(uint32_t m) {
  pieces[m].payload.reset();
  pieces.Leave(m);
}

// Out of the host's link, not before what has come before it is dealt with.
void Cluster::State::SendPiece(const ProcessPtr& from, uint32_t m, Time* in_order, double share_of_slow) {
  ++result.messages;
  Piece& piece = pieces[m];
  const auto [first, last] =
      Leaves(from.get(), piece.bytes, std::max(now(), from->busy_until), in_order, share_of_slow);
  piece.last_byte = last;
  from->bytes_out += piece.bytes;
  queue.At(first, kPieceArrives, m);
}

// Nobody is there to take it. Whoever calls tries again.
void Cluster::State::DropPiece(uint32_t m) {
  const Piece& piece = pieces[m];
  if (const ProcessPtr caller = roles[piece.from]; piece.kind == Piece::Kind::kCall && caller) {
    const Membership::Peer* peer = caller->group_member->in.On(piece.connection);
    if (peer != nullptr) Redial(caller, peer->rank);
  }
  FreePiece(m);
}

void Cluster::State::OnPieceArrives(uint32_t m) {
  Piece& piece = pieces[m];
  const ProcessPtr p = roles[piece.to];
  if (!p || (piece.to_incarnation != 0 && p->incarnation != piece.to_incarnation)) return DropPiece(m);
  const Time there = Comes(p.get(), piece.bytes, piece.last_byte);
  if (there > now()) return queue.At(there, kPieceDelivered, m);
  OnPieceDelivered(m);
}

void Cluster::State::OnPieceDelivered(uint32_t m) {
  const ProcessPtr p = roles[pieces[m].to];
  if (!p || !p->group_member || (pieces[m].to_incarnation != 0 && p->incarnation != pieces[m].to_incarnation))
    return DropPiece(m);
  if (now() < p->paused_until) return queue.At(p->paused_until, kPieceDelivered, m);
  p->bytes_in += pieces[m].bytes;
  p->busy_until = std::max(p->busy_until, now()) + options.server_message +
                  FromSeconds(options.server_byte * static_cast<double>(pieces[m].bytes));
  if (!TakePiece(p, m)) FreePiece(m);
}

// ---- connections: protocol::PeerConnections decides

void Cluster::State::Connect(const ProcessPtr& p) {
  GroupMemberParts& r = *p->group_member;
  Within(p);
  r.newest_group = r.in.group;
  for (const uint32_t rank : r.in.connections->Calls()) Dial(p, rank);
  for (const uint32_t m : std::exchange(r.callers, {})) {
    if (!TakeCall(p, m)) FreePiece(m);
  }
  if (r.in.peers.empty()) Connected(p);
}

// Whoever lives there now.
void Cluster::State::Dial(const ProcessPtr& p, uint32_t rank) {
  Membership& in = p->group_member->in;
  const uint32_t there = address_slots[AddressIdOf(in.members[rank].address)].slot;
  if (there == AddressSlot::kNobody || Chance(options.faults.lost)) return Redial(p, rank);
  Membership::Peer& peer = *in.Find(rank);
  peer.connection = ++last_connection;
  peer.slot = there;
  peer.incarnation = 0;
  SendPiece(p, NewPiece(p, Piece::Kind::kCall, peer), &peer.there, 1);
}

void Cluster::State::Redial(const ProcessPtr& p, uint32_t rank) {
  ScheduleIn(p, kRedial, [this, p, rank, group = p->group_member->in.group] {
    const Membership& in = p->group_member->in;
    if (in.group == group && in.connections && in.connections->running()) Dial(p, rank);
  });
}

// Whether it is kept, for a group that this member has not heard of yet.
bool Cluster::State::TakeCall(const ProcessPtr& p, uint32_t m) {
  const Piece piece = pieces[m];
  Membership& in = p->group_member->in;
  const CallVerdict verdict = JudgeCall(piece.greet.group, p->group_member->newest_group);
  if (verdict == CallVerdict::kKeep) {
    p->group_member->callers.push_back(m);
    return true;
  }
  if (verdict == CallVerdict::kReject || !in.connections || !in.connections->Accept(piece.greet)) {
    Tell(piece.from, piece.connection, p->latency, "a member has gone on to another group");
    return false;
  }
  Membership::Peer* peer = in.Find(piece.greet.rank);
  peer->connection = piece.connection;
  peer->slot = piece.from;
  peer->incarnation = piece.from_incarnation;
  SendPiece(p, NewPiece(p, Piece::Kind::kAnswer, *peer), &peer->there, 1);
  if (in.connections->formed()) Connected(p);
  return false;
}

void Cluster::State::TakeAnswer(const ProcessPtr& p, const Piece& piece) {
  Membership& in = p->group_member->in;
  Membership::Peer* peer = in.On(piece.connection);
  if (peer == nullptr || in.broken) return;
  if (!in.connections->Answers(peer->rank, piece.greet)) {
    return Break(p, Status(Code::kDataLoss, "the greeting of another"));
  }
  peer->incarnation = piece.from_incarnation;
  in.connections->Answered(peer->rank, ChannelKind::kData);
  if (in.connections->formed()) Connected(p);
}

void Cluster::State::Connected(const ProcessPtr& p) {
  Membership& in = p->group_member->in;
  in.connected = true;
  in.deadline = Time::max();
  Later(p, Duration(0),
        [group = in.group](GroupMember& machine) { return machine.OnConnected(group, Status()); });
}

// This connection of whoever lives in the slot has ended.
void Cluster::State::Tell(uint32_t slot, uint64_t connection, Duration latency, const char* why) {
  const ProcessPtr p = roles[slot];
  if (!p || Chance(options.faults.lost)) return;  // only its deadline tells it
  ScheduleIn(p, Latency(latency), [this, p, connection, why] {
    if (!p->group_member) return;
    Membership& in = p->group_member->in;
    std::erase_if(p->group_member->callers, [&](uint32_t m) {
      if (pieces[m].connection != connection) return false;
      FreePiece(m);
      return true;
    });
    const Membership::Peer* peer = in.On(connection);
    if (peer == nullptr ||
        in.connections->Closed(peer->rank, ChannelKind::kData) != PeerConnections::Loss::kPeer)
      return;
    Break(p, Status(Code::kUnavailable, why));
  });
}

void Cluster::State::TellPeers(const ProcessPtr& p) {
  for (const Membership::Peer& peer : p->group_member->in.peers) {
    if (peer.connection != 0) Tell(peer.slot, peer.connection, p->latency, "a member is gone");
  }
}

// The group is of no more use to this member.
void Cluster::State::Break(const ProcessPtr& p, Status why) {
  Membership& in = p->group_member->in;
  if (in.group == 0 || in.broken) return;
  in.broken = std::move(why);
  in.connections->Stop();
  in.connections->End();
  in.deadline = Time::max();
  in.runs.clear();
  for (const uint32_t m : std::exchange(in.early, {})) FreePiece(m);
  TellPeers(p);
  FailUnderWay(p);
}

// This process has no more to do with its group, by its own will or because it is no more.
void Cluster::State::LeavePeers(const ProcessPtr& p) {
  Membership& in = p->group_member->in;
  if (in.group == 0) return;
  if (!in.broken) TellPeers(p);
  for (const uint32_t m : in.early) FreePiece(m);
  if (const auto board = blackboards.find(in.group); --board->second.there == 0) blackboards.erase(board);
  in = Membership();
}

// What is begun now is over in time, or the group is.
void Cluster::State::Within(const ProcessPtr& p) {
  GroupMemberParts& r = *p->group_member;
  if (r.in.deadline == Time::max()) r.in.deadline = now() + options.reply_timeout;
  if (std::exchange(r.watched, true)) return;
  ScheduleIn(p, r.in.deadline - now(), [this, p, incarnation = p->incarnation] {
    if (p->incarnation != incarnation) return;
    p->group_member->watched = false;
    const Time deadline = p->group_member->in.deadline;
    if (deadline == Time::max()) return;
    if (deadline > now()) return Within(p);
    Break(p, Status(Code::kDeadlineExceeded, "others have not come in time"));
  });
}

// ---- buckets

void Cluster::State::StartBucket(const ProcessPtr& p, BucketRun::Kind kind, uint64_t begin, uint64_t end,
                                 uint64_t bytes) {
  Membership& in = p->group_member->in;
  const bool sums = kind == BucketRun::Kind::kSums;
  ReduceShape shape{.path = PathOf(sums && options.strategy.deterministic, sums && OneShot(*p), bytes,
                                   options.reduce.exchange_bytes),
                    .members = static_cast<uint32_t>(in.members.size()),
                    .bytes = bytes,
                    .piece_bytes = options.reduce.piece_bytes,
                    .eager_bytes = options.reduce.eager_bytes};
  if (shape.path == ReducePath::kOneShot) shape.eager_bytes = kOneShotEagerBytes;
  const uint64_t bucket = in.next_bucket++;
  BucketRun& run =
      in.runs.emplace(bucket, BucketRun{kind, begin, end, Reduction(shape, in.rank)}).first->second;
  Within(p);
  run.reduction.Begin();
  if (!in.early.empty()) {
    // What others have sent already.
    std::vector<uint32_t> come;
    std::erase_if(in.early, [&](uint32_t m) {
      if (pieces[m].bucket != bucket) return false;
      come.push_back(m);
      return true;
    });
    bool fits = true;
    for (const uint32_t m : come) {
      fits = fits && Accept(p, &run, m);
      FreePiece(m);
    }
    if (!fits) return Break(p, Status(Code::kDataLoss, "a member has sent what it should not"));
  }
  Proceed(p, bucket);
}

// Whether it is kept, since its bucket has not been started here.
bool Cluster::State::TakePiece(const ProcessPtr& p, uint32_t m) {
  const Piece& piece = pieces[m];
  if (piece.kind == Piece::Kind::kCall) return TakeCall(p, m);
  if (piece.kind == Piece::Kind::kAnswer) {
    TakeAnswer(p, piece);
    return false;
  }
  Membership& in = p->group_member->in;
  if (in.On(piece.connection) == nullptr || in.broken) return false;
  if (options.check) CheckGroup(*p, piece);
  const auto run = in.runs.find(piece.bucket);
  if (run == in.runs.end() && piece.bucket >= in.next_bucket) {
    in.early.push_back(m);
    return true;
  }
  if (run != in.runs.end() && Accept(p, &run->second, m)) {
    Proceed(p, run->first);
  } else if (run != in.runs.end() || piece.kind == Piece::Kind::kData) {
    Break(p, Status(Code::kDataLoss, "a member has sent what it should not"));
  }
  return false;
}

// False when it does not belong there.
bool Cluster::State::Accept(const ProcessPtr& p, BucketRun* run, uint32_t m) {
  const Piece& piece = pieces[m];
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

// Carries out what is to be done now; the bucket may be over then, and so may the group.
void Cluster::State::Proceed(const ProcessPtr& p, uint64_t bucket) {
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
        const uint32_t m = NewPiece(p, Piece::Kind::kReady, *peer);
        pieces[m].bucket = bucket;
        SendPiece(p, m, &peer->there, kShareOfFaults);
        break;
      }
      case ReduceAction::Kind::kFinished: {
        const BucketRun::Kind kind = run.kind;
        if (run.reduction.shape().path == ReducePath::kOneShot && Carries(run))
          KeepContributions(p.get(), &run);
        in.runs.erase(bucket);
        if (kind == BucketRun::Kind::kState) return Shared(p);
        if (in.reducing && in.runs.empty()) Reduced(p);
        return;
      }
    }
  }
}

// One shot: nothing was added up; each member does so by itself when it applies the step.
void Cluster::State::KeepContributions(RoleProcess* p, BucketRun* run) {
  Membership& in = p->group_member->in;
  in.contributions.resize(in.members.size());
  for (BucketRun::BufferedPiece& buffered_piece : run->buffered)
    in.contributions[buffered_piece.hop.peer] = std::move(buffered_piece.payload);
  in.contributions[in.rank] = std::make_shared<const std::vector<float>>(p->group_member->sums);
}

void Cluster::State::Combine(RoleProcess* p, BucketRun* run, const ReduceAction& action) {
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
  // This member's lanes one after the other, behind those of the ranks before.
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

void Cluster::State::SendHop(const ProcessPtr& p, uint64_t bucket, BucketRun* run, const Hop& hop) {
  Membership::Peer* peer = p->group_member->in.Find(hop.peer);
  const PieceRange range = run->reduction.piece(hop.piece);
  const uint32_t m = NewPiece(p, Piece::Kind::kData, *peer);
  Piece& piece = pieces[m];
  piece.bucket = bucket;
  piece.bucket_bytes = run->reduction.shape().bytes;
  piece.phase = hop.phase;
  piece.piece = hop.piece;
  piece.payload_bytes = range.bytes;
  piece.bytes = kPieceBytes + range.bytes;
  if (Carries(*run)) {
    const float* from = p->group_member->sums.data() + run->begin + range.begin / sizeof(float);
    piece.payload = std::make_shared<const std::vector<float>>(from, from + range.bytes / sizeof(float));
  }
  if (Chance(options.faults.lost * kShareOfFaults)) {
    // Swallowed: only their deadlines tell them. Else both see the connection break.
    FreePiece(m);
    if (!rng.Chance(0.3)) {
      Tell(p->slot, peer->connection, p->latency, "connection lost");
      Tell(peer->slot, peer->connection, p->latency, "connection lost");
    }
    return run->reduction.Sent(hop);
  }
  if (Chance(options.faults.duplicated * kShareOfFaults)) {
    const uint32_t copy = NewPiece(p, Piece::Kind::kData, *peer);
    pieces[copy] = pieces[m];
    SendPiece(p, copy, nullptr, 1);
  }
  SendPiece(p, m, &peer->there, kShareOfFaults);
  if (p->up_free <= now()) return run->reduction.Sent(hop);
  const uint32_t place = sendings.Take();
  sendings[place] = {p->slot, p->incarnation, p->group_member->in.group, bucket, hop};
  queue.At(p->up_free, kPieceSent, place);
}

void Cluster::State::OnPieceSent(uint32_t place) {
  const Sending sending = sendings[place];
  const ProcessPtr p = roles[sending.slot];
  if (p && now() < p->paused_until) return queue.At(p->paused_until, kPieceSent, place);
  sendings.Leave(place);
  if (!p || p->incarnation != sending.incarnation || p->group_member->in.group != sending.group) return;
  const auto run = p->group_member->in.runs.find(sending.bucket);
  if (run == p->group_member->in.runs.end()) return;
  run->second.reduction.Sent(sending.hop);
  Proceed(p, sending.bucket);
}

}  // namespace leat::sim
