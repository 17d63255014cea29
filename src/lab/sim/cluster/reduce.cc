// Connections among members of a group, and pieces of all-reduces in transit.
//
// A failed connection ends the group for both members. Each closes its connections, so the others notice.
// Messages of a closed connection are dropped.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lab/sim/cluster/cluster_state.h"

namespace leat::sim {

namespace {

// Approximate size of a piece's headers.
constexpr uint64_t kPieceBytes = 64;
// Pause between attempts to reach a member.
constexpr Duration kRedial = std::chrono::milliseconds(100);
// Relative to the probabilities for other messages: a step takes a hundred pieces, and a lost one ends the
// group.
constexpr double kShareOfFaults = 0.01;

}  // namespace

// ---- memory of messages in transit

uint32_t Cluster::State::NewPiece(const ProcessPtr& from, Piece::Kind kind, const Membership::Peer& to) {
  const uint32_t m = pieces.Allocate();
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
  pieces.Free(m);
}

// Sends over the host's link, after earlier messages have been processed. Returns when the last byte has
// left.
Time Cluster::State::SendPiece(const ProcessPtr& from, uint32_t m, Time* in_order, double share_of_slow) {
  ++result.messages;
  Piece& piece = pieces[m];
  const Departure departure = Leaves(from.get(), roles[piece.to].get(), piece.bytes,
                                     std::max(now(), from->busy_until), in_order, share_of_slow);
  piece.last_byte = departure.last;
  piece.route = departure.route;
  from->bytes_out += piece.bytes;
  queue.At(departure.first, departure.route == Route::kOutOf ? kPieceCrosses : kPieceArrives, m);
  return departure.left;
}

// There is no receiver. A caller retries.
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
  if (Isolated(p.get(), roles[piece.from].get())) return DropPiece(m);
  const Time there = Comes(p.get(), piece.bytes, piece.last_byte, piece.route);
  if (there > now()) return queue.At(there, kPieceDelivered, m);
  OnPieceDelivered(m);
}

void Cluster::State::OnPieceDelivered(uint32_t m) {
  const ProcessPtr p = roles[pieces[m].to];
  if (!p || !p->group_member || (pieces[m].to_incarnation != 0 && p->incarnation != pieces[m].to_incarnation))
    return DropPiece(m);
  if (now() < p->paused_until) return queue.At(p->paused_until, kPieceDelivered, m);
  p->bytes_in += pieces[m].bytes;
  p->busy_until = std::max(p->busy_until, now()) + Busy(p.get(), pieces[m].bytes);
  if (!TakePiece(p, m)) FreePiece(m);
}

// ---- connections, as protocol::PeerConnections decides

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

// Calls the process that currently has the address.
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

// True if the call is kept for a group not known here yet.
bool Cluster::State::TakeCall(const ProcessPtr& p, uint32_t m) {
  const Piece piece = pieces[m];
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
  SendPiece(p, NewPiece(p, Piece::Kind::kAnswer, *peer), &peer->there, 1);
  if (in.connections->formed()) Connected(p);
  return false;
}

void Cluster::State::TakeAnswer(const ProcessPtr& p, const Piece& piece) {
  Membership& in = p->group_member->in;
  Membership::Peer* peer = in.On(piece.connection);
  if (peer == nullptr || in.broken) return;
  if (!in.connections->Answers(peer->rank, piece.greet)) {
    return Break(p, Status(Code::kDataLoss, "a greeting of another group or rank"));
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

// Closes this connection at the process in the slot.
void Cluster::State::NotifyLost(uint32_t slot, uint64_t connection, Duration latency, const char* why) {
  const ProcessPtr p = roles[slot];
  if (!p || Isolated(p.get(), nullptr) || Chance(options.faults.lost)) return;  // it only notices its timeout
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

void Cluster::State::NotifyPeers(const ProcessPtr& p) {
  for (const Membership::Peer& peer : p->group_member->in.peers) {
    if (peer.connection != 0) NotifyLost(peer.slot, peer.connection, p->host->latency, "a member is lost");
  }
}

// The group is unusable for this member.
void Cluster::State::Break(const ProcessPtr& p, Status why) {
  Membership& in = p->group_member->in;
  if (in.group == 0 || in.broken) return;
  in.broken = std::move(why);
  in.connections->Stop();
  in.connections->End();
  in.deadline = Time::max();
  in.runs.clear();
  for (const uint32_t m : std::exchange(in.early, {})) FreePiece(m);
  NotifyPeers(p);
  FailUnderWay(p);
}

// The process leaves its group, or has ended.
void Cluster::State::LeavePeers(const ProcessPtr& p) {
  Membership& in = p->group_member->in;
  if (in.group == 0) return;
  if (!in.broken) NotifyPeers(p);
  for (const uint32_t m : in.early) FreePiece(m);
  if (const auto board = blackboards.find(in.group); --board->second.there == 0) blackboards.erase(board);
  in = Membership();
}

// Sets the timeout of the operation that starts now.
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
    Break(p, Status(Code::kDeadlineExceeded, "other members did not take part in time"));
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
    // Messages that arrived before.
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
    if (!fits) return Break(p, Status(Code::kDataLoss, "a member sent an invalid piece"));
  }
  Proceed(p, bucket);
}

// True if the piece is kept, because its bucket has not started here.
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
    Break(p, Status(Code::kDataLoss, "a member sent an invalid piece"));
  }
  return false;
}

// False if the piece does not belong to the bucket.
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

// Executes the pending actions. The bucket, and the group, may have ended afterwards.
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

// A one-shot reduction adds nothing here; each member adds when it applies the step.
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
    // Lost silently: both only notice their timeouts. Otherwise the connection breaks.
    FreePiece(m);
    if (!rng.Chance(0.3)) {
      NotifyLost(p->slot, peer->connection, p->host->latency, "connection lost");
      NotifyLost(peer->slot, peer->connection, p->host->latency, "connection lost");
    }
    return run->reduction.Sent(hop);
  }
  if (Chance(options.faults.duplicated * kShareOfFaults)) {
    const uint32_t copy = NewPiece(p, Piece::Kind::kData, *peer);
    pieces[copy] = pieces[m];
    SendPiece(p, copy, nullptr, 1);
  }
  const Time left = SendPiece(p, m, &peer->there, kShareOfFaults);
  if (left <= now()) return run->reduction.Sent(hop);
  const uint32_t index = sendings.Allocate();
  sendings[index] = {p->slot, p->incarnation, p->group_member->in.group, bucket, hop};
  queue.At(left, kPieceSent, index);
}

void Cluster::State::OnPieceSent(uint32_t index) {
  const Sending sending = sendings[index];
  const ProcessPtr p = roles[sending.slot];
  if (p && now() < p->paused_until) return queue.At(p->paused_until, kPieceSent, index);
  sendings.Free(index);
  if (!p || p->incarnation != sending.incarnation || p->group_member->in.group != sending.group) return;
  const auto run = p->group_member->in.runs.find(sending.bucket);
  if (run == p->group_member->in.runs.end()) return;
  run->second.reduction.Sent(sending.hop);
  Proceed(p, sending.bucket);
}

}  // namespace leat::sim
