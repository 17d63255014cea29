// Virtual time: a queue of events ordered by time.
//
// An event is a kind and an index into the caller's data. Rare events may be closures. Events at the same
// time run in the order of scheduling, so a run is a pure function of its inputs. Not thread-safe.
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
  // The kind of closures; the caller defines all others.
  static constexpr uint32_t kCall = 0;

  Time now() const { return now_; }
  bool empty() const { return size() == 0; }
  // The number of pending events.
  uint64_t size() const { return current_.size() + near_ + later_ + far_.size(); }

  // Schedules an event; times in the past mean now.
  void At(Time at, uint32_t kind, uint32_t what) { Add(std::max(at, now_), ++last_, kind, what); }
  void After(Duration delay, std::function<void()> call) {
    uint32_t index = static_cast<uint32_t>(calls_.size());
    if (free_calls_.empty()) {
      calls_.push_back(std::move(call));
    } else {
      index = free_calls_.back();
      free_calls_.pop_back();
      calls_[index] = std::move(call);
    }
    At(now_ + delay, kCall, index);
  }

  // Calls look(event, hop) for events in the near future: hop 0 when the event is kHops time spans away, up
  // to hop kHops - 1 in the last span before it. Events scheduled later than that are omitted. Changes
  // nothing.
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

  // Takes the next event and advances the time; false if there is none. Events of kind kCall have been
  // executed.
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
  // A calendar queue (Brown 1988). Events of this year and the next are in buckets of one time span each,
  // unsorted until their span begins; then they become a heap, small enough for the innermost cache. Later
  // events are stored by year, and distributed to buckets a year ahead.
  // With hundreds of events in a span, LookAhead would fetch more than the inner caches hold, so spans become
  // shorter then.
  static constexpr int kLongest = 13, kShortest = 9;  // 2^n ns: 8 µs to 0.5 µs
  static constexpr uint64_t kMany = 40, kFew = 8;     // events of a span
  static constexpr uint64_t kSpans = 2048;            // per year, which is 17 ms at most
  static constexpr uint64_t kBuckets = 2 * kSpans;
  static constexpr uint64_t kYears = 1024;
  struct Bucket {
    std::unique_ptr<Event[]> events;
    uint32_t size = 0, room = 0;
    // Field by field: copying a struct that was just written field by field is slow.
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
  uint64_t SpanOf(Time at) const { return static_cast<uint64_t>(at.count()) >> span_bits_; }
  static uint64_t YearOf(uint64_t span) { return span / kSpans; }

  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  void Add(Time at, uint64_t order, uint32_t kind, uint32_t what) {
    const uint64_t span = SpanOf(at);
    const uint64_t year = YearOf(span);
    if (span <= span_) {
      current_.push_back({at, order, kind, what});
      std::push_heap(current_.begin(), current_.end(), Later());
    } else if (year <= year_ + 1) {
      buckets_[span % kBuckets].Add(at, order, kind, what);
      ++near_;
    } else if (year < year_ + kYears) {
      std::vector<Event>& events = years_[year % kYears];
      if (events.capacity() == 0 && !spare_.empty()) {
        events.swap(spare_.back());
        spare_.pop_back();
      }
      events.push_back({at, order, kind, what});
      ++later_;
    } else {
      far_.push_back({at, order, kind, what});
      std::push_heap(far_.begin(), far_.end(), Later());
    }
  }
  // Advances to the next span with an event.
  void AdvanceSpan() {
    while (current_.empty()) {
      if (near_ == 0) {
        // This year and the next are empty: goes to the year before the next one with events.
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
    began_ += current_.size();
  }
  // Adapts the spans to the number of their events, if enough have begun to tell and to pay for it.
  void AdaptSpans() {
    if (began_ < std::max<uint64_t>(1 << 16, 4 * size())) return;
    const uint64_t spans = span_ - adapted_ + 1;
    const int change = began_ > kMany * spans ? -1 : began_ < kFew * spans ? 1 : 0;
    began_ = 0;
    adapted_ = span_;
    if (change == 0 || span_bits_ + change < kShortest || span_bits_ + change > kLongest) return;
    std::vector<Event> all;
    all.reserve(size());
    const auto take = [&all](std::vector<Event>* events) {
      all.insert(all.end(), events->begin(), events->end());
      events->clear();
    };
    take(&current_);
    for (Bucket& bucket : buckets_) {
      all.insert(all.end(), bucket.events.get(), bucket.events.get() + std::exchange(bucket.size, 0));
    }
    for (std::vector<Event>& events : years_) take(&events);
    take(&far_);
    near_ = later_ = 0;
    span_bits_ += change;
    span_ = adapted_ = SpanOf(now_);
    year_ = YearOf(span_);
    looked_.fill(span_);
    for (const Event& event : all) Add(event.at, event.order, event.kind, event.what);
  }
  // Moves the events of the following year into buckets. Years in between have none.
  void BeginYear(uint64_t year) {
    year_ = year;
    std::vector<Event>& next = years_[(year + 1) % kYears];
    for (const Event& event : next) ComeNear(event);
    later_ -= next.size();
    next.clear();
    if (next.capacity() > 0) spare_.push_back(std::move(next));
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
    if (current_.empty()) {
      AdaptSpans();
      AdvanceSpan();
    }
    std::pop_heap(current_.begin(), current_.end(), Later());
    const Event event = current_.back();
    current_.pop_back();
    return event;
  }

  Time now_{0};
  uint64_t last_ = 0;
  int span_bits_ = kLongest;
  uint64_t span_ = 0;
  uint64_t began_ = 0, adapted_ = 0;                             // events that have begun since this span
  std::array<uint64_t, kHops> looked_{};                         // spans that LookAhead has processed
  uint64_t year_ = 0;                                            // year of span_
  uint64_t near_ = 0;                                            // events in buckets_
  uint64_t later_ = 0;                                           // events in years_
  std::vector<Event> current_;                                   // the current span, as a heap
  std::vector<Bucket> buckets_ = std::vector<Bucket>(kBuckets);  // by span % kBuckets
  std::vector<std::vector<Event>> years_ = std::vector<std::vector<Event>>(kYears);  // by year % kYears
  std::vector<std::vector<Event>> spare_;  // empty, with the memory of years that are over
  std::vector<Event> far_;                 // a heap of events at least kYears years ahead when scheduled
  std::vector<std::function<void()>> calls_;
  std::vector<uint32_t> free_calls_;
};

}  // namespace leat::sim
