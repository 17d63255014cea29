#include "ps/move_sender.h"

#include <memory>
#include <utility>
#include <vector>

#include "wire/frame.h"
#include "wire/move.h"

namespace leat::ps {

namespace {

// Of one attempt; the coordinator orders the move again.
constexpr Duration kMoveConnectTimeout = std::chrono::seconds(3);

}  // namespace

// The connection to one server, with at most one move at a time.
class MoveSender::ServerConnection : public net::Receiver,
                                     public std::enable_shared_from_this<ServerConnection> {
 public:
  explicit ServerConnection(MoveSender& sender) : sender_(&sender) {}

  void Connect(const protocol::ConnectMove& a) {
    move_ = a.id;
    if (connection_ != nullptr) return sender_->machine_.OnMoveConnected(move_);
    sender_->transport_.Connect(
        a.address, this, kMoveConnectTimeout,
        [self = shared_from_this()](Result<std::unique_ptr<net::Connection>> connection) {
          if (self->sender_ == nullptr) return;
          if (!connection.ok()) return self->Fail(connection.status());
          self->connection_ = std::move(*connection);
          self->sender_->machine_.OnMoveConnected(self->move_);
          self->sender_->on_input_();
        });
  }

  void Send(const protocol::SendMove& a) {
    uint32_t index = 0;
    for (const protocol::MovedSlice& moved : a.slices) {
      const protocol::Slice& slice = *moved.slice;
      const auto state =
          std::make_shared<Bytes>(fields::Encode(wire::SliceState{slice.ledger, moved.decided}));
      const wire::MoveRequest header{.move = a.id,
                                     .index = index++,
                                     .count = static_cast<uint32_t>(a.slices.size()),
                                     .slice = slice.id,
                                     .incarnation = slice.incarnation,
                                     .version = slice.version,
                                     .events = slice.events,
                                     .saved = moved.saved,
                                     .state_bytes = state->size()};
      std::vector<ByteView> payload{*state, slice.memory.bytes()};
      sender_->bytes_ += state->size() + slice.memory.size();
      connection_->Send(static_cast<uint8_t>(wire::FrameType::kMove), fields::Encode(header),
                        std::move(payload), [state, held = moved.slice](const Status&) {});
    }
    sent_ = true;
  }

  bool connected() const { return connection_ != nullptr; }
  // The move that it works on; 0: none, or it has been answered.
  uint64_t move() const { return move_; }
  bool sent() const { return sent_; }
  void Rest() {
    move_ = 0;
    sent_ = false;
  }
  // No event and no memory access from here on.
  void Detach() {
    sender_ = nullptr;
    connection_.reset();
  }

  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t type, ByteView header,
                                                     uint64_t payload_bytes) override {
    if (type != static_cast<uint8_t>(wire::FrameType::kMoveReply) || payload_bytes != 0) {
      return Status(Code::kDataLoss,
                    "unexpected frame type " + std::to_string(type) + " in answer to slices that move");
    }
    LEAT_ASSIGN_OR_RETURN(reply_, fields::Decode<wire::MoveReply>(header, "answer to a move"));
    return std::vector<std::span<std::byte>>();
  }

  void OnMessage(net::Connection&) override {
    if (reply_.move != move_ || !sent_) return;
    const auto self = shared_from_this();  // the event may drop this connection
    const uint64_t move = move_;
    Rest();
    if (!reply_.status.ok()) return sender_->Fail(move, reply_.status);
    sender_->machine_.OnMoveTaken(move);
    sender_->on_input_();
  }

  void OnClosed(net::Connection&, const Status& why) override {
    const auto self = shared_from_this();
    const Status reason = why;
    connection_.reset();
    Fail(reason);
  }

 private:
  void Fail(const Status& why) {
    const uint64_t move = move_;
    Rest();
    if (move != 0) sender_->Fail(move, why);
  }

  MoveSender* sender_;  // null once detached
  std::unique_ptr<net::Connection> connection_;
  uint64_t move_ = 0;
  bool sent_ = false;
  wire::MoveReply reply_;
};

MoveSender::MoveSender(net::Transport& transport, protocol::Server& machine, std::function<void()> on_input)
    : transport_(transport), machine_(machine), on_input_(std::move(on_input)) {}

MoveSender::~MoveSender() {
  for (auto& [node, connection] : connections_) connection->Detach();
}

void MoveSender::Act(const protocol::ConnectMove& a) {
  // Connections to other servers have no move any more, or one that is about to be dropped.
  std::erase_if(connections_, [&](const auto& entry) {
    const bool drops = entry.second->move() == 0 && (entry.first != a.to || !entry.second->connected());
    if (drops) entry.second->Detach();
    return drops;
  });
  auto& connection = connections_[a.to];
  if (connection != nullptr && connection->move() != 0) {
    connection->Detach();
    connection.reset();
  }
  if (connection == nullptr) connection = std::make_shared<ServerConnection>(*this);
  connection->Connect(a);
}

void MoveSender::Act(const protocol::SendMove& a) {
  for (auto& [node, connection] : connections_) {
    if (connection->move() == a.id && connection->connected()) return connection->Send(a);
  }
  machine_.OnMoveFailed(a.id, Status(Code::kUnavailable, "the connection is gone"));
}

void MoveSender::Act(const protocol::DropMove& a) {
  std::erase_if(connections_, [&](const auto& entry) {
    const auto& connection = entry.second;
    if (connection->move() != a.id) return false;
    // What has not been answered is useless, and what is still being sent would be in the way.
    const bool drops = connection->sent() || !connection->connected();
    drops ? connection->Detach() : connection->Rest();
    return drops;
  });
}

void MoveSender::Fail(uint64_t move, const Status& why) {
  machine_.OnMoveFailed(move, why);
  on_input_();
}

}  // namespace leat::ps
