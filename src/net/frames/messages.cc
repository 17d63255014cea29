#include "net/frames/messages.h"

#include <algorithm>

#include "base/fields/codec.h"
#include "base/fields/description.h"
#include "net/frames/frame.h"
#include "protocol/messages_data.h"

namespace leat::wire {

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
  return {PortKind::kServer, fields::HashOf<protocol::PushRequest, protocol::Cut, protocol::PushReply,
                                            protocol::ForwardRequest, protocol::ForwardReply, MoveRequest,
                                            MoveReply, SliceState, protocol::PartitionLedger>()};
}

Port TransferPort() {
  return {PortKind::kTransfer, fields::HashOf<TransferRequest, TransferReply>()};
}

}  // namespace leat::wire

namespace leat {
LEAT_CODECS(protocol::PushRequest, protocol::PushReply, protocol::ForwardRequest, protocol::ForwardReply,
            wire::MoveRequest, wire::MoveReply, wire::SliceState, wire::TransferRequest, wire::TransferReply);
}
