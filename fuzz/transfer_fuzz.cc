// Messages of file transfers are rejected, or encode to the same bytes again; and the client's side of a
// transfer takes any reply.
#include <algorithm>

#include "base/check.h"
#include "base/fields/testing.h"
#include "net/frames/messages.h"
#include "storage/transfer/client.h"

namespace {

using namespace leat;

// A reply to each of the first requests of a transfer.
void Drive(wire::TransferOp op, const wire::TransferReply& reply, uint64_t payload_bytes) {
  using Kind = transfer::TransferMachine::Step::Kind;
  const uint64_t end = 3 << 20;
  transfer::TransferMachine machine({.op = op, .name = "f", .end = end}, {}, {});
  Time now{};
  for (int i = 0; i < 12; ++i) {
    const auto step = machine.Next(now);
    if (step.kind == Kind::kFinish) return;
    if (step.kind == Kind::kConnect) machine.OnConnected(now);
    if (step.kind == Kind::kWait) now = step.until;
    if (step.kind != Kind::kSend) continue;
    LEAT_CHECK(step.request.offset + step.request.bytes <= end);
    auto answer = reply;
    if (reply.sequence < 16) answer.sequence = step.request.sequence;
    const auto offset = machine.OnReplyHeader(answer, payload_bytes);
    if (!offset.ok()) return;
    LEAT_CHECK(*offset + payload_bytes <= end);
    machine.OnReply(now, answer);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView bytes{reinterpret_cast<const std::byte*>(data), size};
  const auto request = fields::Decode<wire::TransferRequest>(bytes, "request");
  if (request.ok()) {
    LEAT_CHECK(wire::PayloadBytes(*request) <= wire::kMaxTransferBytes);
    LEAT_CHECK(!request->name.empty() && request->name.size() <= wire::kMaxTransferName);
  }
  LEAT_CHECK(fields::BytesFault<wire::TransferRequest>(bytes).empty());
  LEAT_CHECK(fields::BytesFault<wire::TransferReply>(bytes).empty());
  const auto reply = fields::Decode<wire::TransferReply>(bytes, "reply");
  if (!reply.ok()) return 0;
  for (const auto op : {wire::TransferOp::kRead, wire::TransferOp::kOpenUpload}) {
    Drive(op, *reply, 0);
    Drive(op, *reply, std::min<uint64_t>(reply->position, wire::kMaxTransferBytes));
  }
  return 0;
}
