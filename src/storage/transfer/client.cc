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

// Errors that another attempt may not have.
bool Retried(TransferOp op, Code code) {
  if (code == Code::kDataLoss) return op == TransferOp::kWrite;  // damaged on its way
  // The other side may have lost its state of an upload: it is opened again.
  if (code == Code::kFailedPrecondition) return op == TransferOp::kWrite || op == TransferOp::kCommit;
  return code == Code::kUnavailable || code == Code::kAborted || code == Code::kDeadlineExceeded ||
         code == Code::kStale;
}

std::string Range(uint64_t begin, uint64_t end) {
  return "bytes " + std::to_string(begin) + " to " + std::to_string(end);
}

}  // namespace

TransferMachine::TransferMachine(Work work, TransferLimits limits, Time now)
    : work_(std::move(work)),
      limits_(limits),
      began_(now),
      next_(work_.begin),
      done_(work_.begin),
      progress_(now),
      last_reply_(now),
      retry_at_(now) {}

TransferMachine::Step TransferMachine::Next(Time now) {
  Step step;
  const Time end = std::min(progress_ + limits_.patience, began_ + limits_.deadline);
  if (!finished_ && now >= end) {
    Fail({Code::kDeadlineExceeded,
          work_.name + ": no progress for " + std::to_string(static_cast<int>(Seconds(now - progress_))) +
              " s at byte " + std::to_string(done_) + " of " + std::to_string(work_.end) +
              (last_error_.ok() ? "" : ": " + last_error_.message())});
  }
  if (finished_) {
    step.kind = Step::Kind::kFinish;
    step.status = outcome_;
    return step;
  }
  step.until = end;
  if (link_ == Link::kNone) {
    if (now < retry_at_) {
      step.until = std::min(end, retry_at_);
      return step;
    }
    link_ = Link::kConnecting;
    step.kind = Step::Kind::kConnect;
    return step;
  }
  if (link_ == Link::kConnecting) return step;
  if (!outstanding_.empty() && now - last_reply_ >= limits_.reply_timeout) {
    useless_ = Status(Code::kDeadlineExceeded,
                      "no reply for " + std::to_string(static_cast<int>(Seconds(now - last_reply_))) + " s");
  }
  if (!useless_.ok()) {
    OnLost(now, useless_);
    step.kind = Step::Kind::kDrop;
    return step;
  }
  if (NextRequest(&step.request)) {
    step.kind = Step::Kind::kSend;
    step.request.sequence = ++sequence_;
    step.request.name = work_.name;
    step.request.folder = work_.folder;
    if (outstanding_.empty()) last_reply_ = now;
    outstanding_.push_back(step.request);
    return step;
  }
  if (!outstanding_.empty()) step.until = std::min(end, last_reply_ + limits_.reply_timeout);
  return step;
}

bool TransferMachine::NextRequest(wire::TransferRequest* request) {
  if (outstanding_.size() >= std::max(limits_.window, 1u)) return false;
  if (upload()) return NextUploadRequest(request);
  if (next_ == work_.end && (work_.begin != work_.end || asked_)) return false;
  asked_ = true;
  request->op = TransferOp::kRead;
  request->offset = next_;
  request->bytes = std::min<uint64_t>(work_.end - next_, limits_.chunk_bytes);
  next_ += request->bytes;
  return true;
}

bool TransferMachine::NextUploadRequest(wire::TransferRequest* request) {
  if (!opened_) {
    if (!outstanding_.empty()) return false;
    request->op = TransferOp::kOpenUpload;
    request->bytes = work_.end;
    request->checksum = work_.checksum;
    return true;
  }
  if (next_ < work_.end) {
    request->op = TransferOp::kWrite;
    request->offset = next_;
    request->bytes = std::min<uint64_t>(work_.end - next_, limits_.chunk_bytes);
    next_ += request->bytes;
    return true;
  }
  if (!outstanding_.empty()) return false;
  request->op = TransferOp::kCommit;
  return true;
}

void TransferMachine::OnConnected(Time now) {
  link_ = Link::kUp;
  last_reply_ = now;
}

void TransferMachine::OnLost(Time now, Status why) {
  const bool refused = link_ == Link::kConnecting &&
                       (why.code() == Code::kPermissionDenied || why.code() == Code::kFailedPrecondition ||
                        why.code() == Code::kInvalidArgument);
  ++connections_lost_;
  constexpr uint32_t kMaxDoublings = 16;
  const Duration backoff = limits_.first_backoff * (1 << std::min(failures_++, kMaxDoublings));
  retry_at_ = now + std::min(backoff, limits_.longest_backoff);
  link_ = Link::kNone;
  Restart();
  last_error_ = std::move(why);
  if (refused) Fail(last_error_);
}

// Requests without a reply are sent again on the next connection.
void TransferMachine::Restart() {
  outstanding_.clear();
  opened_ = false;
  asked_ = false;
  useless_ = Status();
  next_ = done_;
}

Result<uint64_t> TransferMachine::OnReplyHeader(const wire::TransferReply& reply,
                                                uint64_t payload_bytes) const {
  if (outstanding_.empty() || reply.sequence != outstanding_.front().sequence)
    return Status(Code::kDataLoss, "a reply to a request that is not pending");
  const wire::TransferRequest& request = outstanding_.front();
  const bool reads = reply.status.ok() && request.op == TransferOp::kRead;
  const uint64_t here =
      reply.position > request.offset ? std::min(reply.position - request.offset, request.bytes) : 0;
  if (const uint64_t expected = reads ? here : 0; payload_bytes != expected) {
    return Status(Code::kDataLoss, "a reply with " + std::to_string(payload_bytes) + " bytes, expected " +
                                       std::to_string(expected));
  }
  if (reply.status.ok() && !reads && reply.position > work_.end) {
    return Status(Code::kDataLoss, "a reply that names " + std::to_string(reply.position) +
                                       " bytes of an upload of " + std::to_string(work_.end));
  }
  return request.offset;
}

void TransferMachine::OnReply(Time now, const wire::TransferReply& reply) {
  if (outstanding_.empty()) return;
  const wire::TransferRequest request = outstanding_.front();
  outstanding_.pop_front();
  if (finished_) return;
  last_reply_ = now;
  if (!reply.status.ok()) {
    if (!Retried(request.op, reply.status.code())) return Fail(reply.status.With(work_.name));
    useless_ = reply.status;
    return;
  }
  switch (request.op) {
    case TransferOp::kRead:
      file_bytes_ = reply.position;
      if (request.bytes > 0 && reply.position < request.offset + request.bytes) {
        return Fail({Code::kDataLoss, work_.name + ": " + Range(work_.begin, work_.end) +
                                          " of a file that has " + std::to_string(reply.position)});
      }
      done_ = request.offset + request.bytes;
      if (done_ == work_.end) finished_ = true;
      break;
    case TransferOp::kOpenUpload:
      opened_ = true;
      next_ = done_ = reply.position;
      return;  // no progress: nothing has been moved
    case TransferOp::kWrite:
      if (reply.position < request.offset + request.bytes) {
        useless_ = Status(Code::kDataLoss, "a chunk has not been taken");
        return;
      }
      done_ = request.offset + request.bytes;
      break;
    case TransferOp::kCommit:
      finished_ = true;
      break;
  }
  progress_ = now;
  failures_ = 0;
}

void TransferMachine::Fail(Status why) {
  if (finished_) return;
  finished_ = true;
  outcome_ = std::move(why);
}

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
  connection_->Send(wire::FrameType::kTransferRequest, fields::Encode(sent), std::move(pieces),
                    [chunk](const Status&) {});
  return {};
}

net::Places Client::OnHeader(net::Connection&, uint8_t type, ByteView header, uint64_t payload_bytes) {
  if (type != wire::FrameType::kTransferReply || machine_ == nullptr)
    return Status(Code::kDataLoss, "unexpected frame type " + std::to_string(type) + " of a file service");
  LEAT_ASSIGN_OR_RETURN(reply_, fields::Decode<wire::TransferReply>(header, "reply of a file service"));
  LEAT_ASSIGN_OR_RETURN(const uint64_t offset, machine_->OnReplyHeader(reply_, payload_bytes));
  arrived_ = {};
  if (payload_bytes == 0) return net::Spans();
  const auto destination = out_.subspan(offset - out_begin_, payload_bytes);
  arrived_ = destination;
  return net::Spans{destination};
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
