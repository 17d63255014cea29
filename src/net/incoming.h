// The message that a connection is receiving: asks the receiver for memory, fills it in order and reports
// each full span. All transports deliver through it, so their callbacks have the same order.
//
// A callback may close the connection. `open` belongs to the connection and is checked after each callback;
// once it is false, no callback follows and no memory of the receiver is touched. `open` must outlive the
// call.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <vector>

#include "net/transport.h"

namespace leat::net {

class Incoming {
 public:
  // A message has started and is incomplete.
  bool active() const { return active_; }
  // Payload bytes still to arrive.
  uint64_t left() const { return left_; }

  // The caller closes the connection if this fails.
  Status Start(Receiver& receiver, Connection& connection, const bool& open, uint8_t type, ByteView header,
               uint64_t payload_bytes);
  // Fills `vectors` with the destinations of the next bytes, at most `most`. Returns the number of vectors
  // set and adds their size to *bytes.
  size_t Gather(std::span<iovec> vectors, size_t most, size_t* bytes) const;
  // Reports that `bytes` bytes have been written to the destinations from Gather.
  void Advance(size_t bytes, Receiver& receiver, Connection& connection, const bool& open);
  // The next bytes are in memory shared by the peer. The receiver reads whole spans in place if it accepts
  // them (Receiver::OnView); other bytes are copied.
  void View(ByteView bytes, Receiver& receiver, Connection& connection, const bool& open);
  // Copies the bytes that belong to this message and returns their number.
  size_t Copy(ByteView bytes, Receiver& receiver, Connection& connection, const bool& open);

 private:
  bool active_ = false;
  std::vector<std::span<std::byte>> spans_;
  size_t span_ = 0;  // the span being filled
  size_t offset_ = 0;
  uint64_t left_ = 0;
  bool viewed_ = false;  // the current span was read in place: no OnSegment
};

}  // namespace leat::net
