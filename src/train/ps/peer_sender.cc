#include "train/ps/peer_sender.h"

#include <deque>
#include <utility>
#include <vector>

#include "net/frames/frame.h"
#include "net/frames/messages.h"
#include "train/ps/client.h"

namespace leat::ps {

namespace {

// Time limit of one attempt; the coordinator orders the move again, or another replica.
constexpr Duration kConnectTimeout = std::chrono::seconds(3);
// Longer than a role may be silent before it is evicted: this is for servers that cannot reach each other.
constexpr Duration kAnswerTimeout = std::chrono::seconds(3);

}  // namespace

// The connection to one server, with at most one move at a time.
class PeerSender::MoveLink final : public ServerLink {
 public:
  explicit MoveLink(PeerSender& sender) : sender_(sender) {}

  void Begin(const protocol::ConnectMove& a) {
    move_ = a.id;
    if (connected()) return sender_.machine_.OnMoveConnected(move_);
    Connect(sender_.transport_, a.address, kConnectTimeout);
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
      sender_.bytes_moved_ += state->size() + slice.memory.size();
      connection().Send(wire::FrameType::kMove, fields::Encode(header), {*state, slice.memory.bytes()},
                        [state, held = moved.slice](const Status&) {});
    }
    sent_ = true;
  }

  // The move that it works on; 0: none, or it has been answered.
  uint64_t move() const { return move_; }
  bool sent() const { return sent_; }
  uint64_t Rest() {
    sent_ = false;
    return std::exchange(move_, 0);
  }

 private:
  void OnConnected() override {
    sender_.machine_.OnMoveConnected(move_);
    sender_.on_move_();
  }

  net::Places OnHeader(net::Connection&, uint8_t type, ByteView header, uint64_t payload_bytes) override {
    if (type != wire::FrameType::kMoveReply || payload_bytes != 0) {
      return Status(Code::kDataLoss,
                    "unexpected frame type " + std::to_string(type) + " in answer to slices that move");
    }
    LEAT_ASSIGN_OR_RETURN(reply_, fields::Decode<wire::MoveReply>(header, "answer to a move"));
    return net::Spans();
  }

  void OnMessage(net::Connection&) override {
    if (reply_.move != move_ || !sent_) return;
    const auto self = shared_from_this();  // the event may drop this connection
    if (!reply_.status.ok()) return OnLost(reply_.status);
    sender_.machine_.OnMoveTaken(Rest());
    sender_.on_move_();
  }

  void OnLost(const Status& why) override {
    const uint64_t move = Rest();
    if (move == 0) return;
    sender_.machine_.OnMoveFailed(move, why);
    sender_.on_move_();
  }

  PeerSender& sender_;
  uint64_t move_ = 0;
  bool sent_ = false;
  wire::MoveReply reply_;
};

// The connection to one server for the replicas there.
class PeerSender::ForwardLink final : public ServerLink {
 public:
  ForwardLink(PeerSender& sender, NodeId server, uint64_t link)
      : sender_(sender), server_(server), link_(link) {}

  uint64_t link() const { return link_; }

  void Begin(const std::string& address) { Connect(sender_.transport_, address, kConnectTimeout); }

  void Send(const protocol::Forward& a) {
    sent_.emplace_back(a.request->number, sender_.loop_.Now());
    if (timer_ == 0) SetTimer();
    connected() ? Transmit(a) : waiting_.push_back(a);
  }

  void Detach() override {
    sender_.loop_.Cancel(timer_);
    waiting_.clear();
    ServerLink::Detach();
  }

 private:
  void OnConnected() override {
    for (const auto& waiting : std::exchange(waiting_, {})) Transmit(waiting);
  }

  void Transmit(const protocol::Forward& a) {
    std::vector<ByteView> payload;
    for (const auto& gradient : a.gradients) {
      AppendSpan<const std::byte>(std::as_bytes(gradient), &payload);
      sender_.bytes_forwarded_ += gradient.size_bytes();
    }
    connection().Send(wire::FrameType::kForward, fields::Encode(*a.request), std::move(payload),
                      [held = a.memory](const Status&) {});
  }

  net::Places OnHeader(net::Connection&, uint8_t type, ByteView header, uint64_t payload_bytes) override {
    if (type != wire::FrameType::kForwardReply || payload_bytes != 0) {
      return Status(Code::kDataLoss,
                    "unexpected frame type " + std::to_string(type) + " in answer to a forwarded push");
    }
    LEAT_ASSIGN_OR_RETURN(reply_, fields::Decode<protocol::ForwardReply>(header, "answer to a forward"));
    return net::Spans();
  }

  void OnMessage(net::Connection&) override {
    const auto self = shared_from_this();  // the event may drop this connection
    while (!sent_.empty() && sent_.front().first <= reply_.number) sent_.pop_front();
    sender_.machine_.OnForwarded(server_, reply_);
    sender_.on_forward_();
  }

  void OnLost(const Status& why) override {
    sender_.machine_.OnForwardFailed(server_, link_, why);
    sender_.on_forward_();
  }

  void SetTimer() {
    timer_ = sender_.loop_.After(kAnswerTimeout / 2, [this] {
      timer_ = 0;
      if (sent_.empty()) return;
      if (sender_.loop_.Now() - sent_.front().second >= kAnswerTimeout)
        return OnLost(Status(Code::kDeadlineExceeded, "no answer"));
      SetTimer();
    });
  }

  PeerSender& sender_;
  const NodeId server_;
  const uint64_t link_;
  std::vector<protocol::Forward> waiting_;      // for the connection
  std::deque<std::pair<uint64_t, Time>> sent_;  // numbers that are not answered, and since when
  uint64_t timer_ = 0;                          // 0: nothing is unanswered
  protocol::ForwardReply reply_;
};

PeerSender::PeerSender(net::Loop& loop, net::Transport& transport, protocol::Server& machine,
                       std::function<void()> on_move, std::function<void()> on_forward)
    : loop_(loop),
      transport_(transport),
      machine_(machine),
      on_move_(std::move(on_move)),
      on_forward_(std::move(on_forward)) {}

PeerSender::~PeerSender() {
  for (auto& [node, link] : moves_) link->Detach();
  for (auto& [node, link] : forwards_) link->Detach();
}

void PeerSender::Act(const protocol::ConnectMove& a) {
  // Connections to other servers have no move any more, or one that is about to be dropped.
  std::erase_if(moves_, [&](const auto& entry) {
    const bool drops = entry.second->move() == 0 && (entry.first != a.to || !entry.second->connected());
    if (drops) entry.second->Detach();
    return drops;
  });
  auto& link = moves_[a.to];
  if (link != nullptr && link->move() != 0) {
    link->Detach();
    link.reset();
  }
  if (link == nullptr) link = std::make_shared<MoveLink>(*this);
  link->Begin(a);
}

void PeerSender::Act(const protocol::SendMove& a) {
  for (auto& [node, link] : moves_) {
    if (link->move() == a.id && link->connected()) return link->Send(a);
  }
  machine_.OnMoveFailed(a.id, Status(Code::kUnavailable, "the connection is gone"));
}

void PeerSender::Act(const protocol::DropMove& a) {
  std::erase_if(moves_, [&](const auto& entry) {
    const auto& link = entry.second;
    if (link->move() != a.id) return false;
    // The answer to a sent move is useless now, and its unsent bytes would delay the next move.
    const bool drops = link->sent() || !link->connected();
    drops ? link->Detach() : (void)link->Rest();
    return drops;
  });
}

void PeerSender::Act(const protocol::Forward& a) {
  auto& link = forwards_[a.to];
  if (link != nullptr && link->link() != a.request->link) {
    link->Detach();
    link.reset();
  }
  if (link == nullptr) {
    link = std::make_shared<ForwardLink>(*this, a.to, a.request->link);
    link->Begin(a.address);
  }
  link->Send(a);
}

void PeerSender::Act(const protocol::DropLink& a) {
  if (auto link = forwards_.extract(a.to)) link.mapped()->Detach();
}

}  // namespace leat::ps
