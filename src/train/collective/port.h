// Messages between members of a group, and the port that accepts connections for the groups of a process.
// Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/fields/fields.h"
#include "base/status.h"
#include "net/frames/handshake.h"
#include "net/transport.h"
#include "protocol/allreduce/reduction.h"

namespace leat::collective {

// ---- messages between members of a group: frame headers on the tensor plane

// Frame types from 64 on; lower ones are the parameter servers' (wire::FrameType).
enum class MessageType : uint8_t {
  kGreet = 64,  // the first on each connection, both ways
  kPiece = 65,
  kReady = 66,
  kProbe = 67,  // asks whether the peer is alive
  kAlive = 68,
  kAbort = 69,
};

// Two connections per pair of peers, so that control messages get through while the other is full of pieces.
using protocol::ChannelKind;
using protocol::Greet;

// A piece of a bucket.
struct PieceHeader {
  uint64_t bucket = 0;  // counted from 0 within the group
  uint64_t bytes = 0;   // size of the whole bucket
  protocol::ReducePath path = protocol::ReducePath::kRing;
  uint8_t reduce = 0;
  uint32_t phase = 0;
  uint32_t piece = 0;
  friend bool operator==(const PieceHeader&, const PieceHeader&) = default;
};
LEAT_FIELDS(PieceHeader, (bucket, Fixed), (bytes, Fixed), (path), (reduce), (phase, Fixed), (piece, Fixed));

// kReady; kProbe: the bucket waited for.
struct BucketHeader {
  uint64_t bucket = 0;
};
LEAT_FIELDS(BucketHeader, (bucket));

struct Alive {
  static constexpr uint32_t kNobody = ~uint32_t{0};
  uint64_t bucket = 0;           // the bucket asked for
  bool started = false;          // this member has started that bucket
  uint32_t waits_for = kNobody;  // the rank that this member waits for
};
LEAT_FIELDS(Alive, (bucket), (started), (waits_for));

struct AbortMessage {
  static constexpr uint32_t kNobody = ~uint32_t{0};
  Status why = Status(Code::kAborted, "");  // an error
  uint32_t lost = kNobody;
};
LEAT_FIELDS(AbortMessage, (why, CutTo(4096)), (lost));
Status Check(const AbortMessage& message);

// The port of a member of a group.
wire::Port MemberPort();

// ---- the port

// A connection and its receiver, which can change: first the port that waits for its greeting, then the
// process group.
class Channel final : public net::Receiver {
 public:
  // As net::Receiver. A channel may be destroyed inside any callback.
  class Owner {
   public:
    virtual net::Places OnHeader(Channel& channel, uint8_t type, ByteView header, uint64_t payload_bytes) = 0;
    virtual bool OnView(Channel& /*channel*/, ByteView /*payload*/) { return false; }
    virtual void OnMessage(Channel& channel) = 0;
    virtual void OnSilence(Channel& /*channel*/, bool /*silent*/) {}
    virtual void OnClosed(Channel& channel, const Status& why) = 0;

   protected:
    ~Owner() = default;
  };

  explicit Channel(Owner* its_owner) : owner(its_owner) {}

  void Send(MessageType type, Bytes header) {
    if (connection != nullptr) connection->Send(static_cast<uint8_t>(type), std::move(header), {});
  }

  Owner* owner;
  std::unique_ptr<net::Connection> connection;

 private:
  net::Places OnHeader(net::Connection&, uint8_t type, ByteView header, uint64_t payload_bytes) override {
    return owner->OnHeader(*this, type, header, payload_bytes);
  }
  // Every payload has a single span.
  bool OnView(net::Connection&, size_t, ByteView bytes) override { return owner->OnView(*this, bytes); }
  void OnMessage(net::Connection&) override { owner->OnMessage(*this); }
  void OnSilence(net::Connection&, bool silent) override { owner->OnSilence(*this, silent); }
  void OnClosed(net::Connection&, const Status& why) override { owner->OnClosed(*this, why); }
};

// It outlives the groups: a member that learns of a new group first may connect early, and waits until this
// process learns of it.
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

  net::Places OnHeader(Channel& channel, uint8_t type, ByteView header, uint64_t payload_bytes) override;
  void OnMessage(Channel& channel) override;
  void OnClosed(Channel& channel, const Status& why) override;
  std::list<Caller>::iterator Find(const Channel& channel);
  net::Places OnFollower(std::list<Caller>::iterator caller, ByteView header, uint64_t payload_bytes);

  std::list<Caller> callers_;
  uint64_t group_ = 0;
  Take take_;
  TakeFollower take_follower_;
};

}  // namespace leat::collective
