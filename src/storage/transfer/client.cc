#include "storage/transfer/client.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "net/frames/frame.h"

namespace leat::transfer {

using wire::TransferOp;

namespace {

// Time limit of one attempt. TCP's pauses between its own attempts grow; a new attempt starts with short
// ones.
constexpr Duration kConnectTimeout = std::chrono::seconds(3);

}  // namespace

Client::Client(std::string address, const MakeTransport& make_transport, TransferLimits limits)
    : address_(std::move(address)), make_transport_(make_transport), limits_(limits) {}

Client::~Client() {
  connection_.reset();
  transport_.reset();
}

Result<uint64_t> Client::Size(const std::string& name) {
  uint64_t bytes = 0;
  LEAT_RETURN_IF_ERROR(Run({.op = TransferOp::kRead, .name = name}, {}, nullptr, &bytes));
  return bytes;
}

Status Client::Read(const std::string& name, uint64_t offset, std::span<std::byte> out) {
  return Run({.op = TransferOp::kRead, .name = name, .begin = offset, .end = offset + out.size()}, out,
             nullptr, nullptr);
}

Status Client::Send(const Upload& upload) {
  return Run({.op = TransferOp::kOpenUpload,
              .name = upload.name,
              .folder = upload.folder,
              .end = upload.bytes,
              .checksum = upload.checksum},
             {}, &upload, nullptr);
}

void Client::Abort() {
  aborted_ = true;
  loop_.Post([] {});  // wakes the loop
}

Status Client::Run(TransferMachine::Work work, std::span<std::byte> out, const Upload* upload,
                   uint64_t* file_bytes) {
  if (work.name.empty() || work.name.size() > wire::kMaxTransferName || work.end < work.begin)
    return Status(Code::kInvalidArgument, "'" + work.name + "': an invalid name or range of a file");
  out_ = out;
  out_begin_ = work.begin;
  TransferMachine machine(std::move(work), limits_, loop_.Now());
  machine_ = &machine;
  if (connection_ != nullptr) machine.OnConnected(loop_.Now());
  const Status status = Drive(machine, upload);
  machine_ = nullptr;
  // Nothing may arrive in the caller's memory from now on, and no reply for the next call.
  if (machine.outstanding() > 0) connection_.reset();
  if (std::exchange(connecting_, false)) transport_.reset();
  out_ = {};
  connections_lost_ += machine.connections_lost();
  if (file_bytes != nullptr) *file_bytes = machine.file_bytes();
  return status.With(address_);
}

Status Client::Drive(TransferMachine& machine, const Upload* upload) {
  for (;;) {
    if (aborted_) return {Code::kAborted, "the transfer was aborted"};
    const TransferMachine::Step step = machine.Next(loop_.Now());
    switch (step.kind) {
      case TransferMachine::Step::Kind::kConnect:
        Connect(machine);
        break;
      case TransferMachine::Step::Kind::kSend:
        if (Status sent = Transmit(step.request, upload); !sent.ok()) machine.Fail(std::move(sent));
        break;
      case TransferMachine::Step::Kind::kDrop:
        connection_.reset();
        break;
      case TransferMachine::Step::Kind::kWait:
        loop_.RunOnce(std::max(step.until - loop_.Now(), Duration::zero()));
        break;
      case TransferMachine::Step::Kind::kFinish:
        return step.status;
    }
  }
}

void Client::Connect(TransferMachine& machine) {
  if (transport_ == nullptr) transport_ = make_transport_(loop_);
  connecting_ = true;
  transport_->Connect(address_, this, kConnectTimeout,
                      [this, &machine](Result<std::unique_ptr<net::Connection>> connection) {
                        connecting_ = false;
                        if (!connection.ok()) return Lost(connection.status());
                        connection_ = std::move(*connection);
                        machine.OnConnected(loop_.Now());
                      });
}

Status Client::Transmit(const wire::TransferRequest& request, const Upload* upload) {
  wire::TransferRequest sent = request;
  std::vector<ByteView> pieces;
  std::shared_ptr<Bytes> chunk;
  // Training may share the link, so uploads yield to it. A caller waits for a read.
  if (request.op == TransferOp::kOpenUpload) connection_->SendInBackground();
  if (request.op == TransferOp::kWrite) {
    chunk = std::make_shared<Bytes>(request.bytes);
    LEAT_RETURN_IF_ERROR(upload->read(request.offset, *chunk));
    sent.checksum = Checksum(*chunk);
    pieces.push_back(*chunk);
  }
  connection_->Send(static_cast<uint8_t>(wire::FrameType::kTransferRequest), fields::Encode(sent),
                    std::move(pieces), [chunk](const Status&) {});
  return {};
}

Result<std::vector<std::span<std::byte>>> Client::OnHeader(net::Connection&, uint8_t type, ByteView header,
                                                           uint64_t payload_bytes) {
  if (type != static_cast<uint8_t>(wire::FrameType::kTransferReply) || machine_ == nullptr)
    return Status(Code::kDataLoss, "unexpected frame type " + std::to_string(type) + " of a file service");
  LEAT_ASSIGN_OR_RETURN(reply_, fields::Decode<wire::TransferReply>(header, "reply of a file service"));
  LEAT_ASSIGN_OR_RETURN(const uint64_t offset, machine_->OnReplyHeader(reply_, payload_bytes));
  arrived_ = {};
  if (payload_bytes == 0) return std::vector<std::span<std::byte>>();
  const auto destination = out_.subspan(offset - out_begin_, payload_bytes);
  arrived_ = destination;
  return std::vector<std::span<std::byte>>{destination};
}

void Client::OnMessage(net::Connection& connection) {
  if (machine_ == nullptr) return;
  if (!arrived_.empty() && Checksum(arrived_) != reply_.checksum)
    return connection.Close({Code::kDataLoss, "a chunk does not match its checksum"});
  machine_->OnReply(loop_.Now(), reply_);
}

void Client::OnClosed(net::Connection&, const Status& why) {
  const Status reason = why;
  connection_.reset();
  if (machine_ != nullptr) Lost(reason);
}

// Logs a line for each attempt; the attempts back off.
void Client::Lost(const Status& why) {
  spdlog::warn("file transfer with {}: {}", address_, why.ToString());
  machine_->OnLost(loop_.Now(), why);
}

}  // namespace leat::transfer
