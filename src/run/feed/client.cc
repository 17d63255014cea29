#include "run/feed/client.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/log.h"

namespace leat::feed {

Client::Client(ClientOptions options) : options_(std::move(options)), backoff_(options_.first_backoff) {}

Client::~Client() = default;

Status Client::Call(Request request, Reply* reply, Bytes* payload) {
  return Call(std::move(request), options_.deadline, reply, payload);
}

Status Client::Call(Request request, Duration deadline, Reply* reply, Bytes* payload, ByteView sent) {
  const Time until = loop_.Now() + deadline;
  request.content = options_.content;
  while (true) {
    Status status = Attempt(request, sent, until);
    // A feed with other contents is as good as none.
    if (status.ok() && reply_.status.code() == Code::kStale) status = reply_.status;
    if (aborted_) return Status(Code::kAborted, "reading from a feed was aborted");
    if (status.ok()) {
      if (!last_warning_.empty()) spdlog::info("feed {} answers", address_);
      last_warning_.clear();
      backoff_ = options_.first_backoff;
      options_.counts->bytes += payload_.size();
      *reply = std::move(reply_);
      payload->swap(payload_);
      return reply->status;
    }
    ++options_.counts->retries;
    if (!address_.empty()) status = status.With("feed " + address_);
    if (status.message() != last_warning_) spdlog::warn("{}; trying again", status.message());
    last_warning_ = status.message();
    connection_.reset();
    address_.clear();
    if (addresses_.empty()) BackOff(until);
    if (loop_.Now() >= until)
      return Status(Code::kUnavailable, "no feed has answered in time; the last: " + status.message());
  }
}

Status Client::Attempt(const Request& request, ByteView sent, Time until) {
  if (connection_ == nullptr || closed_) LEAT_RETURN_IF_ERROR(Connect(until));
  Request numbered = request;
  numbered.sequence = ++sequence_;
  std::vector<ByteView> parts;
  if (!sent.empty()) {
    numbered.checksum = Checksum(sent, sequence_);
    parts.push_back(sent);
  }
  answered_ = false;
  connection_->Send(static_cast<uint8_t>(FrameType::kRequest), fields::Encode(numbered), std::move(parts));
  const Time answer_by = std::min(until, loop_.Now() + options_.reply_timeout);
  LEAT_RETURN_IF_ERROR(Await(answer_by, [this] { return answered_ || closed_; }));
  if (!answered_) return *closed_;
  if (Checksum(payload_, sequence_) != reply_.checksum)
    return Status(Code::kDataLoss, "a reply has a wrong checksum");
  return Status();
}

Status Client::Connect(Time until) {
  connection_.reset();
  closed_.reset();
  if (transport_ == nullptr) transport_ = options_.make_transport(loop_);
  LEAT_RETURN_IF_ERROR(NextAddress());
  std::optional<Status> done;
  auto outcome = std::make_shared<std::optional<Result<std::unique_ptr<net::Connection>>>>();
  transport_->Connect(address_, this, std::min(options_.connect_timeout, until - loop_.Now()),
                      [outcome](Result<std::unique_ptr<net::Connection>> connected) {
                        outcome->emplace(std::move(connected));
                      });
  const Duration grace = std::chrono::seconds(1);  // the transport has the deadline
  LEAT_RETURN_IF_ERROR(Await(until + grace, [&] { return outcome->has_value(); }));
  if (!(*outcome)->ok()) return (*outcome)->status();
  connection_ = std::move(**outcome).value();
  return Status();
}

Status Client::NextAddress() {
  if (addresses_.empty()) {
    LEAT_ASSIGN_OR_RETURN(addresses_, options_.find_feeds());
    if (addresses_.empty()) return Status(Code::kUnavailable, "the job has no feed");
    // Clients spread over the feeds.
    std::random_device random;
    std::ranges::shuffle(addresses_, random);
  }
  address_ = std::move(addresses_.back());
  addresses_.pop_back();
  return Status();
}

void Client::BackOff(Time until) {
  const Time wait_until = std::min(until, loop_.Now() + backoff_);
  backoff_ = std::min(2 * backoff_, options_.max_backoff);
  (void)Await(wait_until, [] { return false; });
}

Status Client::Await(Time until, const std::function<bool()>& condition) {
  constexpr Duration kMaxWait = std::chrono::milliseconds(50);  // until an abort is seen
  while (!condition()) {
    const Time now = loop_.Now();
    if (aborted_) return Status(Code::kAborted, "aborted");
    if (now >= until) return Status(Code::kDeadlineExceeded, "no reply in time");
    loop_.RunOnce(std::min(until - now, kMaxWait));
  }
  return Status();
}

Result<std::vector<std::span<std::byte>>> Client::OnHeader(net::Connection&, uint8_t type, ByteView header,
                                                           uint64_t payload_bytes) {
  if (type != static_cast<uint8_t>(FrameType::kReply))
    return Status(Code::kDataLoss, "unexpected frame type " + std::to_string(type));
  if (payload_bytes > kMaxPayload)
    return Status(Code::kDataLoss, "a reply of " + std::to_string(payload_bytes) + " bytes");
  LEAT_ASSIGN_OR_RETURN(reply_, fields::Decode<Reply>(header, "reply of a feed"));
  if (answered_ || reply_.sequence != sequence_)
    return Status(Code::kDataLoss, "a reply to no request: " + std::to_string(reply_.sequence));
  payload_.resize(payload_bytes);
  return std::vector<std::span<std::byte>>{payload_};
}

void Client::OnMessage(net::Connection&) {
  answered_ = true;
}

void Client::OnClosed(net::Connection&, const Status& why) {
  closed_ = why.ok() ? Status(Code::kUnavailable, "closed") : why;
}

}  // namespace leat::feed
