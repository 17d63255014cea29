#include "control/convert_parts.h"

#include <algorithm>
#include <cmath>

namespace leat::control {
namespace {

constexpr int64_t kMaxDuration = int64_t{86400} * 1'000'000'000;

pb::Status::Code ToProto(Code code) {
  switch (code) {
    case Code::kOk:
      return pb::Status::OK;
    case Code::kInvalidArgument:
      return pb::Status::INVALID_ARGUMENT;
    case Code::kNotFound:
      return pb::Status::NOT_FOUND;
    case Code::kPermissionDenied:
      return pb::Status::PERMISSION_DENIED;
    case Code::kDeadlineExceeded:
      return pb::Status::DEADLINE_EXCEEDED;
    case Code::kUnavailable:
      return pb::Status::UNAVAILABLE;
    case Code::kStale:
      return pb::Status::STALE;
    case Code::kDataLoss:
      return pb::Status::DATA_LOSS;
    case Code::kFailedPrecondition:
      return pb::Status::FAILED_PRECONDITION;
    case Code::kResourceExhausted:
      return pb::Status::RESOURCE_EXHAUSTED;
    case Code::kAborted:
      return pb::Status::ABORTED;
    case Code::kInternal:
      return pb::Status::INTERNAL;
  }
  return pb::Status::INTERNAL;
}

// An unknown code becomes kInternal: still an error, with its message.
Code FromProto(pb::Status::Code code) {
  switch (code) {
    case pb::Status::OK:
      return Code::kOk;
    case pb::Status::INVALID_ARGUMENT:
      return Code::kInvalidArgument;
    case pb::Status::NOT_FOUND:
      return Code::kNotFound;
    case pb::Status::PERMISSION_DENIED:
      return Code::kPermissionDenied;
    case pb::Status::DEADLINE_EXCEEDED:
      return Code::kDeadlineExceeded;
    case pb::Status::UNAVAILABLE:
      return Code::kUnavailable;
    case pb::Status::STALE:
      return Code::kStale;
    case pb::Status::DATA_LOSS:
      return Code::kDataLoss;
    case pb::Status::FAILED_PRECONDITION:
      return Code::kFailedPrecondition;
    case pb::Status::RESOURCE_EXHAUSTED:
      return Code::kResourceExhausted;
    case pb::Status::ABORTED:
      return Code::kAborted;
    default:
      return Code::kInternal;
  }
}

}  // namespace

bool Check::That(bool holds, std::string_view what, uint64_t value) {
  if (!holds) Fail(std::string(what) + " is " + std::to_string(value));
  return holds;
}

bool Check::Count(int count, int limit, std::string_view what) {
  if (count > limit) {
    Fail(std::to_string(count) + " " + std::string(what) + ", at most " + std::to_string(limit));
  }
  return count <= limit;
}

void Check::Fail(std::string message) {
  if (status_.ok()) status_ = Status(Code::kInvalidArgument, std::move(message));
}

void TakeText(const std::string& in, size_t limit, std::string_view what, std::string* out, Check* check) {
  if (in.size() <= limit) {
    *out = in;
  } else {
    check->Fail(std::string(what) + " has " + std::to_string(in.size()) + " bytes, at most " +
                std::to_string(limit));
  }
}

void TakeBytes(const std::string& in, size_t limit, std::string_view what, Bytes* out, Check* check) {
  if (!check->That(in.size() <= limit, std::string("length of ") + std::string(what), in.size())) return;
  const ByteView bytes = AsBytes(in);
  out->assign(bytes.begin(), bytes.end());
}

void TakeDuration(int64_t nanoseconds, std::string_view what, Duration* out, Check* check) {
  if (nanoseconds >= 0 && nanoseconds <= kMaxDuration) {
    *out = Duration(nanoseconds);
  } else {
    check->Fail(std::string(what) + " is " + std::to_string(nanoseconds));
  }
}

void TakeSeconds(double seconds, std::string_view what, double* out, Check* check) {
  if (std::isfinite(seconds) && seconds >= 0) {
    *out = seconds;
  } else {
    check->Fail(std::string(what) + " is " + std::to_string(seconds));
  }
}

void TakeRole(pb::Role in, protocol::Role* out, Check* check) {
  if (check->That(pb::Role_IsValid(in), "role", static_cast<uint64_t>(in))) *out = protocol::Role(in);
}

void Put(const Status& in, pb::Status* out) {
  out->set_code(ToProto(in.code()));
  out->set_message(in.message().substr(0, Limits::kText));
}

void Take(const pb::Status& in, Status* out, Check* check) {
  std::string message;
  TakeText(in.message(), Limits::kText, "status.message", &message, check);
  *out = Status(FromProto(in.code()), std::move(message));
}

void Put(const protocol::Position& in, pb::Position* out) {
  out->set_epoch(in.epoch);
  out->set_offset(in.offset);
}

void Take(const pb::Position& in, protocol::Position* out, Check*) {
  out->epoch = in.epoch();
  out->offset = in.offset();
}

void Put(const protocol::Cut& in, pb::Cut* out) {
  out->set_partition(in.partition);
  Put(in.begin, out->mutable_begin());
  out->set_end(in.end);
  Put(in.after, out->mutable_after());
  out->set_hash(in.hash);
  out->set_batch_size(in.batch_size);
  out->set_shuffle_seed(in.shuffle_seed);
  out->set_run(in.run);
}

void Take(const pb::Cut& in, protocol::Cut* out, Check* check) {
  protocol::Cut cut;
  cut.partition = in.partition();
  Take(in.begin(), &cut.begin, check);
  cut.end = in.end();
  Take(in.after(), &cut.after, check);
  cut.hash = in.hash();
  cut.batch_size = in.batch_size();
  cut.shuffle_seed = in.shuffle_seed();
  cut.run = in.run();
  if (!check->That(cut.partition < Limits::kPartitions, "cut.partition", cut.partition)) return;
  if (!check->That(cut.valid(), "invalid cut: cut.begin.offset", cut.begin.offset)) return;
  *out = cut;
}

void Put(const protocol::RunSet& in, google::protobuf::RepeatedField<uint64_t>* out) {
  const auto words = in.words();
  out->Assign(words.begin(), words.end());
}

void Take(const google::protobuf::RepeatedField<uint64_t>& in, const protocol::Cut& cut,
          protocol::RunSet* out, Check* check) {
  const uint32_t size = cut.runs();
  const auto count = static_cast<uint32_t>(in.size());
  if (!check->That(count <= (size + 63) / 64, "words of a set of runs", count)) return;
  const uint64_t past = size % 64 == 0 ? 0 : ~uint64_t{0} << (size % 64);
  if (count == (size + 63) / 64 && count > 0) {
    const uint64_t last = in.Get(static_cast<int>(count) - 1);
    if (!check->That((last & past) == 0, "a run past the end of the cut: last word", last)) return;
  }
  *out = protocol::RunSet(size, std::span<const uint64_t>(in.data(), count));
}

void Put(const protocol::Cut& cut, const protocol::RunSet& runs, pb::Runs* out) {
  Put(cut, out->mutable_cut());
  Put(runs, out->mutable_words());
}

void Take(const pb::Runs& in, protocol::Cut* cut, protocol::RunSet* runs, Check* check) {
  Take(in.cut(), cut, check);
  if (check->status().ok()) Take(in.words(), *cut, runs, check);
}

void Put(const std::vector<protocol::PartitionLedger>& in,
         google::protobuf::RepeatedPtrField<pb::PartitionLedger>* out) {
  out->Reserve(static_cast<int>(in.size()));
  for (const auto& partition : in) {
    auto* p = out->Add();
    Put(partition.done, p->mutable_done());
    for (const auto& open : partition.open) Put(open.cut, open.batches, p->add_open());
  }
}

void Take(const google::protobuf::RepeatedPtrField<pb::PartitionLedger>& in, uint32_t first,
          std::vector<protocol::PartitionLedger>* out, Check* check) {
  if (!check->Count(in.size(), Limits::kPartitions, "partitions of a ledger")) return;
  out->reserve(static_cast<size_t>(in.size()));
  for (const auto& p : in) {
    const size_t index = first + out->size();
    auto& partition = out->emplace_back();
    Take(p.done(), &partition.done, check);
    if (!check->Count(p.open_size(), Limits::kOpenSplits, "open splits")) return;
    protocol::Position from = partition.done;
    for (const auto& open : p.open()) {
      protocol::OpenSplit split;
      Take(open, &split.cut, &split.batches, check);
      if (!check->status().ok()) return;
      if (!check->That(split.cut.partition == index, "partition of an open split", split.cut.partition))
        return;
      if (!check->That(split.cut.after >= from, "an open split overlaps: cut.begin.offset",
                       split.cut.begin.offset)) {
        return;
      }
      from = split.cut.next();
      partition.open.push_back(std::move(split));
    }
  }
}

void Put(const std::vector<protocol::SliceIncarnation>& in,
         google::protobuf::RepeatedPtrField<pb::SliceIncarnation>* out) {
  out->Reserve(static_cast<int>(in.size()));
  for (const auto& slice_incarnation : in) {
    auto* l = out->Add();
    l->set_slice(slice_incarnation.slice.value);
    l->set_incarnation(slice_incarnation.incarnation.value);
  }
}

void Take(const google::protobuf::RepeatedPtrField<pb::SliceIncarnation>& in,
          std::vector<protocol::SliceIncarnation>* out, Check* check) {
  if (!check->Count(in.size(), Limits::kSlices, "slices")) return;
  out->reserve(static_cast<size_t>(in.size()));
  for (const auto& slice_incarnation : in) {
    check->That(slice_incarnation.slice() < Limits::kSlices, "slice", slice_incarnation.slice());
    out->push_back({SliceId(slice_incarnation.slice()), Incarnation(slice_incarnation.incarnation())});
  }
}

void Put(const protocol::ShardReport& in, pb::ShardReport* out) {
  out->set_checkpoint(in.checkpoint);
  Put(in.status, out->mutable_status());
  out->set_file(in.file);
  out->set_bytes(in.bytes);
  out->set_checksum(in.checksum);
  Put(in.slices, out->mutable_slices());
}

void Take(const pb::ShardReport& in, protocol::ShardReport* out, Check* check) {
  out->checkpoint = in.checkpoint();
  Take(in.status(), &out->status, check);
  TakeText(in.file(), Limits::kPath, "shard.file", &out->file, check);
  out->bytes = in.bytes();
  out->checksum = in.checksum();
  Take(in.slices(), &out->slices, check);
}

void Put(const protocol::RejectedRun& in, pb::RejectedRun* out) {
  out->set_worker(in.worker.value);
  Put(in.cut, out->mutable_cut());
  out->set_run(in.run);
}

void Take(const pb::RejectedRun& in, protocol::RejectedRun* out, Check* check) {
  out->worker = NodeId(in.worker());
  Take(in.cut(), &out->cut, check);
  if (!check->status().ok()) return;
  check->That(in.run() < out->cut.runs(), "rejected.run", in.run());
  out->run = in.run();
}

void Put(const std::vector<protocol::SliceOrder>& in,
         google::protobuf::RepeatedPtrField<pb::SliceOrder>* out) {
  out->Reserve(static_cast<int>(in.size()));
  for (const auto& order : in) {
    auto* o = out->Add();
    o->set_slice(order.slice.value);
    o->set_incarnation(order.incarnation.value);
    o->set_directory(order.directory);
    o->set_file(order.file);
    o->set_file_checksum(order.file_checksum);
    o->set_move(order.move);
  }
}

void Take(const google::protobuf::RepeatedPtrField<pb::SliceOrder>& in,
          std::vector<protocol::SliceOrder>* out, Check* check) {
  if (!check->Count(in.size(), Limits::kSlices, "orders")) return;
  for (const auto& o : in) {
    auto& order = out->emplace_back();
    check->That(o.slice() < Limits::kSlices, "order.slice", o.slice());
    order.slice = SliceId(o.slice());
    order.incarnation = Incarnation(o.incarnation());
    TakeText(o.directory(), Limits::kPath, "order.directory", &order.directory, check);
    TakeText(o.file(), Limits::kPath, "order.file", &order.file, check);
    order.file_checksum = o.file_checksum();
    order.move = o.move();
    if (!check->status().ok()) return;
  }
}

void Put(const protocol::MoveOrder& in, pb::MoveOrder* out) {
  out->set_id(in.id);
  out->set_to(in.to.value);
  out->set_address(in.address);
  Put(in.slices, out->mutable_slices());
  out->set_version(in.version);
  out->set_kind(static_cast<pb::MoveOrder::Kind>(in.kind));
}

void Take(const pb::MoveOrder& in, protocol::MoveOrder* out, Check* check) {
  if (check->That(pb::MoveOrder::Kind_IsValid(in.kind()), "move.kind", static_cast<uint64_t>(in.kind())))
    out->kind = protocol::MoveOrder::Kind(in.kind());
  out->id = in.id();
  out->to = NodeId(in.to());
  TakeText(in.address(), Limits::kName, "move.address", &out->address, check);
  Take(in.slices(), &out->slices, check);
  out->version = in.version();
}

void Put(const std::vector<protocol::ReplicaGroup>& in,
         google::protobuf::RepeatedPtrField<pb::ReplicaGroup>* out) {
  for (const auto& group : in) {
    auto* o = out->Add();
    o->set_epoch(group.epoch);
    o->set_server(group.server.value);
    o->set_address(group.address);
    Put(group.slices, o->mutable_slices());
  }
}

void Take(const google::protobuf::RepeatedPtrField<pb::ReplicaGroup>& in,
          std::vector<protocol::ReplicaGroup>* out, Check* check) {
  if (!check->Count(in.size(), Limits::kSlices, "replicas")) return;
  for (const auto& o : in) {
    auto& group = out->emplace_back();
    group.epoch = o.epoch();
    group.server = NodeId(o.server());
    TakeText(o.address(), Limits::kName, "replicas.address", &group.address, check);
    Take(o.slices(), &group.slices, check);
    if (!check->status().ok()) return;
  }
}

void Put(const std::vector<protocol::LostReplica>& in,
         google::protobuf::RepeatedPtrField<pb::LostReplica>* out) {
  for (const auto& lost : in) {
    auto* o = out->Add();
    o->mutable_slice()->set_slice(lost.slice.slice.value);
    o->mutable_slice()->set_incarnation(lost.slice.incarnation.value);
    o->set_epoch(lost.epoch);
  }
}

void Take(const google::protobuf::RepeatedPtrField<pb::LostReplica>& in,
          std::vector<protocol::LostReplica>* out, Check* check) {
  if (!check->Count(in.size(), Limits::kSlices, "lost replicas")) return;
  for (const auto& o : in) {
    if (!check->That(o.slice().slice() < Limits::kSlices, "lost_replicas.slice", o.slice().slice())) return;
    out->push_back({{SliceId(o.slice().slice()), Incarnation(o.slice().incarnation())}, o.epoch()});
  }
}

void Put(const protocol::MoveReport& in, pb::MoveReport* out) {
  out->set_id(in.id);
  out->set_stage(static_cast<pb::MoveReport::Stage>(in.stage));
  out->set_failure(in.failure.substr(0, Limits::kText));
}

void Take(const pb::MoveReport& in, protocol::MoveReport* out, Check* check) {
  out->id = in.id();
  if (check->That(pb::MoveReport::Stage_IsValid(in.stage()), "move.stage", static_cast<uint64_t>(in.stage())))
    out->stage = protocol::MoveReport::Stage(in.stage());
  TakeText(in.failure(), Limits::kText, "move.failure", &out->failure, check);
}

void Put(const protocol::CheckpointOrder& in, pb::CheckpointOrder* out) {
  out->set_id(in.id);
  out->set_directory(in.directory);
  out->set_version(in.version);
}

void Take(const pb::CheckpointOrder& in, protocol::CheckpointOrder* out, Check* check) {
  out->id = in.id();
  TakeText(in.directory(), Limits::kPath, "checkpoint.directory", &out->directory, check);
  out->version = in.version();
}

void TakeTime(int64_t nanoseconds, std::string_view what, Time* out, Check* check) {
  // Since a machine was started. Sums and differences do not overflow.
  constexpr int64_t kLatest = int64_t{1} << 61;
  if (nanoseconds >= 0 && nanoseconds <= kLatest) {
    *out = Time(nanoseconds);
  } else {
    check->Fail(std::string(what) + " is " + std::to_string(nanoseconds));
  }
}

void Put(const protocol::RecordOrder& in, pb::RecordOrder* out) {
  out->set_recording(in.recording);
  out->set_length_ns(in.length.count());
}

void Take(const pb::RecordOrder& in, protocol::RecordOrder* out, Check* check) {
  out->recording = in.recording();
  TakeDuration(in.length_ns(), "record.length_ns", &out->length, check);
}

void Put(const std::vector<protocol::ClockSample>& in,
         google::protobuf::RepeatedPtrField<pb::ClockSample>* out) {
  for (const auto& sample : in) {
    auto* message = out->Add();
    message->set_at_ns(sample.at.count());
    message->set_offset_ns(sample.offset.count());
    message->set_error_ns(sample.error.count());
  }
}

void Take(const google::protobuf::RepeatedPtrField<pb::ClockSample>& in,
          std::vector<protocol::ClockSample>* out, Check* check) {
  if (!check->Count(in.size(), Limits::kClockSamples, "clock samples")) return;
  for (const auto& sample : in) {
    auto& taken = out->emplace_back();
    TakeTime(sample.at_ns(), "clock.at_ns", &taken.at, check);
    TakeDuration(sample.error_ns(), "clock.error_ns", &taken.error, check);
    Duration size{0};
    TakeTime(sample.offset_ns() < 0 ? -(sample.offset_ns() + 1) : sample.offset_ns(), "clock.offset_ns",
             &size, check);
    if (check->status().ok()) taken.offset = Duration(sample.offset_ns());
  }
}

void Put(const protocol::CoordinatorSet& in, pb::CoordinatorSet* out) {
  out->set_term(in.term);
  out->set_epoch(in.epoch);
  Put(in.coordinators, out->mutable_coordinators());
}

void Take(const pb::CoordinatorSet& in, protocol::CoordinatorSet* out, Check* check) {
  out->term = in.term();
  out->epoch = in.epoch();
  Take(in.coordinators(), Limits::kCoordinators, "coordinators", &out->coordinators, check);
  if (!std::ranges::is_sorted(out->coordinators)) check->Fail("coordinators are not in ascending order");
}

void Put(const std::vector<protocol::Position>& in, google::protobuf::RepeatedPtrField<pb::Position>* out) {
  out->Reserve(static_cast<int>(in.size()));
  for (const auto& position : in) Put(position, out->Add());
}

void Take(const google::protobuf::RepeatedPtrField<pb::Position>& in, std::vector<protocol::Position>* out,
          Check* check) {
  if (!check->Count(in.size(), Limits::kPartitions, "partitions")) return;
  for (const auto& position : in) Take(position, &out->emplace_back(), check);
}

void Put(const std::vector<protocol::Member>& in, google::protobuf::RepeatedPtrField<pb::Member>* out) {
  out->Reserve(static_cast<int>(in.size()));
  for (const auto& member : in) {
    auto* m = out->Add();
    m->set_node(member.node.value);
    m->set_role(static_cast<pb::Role>(member.role));
    m->set_index(member.index);
    m->set_address(member.address);
    m->set_state(static_cast<pb::Member::State>(member.state));
  }
}

void Take(const google::protobuf::RepeatedPtrField<pb::Member>& in, std::vector<protocol::Member>* out,
          Check* check) {
  if (!check->Count(in.size(), Limits::kMembers, "members")) return;
  out->reserve(static_cast<size_t>(in.size()));
  for (const auto& m : in) {
    auto& member = out->emplace_back();
    member.node = NodeId(m.node());
    TakeRole(m.role(), &member.role, check);
    member.index = m.index();
    TakeText(m.address(), Limits::kName, "member.address", &member.address, check);
    if (check->That(pb::Member::State_IsValid(m.state()), "member.state", static_cast<uint64_t>(m.state())))
      member.state = protocol::Member::State(m.state());
  }
}

void Put(const protocol::View& in, pb::View* out) {
  out->set_generation(in.generation.value);
  Put(in.members, out->mutable_members());
  out->mutable_slices()->Reserve(static_cast<int>(in.slices.size()));
  for (const auto& place : in.slices) {
    auto* p = out->add_slices();
    p->set_server(place.server.value);
    p->set_incarnation(place.incarnation.value);
    p->set_live(place.live);
  }
  for (const std::string& publisher : in.publishers) out->add_publishers(publisher);
}

void Take(const pb::View& in, protocol::View* out, Check* check) {
  out->generation = Generation(in.generation());
  Take(in.members(), &out->members, check);
  if (!check->Count(in.slices_size(), Limits::kSlices, "slices")) return;
  out->slices.reserve(static_cast<size_t>(in.slices_size()));
  for (const auto& p : in.slices()) {
    out->slices.push_back({NodeId(p.server()), Incarnation(p.incarnation()), p.live()});
  }
  if (!check->Count(in.publishers_size(), Limits::kPartitions, "publishers")) return;
  for (const std::string& publisher : in.publishers())
    TakeText(publisher, Limits::kName, "publisher", &out->publishers.emplace_back(), check);
}

}  // namespace leat::control
