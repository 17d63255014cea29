#include "ps/server_shell.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "wire/frame.h"

namespace leat::ps {

// One worker's connection.
class ServerShell::Session : public net::Receiver {
 public:
  Session(ServerShell& shell, std::unique_ptr<net::Connection> connection)
      : shell_(shell), connection_(std::move(connection)) {}

  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t type, ByteView header,
                                                     uint64_t payload_bytes) override {
    if (type != static_cast<uint8_t>(wire::FrameType::kPush)) {
      return Status(Code::kDataLoss, "frame type " + std::to_string(type) + " is none that a server takes");
    }
    auto request = wire::DecodePushRequest(header);
    if (!request.ok()) return request.status();
    request_ = std::move(*request);
    auto elements = shell_.machine_.Begin(request_);
    if (!elements.ok()) return elements.status();
    replies_.clear();
    shell_.bytes_in_ += header.size() + payload_bytes;

    std::vector<std::span<std::byte>> segments;
    if (request_.disposition != protocol::Disposition::kGradient) {
      if (payload_bytes != 0) return Status(Code::kDataLoss, "a push without gradient carries a payload");
      return segments;
    }
    uint64_t total = 0;
    for (uint64_t n : *elements) total += n * sizeof(float);
    if (total != payload_bytes) {
      return Status(Code::kDataLoss, "payload has " + std::to_string(payload_bytes) +
                                         " bytes; its slices have " + std::to_string(total));
    }
    segments = PlaceSlices(*elements, total);
    segments_ = segments;
    return segments;
  }

  void OnSegment(net::Connection&, size_t i) override {
    const auto bytes = segments_[i];
    replies_.push_back(shell_.machine_.Apply(
        request_, i, {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)}));
  }

  void OnMessage(net::Connection&) override {
    for (size_t i = replies_.size(); i < request_.slices.size(); ++i) {
      replies_.push_back(shell_.machine_.Apply(request_, i, {}));
    }
    const auto reply = *shell_.machine_.Finish(0, request_, std::move(replies_));
    replies_.clear();
    std::vector<ByteView> payload;
    size_t total = 0;
    for (const auto& slice : reply.slices) {
      if (!slice.values) continue;
      payload.push_back(std::as_bytes(shell_.machine_.Values(slice.slice, slice.version).values));
      total += payload.back().size();
    }
    shell_.bytes_out_ += total;
    std::shared_ptr<const void> owner;  // a slice may change hands while its values leave
    if (total < payload.size() * kSmallBytes) {
      const auto copy = std::make_shared<Bytes>();
      copy->reserve(total);
      for (const auto& piece : payload) copy->insert(copy->end(), piece.begin(), piece.end());
      payload = {*copy};
      owner = copy;
    } else {
      auto memories = std::make_shared<std::vector<Buffer>>();
      for (const auto& slice : reply.slices) {
        if (slice.values) memories->push_back(shell_.machine_.Find(slice.slice)->memory);
      }
      owner = std::move(memories);
    }
    connection_->Send(static_cast<uint8_t>(wire::FrameType::kPushReply), wire::Encode(reply),
                      std::move(payload), [owner = std::move(owner)](const Status&) {});
  }

  // Destroys this.
  void OnClosed(net::Connection&, const Status&) override { shell_.sessions_.erase(this); }

 private:
  // Where the gradients are read: each slice is applied as soon as it is there, so a ring of a few slices
  // does for a push of any size. A span that shares memory with an earlier one begins at least kReadAhead
  // behind that one's end: the ring is longer than that by the slice that ends it short and by both spans.
  // All is bounded by the job's own variables.
  std::vector<std::span<std::byte>> PlaceSlices(const std::vector<uint64_t>& elements, uint64_t total) {
    if (elements.empty()) return {};
    const uint64_t largest = *std::ranges::max_element(elements) * sizeof(float);
    const uint64_t ring = std::min(total, 3 * largest + net::kReadAhead);
    if (gradients_.size() < ring) gradients_ = Buffer(ring);
    std::vector<std::span<std::byte>> spans;
    uint64_t at = 0;
    for (const uint64_t n : elements) {
      const uint64_t bytes = n * sizeof(float);
      if (at + bytes > gradients_.size()) at = 0;
      spans.push_back(gradients_.bytes().subspan(at, bytes));
      at += bytes;
    }
    return spans;
  }

  // Slices that are smaller than this on average are copied together: cheaper than naming each to the kernel.
  static constexpr size_t kSmallBytes = 1 << 10;

  ServerShell& shell_;
  std::unique_ptr<net::Connection> connection_;
  protocol::PushRequest request_;
  std::vector<protocol::SliceReply> replies_;
  std::vector<std::span<std::byte>> segments_;
  Buffer gradients_;
};

ServerShell::ServerShell(protocol::ServerConfig config) : machine_(std::move(config)) {}

ServerShell::~ServerShell() = default;

net::Receiver* ServerShell::Adopt(std::unique_ptr<net::Connection> connection) {
  auto session = std::make_unique<Session>(*this, std::move(connection));
  auto* raw = session.get();
  sessions_.emplace(raw, std::move(session));
  return raw;
}

}  // namespace leat::ps
