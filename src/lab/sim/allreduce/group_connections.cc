#include "lab/sim/allreduce/group_connections.h"

#include <algorithm>
#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

// Pause between attempts to reach a member.
constexpr Duration kRedial = std::chrono::milliseconds(100);

}  // namespace

void GroupConnections::Connect(const ProcessPtr& p) {
  GroupMemberParts& r = *p->group_member;
  Within(p);
  r.newest_group = r.in.group;
  for (const uint32_t rank : r.in.connections->Calls()) Dial(p, rank);
  for (const uint32_t m : std::exchange(r.callers, {})) {
    if (!TakeCall(p, m)) all_.pieces.Free(m);
  }
  if (r.in.peers.empty()) OnConnected(p);
}

// Calls the process that currently has the address.
void GroupConnections::Dial(const ProcessPtr& p, uint32_t rank) {
  Membership& in = p->group_member->in;
  const uint32_t there = processes_.SlotAt(processes_.AddressIdOf(in.members[rank].address));
  if (there == ProcessTable::kNobody || Chance(options_.faults.lost)) return Redial(p, rank);
  Membership::Peer& peer = *in.Find(rank);
  peer.connection = ++last_connection_;
  peer.slot = there;
  peer.incarnation = 0;
  all_.pieces.Send(p, all_.pieces.New(p, Piece::Kind::kCall, peer), &peer.there, 1);
}

void GroupConnections::Redial(const ProcessPtr& p, uint32_t rank) {
  ScheduleIn(p, kRedial, [this, p, rank, group = p->group_member->in.group] {
    const Membership& in = p->group_member->in;
    if (in.group == group && in.connections && in.connections->running()) Dial(p, rank);
  });
}

bool GroupConnections::TakeCall(const ProcessPtr& p, uint32_t m) {
  const Piece piece = all_.pieces[m];
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
  all_.pieces.Send(p, all_.pieces.New(p, Piece::Kind::kAnswer, *peer), &peer->there, 1);
  if (in.connections->formed()) OnConnected(p);
  return false;
}

void GroupConnections::TakeAnswer(const ProcessPtr& p, const Piece& piece) {
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

void GroupConnections::OnConnected(const ProcessPtr& p) {
  Membership& in = p->group_member->in;
  in.connected = true;
  in.deadline = Time::max();
  all_.groups.Later(p, Duration(0), [group = in.group](GroupMember& machine) {
    return machine.OnConnected(group, Status());
  });
}

void GroupConnections::NotifyLost(uint32_t slot, uint64_t connection, Duration latency, const char* why) {
  const ProcessPtr p = processes_[slot];
  if (!p || all_.outages.Isolated(p.get(), nullptr) || Chance(options_.faults.lost))
    return;  // it only notices its timeout
  ScheduleIn(p, Latency(latency), [this, p, connection, why] {
    if (!p->group_member) return;
    Membership& in = p->group_member->in;
    std::erase_if(p->group_member->callers, [&](uint32_t m) {
      if (all_.pieces[m].connection != connection) return false;
      all_.pieces.Free(m);
      return true;
    });
    const Membership::Peer* peer = in.On(connection);
    if (peer == nullptr ||
        in.connections->Closed(peer->rank, ChannelKind::kData) != PeerConnections::Loss::kPeer)
      return;
    Break(p, Status(Code::kUnavailable, why));
  });
}

void GroupConnections::NotifyPeers(const ProcessPtr& p) {
  for (const Membership::Peer& peer : p->group_member->in.peers) {
    if (peer.connection != 0) NotifyLost(peer.slot, peer.connection, p->host->latency, "a member is lost");
  }
}

void GroupConnections::Break(const ProcessPtr& p, Status why) {
  Membership& in = p->group_member->in;
  if (in.group == 0 || in.broken) return;
  in.broken = std::move(why);
  in.connections->Stop();
  in.connections->End();
  in.deadline = Time::max();
  in.runs.clear();
  for (const uint32_t m : std::exchange(in.early, {})) all_.pieces.Free(m);
  NotifyPeers(p);
  all_.groups.FailUnderWay(p);
}

void GroupConnections::Leave(const ProcessPtr& p) {
  Membership& in = p->group_member->in;
  if (in.group == 0) return;
  if (!in.broken) NotifyPeers(p);
  for (const uint32_t m : in.early) all_.pieces.Free(m);
}

void GroupConnections::Within(const ProcessPtr& p) {
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

}  // namespace leat::sim
