#include "train/ps/client.h"

#include <memory>
#include <utility>

#include "net/frames/frame.h"

namespace leat::ps {

// The connection to one server, with at most one pending request.
class Client::ServerConnection final : public ServerLink {
 public:
  ServerConnection(Client& client, NodeId server) : client_(client), server_(server) {}

  void Send(const protocol::SendPush& push) {
    request_ = push.request;
    if (connected()) return Transmit();
    Connect(client_.transport_, push.address, client_.connect_deadline_);
  }

 private:
  net::Places OnHeader(net::Connection&, uint8_t type, ByteView header, uint64_t payload_bytes) override {
    if (type != wire::FrameType::kPushReply) {
      return Status(Code::kDataLoss,
                    "unexpected frame type " + std::to_string(type) + ": a worker takes push replies only");
    }
    auto reply = fields::Decode<protocol::PushReply>(header, "push reply");
    if (!reply.ok()) return reply.status();
    if (!request_ || reply->sequence != request_->sequence) {
      return Status(Code::kDataLoss, "a reply to a push that is not pending");
    }
    if (reply->slices.size() != request_->slices.size()) {
      return Status(Code::kDataLoss, "a reply for " + std::to_string(reply->slices.size()) +
                                         " slices to a push of " + std::to_string(request_->slices.size()));
    }
    net::Spans segments;
    uint64_t total = 0;
    for (size_t i = 0; i < reply->slices.size(); ++i) {
      if (reply->slices[i].slice != request_->slices[i].slice)
        return Status(Code::kDataLoss, "a reply with other slices than the push");
      if (!reply->slices[i].values) continue;
      const auto values = std::as_writable_bytes(client_.parameters_->values(reply->slices[i].slice));
      AppendSpan<std::byte>(values, &segments);
      total += values.size();
    }
    if (total != payload_bytes) {
      return Status(Code::kDataLoss, "payload has " + std::to_string(payload_bytes) +
                                         " bytes; its slices have " + std::to_string(total));
    }
    reply_ = std::move(*reply);
    return segments;
  }

  void OnMessage(net::Connection&) override {
    const auto self = shared_from_this();  // the event may drop this connection
    request_.reset();
    if (lent_ != nullptr) *std::exchange(lent_, nullptr) = {};
    const auto reply = std::move(reply_);
    client_.events_.on_reply(server_, reply);
  }

  void OnSilence(net::Connection&, bool silent) override { ReportSilence(silent); }
  void ReportSilence(bool silent) {
    if (client_.events_.on_silence) client_.events_.on_silence(server_, silent);
  }

  void Transmit() {
    std::vector<ByteView> payload;
    if (request_->disposition == protocol::Disposition::kGradient) {
      for (const auto& slice : request_->slices) {
        const std::span<const float> gradients = client_.parameters_->gradients(slice.slice);
        AppendSpan<const std::byte>(std::as_bytes(gradients), &payload);
      }
    }
    if (!payload.empty()) lent_ = std::make_shared<Buffer>(client_.parameters_->gradient_buffer());
    connection().Send(wire::FrameType::kPush, fields::Encode(*request_), std::move(payload),
                      [held = lent_](const Status&) {});
  }

  void OnConnected() override {
    Transmit();
    ReportSilence(false);
  }

  void OnUnreachable(const Status& why) override {
    if (why.code() == Code::kDeadlineExceeded) ReportSilence(true);
    if (!detached()) OnLost(why);  // the event may have disconnected
  }

  void OnLost(const Status& why) override {
    if (!request_) return;
    const uint64_t sequence = request_->sequence;
    request_.reset();
    client_.events_.on_failed(server_, sequence, why);
  }

  Client& client_;
  const NodeId server_;
  std::shared_ptr<const protocol::PushRequest> request_;  // null: none pending
  // Keeps the memory of the gradients until the reply, after which the server no longer reads it. If the
  // connection ends first, the connection keeps it.
  std::shared_ptr<Buffer> lent_;
  protocol::PushReply reply_;
};

Client::~Client() {
  for (auto& [node, server_connection] : connections_) server_connection->Detach();
}

void Client::Send(const protocol::SendPush& push) {
  auto& server_connection = connections_[push.server];
  if (server_connection == nullptr)
    server_connection = std::make_shared<ServerConnection>(*this, push.server);
  server_connection->Send(push);
}

void Client::Disconnect(NodeId server) {
  if (auto server_connection = connections_.extract(server)) server_connection.mapped()->Detach();
}

}  // namespace leat::ps
