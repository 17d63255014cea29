// The message that a connection is receiving: asks the receiver for room, fills it in order, and tells the
// receiver what is full. Every transport delivers through it, so all keep the same order of upcalls.
//
// An upcall may end the connection: `open` is the owner's and is looked at after each; once it is false no
// further upcall is made and no memory of the receiver's touched. The owner must outlive the call.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <vector>

#include "net/transport.h"

namespace leat::net {

class Incoming {
 public:
  // Begun and not all there.
  bool active() const { return active_; }
  // Bytes of payload that are still to come.
  uint64_t left() const { return left_; }

  // Not ok: the connection is to be closed with it.
  Status Start(Receiver& receiver, Connection& connection, const bool& open, uint8_t type, ByteView header,
               uint64_t payload_bytes);
  // Where the next bytes go, at most `most` of them, in as many vectors as there are; returns how many
  // vectors were set and adds their bytes to *bytes.
  size_t Gather(std::span<iovec> vectors, size_t most, size_t* bytes) const;
  // So many bytes have been put where Gather said.
  void Advance(size_t bytes, Receiver& receiver, Connection& connection, const bool& open);
  // The next bytes lie at `bytes`, memory of the peer's: the receiver looks at them there, where they are
  // whole spans and it wants to; others are copied.
  void View(ByteView bytes, Receiver& receiver, Connection& connection, const bool& open);
  // Copies as many bytes as belong to this message; returns how many those were.
  size_t Copy(ByteView bytes, Receiver& receiver, Connection& connection, const bool& open);

 private:
  bool active_ = false;
  std::vector<std::span<std::byte>> spans_;
  size_t span_ = 0;  // that is being filled
  size_t offset_ = 0;
  uint64_t left_ = 0;
  bool viewed_ = false;  // the span that ends now: nobody is told
};

}  // namespace leat::net
