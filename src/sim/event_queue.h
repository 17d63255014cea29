// Virtual time: what is to happen, in the order of its time.
//
// Events are a few words that say what kind of thing happens to whom; whatever more there is to know lies
// where those words point. Things that happen rarely may be closures. At one time things happen in the order
// in which they were asked for, so that a run is a pure function of its inputs. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/prefetch.h"

namespace leat::sim {

class EventQueue {
 public:
  struct Event {
    Time at;
    uint64_t order = 0;
    uint32_t kind = 0;
    uint32_t what = 0;
  };
  // The kind of closures; others are the caller's.
  static constexpr uint32_t kCall = 0;

  Time now() const { return now_; }
  bool empty() const { return current_.empty() && near_ == 0 && far_.empty(); }
  // Events that are soon, about.
  uint64_t near() const { return near_; }

  // `at` before now: now.
  void At(Time at, uint32_t kind, uint32_t what) {
    at = std::max(at, now_);
    const uint64_t span = SpanOf(at);
    if (span <= span_) {
      current_.push_back({at, ++last_, kind, what});
      std::push_heap(current_.begin(), current_.end(), Later);
    } else if (span < span_ + kBuckets) {
      buckets_[span % kBuckets].Add(at, ++last_, kind, what);
      ++near_;
    } else {
      far_.push_back({at, ++last_, kind, what});
      std::push_heap(far_.begin(), far_.end(), Later);
    }
  }
  void After(Duration delay, std::function<void()> call) {
    uint32_t place = static_cast<uint32_t>(calls_.size());
    if (free_calls_.empty()) {
      calls_.push_back(std::move(call));
    } else {
      place = free_calls_.back();
      free_calls_.pop_back();
      calls_[place] = std::move(call);
    }
    At(now_ + delay, kCall, place);
  }

  // Of what is to happen soon, look(event, hop): hop 0 when it is kHops spans of time from now, and so on
  // until hop kHops - 1 in the last of them. What was asked for later than that is left out. Changes nothing.
  static constexpr int kHops = 6;
  template <class Look>
  void LookAhead(const Look& look) {
    if (looked_[0] == span_ + kHops) return;
    for (int hop = 0; hop < kHops; ++hop) {
      uint64_t& looked = looked_[hop];
      looked = std::max(looked, span_);
      while (looked < span_ + static_cast<uint64_t>(kHops - hop)) {
        const Bucket& bucket = buckets_[++looked % kBuckets];
        if (hop == 0) Prefetch(buckets_[(looked + 1) % kBuckets].events.get(), 8 * sizeof(Event));
        for (uint32_t i = 0; i < bucket.size; ++i) look(bucket.events[i], hop);
      }
    }
  }

  // The next event, time moved on to it; false when nothing is left. One of kind kCall has been carried out.
  bool Next(Event* event) {
    if (empty()) return false;
    *event = Pop();
    now_ = event->at;
    if (event->kind == kCall) {
      const auto call = std::move(calls_[event->what]);
      calls_[event->what] = nullptr;
      free_calls_.push_back(event->what);
      call();
    }
    return true;
  }

 private:
  // A calendar (Brown 1988): what is near lies in buckets of one span of time each, unsorted until its span
  // comes; only then is it made a heap, small enough for the nearest cache. What is far waits in a heap.
  static constexpr int kSpanBits = 15;  // 33 µs
  static constexpr uint64_t kBuckets = 4096;
  struct Bucket {
    std::unique_ptr<Event[]> events;
    uint32_t size = 0, room = 0;
    // Each word where it belongs: what was just written word by word is slow to copy.
    void Add(Time at, uint64_t order, uint32_t kind, uint32_t what) {
      if (size == room) Grow();
      Event& event = events[size++];
      event.at = at;
      event.order = order;
      event.kind = kind;
      event.what = what;
    }
    void Grow() {
      room = std::max(8u, 2 * room);
      auto more = std::make_unique<Event[]>(room);
      std::copy_n(events.get(), size, more.get());
      events = std::move(more);
    }
  };
  static uint64_t SpanOf(Time at) { return static_cast<uint64_t>(at.count()) >> kSpanBits; }

  static bool Later(const Event& a, const Event& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  // Moves on to the next span that has an event.
  void Turn() {
    while (current_.empty()) {
      // With nothing near, to where the far begins.
      span_ = near_ > 0 ? span_ + 1 : SpanOf(far_.front().at);
      Bucket& bucket = buckets_[span_ % kBuckets];
      current_.assign(bucket.events.get(), bucket.events.get() + bucket.size);
      near_ -= std::exchange(bucket.size, 0);
      while (!far_.empty() && SpanOf(far_.front().at) <= span_) {
        std::pop_heap(far_.begin(), far_.end(), Later);
        current_.push_back(far_.back());
        far_.pop_back();
      }
    }
    std::make_heap(current_.begin(), current_.end(), Later);
  }
  Event Pop() {
    if (current_.empty()) Turn();
    std::pop_heap(current_.begin(), current_.end(), Later);
    const Event event = current_.back();
    current_.pop_back();
    return event;
  }

  Time now_{0};
  uint64_t last_ = 0;
  uint64_t span_ = 0;
  std::array<uint64_t, kHops> looked_{};                         // spans that LookAhead has been through
  uint64_t near_ = 0;                                            // events in buckets_
  std::vector<Event> current_;                                   // of the span that is now, and a heap
  std::vector<Bucket> buckets_ = std::vector<Bucket>(kBuckets);  // by span % kBuckets
  std::vector<Event> far_;                                       // a heap
  std::vector<std::function<void()>> calls_;
  std::vector<uint32_t> free_calls_;
};

}  // namespace leat::sim
