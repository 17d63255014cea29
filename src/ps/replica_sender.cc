#include "ps/replica_sender.h"

#include <deque>
#include <utility>
#include <vector>

#include "wire/frame.h"
#include "wire/messages.h"

namespace leat::ps {

namespace {

constexpr Duration kReplicaConnectTimeout = std::chrono::seconds(3);
// Longer than a role may be silent before it is evicted: this is for servers that cannot reach each other.
constexpr Duration kAnswerTimeout = std::chrono::seconds(3);

// Slices that are adjacent in memory are sent as one span.
std::vector<ByteView> PayloadOf(const protocol::Forward& a) {
  std::vector<ByteView> payload;
  for (const auto& gradient : a.gradients) {
    const ByteView bytes = std::as_bytes(gradient);
    if (!payload.empty() && payload.back().data() + payload.back().size() == bytes.data()) {
      payload.back() = {payload.back().data(), payload.back().size() + bytes.size()};
    } else {
      payload.push_back(bytes);
    }
  }
  return payload;
}

}  // namespace

// One link.
class ReplicaSender::ServerConnection : public net::Receiver,
                                        public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(ReplicaSender& sender, NodeId server, uint64_t link)
      : sender_(&sender), server_(server), link_(link) {}

  uint64_t link() const { return link_; }

  void Connect(const std::string& address) {
    sender_->transport_.Connect(
        address, this, kReplicaConnectTimeout,
        [self = shared_from_this()](Result<std::unique_ptr<net::Connection>> connection) {
          if (self->sender_ == nullptr) return;
          if (!connection.ok()) return self->Fail(connection.status());
          self->connection_ = std::move(*connection);
          for (const auto& waiting : std::exchange(self->waiting_, {})) self->Transmit(waiting);
        });
  }

  void Send(const protocol::Forward& a) {
    sent_.emplace_back(a.request->number, sender_->loop_.Now());
    if (timer_ == 0) SetTimer();
    connection_ != nullptr ? Transmit(a) : waiting_.push_back(a);
  }

  // No event and no memory access from here on.
  void Detach() {
    sender_->loop_.Cancel(timer_);
    sender_ = nullptr;
    connection_.reset();
    waiting_.clear();
  }

  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t type, ByteView header,
                                                     uint64_t payload_bytes) override {
    if (type != static_cast<uint8_t>(wire::FrameType::kForwardReply) || payload_bytes != 0) {
      return Status(Code::kDataLoss,
                    "unexpected frame type " + std::to_string(type) + " in answer to a forwarded push");
    }
    LEAT_ASSIGN_OR_RETURN(reply_, fields::Decode<protocol::ForwardReply>(header, "answer to a forward"));
    return std::vector<std::span<std::byte>>();
  }

  void OnMessage(net::Connection&) override {
    const auto self = shared_from_this();  // the event may drop this connection
    while (!sent_.empty() && sent_.front().first <= reply_.number) sent_.pop_front();
    sender_->machine_.OnForwarded(server_, reply_);
    sender_->on_input_();
  }

  void OnClosed(net::Connection&, const Status& why) override {
    const auto self = shared_from_this();
    const Status reason = why;
    connection_.reset();
    Fail(reason);
  }

 private:
  void Transmit(const protocol::Forward& a) {
    std::vector<ByteView> payload = PayloadOf(a);
    for (const ByteView& part : payload) sender_->bytes_ += part.size();
    connection_->Send(static_cast<uint8_t>(wire::FrameType::kForward), wire::Encode(*a.request),
                      std::move(payload), [held = a.memory](const Status&) {});
  }

  void SetTimer() {
    timer_ = sender_->loop_.After(kAnswerTimeout / 2, [this] {
      timer_ = 0;
      if (sent_.empty()) return;
      if (sender_->loop_.Now() - sent_.front().second >= kAnswerTimeout)
        return Fail(Status(Code::kDeadlineExceeded, "no answer"));
      SetTimer();
    });
  }

  void Fail(const Status& why) { sender_->Fail(server_, link_, why); }

  ReplicaSender* sender_;  // null once detached
  const NodeId server_;
  const uint64_t link_;
  std::unique_ptr<net::Connection> connection_;
  std::vector<protocol::Forward> waiting_;      // for the connection
  std::deque<std::pair<uint64_t, Time>> sent_;  // numbers that are not answered, and since when
  uint64_t timer_ = 0;                          // 0: nothing is unanswered
  protocol::ForwardReply reply_;
};

ReplicaSender::ReplicaSender(net::Loop& loop, net::Transport& transport, protocol::Server& machine,
                             std::function<void()> on_input)
    : loop_(loop), transport_(transport), machine_(machine), on_input_(std::move(on_input)) {}

ReplicaSender::~ReplicaSender() {
  for (auto& [node, connection] : connections_) connection->Detach();
}

void ReplicaSender::Act(const protocol::Forward& a) {
  auto& connection = connections_[a.to];
  if (connection != nullptr && connection->link() != a.request->link) {
    connection->Detach();
    connection.reset();
  }
  if (connection == nullptr) {
    connection = std::make_shared<ServerConnection>(*this, a.to, a.request->link);
    connection->Connect(a.address);
  }
  connection->Send(a);
}

void ReplicaSender::Act(const protocol::DropLink& a) {
  if (auto connection = connections_.extract(a.to)) connection.mapped()->Detach();
}

void ReplicaSender::Fail(NodeId server, uint64_t link, const Status& why) {
  machine_.OnForwardFailed(server, link, why);
  on_input_();
}

}  // namespace leat::ps
