// Events joined with labels that come later, on a topic of their own.
//
// Both topics are divided alike (CheckCopartitioned). The maker of cuts asks for marks, which say how far
// events are ready and with which labels (LabelSchedule has the rule), and keeps them with the cuts. A read
// of a cut then joins the same labels again, wherever and whenever it is repeated: the join has no other
// state. Labels that were read are kept for the next read, up to a limit; they only save time.
//
// An event without a key, and one that finds no label, has none: the attribute kLabel is missing. Labels
// without a key, and tombstones, are ignored.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "stream/source.h"

namespace leat::stream {

struct JoinOptions {
  // Each opens a topic anew. Their records have keys.
  std::function<Result<std::unique_ptr<TimedSource>>()> open_events, open_labels;
  std::string events_name = "events", labels_name = "labels";  // in messages
  int64_t window_ms = 0;
  Duration idle{0};
  uint64_t label_bytes = uint64_t{256} << 20;  // memory for labels that were read
  const Clock* clock = nullptr;                // null: the machine's
  std::function<int64_t()> wall_ms;            // milliseconds since 1970; empty: the machine's
};

// A report has at most so many marks of a partition, and in all.
inline constexpr size_t kMostMarks = 256;
inline constexpr size_t kMostMarksInAll = 1 << 14;
// A time that is so much later than the clock is ignored, and its record not waited for, if most records
// after it are not as late. Otherwise the clock may be behind: these records wait, and the partition's
// `unasked` says so.
inline constexpr int64_t kMostAheadMs = 3'600'000;
// The clock is said to have jumped if it goes so much more or less than the machine's steady one.
inline constexpr int64_t kClockJumpMs = 60'000;

// The partitions of the events as a source with marks (Source::WantMarks) and labels. A partition that the
// label topic does not have yet is reported, and has no marks until it does. Not thread-safe; the errors are
// those of both sources.
Result<std::unique_ptr<Source>> MakeJoinSource(JoinOptions options);

// Whether the records of two topics with the same key are in partitions of the same number.

// Compares the numbers of partitions, and where both topics have some of their last keys. kInvalidArgument
// with both names if they differ; ok also if no key is found in both. Keys move when partitions are added, so
// a tenth of them may be elsewhere.
//
// The labels that are looked at are the last ones of up to 16 partitions. Their events are looked for among
// the last ones of these partitions, and among those from `window_ms` before the labels on.
Status CheckCopartitioned(TimedSource& events, const std::string& events_name, TimedSource& labels,
                          const std::string& labels_name, int64_t window_ms);

}  // namespace leat::stream
