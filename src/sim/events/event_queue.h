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
  bool empty() const { return size() == 0; }
  // Events that are still to happen.
  uint64_t size() const { return current_.size() + near_ + later_ + far_.size(); }

  // `at` before now: now.
  void At(Time at, uint32_t kind, uint32_t what) {
    at = std::max(at, now_);
    const uint64_t span = SpanOf(at);
    const uint64_t year = YearOf(span);
    if (span <= span_) {
      current_.push_back({at, ++last_, kind, what});
      std::push_heap(current_.begin(), current_.end(), Later());
    } else if (year <= year_ + 1) {
      buckets_[span % kBuckets].Add(at, ++last_, kind, what);
      ++near_;
    } else if (year < year_ + kYears) {
      years_[year % kYears].push_back({at, ++last_, kind, what});
      ++later_;
    } else {
      far_.push_back({at, ++last_, kind, what});
      std::push_heap(far_.begin(), far_.end(), Later());
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
  // A calendar (Brown 1988): what is near, in this year and the next, lies in buckets of one span of time
  // each, unsorted until its span comes; only then is it made a heap, small enough for the nearest cache.
  // What is later lies with all of its year, and is spread over the spans when the year before that begins.
  static constexpr int kSpanBits = 15;      // 33 µs
  static constexpr uint64_t kSpans = 2048;  // of a year, which is 67 ms
  static constexpr uint64_t kBuckets = 2 * kSpans;
  static constexpr uint64_t kYears = 1024;
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

  static uint64_t YearOf(uint64_t span) { return span / kSpans; }

  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  // Moves on to the next span that has an event.
  void AdvanceSpan() {
    while (current_.empty()) {
      if (near_ == 0) {
        // Nothing in this year or the next: to the year before the next that may have something.
        BeginYear(later_ > 0 ? year_ + 1 : YearOf(SpanOf(far_.front().at)));
        span_ = std::max(span_, year_ * kSpans - 1);
        continue;
      }
      if (YearOf(++span_) != year_) BeginYear(year_ + 1);
      Bucket& bucket = buckets_[span_ % kBuckets];
      current_.assign(bucket.events.get(), bucket.events.get() + bucket.size);
      near_ -= std::exchange(bucket.size, 0);
    }
    std::make_heap(current_.begin(), current_.end(), Later());
  }
  // All of the year after this one comes near; between the last year and this, nothing is left.
  void BeginYear(uint64_t year) {
    year_ = year;
    std::vector<Event>& next = years_[(year + 1) % kYears];
    for (const Event& event : next) ComeNear(event);
    later_ -= next.size();
    next.clear();
    while (!far_.empty() && YearOf(SpanOf(far_.front().at)) <= year + 1) {
      std::pop_heap(far_.begin(), far_.end(), Later());
      ComeNear(far_.back());
      far_.pop_back();
    }
  }
  void ComeNear(const Event& event) {
    buckets_[SpanOf(event.at) % kBuckets].Add(event.at, event.order, event.kind, event.what);
    ++near_;
  }
  Event Pop() {
    if (current_.empty()) AdvanceSpan();
    std::pop_heap(current_.begin(), current_.end(), Later());
    const Event event = current_.back();
    current_.pop_back();
    return event;
  }

  Time now_{0};
  uint64_t last_ = 0;
  uint64_t span_ = 0;
  std::array<uint64_t, kHops> looked_{};                         // spans that LookAhead has been through
  uint64_t year_ = 0;                                            // of span_
  uint64_t near_ = 0;                                            // events in buckets_
  uint64_t later_ = 0;                                           // events in years_
  std::vector<Event> current_;                                   // of the span that is now, and a heap
  std::vector<Bucket> buckets_ = std::vector<Bucket>(kBuckets);  // by span % kBuckets
  std::vector<std::vector<Event>> years_ = std::vector<std::vector<Event>>(kYears);  // by year % kYears
  std::vector<Event> far_;  // a heap: of years from kYears on, counted from the one in which it was asked for
  std::vector<std::function<void()>> calls_;
  std::vector<uint32_t> free_calls_;
};

}  // namespace leat::sim
