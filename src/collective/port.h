// Where a process is found by the members of its groups. It outlives them: a member that hears of a new group
// earlier than this one may call already, and is kept waiting until this one hears of it, too.
//
// Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "collective/channel.h"
#include "collective/messages.h"
#include "net/transport.h"

namespace leat::collective {

class Port final : private Channel::Owner {
 public:
  // Callers that have not greeted yet, or for whose group nobody has asked. Beyond it the oldest goes.
  static constexpr size_t kMaxWaiting = 1024;

  Port() = default;
  // What groups have taken lives on.
  ~Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // For net::Transport::Listen.
  net::Receiver* Adopt(std::unique_ptr<net::Connection> connection);

  // Callers of this group go to `take` from now on, those that wait at once; callers of groups with lower
  // numbers are turned away. One group at a time. `take` may refuse by not keeping the channel.
  using Take = std::function<void(const Greet&, std::unique_ptr<Channel>)>;
  void Expect(uint64_t group, Take take);
  // No more for this group, if it is the one that is expected.
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

  std::list<Caller> callers_;
  uint64_t group_ = 0;
  Take take_;
};

}  // namespace leat::collective
