#include "net/framing.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace leat::net {
namespace {

constexpr uint32_t kRegionBytes = 36;
// The maximum number of delivered, held messages. Well above what a sender leaves unacknowledged.
constexpr size_t kMaxHeld = 256;

}  // namespace

// ---- a message

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

// ---- frames

Status FrameReader::Take(ByteView bytes, Receiver& receiver, Connection& connection, const bool& open) {
  while (open && !bytes.empty()) {
    if (incoming_.active()) {
      bytes = bytes.subspan(incoming_.Copy(bytes, receiver, connection, open));
      moved_ = shared_.loop.Now();
      continue;
    }
    LEAT_ASSIGN_OR_RETURN(const bool more, TakeHeader(&bytes, receiver, connection, open));
    if (!more) break;
  }
  return {};
}

// Consumes the available bytes of a prefix and header. Returns false if they are incomplete.
Result<bool> FrameReader::TakeHeader(ByteView* bytes, Receiver& receiver, Connection& connection,
                                     const bool& open) {
  constexpr size_t kPrefix = wire::FramePrefix::kBytes;
  const auto decode = [this](ByteView from) {
    return wire::DecodePrefix(from.first(kPrefix), MostHeaderBytes(), shared_.options.max_payload_bytes);
  };
  if (partial_.empty()) {
    moved_ = shared_.loop.Now();
    if (bytes->size() >= kPrefix) {
      LEAT_ASSIGN_OR_RETURN(const wire::FramePrefix prefix, decode(*bytes));
      if (bytes->size() - kPrefix >= prefix.header_bytes) {
        const ByteView header = bytes->subspan(kPrefix, prefix.header_bytes);
        *bytes = bytes->subspan(kPrefix + prefix.header_bytes);
        LEAT_RETURN_IF_ERROR(StartMessage(prefix, header, receiver, connection, open));
        return true;
      }
    }
  }
  // Grows with the bytes that have arrived, not with the announced length.
  const auto take = [&](size_t upto) {
    const size_t n = std::min(upto - partial_.size(), bytes->size());
    partial_.insert(partial_.end(), bytes->begin(), bytes->begin() + static_cast<ptrdiff_t>(n));
    *bytes = bytes->subspan(n);
    return partial_.size() == upto;
  };
  if (partial_.size() < kPrefix && !take(kPrefix)) return false;
  LEAT_ASSIGN_OR_RETURN(const wire::FramePrefix prefix, decode(partial_));
  if (!take(kPrefix + prefix.header_bytes)) return false;
  const Bytes whole = std::exchange(partial_, {});
  LEAT_RETURN_IF_ERROR(StartMessage(prefix, ByteView(whole).subspan(kPrefix), receiver, connection, open));
  return true;
}

Status FrameReader::StartMessage(const wire::FramePrefix& prefix, ByteView header, Receiver& receiver,
                                 Connection& connection, const bool& open) {
  LEAT_RETURN_IF_ERROR(wire::CheckHeader(prefix, header));
  if (peer_ != nullptr && prefix.type == kSharedPayloadType && prefix.payload_bytes == 0) {
    Status status = StartSharedPayload(header, receiver, connection, open);
    moved_ = shared_.loop.Now();
    return status;
  }
  if (header.size() > shared_.options.max_header_bytes)
    return {Code::kDataLoss, "a header of " + std::to_string(header.size()) + " bytes, at most " +
                                 std::to_string(shared_.options.max_header_bytes) + " are allowed"};
  Status status = incoming_.Start(receiver, connection, open, prefix.type, header, prefix.payload_bytes);
  moved_ = shared_.loop.Now();
  return status;
}

uint32_t FrameReader::MostHeaderBytes() const {
  constexpr uint32_t kMaxRegionListBytes = 32 + kMaxSharedRegions * kRegionBytes;
  return shared_.options.max_header_bytes + (peer_ != nullptr ? kMaxRegionListBytes : 0);
}

Status FrameReader::StartSharedPayload(ByteView header, Receiver& receiver, Connection& connection,
                                       const bool& open) {
  ByteReader in(header);
  const auto type = in.Get<uint8_t>();
  const auto own_bytes = in.Get<uint32_t>();
  const ByteView own = in.GetRaw(own_bytes);
  const auto count = in.Get<uint32_t>();
  const Status bad(Code::kDataLoss, "invalid header of a shared payload");
  if (!in.ok() || own.size() > shared_.options.max_header_bytes || type == kSharedPayloadType ||
      count > kMaxSharedRegions || in.remaining() != count * kRegionBytes ||
      shared_payloads_.size() >= kMaxHeld) {
    return bad;
  }
  std::vector<SharedRegion> regions(count);
  uint64_t total = 0;
  for (SharedRegion& region : regions) {
    region.descriptor = in.Get<int32_t>();
    region.device = in.Get<uint64_t>();
    region.inode = in.Get<uint64_t>();
    region.offset = in.Get<uint64_t>();
    region.bytes = in.Get<uint64_t>();
    if (region.bytes == 0 || region.bytes > shared_.options.max_payload_bytes - total) return bad;
    total += region.bytes;
  }
  hold_ = false;
  if (shared_payloads_.empty()) peer_->Trim();  // before this message, so that all of it stays mapped
  LEAT_RETURN_IF_ERROR(incoming_.Start(receiver, connection, open, type, own, total));
  for (const SharedRegion& region : regions) {
    if (!open) return {};
    LEAT_ASSIGN_OR_RETURN(const ByteView bytes, peer_->View(region));
    shared_.bytes_received.Add(bytes.size());
    incoming_.View(bytes, receiver, connection, open);
  }
  shared_payloads_.push_back(hold_);
  return {};
}

uint32_t FrameReader::TakeReleased() {
  uint32_t taken = 0;
  for (; !shared_payloads_.empty() && !shared_payloads_.front(); shared_payloads_.pop_front()) ++taken;
  return taken;
}

void FrameReader::Release(uint32_t messages) {
  for (bool& held : shared_payloads_) {
    if (messages == 0) return;
    if (std::exchange(held, false)) --messages;
  }
}

std::optional<Bytes> EncodeSharedPayload(uint8_t type, ByteView header, std::span<const ByteView> payload) {
  ByteWriter out;
  out.Put(type);
  out.Put(static_cast<uint32_t>(header.size()));
  out.PutRaw(header);
  const size_t at = out.size();
  out.Put(uint32_t{0});
  uint32_t count = 0;
  for (const ByteView piece : payload) {
    if (piece.empty()) continue;
    const auto region = FindSharedRegion(piece);
    if (!region || ++count > kMaxSharedRegions) return std::nullopt;
    out.Put(region->descriptor);
    out.Put(region->device);
    out.Put(region->inode);
    out.Put(region->offset);
    out.Put(region->bytes);
  }
  out.PatchAt(at, count);
  return out.Take();
}

void FrameQueue::Push(uint8_t type, Bytes header, std::vector<ByteView> payload, uint64_t payload_bytes,
                      Done done) {
  auto& message = queue_.emplace_back();
  wire::EncodePrefix(wire::MakePrefix(type, header, payload_bytes), message.prefix.data());
  message.header = std::move(header);
  message.payload = std::move(payload);
  message.done = std::move(done);
}

size_t FrameQueue::Gather(std::span<iovec> vectors, size_t most, size_t* bytes) const {
  size_t count = 0;
  size_t wanted = 0;
  size_t piece = piece_;
  size_t offset = offset_;
  for (auto message = queue_.begin(); message != queue_.end(); ++message, piece = 0) {
    for (; piece < message->pieces(); ++piece, offset = 0) {
      if (count == vectors.size() || wanted == most) {
        *bytes += wanted;
        return count;
      }
      const ByteView rest = message->piece(piece).subspan(offset);
      if (rest.empty()) continue;
      const size_t n = std::min(rest.size(), most - wanted);
      vectors[count++] = {const_cast<std::byte*>(rest.data()), n};
      wanted += n;
    }
  }
  *bytes += wanted;
  return count;
}

// Advances by the sent bytes, and over empty pieces.
void FrameQueue::Consume(size_t bytes, std::vector<Done>* sent) {
  while (!queue_.empty()) {
    Message& front = queue_.front();
    for (; piece_ < front.pieces(); ++piece_, offset_ = 0) {
      const size_t room = front.piece(piece_).size() - offset_;
      if (bytes < room) {
        offset_ += bytes;
        return;
      }
      bytes -= room;
    }
    piece_ = 0;
    if (front.done != nullptr) sent->push_back(std::move(front.done));
    queue_.pop_front();
  }
}

std::vector<Done> FrameQueue::TakeUnsent() {
  std::vector<Done> unsent;
  for (auto& message : queue_) {
    if (message.done != nullptr) unsent.push_back(std::move(message.done));
  }
  queue_.clear();
  piece_ = 0;
  offset_ = 0;
  return unsent;
}

}  // namespace leat::net
