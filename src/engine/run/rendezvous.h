// Where tensors pass from one part of a graph to another.
//
// A part sends under a key and goes on; another says once in each run where it wants what, and is told when
// it is there. Whichever comes first waits for the other. Keys and bytes are all that passes, no pointers
// that live on, so that parts may as well be on two machines: then Send writes a frame, the frame is read
// into the memory that was named, and Arrived comes from the thread that reads the socket.
//
// Nothing here blocks. Who waits for a run does so with a deadline and calls Abort when it has passed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"

namespace leat::engine {

struct TransferKey {
  uint64_t run = 0;   // rising
  uint32_t edge = 0;  // one tensor to one device; numbered from 0 in a partition
};

// Thread-safe, as its implementations have to be.
class Rendezvous {
 public:
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // Once for each Receive, maybe before that returns, from any thread. Ok: the elements are where they were
    // wanted.
    virtual void Arrived(const TransferKey& key, const Status& status) = 0;
  };

  virtual ~Rendezvous() = default;
  // Takes a copy of the elements before it returns. kStale for a run that is over, what Abort was given
  // afterwards, kDataLoss when the receiver wants another number of bytes (it is told as well).
  virtual Status Send(const TransferKey& key, std::span<const std::byte> elements) = 0;
  // `into` and `receiver` must live until Arrived. At most one for each key.
  virtual void Receive(const TransferKey& key, std::span<std::byte> into, Receiver& receiver) = 0;
  // Whoever waits is told `why`, now or when it asks, and nothing passes any more. The first one counts.
  virtual void Abort(const Status& why) = 0;
};

// Within a process: one copy, straight from the sender's memory to the receiver's. Runs come one after the
// other, and each begins with its first Send or Receive. Allocates when something is sent before it is
// wanted.
class LocalRendezvous final : public Rendezvous {
 public:
  explicit LocalRendezvous(size_t edges) : edges_(edges) {}

  Status Send(const TransferKey& key, std::span<const std::byte> elements) override;
  void Receive(const TransferKey& key, std::span<std::byte> into, Receiver& receiver) override;
  void Abort(const Status& why) override;

 private:
  struct Edge {
    uint64_t run = 0;
    std::span<std::byte> into;
    Receiver* receiver = nullptr;  // null when nobody waits
    std::vector<std::byte> early;  // sent before it was wanted
    bool sent = false;
  };
  // The edge at key.run, nullptr when that has passed. With mutex_ held.
  Edge* At(const TransferKey& key);

  std::mutex mutex_;
  std::vector<Edge> edges_;
  Status aborted_;
};

}  // namespace leat::engine
