#include "net/ucx/ucx_stream.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace leat::net {
namespace {

// Bytes per loop iteration, so that other connections get their share.
constexpr size_t kUcxTurnBytes = 1 << 20;
// With more than this still to come, the peer is sending right now.
constexpr size_t kSmallUcxBytes = 64 << 10;
// How long to poll: for the next fragments of a large message, and for the reply to a message.
constexpr Duration kAwakeForFragments = std::chrono::microseconds(50);
constexpr Duration kAwakeForAnswer = std::chrono::microseconds(20);
// A peer that has begun to write an entry and does not finish it is stopped or waits for a core. UCX cannot
// sleep then. After this time the loop sleeps anyway and checks again later.
constexpr Duration kUnfinished = std::chrono::microseconds(200);
constexpr Duration kLookAgain = std::chrono::milliseconds(1);
constexpr uint32_t kMaxSkippedUcxPolls = 127;
constexpr size_t kMaxUcxVectors = 64;
// Payloads of at least this size are shared by reference where possible.
constexpr uint64_t kMinSharedPayload = 32 << 10;

}  // namespace

UcxStream::UcxStream(std::shared_ptr<TransportContext> shared, std::shared_ptr<UcxContext> context,
                     std::string peer, pid_t pid, std::function<void(Status)> on_fail)
    : shared_(std::move(shared)),
      context_(std::move(context)),
      cut_(context_->fragments()),
      peer_(std::move(peer)),
      on_fail_(std::move(on_fail)),
      reader_(*shared_),
      stall_(shared_->loop, shared_->options.stall_timeout) {
  if (pid == 0 || cut_.shared_payloads == 0) return;
  memory_.emplace(pid);
  reader_.AllowSharedPayloads(&*memory_);
}

UcxStream::~UcxStream() {
  Shut();
}

Status UcxStream::Open() {
  LEAT_ASSIGN_OR_RETURN(endpoint_, UcxEndpoint::Make(context_, this));
  open_ = true;
  watch_ = poller().Watch(endpoint_->fd(), true, false, this);
  poller().Add(this);
  return {};
}

Status UcxStream::Connect(ByteView address, std::function<void()> on_connected) {
  on_connected_ = std::move(on_connected);
  return endpoint_->Connect(address);
}

void UcxStream::Start(Receiver* receiver, Connection* connection) {
  if (!open_) return;
  receiver_ = receiver;
  connection_ = connection;
  if (early_.empty()) return;
  shared_->loop.Post([self = shared_from_this()] {
    if (self->open_) self->Poll();
  });
}

void UcxStream::OnReady(bool, bool) {
  armed_ = false;
  // The descriptor stays ready until it is armed again, and would keep the loop from waiting.
  poller().Rewatch(watch_, false, false);
  watched_ = false;
  Poll();
}

// ---- receiving

bool UcxStream::Poll() {
  if (!open_) return false;
  const auto self = shared_from_this();  // a callback may destroy the connection
  const bool any = Receive();
  if (!open_) return any;
  if (!failure_.ok()) {
    Fail(std::exchange(failure_, {}));
    return true;
  }
  if (on_connected_ != nullptr && endpoint_->connected()) std::exchange(on_connected_, nullptr)();
  if (open_ && !queue_.empty()) Flush();
  if (!open_ || !any) return any;
  armed_ = false;
  if (std::exchange(polling_, false)) polls_to_skip_ = 0;
  moved_ = shared_->loop.Now();
  KeepPolling(moved_);
  stall_.Watch(*this);
  return true;
}

bool UcxStream::Receive() {
  bool any = false;
  turn_bytes_ = 0;
  more_ = true;
  receiving_ = true;
  if (!early_.empty() && receiver_ != nullptr) {
    any = true;
    const Bytes early = std::exchange(early_, {});
    Deliver(early);
    AcknowledgeTaken();
  }
  while (open_ && failure_.ok() && turn_bytes_ < kUcxTurnBytes) {
    more_ = endpoint_->Progress();
    if (!more_) break;
    any = true;
    AcknowledgeTaken();
  }
  receiving_ = false;
  if (!open_) endpoint_.reset();
  return any;
}

void UcxStream::AcknowledgeTaken() {
  if (receiver_ == nullptr || !open_ || !failure_.ok()) return;
  const uint32_t shared_payloads = reader_.TakeReleased();
  const bool enough = untaken_ >= cut_.taken_after || shared_payloads > 0;
  if (!enough && (cut_.arrives || untaken_ == 0 || reader_.in_message())) return;
  failure_ = endpoint_->SendTaken(std::exchange(untaken_, 0), shared_payloads);
}

void UcxStream::ReleaseViews(uint32_t messages) {
  reader_.Release(messages);
  if (!receiving_) AcknowledgeTaken();  // otherwise at the end of Receive
}

void UcxStream::OnFragment(ByteView bytes) {
  if (!open_ || !failure_.ok()) return;
  if (++untaken_ > cut_.window) {
    failure_ = Status(Code::kDataLoss,
                      "connection to " + peer_ + ": the peer sent more fragments than the window allows");
    return;
  }
  turn_bytes_ += bytes.size();
  shared_->bytes_received.Add(bytes.size());
  if (receiver_ == nullptr || !early_.empty()) {
    early_.insert(early_.end(), bytes.begin(), bytes.end());
  } else {
    Deliver(bytes);
  }
}

void UcxStream::Deliver(ByteView bytes) {
  Status status = reader_.Take(bytes, *receiver_, *connection_, open_);
  if (!status.ok()) failure_ = status.With(peer_);
}

void UcxStream::Drain() {
  const auto self = shared_from_this();
  while (open_ && Poll()) {
  }
}

void UcxStream::KeepPolling(Time now) {
  if (polls_skipped_ < polls_to_skip_) {
    ++polls_skipped_;
    return;
  }
  polling_ = true;
  const bool large = !queue_.empty() || reader_.left() > kSmallUcxBytes;
  poller().KeepPolling(now + (large ? kAwakeForFragments : kAwakeForAnswer));
}

// Arms the descriptor when there is nothing to do; no callback from here.
Duration UcxStream::MaxSleep() {
  if (!open_ || armed_) return kForever;
  if (more_) return {};
  if (std::exchange(polling_, false)) {
    polls_to_skip_ = std::min(2 * polls_to_skip_ + 1, kMaxSkippedUcxPolls);
    polls_skipped_ = 0;
  }
  if (endpoint_->Arm()) {
    armed_ = true;
    if (!std::exchange(watched_, true)) poller().Rewatch(watch_, true, false);
    return kForever;
  }
  return shared_->loop.Now() - moved_ < kUnfinished ? Duration::zero() : kLookAgain;
}

// ---- sending

void UcxStream::Send(uint8_t type, Bytes header, std::vector<ByteView> payload, uint64_t payload_bytes,
                     Done done) {
  const bool first = queue_.empty();
  std::optional<Bytes> shared_payloads;
  if (memory_ && done != nullptr && payload_bytes >= kMinSharedPayload &&
      unreleased_.size() < cut_.shared_payloads)
    shared_payloads = EncodeSharedPayload(type, header, payload);
  if (shared_payloads) {
    queue_.Push(kSharedPayloadType, std::move(*shared_payloads), {}, 0, nullptr);
    if (unreleased_.empty()) unreleased_time_ = shared_->loop.Now();
    unreleased_.push_back(std::move(done));
    shared_->bytes_sent.Add(payload_bytes);
  } else {
    queue_.Push(type, std::move(header), std::move(payload), payload_bytes, std::move(done));
  }
  if (!first) return;
  sent_time_ = shared_->loop.Now();
  if (receiving_) return;  // at the end of Receive
  Flush();
  if (open_) KeepPolling(sent_time_);
  stall_.Watch(*this);
}

void UcxStream::Flush() {
  while (open_ && !queue_.empty() && under_way_ < cut_.window && endpoint_->CanSend()) {
    std::array<iovec, kMaxUcxVectors> vectors;
    size_t bytes = 0;
    const size_t count = queue_.Gather(vectors, cut_.bytes, &bytes);
    if (Status status = endpoint_->Send(std::span(vectors).first(count)); !status.ok()) {
      return Fail(status.With("connection to " + peer_));
    }
    ++under_way_;
    ++fragments_;
    sent_time_ = shared_->loop.Now();
    shared_->bytes_sent.Add(bytes);
    std::vector<Done> sent;
    queue_.Consume(bytes, &sent);
    for (auto& done : sent) unreported_.emplace_back(fragments_, std::move(done));
  }
  ReportSent();
}

void UcxStream::ReportSent() {
  const uint64_t upto = cut_.arrives ? fragments_ : fragments_ - under_way_;
  for (; !unreported_.empty() && unreported_.front().first <= upto; unreported_.pop_front()) {
    ReportDone(std::move(unreported_.front().second));
  }
}

// Reports from the loop.
void UcxStream::ReportDone(Done done) {
  sent_.push_back(std::move(done));
  if (sent_.size() > 1) return;  // the pending report includes it
  shared_->loop.Post([self = shared_from_this()] {
    for (auto& report : std::exchange(self->sent_, {})) {
      if (self->connection_ != nullptr) report({});
    }
  });
}

void UcxStream::OnTaken(uint32_t fragments, uint32_t messages) {
  if (!open_ || !failure_.ok()) return;
  if (fragments > under_way_ || messages > unreleased_.size()) {
    failure_ =
        Status(Code::kDataLoss, "connection to " + peer_ + ": the peer acknowledged more than was sent");
    return;
  }
  under_way_ -= fragments;
  for (uint32_t i = 0; i < messages; ++i) ReportDone(std::move(unreleased_[i]));
  unreleased_.erase(unreleased_.begin(), unreleased_.begin() + messages);
  if (messages > 0) unreleased_time_ = shared_->loop.Now();
  ReportSent();
}

// ---- the end

void UcxStream::Fail(Status why) {
  if (on_fail_ != nullptr) on_fail_(std::move(why));
}

std::vector<Done> UcxStream::Shut() {
  if (!open_) return {};
  open_ = false;
  on_connected_ = nullptr;
  poller().Remove(this);
  poller().Unwatch(watch_);
  if (!receiving_) endpoint_.reset();
  std::vector<Done> unsent;
  for (auto& [fragment, done] : std::exchange(unreported_, {})) unsent.push_back(std::move(done));
  for (auto& done : queue_.TakeUnsent()) unsent.push_back(std::move(done));
  return unsent;
}

std::optional<StallTimer::Awaited> UcxStream::Awaiting() const {
  if (!open_ || (!reader_.in_message() && queue_.empty() && unreleased_.empty())) return std::nullopt;
  Time moved = Time::max();
  if (!queue_.empty()) moved = sent_time_;
  if (!unreleased_.empty()) moved = std::min(moved, unreleased_time_);
  const bool receiving = reader_.in_message() && reader_.moved() < moved;
  return StallTimer::Awaited{receiving ? reader_.moved() : moved, receiving};
}

}  // namespace leat::net
