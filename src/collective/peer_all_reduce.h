// All-reduce among processes over a transport, by the paths of protocol/member/reduction.h: the ring for
// large buckets, the exchange for small ones, the chain where the order of lanes is to be kept, one shot
// where what the members have may be left apart.
//
// Memory beyond the buckets': a piece for each that is being received, and up to `eager_bytes` a bucket and
// peer of what arrives before this member has started that bucket.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "collective/all_reduce.h"
#include "collective/process_group.h"
#include "protocol/member/reduction.h"

namespace leat::collective {

struct PeerOptions {
  ProcessGroupOptions group;
  // A bucket that takes longer than this from its Start ends the group, at the latest a quarter later (when
  // everybody else seems alive).
  Duration deadline = std::chrono::seconds(60);
  // The rest has to be the same on all members.
  uint64_t exchange_bytes = 64 << 10;  // buckets up to this size are exchanged; ExchangeBytes, or this
  uint64_t piece_bytes = 256 << 10;    // PieceBytes, or this
  uint64_t eager_bytes = 1 << 20;
  bool one_shot = false;  // OneShotPays, or not: whether buckets that may be left apart are
};

// To exchange is to wait once and to have everybody's bytes come to everybody. On one host waiting is short,
// and what two look at turn about is slow to come from cache to cache.
uint64_t ExchangeBytes(const std::vector<std::string>& addresses);

// On one host pieces are looked at where they are: few large ones. Over a network many small ones, so that
// one is added while the next is on its way.
uint64_t PieceBytes(const std::vector<std::string>& addresses);

// Whether members at these addresses are few, and can look at each other's memory.
bool OneShotPays(const std::vector<std::string>& addresses);

class PeerAllReduce final : public AllReduce, private ProcessGroup::User {
 public:
  // Forms the group; `formed` is called from the loop, once, with ok or why there is none, and buckets may be
  // started after that. Loop, transport and port outlive it.
  PeerAllReduce(net::Loop& loop, net::Transport& transport, Port& port, PeerOptions options,
                std::function<void(const Status&)> formed);
  ~PeerAllReduce() override;

  void Start(Bucket bucket, std::function<void(const Status&)> done) override;
  void Abort(Status why) override;
  bool supports_gather_only() const override { return options_.one_shot; }
  Result<std::vector<ByteView>> Contributions() override;
  void Release() override;
  uint32_t rank() const override { return options_.group.rank; }
  uint32_t members() const override { return group_.members(); }
  std::optional<uint32_t> lost() const override { return group_.lost(); }

 private:
  using Done = std::function<void(const Status&)>;
  // Memory that is not set to anything; kept for the next piece.
  struct Memory {
    std::unique_ptr<std::byte[]> data;
    uint64_t capacity = 0;
  };
  struct BufferedPiece {
    protocol::Hop hop;
    Memory memory;
    uint64_t bytes = 0;
    const std::byte* seen = nullptr;  // where the sender has it, as long as it may be looked at there
    const std::byte* data() const { return seen != nullptr ? seen : memory.data.get(); }
  };
  struct Running {
    Running(net::Loop& loop, uint64_t its_index, Bucket its_bucket, Done its_done,
            const protocol::ReduceShape& shape, uint32_t rank)
        : index(its_index),
          bucket(std::move(its_bucket)),
          done(std::move(its_done)),
          reduction(shape, rank),
          started(loop.Now()),
          busy_poll(loop) {}
    const uint64_t index;
    Bucket bucket;
    Done done;
    protocol::Reduction reduction;
    const Time started;
    const net::Loop::BusyPoll busy_poll;
    bool probed = false;
    std::vector<BufferedPiece> buffered;
  };
  struct Early {
    PieceHeader header;
    BufferedPiece buffered_piece;
  };
  // The piece that a peer's connection is filling.
  struct Arriving {
    PieceHeader header;
    bool started = false;          // its bucket was, and so it was checked
    bool over = false;             // it was looked at where the sender has it
    BufferedPiece buffered_piece;  // no memory: it goes in place
  };

  Result<std::vector<std::span<std::byte>>> OnPieceHeader(uint32_t peer, ByteView header,
                                                          uint64_t payload_bytes) override;
  bool OnPieceView(uint32_t peer, ByteView payload) override;
  void OnPiece(uint32_t peer) override;
  void OnControl(uint32_t peer, MessageType type, ByteView header) override;
  void OnFormed() override;
  void OnStopped() override;
  void OnEnded(const Status& why) override;

  uint64_t EagerBytes(protocol::ReducePath path) const;
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
  void GiveUp(const Running& running, Duration age);
  Memory TakeMemory(uint64_t bytes);
  void Keep(Memory memory);

  net::Loop& loop_;
  const PeerOptions options_;
  std::function<void(const Status&)> formed_;
  uint64_t next_ = 0;  // bucket
  std::map<uint64_t, Running> running_;
  std::map<uint32_t, Arriving> arriving_;
  std::map<uint64_t, std::vector<Early>> early_;
  std::set<std::pair<uint64_t, uint32_t>> early_ready_;  // bucket and who is ready for it
  std::map<uint32_t, Alive> alive_;                      // answers about the bucket that was asked for last
  std::vector<Memory> kept_;
  // Of the bucket that was left apart and is not released: what this member has of it, and what others have.
  std::optional<ByteView> own_;
  std::vector<BufferedPiece> others_;
  std::vector<Done> failing_;  // of buckets started after the end, to be told why
  bool stopped_ = false;
  std::optional<Status> ended_;
  uint64_t timer_ = 0;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  // false once destroyed
  ProcessGroup group_;
};

// The group of a job's members: a PeerAllReduce whose sizes and paths follow from their addresses.
std::unique_ptr<AllReduce> MakePeerAllReduce(net::Loop& loop, net::Transport& transport, Port& port,
                                             ProcessGroupOptions group,
                                             std::function<void(const Status&)> formed);

}  // namespace leat::collective
