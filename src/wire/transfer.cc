#include "wire/transfer.h"

#include <string_view>

namespace leat::wire {
namespace {

// Whether every operation has the fields that it uses, and no others.
bool Valid(const TransferRequest& message) {
  if (message.name.empty()) return false;
  switch (message.op) {
    case TransferOp::kRead:
      return message.folder == 0 && message.checksum == 0 && message.bytes <= kMaxTransferBytes &&
             message.offset + message.bytes >= message.offset;
    case TransferOp::kOpenUpload:
      return message.offset == 0;
    case TransferOp::kWrite:
      return message.bytes > 0 && message.bytes <= kMaxTransferBytes &&
             message.offset + message.bytes > message.offset;
    case TransferOp::kCommit:
      return message.offset == 0 && message.bytes == 0 && message.checksum == 0;
  }
  return false;
}

}  // namespace

Bytes Encode(const TransferRequest& message) {
  ByteWriter out;
  out.Put(message.sequence);
  out.Put(message.op);
  out.PutString(message.name);
  out.Put(message.folder);
  out.Put(message.offset);
  out.Put(message.bytes);
  out.Put(message.checksum);
  return out.Take();
}

Result<TransferRequest> DecodeTransferRequest(ByteView header) {
  ByteReader in(header);
  TransferRequest message;
  message.sequence = in.Get<uint64_t>();
  message.op = in.Get<TransferOp>();
  message.name = in.GetString(kMaxTransferName);
  message.folder = in.Get<uint64_t>();
  message.offset = in.Get<uint64_t>();
  message.bytes = in.Get<uint64_t>();
  message.checksum = in.Get<uint64_t>();
  if (!in.Done() || !Valid(message)) return Status(Code::kDataLoss, "malformed transfer request");
  return message;
}

Bytes Encode(const TransferReply& message) {
  ByteWriter out;
  out.Put(message.sequence);
  out.Put(static_cast<uint8_t>(message.status.code()));
  if (!message.status.ok()) {
    out.PutString(std::string_view(message.status.message()).substr(0, kMaxTransferError));
    return out.Take();
  }
  out.Put(message.position);
  out.Put(message.checksum);
  return out.Take();
}

Result<TransferReply> DecodeTransferReply(ByteView header) {
  ByteReader in(header);
  TransferReply message;
  message.sequence = in.Get<uint64_t>();
  const auto code = in.Get<uint8_t>();
  if (code > static_cast<uint8_t>(Code::kInternal)) in.Fail();
  if (code != 0) {
    message.status = Status(static_cast<Code>(code), in.GetString(kMaxTransferError));
  } else {
    message.position = in.Get<uint64_t>();
    message.checksum = in.Get<uint64_t>();
  }
  if (!in.Done()) return Status(Code::kDataLoss, "malformed transfer reply");
  return message;
}

}  // namespace leat::wire
