// Copies complete checkpoints from the coordinator's transfer service into a standby's directory, on a thread
// of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "protocol/records/manifest.h"
#include "run/roles/background_thread.h"
#include "storage/transfer/client.h"

namespace leat::roles {

// All calls by one thread.
class CheckpointCopy {
 public:
  explicit CheckpointCopy(transfer::MakeTransport make_transport)
      : make_transport_(std::move(make_transport)) {}
  ~CheckpointCopy() { Abort(); }

  bool busy() const { return busy_; }
  // Copies the shards of a checkpoint into this empty directory, synced and verified. `service`: host:port.
  void Start(uint64_t id, std::string directory, const std::string& service);
  struct Done {
    uint64_t id = 0;
    Result<protocol::Manifest> manifest;  // to be written last
  };
  // Once for each Start.
  std::optional<Done> TakeDone();
  // Ends the copy under way.
  void Abort();

 private:
  const transfer::MakeTransport make_transport_;
  bool busy_ = false;
  std::shared_ptr<transfer::Client> client_;
  std::mutex mutex_;
  std::optional<Done> done_;
  BackgroundThread thread_;  // uses the members above
};

}  // namespace leat::roles
