// Decides when the events of a partition are ready, and with which labels they are joined, by the times of
// the records of both topics. Sans-IO: it says what it needs to know next. Not thread-safe.
//
// The rule of the join: an event at time t is joined with the first label, by offset, that has its key and a
// time from t to t + window. A label may be joined with several events.
//
// Events are taken in *steps*: consecutive ones whose times span at most a 32nd of the window. A step is
// ready once the label partition has passed it: it has a label later than the step's last event plus the
// window. The first such label ends the step's labels. A label comes too late if it is written after a label
// that is more than a window younger than its event. Once nothing was appended to the label partition for
// `idle`, those events of a step are ready that were there all that time; then all labels that there are end
// theirs.
//
// The labels of a step begin no later than the first one at or after its earliest event, and than that of the
// events before it that lie back by up to an eighth of the window: so late may an event be. Times of one
// partition need not ascend otherwise. An older event may miss labels. An event that lies ahead of later ones
// is waited for, and makes their ranges longer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "stream/source.h"

namespace leat::stream {

class LabelSchedule {
 public:
  struct Options {
    int64_t window_ms = 0;
    Duration idle{0};
  };
  // Times of consecutive records. A record without a time, which may be absent, is not waited for.
  using Times = std::span<const std::optional<int64_t>>;

  // Goes on after `last`; LabelMark(): begins with the first event.
  LabelSchedule(const Options& options, const LabelMark& last);

  // Sets the current ranges of the partitions.
  void OnRanges(Time now, const PartitionRange& events, const PartitionRange& labels);

  struct Wait {};  // for other ranges, or for time to pass
  struct FindLabel {
    int64_t since_ms;
  };
  struct ReadEvents {
    uint64_t begin, end;
  };
  struct ReadLabels {
    uint64_t begin, end;
  };
  using Next = std::variant<Wait, FindLabel, ReadEvents, ReadLabels, LabelMark>;
  // The next output: a mark, which counts as reported, or a question, which the functions below answer. The
  // same question comes again until it is answered.
  Next Advance(Time now);
  // The first label at or after the time that was asked for.
  void OnLabel(uint64_t offset);
  // The times of the records that were asked for, or of the first of them.
  void OnEvents(Times times);
  void OnLabels(Times times);
  // The other answer: the times cannot be judged yet, so the question does not come again before `until`.
  // Events that are held are in no mark. Labels that are held make no event ready, and are joined with those
  // that have been waited for long enough.
  void HoldEvents(Time until) { events_held_until_ = until; }
  void HoldLabels(Time until) { labels_held_until_ = until; }

  // The last mark.
  const LabelMark& last() const { return last_; }
  // Every event that the partition can ever have is ready.
  bool done() const { return events_.sealed && std::max(last_.events, events_.begin) >= events_.end; }

 private:
  struct Step {
    uint64_t events = 0;  // in it
    uint64_t end = 0;
    bool timed = false;  // it has an event with a time; the rest is set then
    int64_t base = 0;    // time of the first of them
    int64_t least = 0, most = 0;
  };
  // All labels before an offset are at most so late.
  struct Sample {
    uint64_t offset = 0;
    int64_t most = 0;
  };

  bool Spans(int64_t base, int64_t time) const;
  int64_t FirstLabelTime(const Step& step) const;
  void AddEvent(std::optional<int64_t> time);
  // Takes labels up to the first that is later than `time`. False: there are none after the last known one.
  bool PassTo(int64_t time);
  void TakeLabel(std::optional<int64_t> time);
  uint64_t WaitedFor(Time now) const;
  LabelMark Emit(uint64_t end, uint64_t labels_end);

  Options options_;
  LabelMark last_;
  PartitionRange events_, labels_;
  bool known_ = false;  // the ranges of the partitions are known
  std::deque<Step> steps_;
  uint64_t next_event_ = 0;  // all before it are in steps
  // The earliest events of the last spans of time that steps began in.
  struct Slot {
    int64_t base = 0;  // time of its first event
    int64_t least = 0;
  };
  std::deque<Slot> slots_;
  // Labels before next_label_ are passed, the times of some from there on are known.
  bool placed_ = false;
  uint64_t next_label_ = 0;
  std::vector<std::optional<int64_t>> label_times_;
  uint64_t label_times_begin_ = 0;
  int64_t most_label_ = 0;
  std::deque<Sample> samples_;
  Time labels_grew_{0};
  Time events_held_until_{0}, labels_held_until_{0};
  // How far the events went at these times.
  struct Seen {
    Time at{0};
    uint64_t end = 0;
  };
  std::deque<Seen> seen_;
};

}  // namespace leat::stream
