#include "base/recorder/recorder.h"

#include <utility>

namespace leat::timeline {

void Track::Add(const Span& span) {
  Span* const ring = ring_.load(std::memory_order_acquire);
  if (!on() || ring == nullptr) return;
  const uint64_t at = added_.load(std::memory_order_relaxed);
  if (at - taken_.load(std::memory_order_acquire) >= kCapacity) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ring[at % kCapacity] = span;
  added_.store(at + 1, std::memory_order_release);
}

// Before recording begins. The ring stays: a thread may be about to add to it.
void Track::Prepare() {
  if (memory_ == nullptr) {
    memory_ = std::make_unique<Span[]>(kCapacity);
    ring_.store(memory_.get(), std::memory_order_release);
  }
  taken_.store(added_.load(std::memory_order_acquire), std::memory_order_release);
  dropped_.store(0, std::memory_order_relaxed);
}

void Track::Take(std::vector<Span>* out) {
  const uint64_t end = added_.load(std::memory_order_acquire);
  uint64_t at = taken_.load(std::memory_order_relaxed);
  for (; at < end; ++at) out->push_back(memory_[at % kCapacity]);
  taken_.store(at, std::memory_order_release);
}

Track* Recorder::MakeTrack(std::string name) {
  std::lock_guard lock(mutex_);
  return &tracks_.emplace_back(std::move(name), on_);
}

void Recorder::Begin() {
  std::lock_guard lock(mutex_);
  for (Track& track : tracks_) track.Prepare();
  on_.store(true, std::memory_order_release);
}

void Recorder::End() {
  on_.store(false, std::memory_order_relaxed);
}

std::vector<TrackSpans> Recorder::Take() {
  std::lock_guard lock(mutex_);
  std::vector<TrackSpans> taken;
  for (Track& track : tracks_) {
    TrackSpans row{.name = track.name_, .spans = {}};
    track.Take(&row.spans);
    if (!row.spans.empty()) taken.push_back(std::move(row));
  }
  return taken;
}

uint64_t Recorder::dropped() const {
  std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const Track& track : tracks_) sum += track.dropped_.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace leat::timeline
