#include "net/inproc/pipe.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace leat::net {
namespace {

// Bytes copied before the lock is released. The sending end may wait for the lock in order to be destroyed.
constexpr size_t kCopyBytes = 256 << 10;
static_assert(kCopyBytes <= kReadAhead);
// Limit for one loop iteration, so that other connections get their share. An empty message counts as some
// bytes.
constexpr size_t kPipeTurnBytes = 2 << 20;
constexpr size_t kMessageBytes = 1 << 10;
constexpr size_t kMaxPipeVectors = 64;

}  // namespace

PipeEnd::PipeEnd(std::shared_ptr<TransportContext> shared, std::shared_ptr<Pipe> pipe, int side,
                 std::string peer, std::function<void()> on_end)
    : shared_(std::move(shared)),
      pipe_(std::move(pipe)),
      side_(side),
      peer_(std::move(peer)),
      on_end_(std::move(on_end)),
      stall_(shared_->loop, shared_->options.stall_timeout) {}

PipeEnd::~PipeEnd() {
  Shut();
}

std::unique_ptr<Connection> PipeEnd::MakeConnection() {
  auto handle = std::make_unique<ConnectionHandle<PipeEnd>>(shared_from_this());
  handle_ = handle.get();
  return handle;
}

void PipeEnd::Start(Receiver* receiver) {
  if (!open_) return;
  receiver_ = receiver;
  std::unique_lock lock(pipe_->mutex);
  if (pipe_->closed) {
    lock.unlock();
    return End({Code::kUnavailable, "connection to " + peer_ + " closed by the peer"});
  }
  mine().loop = &shared_->loop;
  mine().end = weak_from_this();
  AskToPump(mine());  // messages that the peer has sent already
}

// The lock is held.
void PipeEnd::AskToPump(Pipe::Side& side) {
  if (side.loop == nullptr || side.pump_posted) return;
  side.pump_posted = true;
  side.loop->Post([weak = side.end] {
    if (const auto end = weak.lock()) end->Pump();
  });
}

// ---- sending

void PipeEnd::Send(uint8_t type, Bytes header, std::vector<ByteView> payload,
                   std::function<void(const Status&)> done) {
  uint64_t payload_bytes = 0;
  for (const auto& piece : payload) payload_bytes += piece.size();
  if (const Status refusal = shared_->CheckSend(open_, peer_, header.size(), payload_bytes); !refusal.ok()) {
    if (done == nullptr) return;
    shared_->loop.Post([self = shared_from_this(), done = std::move(done), refusal] {
      if (self->handle_ != nullptr) done(refusal);
    });
    return;
  }
  {
    std::lock_guard lock(pipe_->mutex);
    if (pipe_->sides[side_].queue.empty()) mine().moved = shared_->loop.Now();
    mine().queue.push_back({type, std::move(header), std::move(payload), payload_bytes, std::move(done)});
    AskToPump(theirs());
  }
  WatchForStall();
}

void PipeEnd::WatchForStall() {
  if (!open_) return;
  stall_.Arm(*this, &PipeEnd::CheckStall);
}

void PipeEnd::CheckStall() {
  if (!open_) return;
  Time moved{};
  {
    std::lock_guard lock(pipe_->mutex);
    if (mine().queue.empty()) return;
    moved = mine().moved;
  }
  if (stall_.Stalled(moved)) {
    shared_->stalled.Add();
    return End({Code::kDeadlineExceeded, "peer " + peer_ + " stopped receiving in the middle of a message"});
  }
  WatchForStall();
}

// ---- receiving

void PipeEnd::Pump() {
  {
    std::lock_guard lock(pipe_->mutex);
    mine().pump_posted = false;
  }
  for (size_t budget = kPipeTurnBytes; open_;) {
    const size_t bytes = incoming_.active() ? CopySome() : TakeMessage();
    if (bytes == 0) return;
    if (open_ && !incoming_.active()) EndMessage();
    if (budget > bytes) {
      budget -= bytes;
      continue;
    }
    std::lock_guard lock(pipe_->mutex);
    if (open_) AskToPump(mine());
    return;
  }
}

// Returns 0 if there is none.
size_t PipeEnd::TakeMessage() {
  uint8_t type = 0;
  Bytes header;
  uint64_t payload_bytes = 0;
  {
    std::lock_guard lock(pipe_->mutex);
    if (theirs().queue.empty()) return 0;
    auto& message = theirs().queue.front();
    type = message.type;
    header = std::move(message.header);
    payload_bytes = message.payload_bytes;
  }
  const auto& options = shared_->options;
  Status status;
  if (header.size() > options.max_header_bytes || payload_bytes > options.max_payload_bytes) {
    status = Status(Code::kDataLoss, "a message of " + std::to_string(header.size()) + " and " +
                                         std::to_string(payload_bytes) + " bytes, at most " +
                                         std::to_string(options.max_header_bytes) + " and " +
                                         std::to_string(options.max_payload_bytes) + " are allowed");
  } else {
    status = incoming_.Start(*receiver_, *handle_, open_, type, header, payload_bytes);
  }
  if (!status.ok()) End(status.With(peer_));
  return kMessageBytes;
}

// Returns 0 if the peer has withdrawn its message.
size_t PipeEnd::CopySome() {
  size_t bytes = 0;
  {
    std::lock_guard lock(pipe_->mutex);
    if (theirs().queue.empty()) return 0;
    const auto& message = theirs().queue.front();
    uint64_t skip = message.payload_bytes - incoming_.left();
    std::array<iovec, kMaxPipeVectors> room;
    const size_t count = incoming_.Gather(room, kCopyBytes, &bytes);
    size_t at = 0;
    size_t offset = 0;
    for (ByteView piece : message.payload) {
      const uint64_t passed = std::min<uint64_t>(skip, piece.size());
      skip -= passed;
      piece = piece.subspan(passed);
      while (at < count && !piece.empty()) {
        const size_t n = std::min(room[at].iov_len - offset, piece.size());
        std::memcpy(static_cast<std::byte*>(room[at].iov_base) + offset, piece.data(), n);
        piece = piece.subspan(n);
        offset += n;
        if (offset < room[at].iov_len) continue;
        ++at;
        offset = 0;
      }
    }
    theirs().moved = shared_->loop.Now();
  }
  shared_->bytes_received.Add(bytes);
  incoming_.Advance(bytes, *receiver_, *handle_, open_);
  return bytes;
}

// Completes the delivered message for its sender.
void PipeEnd::EndMessage() {
  std::lock_guard lock(pipe_->mutex);
  if (theirs().queue.empty()) return;
  auto done = std::move(theirs().queue.front().done);
  theirs().queue.pop_front();
  theirs().moved = shared_->loop.Now();
  if (done == nullptr || theirs().loop == nullptr) return;
  theirs().loop->Post([weak = theirs().end, done = std::move(done)] {
    const auto end = weak.lock();
    if (end != nullptr && end->handle_ != nullptr) done({});
  });
}

// ---- the end

void PipeEnd::End(Status why) {
  if (!open_) return;
  shared_->loop.Post([self = shared_from_this(), queue = Shut(), why = std::move(why)] {
    for (const auto& message : queue) {
      if (self->handle_ != nullptr && message.done != nullptr) message.done(why);
    }
    if (self->handle_ != nullptr && self->receiver_ != nullptr)
      self->receiver_->OnClosed(*self->handle_, why);
  });
}

void PipeEnd::Detach() {
  handle_ = nullptr;
  Shut();
}

void PipeEnd::OnPeerClosed() {
  End({Code::kUnavailable, "connection to " + peer_ + " closed by the peer" +
                               (incoming_.active() ? " in the middle of a message" : "")});
}

// Returns the undelivered messages to their sender.
std::deque<Pipe::Message> PipeEnd::Shut() {
  if (!open_) return {};
  open_ = false;
  if (on_end_ != nullptr) std::exchange(on_end_, nullptr)();
  return pipe_->CloseBy(side_);
}

std::deque<Pipe::Message> Pipe::CloseBy(int side) {
  std::lock_guard lock(mutex);
  closed = true;
  sides[side].loop = nullptr;
  const Side& other = sides[1 - side];
  if (other.loop != nullptr) {
    other.loop->Post([weak = other.end] {
      if (const auto end = weak.lock()) end->OnPeerClosed();
    });
  }
  return std::exchange(sides[side].queue, {});
}

}  // namespace leat::net
