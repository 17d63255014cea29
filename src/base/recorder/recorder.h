// Records what the threads of one role do, and encodes it. While nothing is recorded, it costs a relaxed load
// and a branch.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"

namespace leat::timeline {

// ---- a period in which a thread of a role did one kind of work

enum class Kind : uint8_t {
  kDecode = 0,      // a split: read and decoded
  kForward = 1,     // forward pass of a batch
  kBackward = 2,    // backward pass of a batch
  kStep = 3,        // forward and backward, by a plan that runs them together on several threads
  kPush = 4,        // to one server, from the request to its reply; `number`: the request's sequence
  kBucket = 5,      // all-reduce: a bucket of gradients, from its start to its end
  kWait = 6,        // a worker has nothing to do but to wait for servers or members
  kApply = 7,       // a push: from its first gradient to the last one that is taken, as in kPush
  kCheckpoint = 8,  // a shard or, by the coordinator, all of one; `number`: the checkpoint
};
inline constexpr std::array<std::string_view, 9> kKindNames = {
    "decode", "forward", "backward", "forward+backward", "push", "bucket", "wait", "apply", "checkpoint"};

struct Span {
  Kind kind = Kind::kWait;
  Time begin{0}, end{0};  // by the clock of its host
  uint64_t peer = 0;      // node: the server of a push, the worker whose push is applied; 0: none
  uint64_t number = 0;
  uint64_t bytes = 0;  // size of its data; 0: unknown
  Duration busy{0};    // kApply: without the time in which the next gradient had not arrived yet
  friend bool operator==(const Span&, const Span&) = default;
};

// ---- recording

// A row of spans. A single thread at a time adds to it.
class Track {
 public:
  // A recording that is taken from every quarter of a second loses nothing up to 32,000 spans a second.
  static constexpr size_t kCapacity = 1 << 13;

  // `on` outlives the track.
  Track(std::string name, const std::atomic<bool>& on) : name_(std::move(name)), on_(on) {}

  // Whether to record. Changes at any time; a span that began before is recorded, or not.
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Dropped if nothing is recorded, or if the track is full.
  void Add(const Span& span);

 private:
  friend class Recorder;
  void Prepare();
  void Take(std::vector<Span>* out);

  const std::string name_;
  const std::atomic<bool>& on_;
  std::unique_ptr<Span[]> memory_;
  std::atomic<Span*> ring_{nullptr};  // in the memory; null before the first recording
  std::atomic<uint64_t> added_{0};    // by the thread that records
  std::atomic<uint64_t> taken_{0};    // by the one that takes
  std::atomic<uint64_t> dropped_{0};
};

// Adds a span from its construction to its destruction, unless the track is null or nothing is recorded.
class Scope {
 public:
  Scope(Track* track, Kind kind) : track_(track != nullptr && track->on() ? track : nullptr) {
    if (track_ == nullptr) return;
    span_.kind = kind;
    span_.begin = MonotonicClock().Now();
  }
  ~Scope() {
    if (track_ == nullptr) return;
    span_.end = MonotonicClock().Now();
    track_->Add(span_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  // To be filled in.
  Span& span() { return span_; }

 private:
  Track* const track_;
  Span span_;
};

struct TrackSpans {
  std::string name;
  std::vector<Span> spans;  // in the order in which they ended
  friend bool operator==(const TrackSpans&, const TrackSpans&) = default;
};

class Recorder {
 public:
  // Valid as long as the recorder. Thread-safe.
  Track* MakeTrack(std::string name);

  // ---- Recording, by a single thread
  // Records spans from now on. Spans that nobody has taken are dropped.
  void Begin();
  void End();
  // The spans since the last call, by track; without tracks that have none.
  std::vector<TrackSpans> Take();
  // Spans of this recording for which there was no room.
  uint64_t dropped() const;

 private:
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;  // guards the list
  std::deque<Track> tracks_;
};

// ---- bytes in which a role sends the spans that it has recorded
//
//   chunk = version:u8 track*
//   track = name:text count:varint span*             name: length:u8 bytes
//   span  = kind:u8 end:zigzag length:varint peer:varint number:varint bytes:varint busy:varint
//
// Times are nanoseconds; `end` is the difference from the end of the span before it, in the chunk. varint and
// zigzag: base/encoding/varint.h. Chunks may be put one after the other: no name is so long that a track
// begins like a version.

// Limit of a chunk that a role sends; a receiver refuses larger ones.
inline constexpr size_t kMaxChunkBytes = 256 << 10;

// As few chunks as possible, each of at most kMaxChunkBytes.
std::vector<Bytes> EncodeSpans(const std::vector<TrackSpans>& tracks);
// Decodes chunks, at least one. kDataLoss for anything that EncodeSpans does not write.
Result<std::vector<TrackSpans>> DecodeSpans(ByteView chunks);

}  // namespace leat::timeline
