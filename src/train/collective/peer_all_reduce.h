// All-reduce over a transport, with the paths of protocol/allreduce/reduction.h: the ring for large buckets,
// the exchange for small ones, the chain for lane order, and one shot for gather_only.
//
// Memory in addition to the buckets: one piece for each receive in progress, and up to `eager_bytes` per
// bucket and peer, `max_early_bytes` per peer, for pieces that arrive before this member has started the
// bucket.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "protocol/allreduce/reduction.h"
#include "train/collective/all_reduce.h"
#include "train/collective/process_group.h"

namespace leat::collective {

struct PeerOptions {
  ProcessGroupOptions group;
  // A bucket that takes longer ends the group if a member does not answer, or, a quarter later, if no member
  // explains the delay. A member that answers and has not started the bucket is slow, and is waited for: the
  // coordinator decides for how long.
  Duration deadline = std::chrono::seconds(20);
  // The remaining options must be equal on all members.
  uint64_t exchange_bytes = 64 << 10;  // buckets up to this size use the exchange; see ExchangeBytes
  uint64_t piece_bytes = 256 << 10;    // see PieceBytes
  uint64_t eager_bytes = 1 << 20;
  // Limit of the bytes kept for one peer of buckets that this member has not started. A peer that sends more
  // is ended with the group. Members start the buckets of a step in the same order and end it together, so a
  // peer is at most one step ahead.
  uint64_t max_early_bytes = uint64_t{1} << 28;
  bool one_shot = false;  // supports gather_only; see OneShotPays
};

// The exchange waits once, but every member receives all contributions. On one host waiting is short, and
// data that two members access alternately moves slowly between their caches.
uint64_t ExchangeBytes(const std::vector<std::string>& addresses);

// On one host pieces are read in place: a few large ones. Over a network many small ones, so that one is
// combined while the next is in transit.
uint64_t PieceBytes(const std::vector<std::string>& addresses);

// True if these members are few and can read each other's memory.
bool OneShotPays(const std::vector<std::string>& addresses);

class PeerAllReduce final : public AllReduce, private ProcessGroup::User {
 public:
  // Forms the group. `formed` is called once, from the loop, with ok or the reason for failure; buckets may
  // be started after ok. `loop`, `transport` and `port` must outlive this.
  PeerAllReduce(net::Loop& loop, net::Transport& transport, Port& port, PeerOptions options,
                net::Done formed);
  ~PeerAllReduce() override;

  void Start(Bucket bucket, net::Done done) override;
  void Abort(Status why) override;
  bool supports_gather_only() const override { return options_.one_shot; }
  Result<std::vector<ByteView>> Contributions() override;
  void Release() override;
  uint32_t rank() const override { return options_.group.rank; }
  uint32_t members() const override { return group_.members(); }
  std::optional<uint32_t> lost() const override { return group_.lost(); }
  std::optional<uint32_t> unreachable() const override { return group_.unreachable(); }

 private:
  // Uninitialized memory, kept for the next piece.
  struct Memory {
    std::unique_ptr<std::byte[]> data;
    uint64_t capacity = 0;
  };
  struct BufferedPiece {
    protocol::Hop hop;
    Memory memory;
    uint64_t bytes = 0;
    const std::byte* seen = nullptr;  // in the sender's memory, while it is readable
    const std::byte* data() const { return seen != nullptr ? seen : memory.data.get(); }
  };
  struct Running {
    Running(net::Loop& loop, uint64_t its_index, Bucket its_bucket, net::Done its_done,
            const protocol::ReduceShape& shape, uint32_t rank)
        : index(its_index),
          bucket(std::move(its_bucket)),
          done(std::move(its_done)),
          reduction(shape, rank),
          since(loop.Now()),
          busy_poll(loop) {}
    const uint64_t index;
    Bucket bucket;
    net::Done done;
    protocol::Reduction reduction;
    Time since;  // it started, or a slow member was last waited for
    const net::Loop::BusyPoll busy_poll;
    bool probed = false;
    std::vector<BufferedPiece> buffered;
  };
  struct Early {
    PieceHeader header;
    BufferedPiece buffered_piece;
  };
  // The piece that a connection is receiving.
  struct Arriving {
    PieceHeader header;
    bool started = false;          // its bucket had started, so the header was checked
    bool over = false;             // it was read in the sender's memory
    BufferedPiece buffered_piece;  // no memory: received in place
  };

  net::Places OnPieceHeader(uint32_t peer, ByteView header, uint64_t payload_bytes) override;
  bool OnPieceView(uint32_t peer, ByteView payload) override;
  void OnPiece(uint32_t peer) override;
  void OnControl(uint32_t peer, MessageType type, ByteView header) override;
  void OnFormed() override;
  void OnStopped() override;
  void OnEnded(const Status& why) override;

  uint64_t EagerBytes(protocol::ReducePath path) const;
  Status CheckEarly(uint32_t peer, const PieceHeader& piece, uint64_t payload_bytes) const;
  Status Check(const Running& running, const PieceHeader& header, const protocol::Hop& hop,
               uint64_t payload_bytes) const;
  Status Accept(Running& running, const PieceHeader& header, BufferedPiece buffered_piece);
  protocol::ReduceShape ShapeOf(const Bucket& bucket) const;
  PieceHeader HeaderOf(const Running& running, const protocol::Hop& hop) const;
  Running* Find(uint64_t index);
  void Proceed(Running& running);
  void Combine(Running& running, const protocol::ReduceAction& action);
  void SendPiece(Running& running, const protocol::Hop& hop);
  void Finish(uint64_t index);
  void Watch();
  void CheckDeadline();
  void GiveUp(Running& running, Duration age);
  Memory TakeMemory(uint64_t bytes);
  void Keep(Memory memory);

  net::Loop& loop_;
  const PeerOptions options_;
  net::Done formed_;
  uint64_t next_ = 0;  // bucket
  std::map<uint64_t, Running> running_;
  std::map<uint32_t, Arriving> arriving_;
  std::map<uint64_t, std::vector<Early>> early_;
  std::map<uint32_t, uint64_t> early_bytes_;             // in early_, by peer
  std::set<std::pair<uint64_t, uint32_t>> early_ready_;  // buckets, and the peers ready for them
  std::map<uint32_t, Alive> alive_;                      // replies about the bucket last asked for
  std::vector<Memory> kept_;
  // Contributions to the gather_only bucket that is not released: this member's and the others'.
  std::optional<ByteView> own_;
  std::vector<BufferedPiece> others_;
  std::vector<net::Done> failing_;  // buckets started after the end, to be failed
  bool stopped_ = false;
  std::optional<Status> ended_;
  uint64_t timer_ = 0;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  // false once destroyed
  ProcessGroup group_;
};

// The all-reduce of a job's members: a PeerAllReduce with sizes and paths chosen by their addresses.
// `model_bytes`: size of the model's parameters, which bounds what a peer that is a step ahead can send.
std::unique_ptr<AllReduce> MakePeerAllReduce(net::Loop& loop, net::Transport& transport, Port& port,
                                             ProcessGroupOptions group, net::Done formed,
                                             uint64_t model_bytes = 0);

}  // namespace leat::collective
