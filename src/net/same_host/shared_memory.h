// Memory that other processes on this host can read, for payloads that are shared instead of copied.
//
// A region is described by a descriptor of its process, the identity of that file, and an offset. The peer
// opens the file (descriptor.h), as it does for a secret (same_host_peer.h), and maps it read-only. Pages
// stay valid while any process maps them, even after their owner has died.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/status.h"
#include "compute/tensor/buffer.h"

namespace leat::net {

struct SharedRegion {
  int32_t descriptor = -1;
  uint64_t device = 0, inode = 0;
  uint64_t offset = 0, bytes = 0;
  friend bool operator==(const SharedRegion&, const SharedRegion&) = default;
};

// Allocates zeroed memory that peers on this host can read directly, so large payloads are not copied. It is
// freed with its last reference. Returns ordinary memory where the system has no shared memory. Thread-safe.
Buffer MakeSharedBuffer(size_t bytes);

// The region that contains these bytes of this process; none if they are not in shared memory. Thread-safe.
std::optional<SharedRegion> FindSharedRegion(ByteView bytes);

// Shared memory of one peer process, mapped here. For one thread at a time.
class PeerMemory {
 public:
  explicit PeerMemory(pid_t pid) : pid_(pid) {}
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Valid until the next Trim. The peer may change the contents at any time. Returns kDataLoss for a region
  // that is invalid or whose file could shrink.
  Result<ByteView> View(const SharedRegion& region);
  // Unmaps all but the kMaxMapped most recently used files.
  void Trim();

  static constexpr size_t kMaxMapped = 256;

 private:
  struct Mapped {
    uint64_t device = 0, inode = 0, bytes = 0;
    const std::byte* data = nullptr;
  };
  Result<Mapped> Map(const SharedRegion& region) const;

  const pid_t pid_;
  std::list<Mapped> mapped_;  // most recently used first
};

}  // namespace leat::net
