#include "train/ps/server_shell.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "net/frames/frame.h"
#include "net/frames/messages.h"

namespace leat::ps {

// Receives slices that another server hands over, on one connection.
class ServerShell::MoveReceiver {
 public:
  // `machine` must outlive the receiver.
  explicit MoveReceiver(protocol::Server& machine) : machine_(machine) {}

  // The header of a slice's frame: returns the destination of its payload, or why the connection must end.
  net::Places OnHeader(ByteView header, uint64_t payload_bytes) {
    LEAT_ASSIGN_OR_RETURN(wire::MoveRequest request, fields::Decode<wire::MoveRequest>(header, "move"));
    if (request.index == 0) slices_.clear();
    const bool follows =
        request.index == slices_.size() &&
        (slices_.empty() || (request.move == request_.move && request.count == request_.count &&
                             request.slice > slices_.back().slice->id));
    if (!follows)
      return Status(Code::kDataLoss, "slices of move " + std::to_string(request.move) + " out of order");
    const std::optional<uint64_t> bytes = machine_.SliceBytes(request.slice);
    if (!bytes || payload_bytes != request.state_bytes + *bytes) {
      return Status(Code::kDataLoss, "payload has " + std::to_string(payload_bytes) + " bytes; slice " +
                                         ToString(request.slice) + " has " +
                                         std::to_string(bytes.value_or(0)));
    }
    request_ = request;
    state_.resize(request.state_bytes);
    memory_ = machine_.NewSliceMemory(request.slice);
    return net::Spans{state_, memory_.bytes().first(*bytes)};
  }

  // Its payload has arrived. Returns the move whose last slice this is, which the machine now has or refuses
  // (`status`); none: more slices follow. An error ends the connection.
  Result<std::optional<wire::MoveReply>> OnMessage() {
    LEAT_ASSIGN_OR_RETURN(wire::SliceState state,
                          fields::Decode<wire::SliceState>(state_, "state of a slice that moves"));
    protocol::Slice slice = machine_.ArrivedSlice(request_.slice, std::move(memory_));
    slice.incarnation = request_.incarnation;
    slice.version = request_.version;
    slice.events = request_.events;
    slice.ledger = std::move(state.ledger);
    slices_.push_back({std::make_shared<const protocol::Slice>(std::move(slice)), request_.saved,
                       std::move(state.decided)});
    if (slices_.size() < request_.count) return std::optional<wire::MoveReply>();
    return std::optional<wire::MoveReply>(
        {request_.move, machine_.OnMoveArrived(request_.move, std::exchange(slices_, {}))});
  }

 private:
  protocol::Server& machine_;
  wire::MoveRequest request_;
  Bytes state_;
  Buffer memory_;
  std::vector<protocol::MovedSlice> slices_;  // slices of the current move that have arrived
};

// The connection of a worker, or of a server that hands slices over or forwards pushes to replicas.
class ServerShell::Session : public net::Receiver {
 public:
  Session(ServerShell& shell, std::unique_ptr<net::Connection> connection)
      : shell_(shell), connection_(std::move(connection)) {}

  net::Places OnHeader(net::Connection& connection, uint8_t type, ByteView header,
                       uint64_t payload_bytes) override {
    type_ = static_cast<wire::FrameType>(type);
    const bool by_server = type_ == wire::FrameType::kMove || type_ == wire::FrameType::kForward;
    if (!by_server && type_ != wire::FrameType::kPush) {
      return Status(Code::kDataLoss, "unexpected frame type " + std::to_string(type) +
                                         ": a server takes pushes, and slices of other servers");
    }
    const net::CertificateRoles peer = connection.peer_roles();
    if (by_server && !peer.Has(net::CertificateRole::kServer))
      return Status(Code::kPermissionDenied, "only servers may hand slices over or forward pushes");
    if (!by_server && !peer.Overlaps({net::CertificateRole::kWorker, net::CertificateRole::kServe}))
      return Status(Code::kPermissionDenied, "only workers may push, and only serve members follow");
    shell_.bytes_in_ += header.size() + payload_bytes;
    if (type_ == wire::FrameType::kMove) return moves_.OnHeader(header, payload_bytes);
    if (type_ == wire::FrameType::kForward) return OnForward(header, payload_bytes);
    return OnPush(header, payload_bytes);
  }

  bool OnView(net::Connection&, size_t i, ByteView bytes) override {
    if (type_ == wire::FrameType::kMove || (type_ == wire::FrameType::kPush && memory_)) return false;
    if (views_.size() != i || reinterpret_cast<uintptr_t>(bytes.data()) % alignof(float) != 0) return false;
    views_.push_back(Floats(bytes));
    return true;
  }
  // Applied while it is in the cache.
  void OnSegment(net::Connection&, size_t i) override {
    if (type_ != wire::FrameType::kPush || memory_) return;
    const Busy busy(this);
    ApplyViews();
    Apply(i, segments_[i]);
  }

  void OnMessage(net::Connection& connection) override {
    if (type_ == wire::FrameType::kMove) return OnMovedSlice(connection);
    if (type_ == wire::FrameType::kForward) return OnForwarded();
    std::optional<Busy> busy(std::in_place, this);
    const bool without_gradient = request_.disposition != protocol::Disposition::kGradient;
    if (memory_ || (without_gradient && shell_.machine_.forwards())) {
      for (const auto& segment : segments_) views_.push_back(Floats(segment));
      shell_.machine_.ApplyAll(request_, views_, &replies_, memory_);
      memory_ = {};
    } else if (views_.size() == request_.slices.size()) {
      shell_.machine_.ApplyAll(request_, views_, &replies_);
    } else {
      ApplyViews();
      for (size_t i = replies_.size(); i < request_.slices.size(); ++i) Apply(i, {});
    }
    shell_.at_point_(Point::kApplied);
    const uint64_t ticket = ++shell_.last_ticket_;
    const auto reply = shell_.machine_.Finish(ticket, request_, std::move(replies_));
    busy.reset();
    EndRecord();
    replies_.clear();
    if (reply) {
      Send(*reply);
    } else {
      ticket_ = ticket;
      shell_.Park(ticket, this);
    }
    shell_.SendReady();
  }

  // Sends the reply to the parked request.
  void SendParked(const protocol::PushReply& reply) {
    ticket_ = 0;
    Send(reply);
  }

  void AnswerMove(uint64_t move, const Status& status) {
    connection_->Send(wire::FrameType::kMoveReply, fields::Encode(wire::MoveReply{move, status}), {});
  }

  // Destroys this.
  void OnClosed(net::Connection&, const Status&) override {
    std::erase_if(shell_.arrived_moves_, [this](const auto& entry) { return entry.second == this; });
    if (ticket_ != 0) {
      shell_.machine_.Forget(ticket_);
      shell_.parked_.erase(ticket_);
    }
    shell_.sessions_.erase(this);
  }

 private:
  // Measures the application of a push that is recorded.
  class Busy {
   public:
    explicit Busy(Session* session) : session_(session->applied_.begin > Time{0} ? session : nullptr) {
      if (session_ == nullptr) return;
      begin_ = session_->shell_.loop_.Now();
      if (session_->applied_.busy == Duration{0}) session_->applied_.begin = begin_;
    }
    ~Busy() {
      if (session_ != nullptr) session_->applied_.busy += session_->shell_.loop_.Now() - begin_;
    }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    Session* const session_;
    Time begin_{0};
  };
  void BeginRecord(uint64_t payload_bytes) {
    applied_ = {};
    if (shell_.track_ == nullptr || !shell_.track_->on()) return;
    if (request_.disposition != protocol::Disposition::kGradient) return;
    applied_ = {.kind = timeline::Kind::kApply,
                .begin = shell_.loop_.Now(),
                .peer = request_.worker.value,
                .number = request_.sequence,
                .bytes = payload_bytes};
  }
  void EndRecord() {
    if (applied_.begin == Time{0}) return;
    applied_.end = shell_.loop_.Now();
    shell_.track_->Add(applied_);
    applied_ = {};
  }

  net::Places OnPush(ByteView header, uint64_t payload_bytes) {
    if (*unsent_ >= kMaxUnsent) {
      return Status(Code::kResourceExhausted, "the worker has not read " + std::to_string(*unsent_) +
                                                  " replies and sends another push");
    }
    auto request = fields::Decode<protocol::PushRequest>(header, "push");
    if (!request.ok()) return request.status();
    const bool pull = request->disposition == protocol::Disposition::kPull && !request->step_lane;
    if (!pull && !connection_->peer_roles().Has(net::CertificateRole::kWorker))
      return Status(Code::kPermissionDenied, "only workers may push");
    if (pull) shell_.bytes_of_pulls_ += header.size();
    // A new request replaces the waiting one.
    if (ticket_ != 0) {
      shell_.machine_.Expire(ticket_);
      shell_.SendReady();
    }
    request_ = std::move(*request);
    LEAT_RETURN_IF_ERROR(shell_.machine_.Begin(request_, &elements_));
    BeginRecord(payload_bytes);
    replies_.clear();
    views_.clear();
    memory_ = {};
    segments_.clear();
    if (request_.disposition != protocol::Disposition::kGradient) {
      if (payload_bytes != 0) return Status(Code::kDataLoss, "a push without a gradient has a payload");
      return segments_;
    }
    LEAT_RETURN_IF_ERROR(CheckPayload(payload_bytes));
    if (shell_.machine_.forwards() && payload_bytes > 0) {
      memory_ = shell_.TakeGradients(payload_bytes);
      segments_ = OneAfterTheOther(memory_);
    } else {
      segments_ = PlaceSlices(elements_, payload_bytes);
    }
    return segments_;
  }

  // It is the gradients of the slices, one after the other.
  Status CheckPayload(uint64_t bytes) const {
    uint64_t total = 0;
    for (const uint64_t n : elements_) total += n * sizeof(float);
    if (total == bytes) return {};
    return {Code::kDataLoss,
            "payload has " + std::to_string(bytes) + " bytes; its slices have " + std::to_string(total)};
  }

  net::Places OnForward(ByteView header, uint64_t payload_bytes) {
    if (*unsent_ >= kMaxUnsentForwards)
      return Status(Code::kResourceExhausted, "the server has not read " + std::to_string(*unsent_) +
                                                  " answers and forwards another push");
    LEAT_ASSIGN_OR_RETURN(forward_, fields::Decode<protocol::ForwardRequest>(header, "forward"));
    LEAT_RETURN_IF_ERROR(shell_.machine_.BeginForward(forward_, &elements_));
    views_.clear();
    segments_.clear();
    LEAT_RETURN_IF_ERROR(CheckPayload(payload_bytes));
    if (payload_bytes == 0) return segments_;
    if (gradients_.size() < payload_bytes) gradients_ = Buffer(payload_bytes);
    segments_ = OneAfterTheOther(gradients_);
    return segments_;
  }

  void OnForwarded() {
    for (size_t i = views_.size(); i < segments_.size(); ++i) views_.push_back(Floats(segments_[i]));
    const auto reply = shell_.machine_.TakeForward(forward_, views_);
    shell_.at_point_(Point::kTaken);
    ++*unsent_;
    connection_->Send(wire::FrameType::kForwardReply, fields::Encode(reply), {},
                      [unsent = unsent_](const Status&) { --*unsent; });
    shell_.SendReady();
    if (shell_.machine_.HeartbeatUrgent()) shell_.on_urgent_();
  }

  // The gradients in memory that has room for all of them.
  net::Spans OneAfterTheOther(const Buffer& memory) const {
    net::Spans spans;
    uint64_t at = 0;
    for (const uint64_t n : elements_) {
      spans.push_back(memory.bytes().subspan(at, n * sizeof(float)));
      at += n * sizeof(float);
    }
    return spans;
  }

  void OnMovedSlice(net::Connection& connection) {
    auto arrived = moves_.OnMessage();
    if (!arrived.ok()) return connection.Close(arrived.status());
    if (!*arrived) return;
    shell_.at_point_(Point::kMoveArrived);
    shell_.arrived_moves_[(*arrived)->move] = this;
    if (!(*arrived)->status.ok()) shell_.AnswerMove((*arrived)->move, (*arrived)->status);
    shell_.SendReady();
    shell_.on_urgent_();
  }

  static std::span<const float> Floats(ByteView bytes) {
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

  void Apply(size_t i, ByteView gradient) {
    replies_.push_back(shell_.machine_.Apply(request_, i, Floats(gradient)));
  }
  // Applies the gradients that were accepted in place before one that had to be copied.
  void ApplyViews() {
    for (size_t i = replies_.size(); i < views_.size(); ++i) {
      replies_.push_back(shell_.machine_.Apply(request_, i, views_[i]));
    }
  }

  void Send(const protocol::PushReply& reply) {
    std::vector<ByteView> payload;
    std::vector<Buffer> memories;
    size_t total = 0;
    for (const auto& slice : reply.slices) {
      if (!slice.values) continue;
      auto held = shell_.machine_.Values(slice.slice, slice.version);
      payload.push_back(std::as_bytes(held.values));
      memories.push_back(std::move(held.memory));
      total += payload.back().size();
    }
    shell_.bytes_out_ += total;
    std::shared_ptr<const void> owner;  // a slice may move to another server while its values are sent
    if (total < payload.size() * kSmallBytes) {
      const auto copy = std::make_shared<Bytes>();
      copy->reserve(total);
      for (const auto& piece : payload) copy->insert(copy->end(), piece.begin(), piece.end());
      payload = {*copy};
      owner = copy;
    } else {
      owner = std::make_shared<std::vector<Buffer>>(std::move(memories));
    }
    ++*unsent_;
    connection_->Send(wire::FrameType::kPushReply, fields::Encode(reply), std::move(payload),
                      [owner = std::move(owner), unsent = unsent_](const Status&) { --*unsent; });
  }

  // Assigns the destination of each gradient in a ring buffer. Each slice is applied as soon as it has
  // arrived, so a ring of a few slices is enough for a push of any size. A span that reuses memory must begin
  // at least kReadAhead behind the end of the earlier one, so the ring has that size plus two spans and the
  // unused end. The job's variables bound all sizes.
  net::Spans PlaceSlices(const std::vector<uint64_t>& elements, uint64_t total) {
    if (elements.empty()) return {};
    const uint64_t largest = *std::ranges::max_element(elements) * sizeof(float);
    const uint64_t ring = std::min(total, 3 * largest + net::kReadAhead);
    if (gradients_.size() < ring) gradients_ = Buffer(ring);
    net::Spans spans;
    uint64_t at = 0;
    for (const uint64_t n : elements) {
      const uint64_t bytes = n * sizeof(float);
      if (at + bytes > gradients_.size()) at = 0;
      spans.push_back(gradients_.bytes().subspan(at, bytes));
      at += bytes;
    }
    return spans;
  }

  // Slices with a smaller average size are copied together, which is cheaper than passing each to the kernel.
  static constexpr size_t kSmallBytes = 1 << 10;
  // The limit of replies that are not sent. Each may keep an earlier version of all slices. A worker waits
  // for a reply before it sends another push, unless the reply is late.
  static constexpr uint32_t kMaxUnsent = 16;
  // The limit of unsent answers to another server.
  static constexpr uint32_t kMaxUnsentForwards = 1 << 14;

  ServerShell& shell_;
  std::unique_ptr<net::Connection> connection_;
  wire::FrameType type_ = wire::FrameType::kPush;  // type of the current message
  MoveReceiver moves_{shell_.machine_};
  protocol::PushRequest request_;
  protocol::ForwardRequest forward_;
  Buffer memory_;                   // gradients of a forwarded push
  std::vector<uint64_t> elements_;  // number of gradients, by slice
  std::vector<protocol::SliceReply> replies_;
  net::Spans segments_;
  std::vector<std::span<const float>> views_;  // the gradients of the first slices, in the worker's memory
  Buffer gradients_;
  timeline::Span applied_;  // the push that is applied; without a beginning: it is not recorded
  uint64_t ticket_ = 0;     // number of the request that waits for its reply
  std::shared_ptr<uint32_t> unsent_ = std::make_shared<uint32_t>(0);  // replies; outlives the session
};

ServerShell::ServerShell(net::Loop& loop, protocol::ServerConfig config, Duration parked_timeout)
    : loop_(loop), parked_timeout_(parked_timeout), machine_(config), allocate_(std::move(config.allocate)) {}

ServerShell::~ServerShell() {
  loop_.Cancel(timer_);
}

std::vector<protocol::ServerAction> ServerShell::OnHeartbeatReply(
    const protocol::ServerHeartbeatReply& reply) {
  auto actions = machine_.OnHeartbeatReply(reply);
  SendReady();
  return actions;
}

void ServerShell::SendMovesBy(net::Transport& transport, std::function<void()> on_urgent) {
  on_urgent_ = std::move(on_urgent);
  const auto on_move = [this] {
    SendReady();
    on_urgent_();
  };
  peers_.emplace(loop_, transport, machine_, on_move, [this] {
    at_point_(Point::kAcknowledged);
    SendReady();
    if (machine_.HeartbeatUrgent()) on_urgent_();
  });
}

Buffer ServerShell::TakeGradients(uint64_t bytes) {
  // Each worker waits for its push, so there are few.
  constexpr size_t kMost = 64;
  for (Buffer& buffer : gradients_) {
    if (!buffer.shared() && buffer.size() >= bytes) return buffer;
  }
  std::erase_if(gradients_, [](const Buffer& buffer) { return !buffer.shared(); });
  Buffer fresh = allocate_ ? allocate_(bytes) : Buffer(bytes);
  if (gradients_.size() < kMost) gradients_.push_back(fresh);
  return fresh;
}

void ServerShell::DoForwards() {
  for (const protocol::ForwardAction& action : machine_.TakeForwards()) {
    if (!peers_) continue;
    std::visit([this](const auto& a) { peers_->Act(a); }, action);
    if (std::holds_alternative<protocol::Forward>(action)) at_point_(Point::kForwarded);
  }
}

void ServerShell::DoMoves() {
  const auto act = [this]<class Action>(const Action& a) {
    if constexpr (std::is_same_v<Action, protocol::AnswerMove>) {
      AnswerMove(a.id, a.status);
    } else {
      if (std::is_same_v<Action, protocol::ConnectMove>) at_point_(Point::kMoveOrdered);
      if (std::is_same_v<Action, protocol::SendMove>) at_point_(Point::kMoveFrozen);
      if (peers_) peers_->Act(a);
    }
  };
  for (auto actions = machine_.TakeMoveActions(); !actions.empty(); actions = machine_.TakeMoveActions()) {
    for (const protocol::MoveAction& action : actions) std::visit(act, action);
  }
}

void ServerShell::AnswerMove(uint64_t move, const Status& status) {
  if (const auto session = arrived_moves_.extract(move)) session.mapped()->AnswerMove(move, status);
}

void ServerShell::SendReady() {
  DoForwards();
  DoMoves();
  for (const auto& ready : machine_.TakeReady()) {
    const auto at = parked_.extract(ready.ticket);
    if (at) at.mapped()->SendParked(ready.reply);
  }
}

void ServerShell::Park(uint64_t ticket, Session* session) {
  // Most have been answered already.
  while (!parked_since_.empty() && !parked_.contains(parked_since_.front().second)) parked_since_.pop_front();
  parked_.emplace(ticket, session);
  parked_since_.emplace_back(loop_.Now(), ticket);
  if (timer_ == 0) timer_ = loop_.After(parked_timeout_, [this] { ExpireParked(); });
}

void ServerShell::ExpireParked() {
  timer_ = 0;
  const Time now = loop_.Now();
  while (!parked_since_.empty() && now - parked_since_.front().first >= parked_timeout_) {
    machine_.Expire(parked_since_.front().second);
    parked_since_.pop_front();
  }
  SendReady();
  while (!parked_since_.empty() && !parked_.contains(parked_since_.front().second)) {
    parked_since_.pop_front();
  }
  if (parked_since_.empty()) return;
  timer_ = loop_.After(parked_timeout_ - (now - parked_since_.front().first), [this] { ExpireParked(); });
}

net::Receiver* ServerShell::Adopt(std::unique_ptr<net::Connection> connection) {
  auto session = std::make_unique<Session>(*this, std::move(connection));
  auto* raw = session.get();
  sessions_.emplace(raw, std::move(session));
  return raw;
}

}  // namespace leat::ps
