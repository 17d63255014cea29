#include "control/convert.h"
#include "control/convert_parts.h"

namespace leat::control {
namespace {

using leat::control::Put;
using leat::control::Take;

void Put(const protocol::JoinReply& in, pb::JoinReply* out) {
  Put(in.status, out->mutable_status());
  out->set_node(in.node.value);
  out->set_index(in.index);
  out->set_job(in.job);
  out->set_heartbeat_interval_ns(in.heartbeat_interval.count());
  out->set_heartbeat_timeout_ns(in.heartbeat_timeout.count());
}

void Take(const pb::JoinReply& in, protocol::JoinReply* out, Check* check) {
  Take(in.status(), &out->status, check);
  out->node = NodeId(in.node());
  out->index = in.index();
  TakeText(in.job(), Limits::kDocument, "job", &out->job, check);
  TakeDuration(in.heartbeat_interval_ns(), "heartbeat_interval_ns", &out->heartbeat_interval, check);
  TakeDuration(in.heartbeat_timeout_ns(), "heartbeat_timeout_ns", &out->heartbeat_timeout, check);
}

void Put(const protocol::Lease& in, pb::Lease* out) {
  out->set_id(in.id);
  Put(in.cut, in.missing, out->mutable_missing());
  out->set_first_step(in.first_step);
  out->set_lane(in.lane);
  out->set_width(in.width);
  out->set_needed(in.needed);
  Put(in.assigned, out->mutable_assigned());
}

void Take(const pb::Lease& in, protocol::Lease* out, Check* check) {
  out->id = in.id();
  Take(in.missing(), &out->cut, &out->missing, check);
  const protocol::Turn turn{in.first_step(), in.lane(), in.width(), in.needed()};
  check->That(turn.valid(),
              "lease.lane of " + std::to_string(turn.width) + " of which " + std::to_string(turn.needed) +
                  " are needed",
              turn.lane);
  check->That(turn.step <= ~uint64_t{0} - protocol::Cut::kMaxBatches, "lease.first_step", turn.step);
  out->first_step = turn.step;
  out->lane = turn.lane;
  out->width = turn.width;
  out->needed = turn.needed;
  if (in.assigned().empty() || !check->status().ok()) return;
  Take(in.assigned(), out->cut, &out->assigned, check);
  if (!check->status().ok()) return;
  protocol::RunSet both = out->missing;
  both &= out->assigned;
  check->That(both == out->missing, "missing runs of a lease that assigns others: lease.id", out->id);
}

void Put(const protocol::WorkerHeartbeatReply& in, pb::WorkerHeartbeatReply* out) {
  out->set_evicted(in.evicted);
  out->set_stop(in.stop);
  if (in.view) Put(*in.view, out->mutable_view());
  for (const auto& lease : in.leases) Put(lease, out->add_leases());
  Put(in.revoked, out->mutable_revoked());
}

void Take(const pb::WorkerHeartbeatReply& in, protocol::WorkerHeartbeatReply* out, Check* check) {
  out->evicted = in.evicted();
  out->stop = in.stop();
  if (in.has_view()) Take(in.view(), &out->view.emplace(), check);
  if (!check->Count(in.leases_size(), Limits::kLeases, "leases")) return;
  for (const auto& lease : in.leases()) {
    Take(lease, &out->leases.emplace_back(), check);
    if (!check->status().ok()) return;
  }
  Take(in.revoked(), Limits::kLeases, "revoked leases", &out->revoked, check);
}

void Put(const protocol::ServerHeartbeatReply& in, pb::ServerHeartbeatReply* out) {
  out->set_evicted(in.evicted);
  out->set_stop(in.stop);
  if (in.view) Put(*in.view, out->mutable_view());
  for (const auto& position : in.start) Put(position, out->add_start());
  for (const auto& order : in.orders) {
    auto* o = out->add_orders();
    o->set_slice(order.slice.value);
    o->set_incarnation(order.incarnation.value);
    o->set_directory(order.directory);
    o->set_file(order.file);
    o->set_file_checksum(order.file_checksum);
  }
  if (in.checkpoint) {
    out->mutable_checkpoint()->set_id(in.checkpoint->id);
    out->mutable_checkpoint()->set_directory(in.checkpoint->directory);
    out->mutable_checkpoint()->set_version(in.checkpoint->version);
  }
}

void Take(const pb::ServerHeartbeatReply& in, protocol::ServerHeartbeatReply* out, Check* check) {
  out->evicted = in.evicted();
  out->stop = in.stop();
  if (in.has_view()) Take(in.view(), &out->view.emplace(), check);
  if (!check->Count(in.start_size(), Limits::kPartitions, "partitions") ||
      !check->Count(in.orders_size(), Limits::kSlices, "orders")) {
    return;
  }
  for (const auto& position : in.start()) Take(position, &out->start.emplace_back(), check);
  for (const auto& o : in.orders()) {
    auto& order = out->orders.emplace_back();
    check->That(o.slice() < Limits::kSlices, "order.slice", o.slice());
    order.slice = SliceId(o.slice());
    order.incarnation = Incarnation(o.incarnation());
    TakeText(o.directory(), Limits::kPath, "order.directory", &order.directory, check);
    TakeText(o.file(), Limits::kPath, "order.file", &order.file, check);
    order.file_checksum = o.file_checksum();
    if (!check->status().ok()) return;
  }
  if (in.has_checkpoint()) {
    auto& checkpoint = out->checkpoint.emplace();
    checkpoint.id = in.checkpoint().id();
    TakeText(in.checkpoint().directory(), Limits::kPath, "checkpoint.directory", &checkpoint.directory,
             check);
    checkpoint.version = in.checkpoint().version();
  }
}

void Take(const pb::Refusal& in, protocol::Refusal* out, Check* check) {
  Take(in.status(), &out->status, check);
  check->That(!out->status.ok(), "a refusal that refuses nothing: code", 0);
}

// Which message of the oneof a struct goes into.
struct PutKind {
  pb::Reply* out;
  void operator()(const protocol::Refusal& r) const {
    Put(r.status, out->mutable_refusal()->mutable_status());
  }
  void operator()(const protocol::JoinReply& r) const { Put(r, out->mutable_join()); }
  void operator()(const protocol::WorkerHeartbeatReply& r) const { Put(r, out->mutable_worker()); }
  void operator()(const protocol::ServerHeartbeatReply& r) const { Put(r, out->mutable_server()); }
  void operator()(const protocol::BotsHeartbeatReply& r) const {
    out->mutable_bots()->set_evicted(r.evicted);
    out->mutable_bots()->set_stop(r.stop);
  }
  void operator()(const protocol::StatusReply& r) const { out->mutable_status()->set_json(r.json); }
  void operator()(const protocol::AdminReply& r) const {
    Put(r.status, out->mutable_admin()->mutable_status());
  }
};

}  // namespace

std::string Serialize(const protocol::ControlReply& reply) {
  pb::Reply message;
  std::visit(PutKind{&message}, reply);
  return message.SerializeAsString();
}

Result<protocol::ControlReply> ParseReply(std::string_view bytes) {
  pb::Reply message;
  if (bytes.size() > kMaxMessageBytes ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status(Code::kInvalidArgument, "not a control reply: " + std::to_string(bytes.size()) + " bytes");
  }
  Check check;
  protocol::ControlReply reply;
  switch (message.kind_case()) {
    case pb::Reply::kRefusal:
      Take(message.refusal(), &reply.emplace<protocol::Refusal>(), &check);
      break;
    case pb::Reply::kJoin:
      Take(message.join(), &reply.emplace<protocol::JoinReply>(), &check);
      break;
    case pb::Reply::kWorker:
      Take(message.worker(), &reply.emplace<protocol::WorkerHeartbeatReply>(), &check);
      break;
    case pb::Reply::kServer:
      Take(message.server(), &reply.emplace<protocol::ServerHeartbeatReply>(), &check);
      break;
    case pb::Reply::kBots:
      reply = protocol::BotsHeartbeatReply{message.bots().evicted(), message.bots().stop()};
      break;
    case pb::Reply::kStatus:
      TakeText(message.status().json(), Limits::kDocument, "status",
               &reply.emplace<protocol::StatusReply>().json, &check);
      break;
    case pb::Reply::kAdmin:
      Take(message.admin().status(), &reply.emplace<protocol::AdminReply>().status, &check);
      break;
    case pb::Reply::KIND_NOT_SET:
      return Status(Code::kInvalidArgument, "a control reply of no kind that this version knows");
  }
  if (!check.status().ok()) return check.status().With("control reply");
  return reply;
}

}  // namespace leat::control
