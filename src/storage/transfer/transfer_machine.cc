#include "storage/transfer/transfer_machine.h"

#include <algorithm>
#include <utility>

namespace leat::transfer {
namespace {

using wire::TransferOp;

// Errors that another attempt may not have.
bool Retried(TransferOp op, Code code) {
  switch (code) {
    case Code::kUnavailable:
    case Code::kAborted:
    case Code::kDeadlineExceeded:
    case Code::kStale:
      return true;
    case Code::kDataLoss:
      return op == TransferOp::kWrite;  // damaged on its way
    case Code::kFailedPrecondition:
      // The other side may have lost its state of an upload: it is opened again.
      return op == TransferOp::kWrite || op == TransferOp::kCommit;
    default:
      return false;
  }
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

}  // namespace leat::transfer
