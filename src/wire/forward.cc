#include "wire/forward.h"

#include <utility>

#include "wire/messages.h"
#include "wire/move.h"

namespace leat::wire {

Bytes Encode(const protocol::ForwardRequest& message) {
  ByteWriter out;
  out.Put(message.from.value);
  out.Put(message.link);
  out.Put(message.number);
  out.Put(static_cast<uint32_t>(message.epochs.size()));
  for (size_t i = 0; i < message.epochs.size(); ++i) {
    out.Put(message.epochs[i]);
    out.Put(message.versions[i]);
  }
  PutDecided(message.decided, &out);
  out.PutRaw(Encode(message.push));
  return out.Take();
}

Result<protocol::ForwardRequest> DecodeForwardRequest(ByteView header) {
  ByteReader in(header);
  protocol::ForwardRequest message;
  message.from = NodeId(in.Get<uint64_t>());
  message.link = in.Get<uint64_t>();
  message.number = in.Get<uint64_t>();
  message.epochs.resize(in.GetCount(2 * sizeof(uint64_t)));
  message.versions.resize(message.epochs.size());
  for (size_t i = 0; i < message.epochs.size(); ++i) {
    message.epochs[i] = in.Get<uint64_t>();
    message.versions[i] = in.Get<uint64_t>();
  }
  message.decided = GetDecided(&in);
  if (!in.ok()) return Status(Code::kDataLoss, "malformed forward");
  LEAT_ASSIGN_OR_RETURN(message.push, DecodePushRequest(in.GetRaw(in.remaining())));
  return message;
}

Bytes Encode(const protocol::ForwardReply& message) {
  ByteWriter out;
  out.Put(message.link);
  out.Put(message.number);
  out.Put(static_cast<uint8_t>(message.broken));
  out.Put(static_cast<uint32_t>(message.refused.size()));
  for (const SliceId slice : message.refused) out.Put(slice.value);
  return out.Take();
}

Result<protocol::ForwardReply> DecodeForwardReply(ByteView header) {
  ByteReader in(header);
  protocol::ForwardReply message;
  message.link = in.Get<uint64_t>();
  message.number = in.Get<uint64_t>();
  const auto broken = in.Get<uint8_t>();
  if (broken > 1) in.Fail();
  message.broken = broken == 1;
  message.refused.resize(in.GetCount(sizeof(uint32_t)));
  for (SliceId& slice : message.refused) slice = SliceId(in.Get<uint32_t>());
  if (!in.Done()) return Status(Code::kDataLoss, "malformed answer to a forward");
  return message;
}

}  // namespace leat::wire
