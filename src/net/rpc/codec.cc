#include "net/rpc/codec.h"

#include <string>

#include "base/fields/codec.h"
#include "base/fields/description.h"
#include "protocol/records/journal.h"

namespace leat::control {
namespace {

template <class Message>
Result<Message> Parse(ByteView bytes, const std::string& what) {
  if (bytes.empty() || bytes.size() > kMaxMessageBytes)
    return Status(Code::kInvalidArgument, "not a " + what + ": " + std::to_string(bytes.size()) + " bytes");
  return fields::Decode<Message>(bytes, what, Code::kInvalidArgument);
}

}  // namespace

Bytes Serialize(const protocol::ControlRequest& request) {
  return fields::Encode(request);
}

Bytes Serialize(const protocol::ControlReply& reply) {
  return fields::Encode(reply);
}

Result<protocol::ControlRequest> ParseRequest(ByteView bytes) {
  return Parse<protocol::ControlRequest>(bytes, "control request");
}

Result<protocol::ControlReply> ParseReply(ByteView bytes) {
  return Parse<protocol::ControlReply>(bytes, "control reply");
}

wire::Port ControlPort() {
  return {wire::PortKind::kControl,
          fields::HashOf<protocol::ControlRequest, protocol::ControlReply, protocol::JournalRecord>()};
}

}  // namespace leat::control
