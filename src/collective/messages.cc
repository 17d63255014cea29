#include "collective/messages.h"

namespace leat::collective {
namespace {

constexpr uint32_t kMaxMessage = 4096;

Status Malformed(const char* what) {
  return {Code::kDataLoss, std::string("malformed ") + what + " of a group"};
}

}  // namespace

Bytes Encode(const Greet& message) {
  ByteWriter out;
  out.Put(message.group);
  out.Put(message.members);
  out.Put(message.rank);
  out.Put(message.kind);
  return out.Take();
}

Result<Greet> DecodeGreet(ByteView header) {
  ByteReader in(header);
  Greet message;
  message.group = in.Get<uint64_t>();
  message.members = in.Get<uint32_t>();
  message.rank = in.Get<uint32_t>();
  message.kind = in.Get<ChannelKind>();
  if (!in.Done() || message.kind > ChannelKind::kControl || message.rank >= message.members)
    return Malformed("greeting");
  return message;
}

Bytes Encode(const PieceHeader& message) {
  Bytes out(26);
  std::byte* at = out.data();
  const auto put = [&](auto value) {
    std::memcpy(at, &value, sizeof(value));
    at += sizeof(value);
  };
  put(message.bucket);
  put(message.bytes);
  put(message.path);
  put(message.reduce);
  put(message.phase);
  put(message.piece);
  return out;
}

Result<PieceHeader> DecodePiece(ByteView header) {
  ByteReader in(header);
  PieceHeader message;
  message.bucket = in.Get<uint64_t>();
  message.bytes = in.Get<uint64_t>();
  message.path = in.Get<protocol::ReducePath>();
  message.reduce = in.Get<uint8_t>();
  message.phase = in.Get<uint32_t>();
  message.piece = in.Get<uint32_t>();
  if (!in.Done() || message.path > protocol::ReducePath::kOneShot) return Malformed("piece");
  return message;
}

Bytes EncodeBucket(uint64_t bucket) {
  ByteWriter out;
  out.Put(bucket);
  return out.Take();
}

Result<uint64_t> DecodeBucket(ByteView header) {
  ByteReader in(header);
  const auto bucket = in.Get<uint64_t>();
  if (!in.Done()) return Malformed("bucket");
  return bucket;
}

Bytes Encode(const Alive& message) {
  ByteWriter out;
  out.Put(message.bucket);
  out.Put(static_cast<uint8_t>(message.started));
  out.Put(message.waits_for);
  return out.Take();
}

Result<Alive> DecodeAlive(ByteView header) {
  ByteReader in(header);
  Alive message;
  message.bucket = in.Get<uint64_t>();
  const auto started = in.Get<uint8_t>();
  message.waits_for = in.Get<uint32_t>();
  if (!in.Done() || started > 1) return Malformed("answer");
  message.started = started == 1;
  return message;
}

Bytes Encode(const AbortMessage& message) {
  ByteWriter out;
  out.Put(static_cast<uint8_t>(message.code));
  out.Put(message.lost);
  out.PutString(std::string_view(message.message).substr(0, kMaxMessage));
  return out.Take();
}

Result<AbortMessage> DecodeAbort(ByteView header) {
  ByteReader in(header);
  AbortMessage message;
  const auto code = in.Get<uint8_t>();
  message.lost = in.Get<uint32_t>();
  message.message = in.GetString(kMaxMessage);
  if (!in.Done() || code == 0 || code > static_cast<uint8_t>(Code::kInternal))
    return Malformed("abort message");
  message.code = static_cast<Code>(code);
  return message;
}

}  // namespace leat::collective
