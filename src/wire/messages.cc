#include "wire/messages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fields/codec.h"
#include "fields/description.h"
#include "wire/move.h"
#include "wire/transfer.h"

namespace leat::wire {
namespace {

constexpr uint64_t kSliceRefBytes = 4 + 8 + 8;
constexpr uint64_t kSliceReplyBytes = 4 + 8 + 1 + 8 + 1;

Status MalformedMessage(std::string what) {
  return {Code::kDataLoss, std::move(what)};
}

bool GetBool(ByteReader* in) {
  const auto value = in->Get<uint8_t>();
  if (value > 1) in->Fail();
  return value == 1;
}

template <class Enum>
Enum GetEnum(ByteReader* in, Enum last) {
  const auto value = in->Get<uint8_t>();
  if (value > static_cast<uint8_t>(last)) in->Fail();
  return static_cast<Enum>(value);
}

template <class IdType>
IdType GetId(ByteReader* in) {
  return IdType(in->Get<typename IdType::rep>());
}

// Fails the reader unless the slice ids ascend.
template <class T>
void CheckOrder(const std::vector<T>& slices, ByteReader* in) {
  for (size_t i = 1; i < slices.size(); ++i) {
    if (!(slices[i - 1].slice < slices[i].slice)) in->Fail();
  }
}

void PutWords(const std::vector<uint64_t>& words, ByteWriter* out) {
  out->Put(static_cast<uint32_t>(words.size()));
  for (const uint64_t word : words) out->Put(word);
}

std::vector<uint64_t> GetWords(ByteReader* in) {
  std::vector<uint64_t> words(in->GetCount(sizeof(uint64_t)));
  for (uint64_t& word : words) word = in->Get<uint64_t>();
  return words;
}

void GetTurn(ByteReader* in, protocol::PushRequest* message) {
  protocol::StepLane& step_lane = message->step_lane.emplace();
  step_lane.step = in->Get<uint64_t>();
  step_lane.lane = in->Get<uint32_t>();
  step_lane.width = in->Get<uint32_t>();
  step_lane.needed = in->Get<uint32_t>();
  message->counted = GetWords(in);
  if (!step_lane.valid() || message->counted.size() > (step_lane.width + 63) / 64) in->Fail();
}

}  // namespace

Bytes Encode(const protocol::PushRequest& message) {
  ByteWriter out;
  out.Put(message.sequence);
  out.Put(message.worker.value);
  out.Put(message.generation.value);
  out.Put(message.disposition);
  out.Put(static_cast<uint8_t>(message.want_values));
  out.Put(static_cast<uint8_t>(message.exact));
  out.Put(message.version_wanted);
  out.Put(static_cast<uint8_t>(message.step_lane.has_value()));
  if (message.step_lane) {
    out.Put(message.step_lane->step);
    out.Put(message.step_lane->lane);
    out.Put(message.step_lane->width);
    out.Put(message.step_lane->needed);
    PutWords(message.counted, &out);
  }
  if (message.disposition != protocol::Disposition::kPull) {
    protocol::Encode(message.cut, &out);
    out.Put(message.run);
    out.Put(message.events);
    out.Put(message.rate);
  }
  out.Put(static_cast<uint32_t>(message.slices.size()));
  for (const auto& slice : message.slices) {
    out.Put(slice.slice.value);
    out.Put(slice.incarnation.value);
    out.Put(slice.version);
  }
  return out.Take();
}

Result<protocol::PushRequest> DecodePushRequest(ByteView header) {
  ByteReader in(header);
  protocol::PushRequest message;
  message.sequence = in.Get<uint64_t>();
  message.worker = GetId<NodeId>(&in);
  message.generation = GetId<Generation>(&in);
  message.disposition = GetEnum(&in, protocol::Disposition::kRejected);
  message.want_values = GetBool(&in);
  message.exact = GetBool(&in);
  message.version_wanted = in.Get<uint64_t>();
  if (GetBool(&in) && in.ok()) GetTurn(&in, &message);
  if (in.ok() && message.disposition != protocol::Disposition::kPull) {
    message.cut = protocol::DecodeCut(&in);
    message.run = in.Get<uint32_t>();
    message.events = in.Get<uint32_t>();
    message.rate = in.Get<float>();
    if (!protocol::ValidRate(message.rate)) in.Fail();
  }
  message.slices.resize(in.GetCount(kSliceRefBytes));
  for (auto& slice : message.slices) {
    slice.slice = GetId<SliceId>(&in);
    slice.incarnation = GetId<Incarnation>(&in);
    slice.version = in.Get<uint64_t>();
  }
  CheckOrder(message.slices, &in);
  if (!in.Done()) return MalformedMessage("malformed push request");
  return message;
}

Bytes Encode(const protocol::PushReply& message) {
  ByteWriter out;
  out.Put(message.sequence);
  out.Put(message.generation.value);
  out.Put(static_cast<uint8_t>(message.evicted));
  PutWords(message.counted, &out);
  out.Put(static_cast<uint32_t>(message.slices.size()));
  for (const auto& slice : message.slices) {
    out.Put(slice.slice.value);
    out.Put(slice.incarnation.value);
    out.Put(slice.outcome);
    out.Put(slice.version);
    out.Put(static_cast<uint8_t>(slice.values));
  }
  return out.Take();
}

Result<protocol::PushReply> DecodePushReply(ByteView header) {
  ByteReader in(header);
  protocol::PushReply message;
  message.sequence = in.Get<uint64_t>();
  message.generation = GetId<Generation>(&in);
  message.evicted = GetBool(&in);
  message.counted = GetWords(&in);
  message.slices.resize(in.GetCount(kSliceReplyBytes));
  for (auto& slice : message.slices) {
    slice.slice = GetId<SliceId>(&in);
    slice.incarnation = GetId<Incarnation>(&in);
    slice.outcome = GetEnum(&in, protocol::SliceOutcome::kMoving);
    slice.version = in.Get<uint64_t>();
    slice.values = GetBool(&in);
  }
  CheckOrder(message.slices, &in);
  if (!in.Done()) return MalformedMessage("malformed push reply");
  return message;
}

Bytes Encode(const protocol::ForwardRequest& message) {
  fields::Writer out;
  out.Put(static_cast<const protocol::ForwardHeader&>(message));
  out.bytes()->PutRaw(Encode(message.push));
  return out.bytes()->Take();
}

Result<protocol::ForwardRequest> DecodeForwardRequest(ByteView header) {
  fields::Reader in(header);
  protocol::ForwardRequest message;
  in.Get(static_cast<protocol::ForwardHeader*>(&message));
  if (!in.ok()) return MalformedMessage("forward: " + in.error());
  LEAT_ASSIGN_OR_RETURN(message.push, DecodePushRequest(header.last(in.remaining())));
  return message;
}

// ---- file transfers

Status Check(const TransferRequest& request) {
  const bool read = request.op == TransferOp::kRead, write = request.op == TransferOp::kWrite;
  const bool open = request.op == TransferOp::kOpenUpload;
  const uint64_t most = open ? ~uint64_t{0} : read || write ? kMaxTransferBytes : 0;
  const auto is = [](const char* field, uint64_t value) {
    return Status(Code::kDataLoss, field + (" is " + std::to_string(value)));
  };
  if (request.name.empty()) return {Code::kDataLoss, "name is empty"};
  if (read && request.folder != 0) return is("folder", request.folder);
  if (!read && !write && request.offset != 0) return is("offset", request.offset);
  if (request.bytes > std::min(most, ~request.offset) || (write && request.bytes == 0))
    return is("bytes", request.bytes);
  if (!write && !open && request.checksum != 0) return is("checksum", request.checksum);
  return {};
}

Status Check(const TransferReply& reply) {
  if (reply.status.ok() || (reply.position == 0 && reply.checksum == 0)) return {};
  return {Code::kDataLoss, "an error has a position or a checksum"};
}

// ---- ports

Port ServerPort() {
  return {PortKind::kServer, fields::HashOf<protocol::ForwardHeader, protocol::ForwardReply, MoveRequest,
                                            MoveReply, SliceState, protocol::PartitionLedger>()};
}

Port TransferPort() {
  return {PortKind::kTransfer, fields::HashOf<TransferRequest, TransferReply>()};
}

}  // namespace leat::wire

namespace leat {
LEAT_CODECS(protocol::ForwardReply, wire::MoveRequest, wire::MoveReply, wire::SliceState,
            wire::TransferRequest, wire::TransferReply);
}
