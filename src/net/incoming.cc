#include "net/incoming.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace leat::net {

Status Incoming::Start(Receiver& receiver, Connection& connection, const bool& open, uint8_t type,
                       ByteView header, uint64_t payload_bytes) {
  auto spans = receiver.OnHeader(connection, type, header, payload_bytes);
  if (!open) return {};
  if (!spans.ok()) return spans.status();
  uint64_t room = 0;
  for (const auto& span : *spans) room += span.size();
  if (room != payload_bytes) {
    return {Code::kInternal, "the receiver provides " + std::to_string(room) + " bytes for a payload of " +
                                 std::to_string(payload_bytes)};
  }
  spans_ = std::move(*spans);
  span_ = 0;
  offset_ = 0;
  left_ = payload_bytes;
  active_ = true;
  Advance(0, receiver, connection, open);
  return {};
}

size_t Incoming::Gather(std::span<iovec> vectors, size_t most, size_t* bytes) const {
  if (!active_) return 0;
  size_t count = 0;
  size_t offset = offset_;
  for (size_t i = span_; i < spans_.size() && count < vectors.size() && most > 0; ++i, offset = 0) {
    const size_t room = std::min(spans_[i].size() - offset, most);
    if (room == 0) continue;
    vectors[count++] = {spans_[i].data() + offset, room};
    *bytes += room;
    most -= room;
  }
  return count;
}

void Incoming::Advance(size_t bytes, Receiver& receiver, Connection& connection, const bool& open) {
  left_ -= bytes;
  while (span_ < spans_.size()) {
    const size_t room = spans_[span_].size() - offset_;
    if (bytes < room) {
      offset_ += bytes;
      return;
    }
    bytes -= room;
    offset_ = 0;
    const size_t filled = span_++;
    if (std::exchange(viewed_, false)) continue;
    receiver.OnSegment(connection, filled);
    if (!open) return;
  }
  active_ = false;
  spans_.clear();
  receiver.OnMessage(connection);
}

void Incoming::View(ByteView bytes, Receiver& receiver, Connection& connection, const bool& open) {
  while (active_ && open && !bytes.empty()) {
    const size_t room = spans_[span_].size() - offset_;
    if (offset_ == 0 && bytes.size() >= room) {
      viewed_ = receiver.OnView(connection, span_, bytes.first(room));
      if (!open) return;
      if (viewed_) {
        bytes = bytes.subspan(room);
        Advance(room, receiver, connection, open);
        continue;
      }
    }
    bytes = bytes.subspan(Copy(bytes.first(std::min(room, bytes.size())), receiver, connection, open));
  }
}

size_t Incoming::Copy(ByteView bytes, Receiver& receiver, Connection& connection, const bool& open) {
  size_t copied = 0;
  while (active_ && open && copied < bytes.size()) {
    const auto& span = spans_[span_];
    const size_t n = std::min(span.size() - offset_, bytes.size() - copied);
    std::memcpy(span.data() + offset_, bytes.data() + copied, n);
    copied += n;
    Advance(n, receiver, connection, open);
  }
  return copied;
}

}  // namespace leat::net
