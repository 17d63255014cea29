#include "protocol/slices/server/slice_orders.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "protocol/guards.h"

namespace leat::protocol {

namespace {

// Limit of primaries whose last number is known. A forgotten primary begins anew.
constexpr size_t kMaxPrimaries = 4096;

}  // namespace

bool SliceOrders::Take(const ServerHeartbeatReply& reply, LoadSlices* loads) {
  const auto all = slices_.all();
  std::vector<const SliceOrder*> ordered(all.size(), nullptr);
  for (const SliceOrder& order : reply.orders) {
    if (order.slice.value < all.size()) ordered[order.slice.value] = &order;
  }
  std::vector<bool> stays(all.size(), false);  // as a replica
  for (const ReplicaGroup& group : reply.replicas) {
    for (const SliceIncarnation& which : group.slices) {
      if (which.slice.value >= stays.size() || ordered[which.slice.value]) continue;
      const auto& hosted = all[which.slice.value];
      stays[which.slice.value] = hosted && hosted->is_replica;
    }
  }
  bool promoted = false;
  for (uint32_t i = 0; i < all.size(); ++i) {
    const SliceOrder* order = ordered[i];
    if (!all[i] || stays[i]) continue;
    const SliceOrder& had = all[i]->order;
    if (order && GoesOn(*all[i], {order->slice, order->incarnation}, order->move)) {
      slices_.Promote(&*all[i], *order);
      promoted = true;
    } else if (!order || all[i]->is_replica || had.incarnation != order->incarnation ||
               had.move != order->move) {
      // A slice that has been handed over comes back by another move, in the same incarnation.
      slices_.Drop(SliceId(i));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (ordered[i] && !all[i]) TakeOrder(*ordered[i], loads);
  }
  TakeReplicas(reply.replicas);
  return promoted;
}

void SliceOrders::TakeOrder(const SliceOrder& order, LoadSlices* loads) {
  HostedSlice* const hosted = slices_.Add(order);
  if (order.move == 0 && !order.directory.empty()) return loads->orders.push_back(order);
  slices_.signals().heartbeat_urgent = true;
  if (order.move == 0) return slices_.MakeLive(hosted, slices_.job().Make(order));
  if (!MakeArrived(hosted)) slices_.Fail(hosted, "move " + std::to_string(order.move) + " has not arrived");
}

bool SliceOrders::MakeArrived(HostedSlice* hosted) {
  std::optional<MovedSlice> moved = moves_.TakeArrived(hosted->order);
  if (!moved) return false;
  hosted->saved = moved->saved;
  slices_.MakeLive(hosted, std::make_shared<Slice>(*moved->slice), std::move(moved->decided));
  return true;
}

void SliceOrders::OnView(const View& view) {
  std::erase_if(link_of_, [&](const auto& entry) { return !view.Find(entry.first); });
}

void SliceOrders::OnEvicted() {
  slices_.DropAll();
  lost_.clear();
}

void SliceOrders::Report(ServerHeartbeat* heartbeat) {
  heartbeat->lost_replicas = lost_;
  const auto all = slices_.all();
  for (uint32_t i = 0; i < all.size(); ++i) {
    const auto& hosted = all[i];
    if (!hosted) continue;
    const SliceIncarnation which{SliceId(i), hosted->order.incarnation};
    if (hosted->diverged) heartbeat->lost_replicas.push_back({which, hosted->order.move});
    if (hosted->replica.lost) heartbeat->lost_replicas.push_back({which, hosted->replica.epoch});
    if (const Slice* alive = slices_.Alive(which.slice))
      heartbeat->version = std::max(heartbeat->version, alive->version);
  }
}

// ---- replicas

// Without a newer copy, the primary alone has changed: its replica is what it has sent on.
bool SliceOrders::GoesOn(const HostedSlice& hosted, const SliceIncarnation& which, uint64_t epoch) const {
  return hosted.is_replica && hosted.slice &&
         guards::SameIncarnation(hosted.slice->incarnation, which.incarnation) &&
         epoch >= hosted.order.move && !moves_.HasArrived(epoch, which);
}

HostedSlice* SliceOrders::MakeReplica(const SliceIncarnation& which, uint64_t epoch) {
  if (!moves_.HasArrived(epoch, which)) return nullptr;
  slices_.Drop(which.slice);
  HostedSlice* const hosted =
      slices_.Add({.slice = which.slice, .incarnation = which.incarnation, .move = epoch});
  hosted->is_replica = true;
  MakeArrived(hosted);
  slices_.signals().heartbeat_urgent = true;
  return hosted;
}

void SliceOrders::TakeReplicas(const std::vector<ReplicaGroup>& groups) {
  lost_.clear();
  for (const ReplicaGroup& group : groups) {
    for (const SliceIncarnation& which : group.slices) {
      if (which.slice.value >= slices_.size()) continue;
      auto& hosted = slices_.all()[which.slice.value];
      if (hosted && !hosted->is_replica) continue;
      if (hosted && !hosted->diverged && GoesOn(*hosted, which, group.epoch)) {
        hosted->order.move = group.epoch;
      } else if (!MakeReplica(which, group.epoch)) {
        slices_.Drop(which.slice);
        lost_.push_back({which, group.epoch});
        slices_.signals().heartbeat_urgent = true;
      }
    }
  }
}

bool SliceOrders::TakeNumber(const ForwardRequest& request, ForwardReply* reply) {
  if (link_of_.size() >= kMaxPrimaries && !link_of_.contains(request.from)) link_of_.clear();
  LinkNumber& last = link_of_[request.from];
  *reply = {.link = request.link, .number = 0, .broken = false};
  const bool same = request.link == last.link;
  if (same && request.number <= last.number) {
    reply->number = last.number;
    return false;
  }
  reply->broken = request.link < last.link || request.number != (same ? last.number : 0) + 1;
  if (reply->broken) return false;
  last = {request.link, request.number};
  reply->number = request.number;
  return true;
}

HostedSlice* SliceOrders::ReplicaOf(const SliceRef& ref, uint64_t epoch) {
  const SliceIncarnation which{ref.slice, ref.incarnation};
  auto& hosted = slices_.all()[ref.slice.value];
  if (hosted && !hosted->is_replica) return nullptr;
  if (hosted && !hosted->diverged && GoesOn(*hosted, which, epoch)) {
    hosted->order.move = epoch;
    return &*hosted;
  }
  // The primary knows before this server that the coordinator has made the replica.
  return MakeReplica(which, epoch);
}

}  // namespace leat::protocol
