// The connections of one member to the others of its group. They are made by a deadline and monitored; if one
// fails, all are closed, and the others learn which member failed. Decisions are protocol::PeerConnections'.
// Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/transport.h"
#include "protocol/allreduce/reduction.h"
#include "train/collective/port.h"

namespace leat::collective {

struct ProcessGroupOptions {
  uint64_t group = 1;  // its number, never 0; later groups of the same processes have higher numbers
  uint32_t rank = 0;
  std::vector<std::string> addresses;  // members' addresses, by rank
  Duration form_deadline = std::chrono::seconds(20);
};

class ProcessGroup final : private Channel::Owner {
 public:
  class User {
   public:
    // Called once, unless the group ends first.
    virtual void OnFormed() = 0;
    // As net::Receiver::OnHeader, for data from that peer.
    virtual net::Places OnPieceHeader(uint32_t peer, ByteView header, uint64_t payload_bytes) = 0;
    // As net::Receiver::OnView, for the whole payload. OnPiece follows.
    virtual bool OnPieceView(uint32_t peer, ByteView payload) = 0;
    virtual void OnPiece(uint32_t peer) = 0;
    // A control message other than the group's own.
    virtual void OnControl(uint32_t peer, MessageType type, ByteView header) = 0;
    // The group has stopped: no more pieces, no access to memory. The cause may not be known yet.
    virtual void OnStopped() = 0;
    // The last callback, from the loop.
    virtual void OnEnded(const Status& why) = 0;

   protected:
    ~User() = default;
  };

  // Starts to form the group. All arguments must outlive it.
  ProcessGroup(net::Loop& loop, net::Transport& transport, Port& port, ProcessGroupOptions options,
               User* user);
  // Stops callbacks; peers see the connections closed.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  const ProcessGroupOptions& options() const { return options_; }
  uint32_t members() const { return static_cast<uint32_t>(options_.addresses.size()); }
  bool formed() const { return connections_.formed(); }
  std::optional<uint32_t> lost() const { return lost_; }
  // As AllReduce's.
  std::optional<uint32_t> unreachable() const { return unreachable_; }

  // Sends to a connected peer (protocol::ReducePeers), as net::Connection::Send.
  void SendPiece(uint32_t peer, Bytes header, ByteView payload, net::Done done);
  void SendControl(uint32_t peer, MessageType type, Bytes header);
  // As net::Connection's, for pieces from that peer.
  void HoldView(uint32_t peer);
  void ReleaseView(uint32_t peer);
  // Ends the group; `lost` is the member that caused it. May be called from a callback.
  void Stop(Status why, std::optional<uint32_t> lost);
  // Ends the group because of a member that this one cannot reach.
  void StopUnreachable(Status why, uint32_t peer);

 private:
  struct Pair {
    uint32_t peer = 0;
    std::unique_ptr<Channel> channels[2];  // by ChannelKind; null: closed, or not connected yet
  };

  void Dial(uint32_t peer, ChannelKind kind);
  void Take(const Greet& greet, std::unique_ptr<Channel> channel);
  bool Forming() const { return connections_.phase() == protocol::PeerConnections::Phase::kForming; }
  void Formed();
  Pair* PairWith(uint32_t peer);
  std::pair<Pair*, ChannelKind> Find(const Channel& channel);
  std::string Name(uint32_t rank) const;
  void Halt();

  net::Places OnHeader(Channel& channel, uint8_t type, ByteView header, uint64_t payload_bytes) override;
  bool OnView(Channel& channel, ByteView payload) override;
  void OnMessage(Channel& channel) override;
  void OnSilence(Channel& channel, bool silent) override;
  void OnClosed(Channel& channel, const Status& why) override;

  net::Loop& loop_;
  net::Transport& transport_;
  Port& port_;
  const ProcessGroupOptions options_;
  User* const user_;
  protocol::PeerConnections connections_;
  std::vector<Pair> pairs_;
  uint64_t timer_ = 0;  // while forming, then while suspecting
  Time form_until_{};
  std::optional<uint32_t> lost_, unreachable_;
  Status suspicion_;
  MessageType control_ = MessageType::kGreet;  // type of the arriving control message
  Bytes control_header_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  // false once destroyed
};

}  // namespace leat::collective
