#include "lab/sim/allreduce/bucket_reductions.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

// Relative to the probabilities for other messages: a step takes a hundred pieces, and a lost one ends the
// group.
constexpr double kShareOfFaults = 0.01;

}  // namespace

bool BucketReductions::OneShot(const RoleProcess& p) const {
  return options_.reduce.one_shot && !options_.strategy.deterministic &&
         p.group_member->in.members.size() <= kMaxOneShotMembers;
}

void BucketReductions::Start(const ProcessPtr& p, BucketRun::Kind kind, uint64_t begin, uint64_t end,
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
  all_.connections.Within(p);
  run.reduction.Begin();
  if (!in.early.empty()) {
    // Messages that arrived before.
    std::vector<uint32_t> come;
    std::erase_if(in.early, [&](uint32_t m) {
      if (all_.pieces[m].bucket != bucket) return false;
      come.push_back(m);
      return true;
    });
    bool fits = true;
    for (const uint32_t m : come) {
      fits = fits && Accept(p, &run, m);
      all_.pieces.Free(m);
    }
    if (!fits) return all_.connections.Break(p, Status(Code::kDataLoss, "a member sent an invalid piece"));
  }
  Proceed(p, bucket);
}

bool BucketReductions::Take(const ProcessPtr& p, uint32_t m) {
  const Piece& piece = all_.pieces[m];
  if (piece.kind == Piece::Kind::kCall) return all_.connections.TakeCall(p, m);
  if (piece.kind == Piece::Kind::kAnswer) {
    all_.connections.TakeAnswer(p, piece);
    return false;
  }
  Membership& in = p->group_member->in;
  if (in.On(piece.connection) == nullptr || in.broken) return false;
  if (options_.check) all_.group_check.CheckPiece(*p, piece);
  const auto run = in.runs.find(piece.bucket);
  if (run == in.runs.end() && piece.bucket >= in.next_bucket) {
    in.early.push_back(m);
    return true;
  }
  if (run != in.runs.end() && Accept(p, &run->second, m)) {
    Proceed(p, run->first);
  } else if (run != in.runs.end() || piece.kind == Piece::Kind::kData) {
    all_.connections.Break(p, Status(Code::kDataLoss, "a member sent an invalid piece"));
  }
  return false;
}

bool BucketReductions::Accept(const ProcessPtr& p, BucketRun* run, uint32_t m) {
  const Piece& piece = all_.pieces[m];
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

void BucketReductions::Proceed(const ProcessPtr& p, uint64_t bucket) {
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
        const uint32_t m = all_.pieces.New(p, Piece::Kind::kReady, *peer);
        all_.pieces[m].bucket = bucket;
        all_.pieces.Send(p, m, &peer->there, kShareOfFaults);
        break;
      }
      case ReduceAction::Kind::kFinished: {
        const BucketRun::Kind kind = run.kind;
        if (run.reduction.shape().path == ReducePath::kOneShot && Carries(run))
          KeepContributions(p.get(), &run);
        in.runs.erase(bucket);
        if (kind == BucketRun::Kind::kState) return all_.groups.OnStateShared(p);
        if (in.reducing && in.runs.empty()) all_.groups.OnReduced(p);
        return;
      }
    }
  }
}

// A one-shot reduction adds nothing here; each member adds when it applies the step.
void BucketReductions::KeepContributions(RoleProcess* p, BucketRun* run) {
  Membership& in = p->group_member->in;
  in.contributions.resize(in.members.size());
  for (BucketRun::BufferedPiece& buffered_piece : run->buffered)
    in.contributions[buffered_piece.hop.peer] = std::move(buffered_piece.payload);
  in.contributions[in.rank] = std::make_shared<const std::vector<float>>(p->group_member->sums);
}

void BucketReductions::Combine(RoleProcess* p, BucketRun* run, const ReduceAction& action) {
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

void BucketReductions::SendHop(const ProcessPtr& p, uint64_t bucket, BucketRun* run, const Hop& hop) {
  Membership::Peer* peer = p->group_member->in.Find(hop.peer);
  const PieceRange range = run->reduction.piece(hop.piece);
  const uint32_t m = all_.pieces.New(p, Piece::Kind::kData, *peer);
  Piece& piece = all_.pieces[m];
  piece.bucket = bucket;
  piece.bucket_bytes = run->reduction.shape().bytes;
  piece.phase = hop.phase;
  piece.piece = hop.piece;
  piece.payload_bytes = range.bytes;
  piece.bytes = PieceMessages::kHeaderBytes + range.bytes;
  if (Carries(*run)) {
    const float* from = p->group_member->sums.data() + run->begin + range.begin / sizeof(float);
    piece.payload = std::make_shared<const std::vector<float>>(from, from + range.bytes / sizeof(float));
  }
  if (Chance(options_.faults.lost * kShareOfFaults)) {
    // Lost silently: both only notice their timeouts. Otherwise the connection breaks.
    all_.pieces.Free(m);
    if (!rng_.Chance(0.3)) {
      all_.connections.NotifyLost(p->slot, peer->connection, p->host->latency, "connection lost");
      all_.connections.NotifyLost(peer->slot, peer->connection, p->host->latency, "connection lost");
    }
    return run->reduction.Sent(hop);
  }
  if (Chance(options_.faults.duplicated * kShareOfFaults)) {
    const uint32_t copy = all_.pieces.New(p, Piece::Kind::kData, *peer);
    all_.pieces[copy] = all_.pieces[m];
    all_.pieces.Send(p, copy, nullptr, 1);
  }
  const Time left = all_.pieces.Send(p, m, &peer->there, kShareOfFaults);
  if (left <= now()) return run->reduction.Sent(hop);
  const uint32_t index = sendings_.Allocate();
  sendings_[index] = {p->slot, p->incarnation, p->group_member->in.group, bucket, hop};
  queue_.At(left, kPieceSent, index);
}

void BucketReductions::OnPieceSent(uint32_t index) {
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

}  // namespace leat::sim
