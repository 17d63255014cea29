// Accepts connections for the groups of a process. It outlives the groups: a member that learns of a new
// group first may connect early, and waits until this process learns of it. Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "net/transport.h"
#include "train/collective/channel.h"
#include "train/collective/messages.h"

namespace leat::collective {

class Port final : private Channel::Owner {
 public:
  // Limit of connections that have not greeted, or whose group is not expected yet. Beyond it the oldest is
  // closed.
  static constexpr size_t kMaxWaiting = 1024;

  Port() = default;
  // Channels taken by groups stay open.
  ~Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // For net::Transport::Listen.
  net::Receiver* Adopt(std::unique_ptr<net::Connection> connection);

  // From now on passes connections of this group to `take`, including waiting ones, and refuses those of
  // lower groups. One group at a time. `take` refuses a channel by not keeping it.
  using Take = std::function<void(const Greet&, std::unique_ptr<Channel>)>;
  void Expect(uint64_t group, Take take);
  // From now on passes connections of those that follow the parameters to `take`, with their first request,
  // which the new owner of the channel then gets. Null: they are refused.
  using TakeFollower = std::function<void(std::unique_ptr<Channel>)>;
  void ExpectFollowers(TakeFollower take) { take_follower_ = std::move(take); }
  // Stops accepting for this group if it is the expected one.
  void Forget(uint64_t group);

 private:
  struct Caller {
    std::unique_ptr<Channel> channel;
    bool greeted = false;
    Greet greet;
  };

  Result<std::vector<std::span<std::byte>>> OnHeader(Channel& channel, uint8_t type, ByteView header,
                                                     uint64_t payload_bytes) override;
  void OnMessage(Channel& channel) override;
  void OnClosed(Channel& channel, const Status& why) override;
  std::list<Caller>::iterator Find(const Channel& channel);
  Result<std::vector<std::span<std::byte>>> OnFollower(std::list<Caller>::iterator caller, ByteView header,
                                                       uint64_t payload_bytes);

  std::list<Caller> callers_;
  uint64_t group_ = 0;
  Take take_;
  TakeFollower take_follower_;
};

}  // namespace leat::collective
