// A job's past: samples of a second for an hour, samples of a minute beyond, and a log of events. The memory
// is bounded, however long the job runs and however many members it has.
//
// Pure: times are arguments. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "show/history/events.h"
#include "show/history/sample.h"

namespace leat::observe {

class History {
 public:
  struct Limits {
    double fine_s = 3600;           // span of the samples of a second
    size_t fine_bytes = 7 << 20;    // fewer than fine_s if they take more
    double coarse_s = 60;           // length of the samples beyond
    size_t coarse_bytes = 3 << 20;  // if they take more, the older ones become longer
    size_t members = 24;            // members of each role in a sample: those with the lowest indices
    size_t events = 1000;           // without dead letters
    size_t dead_letters = 200;
  };
  History() : History(Limits()) {}
  explicit History(Limits limits) : limits_(limits) {}

  // A sample of a second. Returns it as it is kept, until the next call; null: its time is not later than
  // that of the last one, and it is ignored.
  const Sample* Add(Sample sample);
  // Events get their numbers here, unless they have one already that is higher than all others.
  void Add(Event event);
  // A sample of a minute or more, from a file. Before all others, and in their order; otherwise it is
  // ignored.
  void AddCoarse(Sample sample);

  bool empty() const { return fine_.empty() && coarse_.empty(); }
  double begin_s() const;  // the beginning of the first sample; 0: there is none
  double end_s() const;
  const std::deque<Sample>& fine() const { return fine_; }
  const std::deque<Sample>& coarse() const { return coarse_; }
  const std::deque<Event>& events() const { return events_; }
  const std::deque<Event>& dead_letters() const { return dead_letters_; }
  uint64_t last_event() const { return last_event_; }  // its number
  // Events and dead letters after this number, the last `limit` of them, in their order.
  std::vector<Event> EventsAfter(uint64_t number, size_t limit) const;
  size_t bytes() const;  // in memory, about

  // The samples that end in (from, to], merged to at most `points`.
  std::vector<Sample> Query(double from_s, double to_s, size_t points) const;

 private:
  void Limit(Sample* sample) const;
  void ThinCoarse();

  Limits limits_;
  std::deque<Sample> fine_;
  std::deque<Sample> coarse_;
  size_t fine_used_ = 0, coarse_used_ = 0;
  // The next sample of a minute, merged from the samples of a second so far.
  std::optional<Sample> minute_;
  std::deque<Event> events_, dead_letters_;
  uint64_t last_event_ = 0;
};

}  // namespace leat::observe
