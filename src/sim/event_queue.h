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
  size_t size() const { return heap_.size(); }

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
    if (heap_.empty()) return false;
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
  // A heap of four children a node: half the depth, and children lie side by side in memory.
  static constexpr size_t kChildren = 4;
  static bool Before(const Event& a, const Event& b) {
    return a.at != b.at ? a.at < b.at : a.order < b.order;
  }
  void Push(const Event& event) {
    size_t i = heap_.size();
    heap_.push_back(event);
    while (i > 0) {
      const size_t parent = (i - 1) / kChildren;
      if (!Before(event, heap_[parent])) break;
      heap_[i] = heap_[parent];
      i = parent;
    }
    heap_[i] = event;
  }
  Event Pop() {
    const Event top = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    const size_t n = heap_.size();
    size_t i = 0;
    while (n > 0) {
      const size_t first = i * kChildren + 1;
      if (first >= n) break;
      size_t least = first;
      for (size_t child = first + 1; child < first + kChildren && child < n; ++child) {
        if (Before(heap_[child], heap_[least])) least = child;
      }
      if (!Before(heap_[least], last)) break;
      heap_[i] = heap_[least];
      i = least;
    }
    if (n > 0) heap_[i] = last;
    return top;
  }

  Time now_{0};
  uint64_t last_ = 0;
  std::vector<Event> heap_;
  std::vector<std::function<void()>> calls_;
  std::vector<uint32_t> free_calls_;
};

}  // namespace leat::sim
