// Messages that arrive, and frames (docs/formats/frame.md) over an ordered byte stream: FrameReader parses
// and delivers incoming frames, FrameQueue holds outgoing ones. Loop's thread only.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "net/frames/frame.h"
#include "net/same_host/shared_memory.h"
#include "net/transport.h"
#include "net/transport_context.h"

namespace leat::net {

// The message that a connection is receiving: asks the receiver for memory, fills it in order and reports
// each full span. All transports deliver through it, so their callbacks have the same order.
//
// A callback may close the connection. `open` belongs to the connection and is checked after each callback;
// once it is false, no callback follows and no memory of the receiver is touched. `open` must outlive the
// call.
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
  Spans spans_;
  size_t span_ = 0;  // the span being filled
  size_t offset_ = 0;
  uint64_t left_ = 0;
  bool viewed_ = false;  // the current span was read in place: no OnSegment
};

// The frame type of a message whose payload is shared by reference. Its header contains the type and the
// header of the message and the memory regions of the payload.
constexpr uint8_t kSharedPayloadType = 255;
constexpr size_t kMaxSharedRegions = 1024;  // a payload of more pieces is copied instead

// Encodes the header of such a frame. Returns none if a piece of the payload is not in shared memory.
std::optional<Bytes> EncodeSharedPayload(uint8_t type, ByteView header, std::span<const ByteView> payload);

class FrameReader {
 public:
  // `shared` must outlive the reader.
  explicit FrameReader(const TransportContext& shared) : shared_(shared) {}
  // Accepts payloads shared by reference from now on, read from `peer`, which must outlive the reader.
  void AllowSharedPayloads(PeerMemory* peer) { peer_ = peer; }
  // The number of shared payloads that the peer may reuse, since the last call.
  uint32_t TakeReleased();
  // Hold retains the message being delivered, and with it all later ones. Release frees the `messages` oldest
  // held ones.
  void Hold() { hold_ = true; }
  void Release(uint32_t messages);

  // A message has arrived in part.
  bool in_message() const { return incoming_.active() || !partial_.empty(); }
  // When the receiver last finished with payload bytes of the incoming message. Header bytes do not count.
  Time moved() const { return moved_; }
  // Payload bytes still to arrive.
  uint64_t left() const { return incoming_.left(); }

  // Consumes all bytes and delivers them as Incoming does. The caller closes the connection if this fails.
  Status Take(ByteView bytes, Receiver& receiver, Connection& connection, const bool& open);
  // For callers that write payload bytes to their destination themselves: Gather returns where the next bytes
  // go, Advance reports that `bytes` of them are written.
  size_t Gather(std::span<iovec> vectors, size_t most, size_t* bytes) const {
    return incoming_.Gather(vectors, most, bytes);
  }
  void Advance(size_t bytes, Receiver& receiver, Connection& connection, const bool& open) {
    incoming_.Advance(bytes, receiver, connection, open);
    moved_ = shared_.loop.Now();
  }

 private:
  Result<bool> TakeHeader(ByteView* bytes, Receiver& receiver, Connection& connection, const bool& open);
  Status StartMessage(const wire::FramePrefix& prefix, ByteView header, Receiver& receiver,
                      Connection& connection, const bool& open);
  Status StartSharedPayload(ByteView header, Receiver& receiver, Connection& connection, const bool& open);
  uint32_t MostHeaderBytes() const;

  const TransportContext& shared_;
  PeerMemory* peer_ = nullptr;
  std::deque<bool> shared_payloads_;  // delivered but not yet acknowledged; true: held
  bool hold_ = false;                 // applies to the message being delivered
  Bytes partial_;                     // the first part of a prefix and header
  Incoming incoming_;
  Time moved_{};
};

class FrameQueue {
 public:
  bool empty() const { return queue_.empty(); }
  void Push(uint8_t type, Bytes header, std::vector<ByteView> payload, uint64_t payload_bytes, Done done);
  // Fills `vectors` with the next bytes to send, at most `most`. Returns the number of vectors set and adds
  // their size to *bytes.
  size_t Gather(std::span<iovec> vectors, size_t most, size_t* bytes) const;
  // Removes the next `bytes` bytes, which have been sent. Appends the callbacks of completed messages to
  // *sent.
  void Consume(size_t bytes, std::vector<Done>* sent);
  // Empties the queue and returns the callbacks of unsent messages in order.
  std::vector<Done> TakeUnsent();

 private:
  struct Message {
    std::array<std::byte, wire::FramePrefix::kBytes> prefix;
    Bytes header;
    std::vector<ByteView> payload;
    Done done;
    size_t pieces() const { return 2 + payload.size(); }
    ByteView piece(size_t i) const {
      return i == 0 ? ByteView(prefix) : i == 1 ? ByteView(header) : payload[i - 2];
    }
  };
  std::deque<Message> queue_;
  size_t piece_ = 0;  // piece of the front message being sent
  size_t offset_ = 0;
};

}  // namespace leat::net
