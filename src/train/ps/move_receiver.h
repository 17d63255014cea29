// Receives slices that another server hands over, on one connection. Loop's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "net/frames/move.h"
#include "protocol/server/server.h"

namespace leat::ps {

class MoveReceiver {
 public:
  // `machine` must outlive the receiver.
  explicit MoveReceiver(protocol::Server& machine) : machine_(machine) {}

  // The header of a slice's frame: returns the destination of its payload, or why the connection must end.
  Result<std::vector<std::span<std::byte>>> OnHeader(ByteView header, uint64_t payload_bytes);
  // Its payload has arrived. Returns the move whose last slice this is, which the machine now has or refuses
  // (`status`); none: more slices follow. An error ends the connection.
  struct Arrived {
    uint64_t move = 0;
    Status status;
  };
  Result<std::optional<Arrived>> OnMessage();

 private:
  protocol::Server& machine_;
  wire::MoveRequest request_;
  Bytes state_;
  Buffer memory_;
  std::vector<protocol::MovedSlice> slices_;  // slices of the current move that have arrived
};

}  // namespace leat::ps
