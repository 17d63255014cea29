#include "collective/messages.h"

#include "fields/codec.h"
#include "fields/description.h"
#include "protocol/member/training_state.h"

namespace leat::collective {

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
  if (!in.Done() || message.path > protocol::ReducePath::kOneShot)
    return Status(Code::kDataLoss, "malformed piece of a bucket");
  return message;
}

Status Check(const AbortMessage& message) {
  return message.why.ok() ? Status(Code::kDataLoss, "why is no error") : Status();
}

wire::Port MemberPort() {
  // The state that a member sends the others is in no frame of its own (step/state_broadcast.h).
  return {wire::PortKind::kMember,
          fields::HashOf<Greet, BucketHeader, Alive, AbortMessage, protocol::TrainingState::Header,
                         protocol::PartitionLedger>()};
}

}  // namespace leat::collective

namespace leat {
LEAT_CODECS(protocol::Greet, collective::BucketHeader, collective::Alive, collective::AbortMessage);
}
