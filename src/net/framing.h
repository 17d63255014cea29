// Frames (docs/formats/frame.md) over anything that carries bytes in order: those that come in are cut up and
// delivered, those that go out wait their turn. Loop's thread only.
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

#include "net/incoming.h"
#include "net/same_host/shared_memory.h"
#include "net/transport.h"
#include "net/transport_context.h"
#include "wire/frame.h"

namespace leat::net {

// The frame type of a message whose payload lies in memory that the sender shows: its header has the
// message's own type and header, and the places.
constexpr uint8_t kSharedPayloadType = 255;
constexpr size_t kMaxSharedRegions = 1024;  // more pieces are sent rather than shown

// The header of such a frame; none where a piece of the payload lies where others cannot see it.
std::optional<Bytes> EncodeSharedPayload(uint8_t type, ByteView header, std::span<const ByteView> payload);

class FrameReader {
 public:
  // `shared` outlives it.
  explicit FrameReader(const TransportContext& shared) : shared_(shared) {}
  // From now on messages may come whose payload lies there. It outlives this.
  void AllowSharedPayloads(PeerMemory* peer) { peer_ = peer; }
  // Of those, how many the peer may let go now that it could not when this was last asked.
  uint32_t TakeReleased();
  // The one that is being delivered is held, and so are those after it; until so many of the held are not.
  void Hold() { hold_ = true; }
  void Release(uint32_t messages);

  // Some of a message is here, and not all of it.
  bool in_message() const { return incoming_.active() || !partial_.empty(); }
  // When the message that is coming in last moved on, and its receiver was done with that. Bytes of its
  // header do not count: they come together.
  Time moved() const { return moved_; }
  // Bytes of the payload that are still to come.
  uint64_t left() const { return incoming_.left(); }

  // Takes all bytes, as Incoming delivers them. Not ok: the connection is to be closed with it.
  Status Take(ByteView bytes, Receiver& receiver, Connection& connection, const bool& open);
  // For who can put bytes of the payload into place by itself: where they go, and that they are there.
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
  std::deque<bool> shared_payloads_;  // delivered, and not taken: whether it is held
  bool hold_ = false;                 // the one that is being delivered
  Bytes partial_;                     // of a prefix and header that came in pieces
  Incoming incoming_;
  Time moved_{};
};

class FrameQueue {
 public:
  using Done = std::function<void(const Status&)>;

  bool empty() const { return queue_.empty(); }
  void Push(uint8_t type, Bytes header, std::vector<ByteView> payload, uint64_t payload_bytes, Done done);
  // The next bytes, at most `most` of them, in as many vectors as there are; returns how many were set and
  // adds their bytes to *bytes.
  size_t Gather(std::span<iovec> vectors, size_t most, size_t* bytes) const;
  // So many bytes have been sent. Appends to *sent what is to be told so.
  void Consume(size_t bytes, std::vector<Done>* sent);
  // What has not been sent, in order; the queue is empty then.
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
  size_t piece_ = 0;  // of the front that is being sent
  size_t offset_ = 0;
};

}  // namespace leat::net
