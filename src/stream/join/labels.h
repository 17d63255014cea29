// Labels that come later: found by key and time, and when the events that they belong to are ready.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "stream/source.h"

namespace leat::stream {

// A growing sequence of times in which a time of a range is found in O(log n) steps, as long as times are
// nearly in order; times without any order take up to n. Not thread-safe.
class TimeSequence {
 public:
  // Positions of the times that are here. They stay the same.
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return base_ + levels_[0].size(); }
  uint64_t bytes() const { return levels_[0].size() * (sizeof(Range) + sizeof(Range) / (kBranches - 1)); }

  void Append(int64_t time);
  // Forgets the first one; there must be one.
  void DropFirst();
  // The first position from `from` on, in [begin(), end()], with a time in [low, high]; end(): none. Adds the
  // number of times and ranges that were looked at to `steps`.
  uint64_t Find(uint64_t from, int64_t low, int64_t high, uint64_t* steps) const;

 private:
  static constexpr unsigned kBits = 3;
  static constexpr unsigned kBranches = 1 << kBits;
  struct Range {
    int64_t min, max;
  };
  uint64_t begin_ = 0, base_ = 0;  // base_: the position of the first entry of each level
  // levels_[0] has the times; a range of another level covers kBranches of the one below.
  std::vector<std::vector<Range>> levels_ = std::vector<std::vector<Range>>(1);
};

// Labels of consecutive offsets, found by key and time. The range moves on: labels are appended at its end
// and dropped at its begin. Not thread-safe.
class LabelIndex {
 public:
  explicit LabelIndex(int64_t window_ms) : window_ms_(window_ms) {}

  // The range [begin, end) of offsets whose labels are here.
  uint64_t begin() const { return blocks_.empty() ? end_ : blocks_.front().begin; }
  uint64_t end() const { return end_; }
  // Memory, about.
  uint64_t bytes() const;

  // Empty, from this offset on.
  void Restart(uint64_t at);
  // Appends the records [end(), end() + labels.size()). `key` and `time` are the indexes of these attributes.
  // Records without a key, a time or a value are no labels: a value without bytes is a tombstone.
  void Append(const RecordBatch& labels, size_t key, size_t time);
  // Forgets labels before the offset, except some that came with one that stays. The offset is in the range,
  // or its end.
  void DropBefore(uint64_t offset);

  struct Label {
    uint64_t offset = 0;
    ByteView value;  // valid until the label is dropped
  };
  // The first label in [begin, end) with the key and a time from `event_ms` to `event_ms` + window. O(log n)
  // for n labels with one key, whose times are nearly in order.
  std::optional<Label> Find(ByteView key, int64_t event_ms, uint64_t begin, uint64_t end) const;
  // Labels and ranges of times that all calls of Find have looked at.
  uint64_t steps() const { return steps_; }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  struct Entry {
    uint64_t offset = 0;
    int64_t time = 0;
    uint64_t hash = 0;               // hash of the key
    uint64_t next = kNone;           // number of the next entry with this hash
    const std::byte* key = nullptr;  // the value follows it
    uint32_t key_size = 0, value_size = 0;
  };
  // Labels that were appended at once.
  struct Block {
    uint64_t begin = 0;
    size_t entries = 0;
    Bytes data;
  };
  // For a hash with many entries: their numbers, and their times in the same order.
  struct LongChain {
    std::deque<uint64_t> numbers;
    TimeSequence times;
  };
  // Entries with a hash: the numbers of the first and the last one, and how many they are.
  struct Chain {
    uint64_t first = kNone, last = kNone;
    uint64_t size = 0;
    std::unique_ptr<LongChain> more;  // null: it is short
  };
  const Entry& At(uint64_t number) const { return entries_[number - first_]; }
  void Add(uint64_t number, Chain* chain);
  void DropFirst();

  const int64_t window_ms_;
  uint64_t end_ = 0;
  std::deque<Block> blocks_;
  std::deque<Entry> entries_;  // in the order of offsets; they have numbers, from first_ on
  uint64_t first_ = 0;
  std::unordered_map<uint64_t, Chain> chains_;
  uint64_t data_bytes_ = 0;
  uint64_t long_entries_ = 0;  // entries of long chains
  mutable uint64_t steps_ = 0;
};

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
