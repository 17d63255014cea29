// Virtual time: what is to happen, in the order of its time.
//
// Events are a few words that say what kind of thing happens to whom; whatever more there is to know lies
// where those words point. Things that happen rarely may be closures. At one time things happen in the order
// in which they were asked for, so that a run is a pure function of its inputs. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"

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

  // `at` before now: now.
  void At(Time at, uint32_t kind, uint32_t what) { Push({std::max(at, now_), ++last_, kind, what}); }
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
  static constexpr int kSpanBits = 14;  // 16 µs
  static constexpr uint64_t kBuckets = 8192;
  static uint64_t SpanOf(Time at) { return static_cast<uint64_t>(at.count()) >> kSpanBits; }

  static bool Later(const Event& a, const Event& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  void Push(const Event& event) {
    const uint64_t span = SpanOf(event.at);
    if (span <= span_) {
      current_.push_back(event);
      std::push_heap(current_.begin(), current_.end(), Later);
    } else if (span < span_ + kBuckets) {
      buckets_[span % kBuckets].push_back(event);
      ++near_;
    } else {
      far_.push_back(event);
      std::push_heap(far_.begin(), far_.end(), Later);
    }
  }
  // Moves on to the next span that has an event.
  void Turn() {
    while (current_.empty()) {
      // With nothing near, to where the far begins.
      span_ = near_ > 0 ? span_ + 1 : SpanOf(far_.front().at);
      current_.swap(buckets_[span_ % kBuckets]);
      near_ -= current_.size();
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
  uint64_t near_ = 0;           // events in buckets_
  std::vector<Event> current_;  // of the span that is now, and a heap
  std::vector<std::vector<Event>> buckets_ = std::vector<std::vector<Event>>(kBuckets);  // by span % kBuckets
  std::vector<Event> far_;                                                               // a heap
  std::vector<std::function<void()>> calls_;
  std::vector<uint32_t> free_calls_;
};

}  // namespace leat::sim
