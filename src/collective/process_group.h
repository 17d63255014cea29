// The connections of one member to the others of its group: made by a deadline, watched, and taken down at
// once when one fails, with a word to the others about who it was. protocol::PeerConnections decides; this
// moves the messages.
//
// Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/channel.h"
#include "collective/messages.h"
#include "collective/port.h"
#include "net/transport.h"
#include "protocol/peer_connections.h"

namespace leat::collective {

struct ProcessGroupOptions {
  uint64_t group = 1;  // its number, never 0: a later group of the same processes has a higher one
  uint32_t rank = 0;
  std::vector<std::string> addresses;  // of the ports of all members, by rank
  Duration form_deadline = std::chrono::seconds(20);
};

class ProcessGroup final : private Channel::Owner {
 public:
  class User {
   public:
    // Once, unless it ends before.
    virtual void OnFormed() = 0;
    // As net::Receiver's, of data from that peer.
    virtual Result<std::vector<std::span<std::byte>>> OnPieceHeader(uint32_t peer, ByteView header,
                                                                    uint64_t payload_bytes) = 0;
    // As net::Receiver::OnView, of all of the payload; OnPiece follows.
    virtual bool OnPieceView(uint32_t peer, ByteView payload) = 0;
    virtual void OnPiece(uint32_t peer) = 0;
    // A control message other than the group's own.
    virtual void OnControl(uint32_t peer, MessageType type, ByteView header) = 0;
    // Nothing comes any more and no memory that was handed over is touched; why is not known for certain yet.
    virtual void OnStopped() = 0;
    // The last upcall, from the loop.
    virtual void OnEnded(const Status& why) = 0;

   protected:
    ~User() = default;
  };

  // Starts to form it. All of these outlive it.
  ProcessGroup(net::Loop& loop, net::Transport& transport, Port& port, ProcessGroupOptions options,
               User* user);
  // No upcall any more; peers see it go.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  const ProcessGroupOptions& options() const { return options_; }
  uint32_t members() const { return static_cast<uint32_t>(options_.addresses.size()); }
  bool formed() const { return connections_.formed(); }
  std::optional<uint32_t> lost() const { return lost_; }

  // To a peer that it is connected to (protocol::ReducePeers). As net::Connection::Send.
  void SendPiece(uint32_t peer, Bytes header, ByteView payload, std::function<void(const Status&)> done);
  void SendControl(uint32_t peer, MessageType type, Bytes header);
  // Of pieces from that peer, as net::Connection's.
  void HoldView(uint32_t peer);
  void ReleaseView(uint32_t peer);
  // Ends it; `lost`: the member it is put down to. From an upcall, too.
  void Stop(Status why, std::optional<uint32_t> lost);

 private:
  struct Pair {
    uint32_t peer = 0;
    std::unique_ptr<Channel> channels[2];  // by ChannelKind; null: gone, or not there yet
  };

  void Dial(uint32_t peer, ChannelKind kind);
  void Take(const Greet& greet, std::unique_ptr<Channel> channel);
  bool Forming() const { return connections_.phase() == protocol::PeerConnections::Phase::kForming; }
  void Formed();
  Pair* PairWith(uint32_t peer);
  std::pair<Pair*, ChannelKind> Find(const Channel& channel);
  std::string Name(uint32_t rank) const;
  void Halt();

  Result<std::vector<std::span<std::byte>>> OnHeader(Channel& channel, uint8_t type, ByteView header,
                                                     uint64_t payload_bytes) override;
  bool OnView(Channel& channel, ByteView payload) override;
  void OnMessage(Channel& channel) override;
  void OnClosed(Channel& channel, const Status& why) override;

  net::Loop& loop_;
  net::Transport& transport_;
  Port& port_;
  const ProcessGroupOptions options_;
  User* const user_;
  protocol::PeerConnections connections_;
  std::vector<Pair> pairs_;
  uint64_t timer_ = 0;  // of forming, then of suspecting
  Time form_until_{};
  std::optional<uint32_t> lost_;
  Status suspicion_;
  MessageType control_ = MessageType::kGreet;  // of the control message that is arriving
  Bytes control_header_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  // false once destroyed
};

}  // namespace leat::collective
