// Transfers tensors between the parts of a graph.
//
// One part calls Send with a key, the other calls Receive with the same key once per run and is notified when
// the tensor has arrived. Either may come first. Only keys and bytes are exchanged, so an implementation
// could connect two machines: Send would write a frame, and the thread that reads the socket would call
// Arrived.
//
// Nothing here blocks. A caller that waits for a run uses a deadline and calls Abort when it passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"

namespace leat::engine {

struct TransferKey {
  uint64_t run = 0;   // increasing
  uint32_t edge = 0;  // a tensor sent to a device; numbered from 0 within a partition
};

// Implementations must be thread-safe.
class Rendezvous {
 public:
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // Called once for each Receive, from any thread, possibly before Receive returns. If `status` is ok, the
    // elements are in the memory given to Receive.
    virtual void Arrived(const TransferKey& key, const Status& status) = 0;
  };

  virtual ~Rendezvous() = default;
  // Copies the elements before it returns. kStale if the run is over, the status of Abort after Abort,
  // kDataLoss if the receiver expects another number of bytes (the receiver gets this status too).
  virtual Status Send(const TransferKey& key, std::span<const std::byte> elements) = 0;
  // `into` and `receiver` must live until Arrived. At most one Receive per key.
  virtual void Receive(const TransferKey& key, std::span<std::byte> into, Receiver& receiver) = 0;
  // Ends all transfers: pending and later receivers get `why`. Only the first Abort counts.
  virtual void Abort(const Status& why) = 0;
};

// Transfers within one process, with one copy from the sender's memory to the receiver's. Runs are
// sequential; each begins with its first Send or Receive. Allocates only if a Send comes before its Receive.
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
    Receiver* receiver = nullptr;  // null if no Receive is pending
    std::vector<std::byte> early;  // sent before its Receive
    bool sent = false;
  };
  // The edge, advanced to key.run; nullptr if that run is over. Requires mutex_.
  Edge* At(const TransferKey& key);

  std::mutex mutex_;
  std::vector<Edge> edges_;
  Status aborted_;
};

}  // namespace leat::engine
