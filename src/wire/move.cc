#include "wire/move.h"

#include <utility>

namespace leat::wire {
namespace {

constexpr uint32_t kMaxReason = 4096;
constexpr uint64_t kDecidedBytes = 8 + 4 + 4 + 4;

Status MalformedMove(std::string what) {
  return {Code::kDataLoss, "malformed " + std::move(what)};
}

}  // namespace

Bytes Encode(const MoveRequest& message) {
  ByteWriter out;
  out.Put(message.move);
  out.Put(message.index);
  out.Put(message.count);
  out.Put(message.slice.value);
  out.Put(message.incarnation.value);
  out.Put(message.version);
  out.Put(message.events);
  out.Put(message.saved);
  out.Put(message.state_bytes);
  return out.Take();
}

Result<MoveRequest> DecodeMoveRequest(ByteView header) {
  ByteReader in(header);
  MoveRequest message;
  message.move = in.Get<uint64_t>();
  message.index = in.Get<uint32_t>();
  message.count = in.Get<uint32_t>();
  message.slice = SliceId(in.Get<uint32_t>());
  message.incarnation = Incarnation(in.Get<uint64_t>());
  message.version = in.Get<uint64_t>();
  message.events = in.Get<uint64_t>();
  message.saved = in.Get<uint64_t>();
  message.state_bytes = in.Get<uint64_t>();
  if (message.count > kMaxMovedSlices || message.index >= message.count ||
      message.state_bytes > kMaxSliceStateBytes)
    in.Fail();
  if (!in.Done()) return MalformedMove("slice that moves");
  return message;
}

Bytes Encode(const MoveReply& message) {
  ByteWriter out;
  out.Put(message.move);
  out.Put(static_cast<uint8_t>(message.status.code()));
  if (!message.status.ok()) out.PutString(message.status.message().substr(0, kMaxReason));
  return out.Take();
}

Result<MoveReply> DecodeMoveReply(ByteView header) {
  ByteReader in(header);
  MoveReply message;
  message.move = in.Get<uint64_t>();
  const auto code = in.Get<uint8_t>();
  if (code > static_cast<uint8_t>(Code::kInternal)) in.Fail();
  if (in.ok() && code != 0) message.status = Status(static_cast<Code>(code), in.GetString(kMaxReason));
  if (!in.Done()) return MalformedMove("answer to a move");
  return message;
}

void PutDecided(const std::vector<protocol::DecidedStep>& decided, ByteWriter* out) {
  out->Put(static_cast<uint32_t>(decided.size()));
  for (const protocol::DecidedStep& step : decided) {
    out->Put(step.step);
    out->Put(step.width);
    out->Put(step.needed);
    out->Put(static_cast<uint32_t>(step.counted.size()));
    for (const uint64_t word : step.counted) out->Put(word);
  }
}

std::vector<protocol::DecidedStep> GetDecided(ByteReader* in) {
  std::vector<protocol::DecidedStep> decided(in->GetCount(kDecidedBytes));
  for (protocol::DecidedStep& step : decided) {
    step.step = in->Get<uint64_t>();
    step.width = in->Get<uint32_t>();
    step.needed = in->Get<uint32_t>();
    step.counted.resize(in->GetCount(sizeof(uint64_t)));
    for (uint64_t& word : step.counted) word = in->Get<uint64_t>();
  }
  return decided;
}

Bytes Encode(const SliceState& state) {
  ByteWriter out;
  protocol::Encode(state.ledger, &out);
  PutDecided(state.decided, &out);
  return out.Take();
}

Result<SliceState> DecodeSliceState(ByteView bytes) {
  ByteReader in(bytes);
  SliceState state;
  state.ledger = protocol::DecodeLedger(&in);
  state.decided = GetDecided(&in);
  if (!in.Done()) return MalformedMove("state of a slice that moves");
  return state;
}

}  // namespace leat::wire
