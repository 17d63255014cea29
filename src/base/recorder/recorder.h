// Records what the threads of one role do. While nothing is recorded, it costs a relaxed load and a branch.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/recorder/span.h"

namespace leat::timeline {

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

}  // namespace leat::timeline
