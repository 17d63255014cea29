// Memory of a process that others on its host may look at, for payloads that need not be copied to be sent.
//
// A piece of it is told by its place: a descriptor of the process, what file that must be, and where in it.
// The other opens that (descriptor.h), as for a secret (same_host_peer.h), and maps what it finds, to read.
// Pages stay as long as anybody has them mapped, so that whoever reads what a dead process left reads that.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/status.h"
#include "tensor/buffer.h"

namespace leat::net {

struct SharedRegion {
  int32_t descriptor = -1;
  uint64_t device = 0, inode = 0;
  uint64_t offset = 0, bytes = 0;
  friend bool operator==(const SharedRegion&, const SharedRegion&) = default;
};

// Where these bytes of this process lie; none where others cannot see them. Thread-safe.
std::optional<SharedRegion> FindSharedRegion(ByteView bytes);

// What one other process lets see. One thread at a time.
class PeerMemory {
 public:
  explicit PeerMemory(pid_t pid) : pid_(pid) {}
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Valid until the next Trim, and of what is there now: the other may change it at any time. kDataLoss for
  // what is no such memory, or could become smaller.
  Result<ByteView> View(const SharedRegion& region);
  // Forgets all but the kMaxMapped that were used last.
  void Trim();

  static constexpr size_t kMaxMapped = 256;

 private:
  struct Mapped {
    uint64_t device = 0, inode = 0, bytes = 0;
    const std::byte* data = nullptr;
  };
  Result<Mapped> Map(const SharedRegion& region) const;

  const pid_t pid_;
  std::list<Mapped> mapped_;  // the one last used comes first
};

}  // namespace leat::net
