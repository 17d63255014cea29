#include "stream/join/join_source.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "stream/inspect/peek.h"
#include "stream/join/labels.h"

namespace leat::stream {
namespace {

constexpr Duration kLookTime = std::chrono::milliseconds(500);  // limit of a call of Ranges, about
constexpr uint64_t kMostLabelsAtOnce = 4096;
constexpr uint64_t kLabelBytesAtOnce = 4 << 20;
constexpr uint64_t kIndexBytes = 128;                    // bytes of a label in an index, besides its record
constexpr Duration kHoldTime = std::chrono::seconds(1);  // between two looks at records that wait for a clock
constexpr uint64_t kNewest = 64;                         // records that say whether others are strays

// How many of the first records a clock can judge that takes times after `latest` for wrong: from the next
// one on, most are. They may be right, and the clock behind.
size_t Judged(const RecordTimes& times, int64_t latest) {
  size_t judged = times.size(), timed = 0, late = 0;
  for (size_t i = times.size(); i-- > 0;) {
    if (!times[i]) continue;
    ++timed;
    if (*times[i] <= latest) continue;
    if (2 * ++late > timed) judged = i;
  }
  return judged;
}

// The values of the attribute kLabel of a batch.
class FoundLabels {
 public:
  explicit FoundLabels(size_t records) : places_(records) {}

  void Set(size_t record, const LabelIndex::Label& label) {
    const auto* offset = reinterpret_cast<const std::byte*>(&label.offset);
    const size_t at = bytes_.size();
    bytes_.insert(bytes_.end(), offset, offset + sizeof(label.offset));
    bytes_.insert(bytes_.end(), label.value.begin(), label.value.end());
    places_[record] = {at, bytes_.size() - at};
  }
  AttributeValues Values() const {
    AttributeValues values;
    for (const auto& [at, size] : places_)
      values.Append(size == 0 ? std::nullopt : std::optional(ByteView(bytes_).subspan(at, size)));
    return values;
  }

 private:
  struct Place {
    size_t at = 0, size = 0;  // size 0: there is no label
  };
  std::vector<Place> places_;
  Bytes bytes_;
};

// The labels of ranges, by partition, within a limit of memory.
class LabelReader {
 public:
  LabelReader(std::unique_ptr<TimedSource> labels, int64_t window_ms, uint64_t most_bytes)
      : labels_(std::move(labels)), window_ms_(window_ms), most_bytes_(most_bytes) {
    batch_.wanted = {{Attribute::Kind::kKey, ""}, {Attribute::Kind::kTimestamp, ""}};
  }

  struct Event {
    size_t record = 0;
    ByteView key;
    int64_t time = 0;
  };
  // Joins the events with the labels [begin, end) of the partition.
  Status Join(uint32_t partition, uint64_t begin, uint64_t end, std::vector<Event> events,
              FoundLabels* found) {
    if (events.empty() || begin == end) return {};
    Kept& kept = indexes_.try_emplace(partition, Kept{LabelIndex(window_ms_), 0}).first->second;
    kept.used = ++uses_;
    LabelIndex& index = kept.index;
    if (begin < index.begin() || begin > index.end()) {
      index.Restart(begin);
    } else {
      index.DropBefore(begin);
    }
    while (true) {
      while (index.end() < end && HasRoom(index)) LEAT_RETURN_IF_ERROR(Extend(partition, end, &index));
      std::erase_if(events, [&](const Event& event) {
        const auto label = index.Find(event.key, event.time, begin, end);
        if (label) found->Set(event.record, *label);
        return label.has_value();
      });
      if (index.end() >= end || events.empty()) return {};
      index.Restart(index.end());  // these do not have what is still looked for
    }
  }

 private:
  struct Kept {
    LabelIndex index;
    uint64_t used = 0;  // when
  };

  // Whether more labels may be read into an index. Indexes of other partitions are dropped first.
  bool HasRoom(const LabelIndex& index) {
    const auto all = [&] {
      uint64_t bytes = 0;
      for (const auto& [partition, kept] : indexes_) bytes += kept.index.bytes();
      return bytes;
    };
    while (indexes_.size() > 1 && all() >= most_bytes_) {
      // The one in use was used last.
      indexes_.erase(std::ranges::min_element(indexes_, {}, [](const auto& i) { return i.second.used; }));
    }
    return index.bytes() < most_bytes_;
  }

  Status Extend(uint32_t partition, uint64_t end, LabelIndex* index) {
    const uint64_t bytes = std::min(kLabelBytesAtOnce, most_bytes_ / 4);
    const uint64_t fit = std::clamp<uint64_t>(bytes / label_bytes_, 1, kMostLabelsAtOnce);
    const uint64_t from = index->end(), to = from + std::min(end - from, fit);
    LEAT_RETURN_IF_ERROR(labels_->Read(partition, from, to, &batch_));
    if (batch_.size() != to - from)
      return {Code::kInternal,
              StrCat("partition ", partition, ": ", batch_.size(), " labels instead of ", to - from)};
    label_bytes_ = batch_.offsets.back() / batch_.size() + kIndexBytes;
    index->Append(batch_, 0, 1);
    return {};
  }

  const std::unique_ptr<TimedSource> labels_;
  const int64_t window_ms_;
  const uint64_t most_bytes_;
  std::map<uint32_t, Kept> indexes_;
  uint64_t uses_ = 0;
  RecordBatch batch_;
  uint64_t label_bytes_ = 1 << 10;  // mean bytes of the last labels
};

// Looks how far events are ready. It has sources of its own, because it reads elsewhere in the topics.
class MarkFinder {
 public:
  explicit MarkFinder(const JoinOptions& options) : options_(options) {}

  void Want(uint32_t partition, const LabelMark& last, uint64_t room) {
    const auto at = partitions_.find(partition);
    if (at != partitions_.end() && at->second.reported != last) partitions_.erase(at);
    partitions_.try_emplace(partition, options_, last).first->second.room = room;
  }
  bool wanted() const { return !partitions_.empty(); }

  // Adds the marks to the ranges of the events. Marks that are found before an error are in the next report.
  Status Report(const Clock& clock, std::vector<PartitionRange>* ranges) {
    if (events_ == nullptr) {
      LEAT_ASSIGN_OR_RETURN(events_, options_.open_events());
    }
    if (labels_ == nullptr) {
      LEAT_ASSIGN_OR_RETURN(labels_, options_.open_labels());
    }
    LEAT_ASSIGN_OR_RETURN(const auto labels, labels_->Ranges());
    const Time now = clock.Now();
    WarnOfJump(now);
    most_marks_ = std::clamp<size_t>(kMostMarksInAll / std::max<size_t>(1, ranges->size()), 1, kMostMarks);
    std::vector<uint32_t> open;
    for (PartitionRange& range : *ranges) {
      const uint32_t id = range.partition;
      const auto partition = partitions_.find(id);
      if (partition == partitions_.end()) continue;
      if (id >= labels.size()) {
        WarnOfMissing(id, range, labels.size());
        continue;
      }
      // Events whose labels cannot be seen at present do not go without them.
      if (range.unasked.empty()) range.unasked = labels[id].unasked;
      if (!range.unasked.empty()) continue;
      partition->second.schedule.OnRanges(now, range, labels[id]);
      partition->second.events_end = range.end;
      partition->second.labels_end = labels[id].end;
      open.push_back(id);
    }
    // In turn, on from where the last report stopped, so that none waits for the others for long.
    std::rotate(open.begin(), std::ranges::lower_bound(open, turn_), open.end());
    for (size_t i = 0; !open.empty() && clock.Now() - now < kLookTime;) {
      i %= open.size();
      const uint32_t id = open[i];
      turn_ = id + 1;
      const auto more = Look(now, id, &partitions_.at(id));
      if (!more.ok()) {
        if (more.status().code() != Code::kUnavailable) return more.status();
        const auto range = std::ranges::find(*ranges, id, &PartitionRange::partition);
        range->unasked = more.status().message();
      }
      if (more.ok() && *more) {
        ++i;
      } else {
        open.erase(open.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    for (PartitionRange& range : *ranges) {
      bool whole = range.begin == range.end;
      if (const auto at = partitions_.find(range.partition); at != partitions_.end()) {
        at->second.MoveTo(&range.marks);
        if (range.unasked.empty() && now < at->second.waits_until) range.unasked = at->second.waits;
        whole = whole || (at->second.found.empty() && at->second.schedule.done());
      }
      range.sealed = range.sealed && whole;
    }
    return {};
  }

 private:
  struct Partition {
    Partition(const JoinOptions& options, const LabelMark& last)
        : schedule({.window_ms = options.window_ms, .idle = options.idle}, last), reported(last) {}
    // The marks of one report.
    void MoveTo(std::vector<LabelMark>* marks) {
      const auto end = found.begin() + static_cast<ptrdiff_t>(std::min<uint64_t>(room, found.size()));
      marks->assign(found.begin(), end);
      found.erase(found.begin(), end);
      room -= marks->size();
      if (!marks->empty()) reported = marks->back();
    }
    LabelSchedule schedule;
    std::vector<LabelMark> found;  // and not reported yet
    LabelMark reported;
    uint64_t room = 0;  // for marks that are reported
    uint64_t events_end = 0, labels_end = 0;
    std::string waits;  // why records are held, until the next look at them
    Time waits_until{0};
  };

  // Makes one step; false: there is nothing more to do for now.
  Result<bool> Look(Time now, uint32_t id, Partition* partition) {
    if (partition->found.size() >= std::min<uint64_t>(most_marks_, partition->room)) return false;
    LabelSchedule& schedule = partition->schedule;
    const auto next = schedule.Advance(now);
    if (std::holds_alternative<LabelSchedule::Wait>(next)) return false;
    if (const auto* mark = std::get_if<LabelMark>(&next)) {
      partition->found.push_back(*mark);
    } else if (const auto* find = std::get_if<LabelSchedule::FindLabel>(&next)) {
      LEAT_ASSIGN_OR_RETURN(const uint64_t offset, labels_->FirstSince(id, find->since_ms));
      schedule.OnLabel(offset);
    } else if (const auto* events = std::get_if<LabelSchedule::ReadEvents>(&next)) {
      LEAT_ASSIGN_OR_RETURN(const bool judged,
                            ReadTimes(now, events_.get(), id, events->begin, events->end,
                                      partition->events_end, options_.events_name, partition));
      judged ? schedule.OnEvents(times_) : schedule.HoldEvents(now + kHoldTime);
    } else if (const auto* labels = std::get_if<LabelSchedule::ReadLabels>(&next)) {
      LEAT_ASSIGN_OR_RETURN(const bool judged,
                            ReadTimes(now, labels_.get(), id, labels->begin, labels->end,
                                      partition->labels_end, options_.labels_name, partition));
      judged ? schedule.OnLabels(times_) : schedule.HoldLabels(now + kHoldTime);
    }
    return true;
  }

  // Takes the times of [begin, end), or of the first of them. False: none can be judged, as the partition
  // says. `there`: the end of the partition.
  Result<bool> ReadTimes(Time now, TimedSource* source, uint32_t id, uint64_t begin, uint64_t end,
                         uint64_t there, const std::string& topic, Partition* partition) {
    LEAT_RETURN_IF_ERROR(ReadAllTimes(source, id, begin, end));
    const int64_t clock = ClockMs(), latest = clock + kMostAheadMs;
    size_t judged = Judged(times_, latest);
    if (judged == 0 && there - begin > kNewest) {
      RecordTimes first = std::move(times_);
      LEAT_RETURN_IF_ERROR(ReadAllTimes(source, id, there - kNewest, there));
      if (Judged(times_, latest) > kNewest / 2) judged = first.size();
      times_ = std::move(first);
    }
    if (judged == 0) {
      partition->waits = StrCat("the clock says ", ShownTime(clock), ", but most of the last records of ",
                                topic, " are later, such as offset ", begin, " of partition ", id, " at ",
                                ShownTime(*times_.front()), "; they wait until the clock comes near");
      partition->waits_until = now + 2 * kHoldTime;
      return false;
    }
    times_.resize(judged);
    for (auto& time : times_) {
      if (time && (*time < 0 || *time > latest)) time.reset();
    }
    return true;
  }

  Status ReadAllTimes(TimedSource* source, uint32_t id, uint64_t begin, uint64_t end) {
    LEAT_RETURN_IF_ERROR(source->ReadTimes(id, begin, end, &times_));
    if (times_.size() == end - begin) return {};
    return {Code::kInternal,
            StrCat("partition ", id, ": ", times_.size(), " times instead of ", end - begin)};
  }

  int64_t ClockMs() const { return options_.wall_ms ? options_.wall_ms() : UnixMs(); }

  void WarnOfJump(Time now) {
    const int64_t clock = ClockMs();
    const int64_t steady = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    const int64_t expected = steady + clock_offset_.value_or(clock - steady);
    if (std::abs(clock - expected) >= kClockJumpMs)
      spdlog::warn("the clock has jumped from {} to {}", ShownTime(expected), ShownTime(clock));
    clock_offset_ = clock - steady;
  }

  void WarnOfMissing(uint32_t id, const PartitionRange& range, size_t labels) {
    if (range.begin == range.end || std::exchange(warned_, true)) return;
    spdlog::warn("{} has partition {}, and {} only {} partitions: the events wait for it",
                 options_.events_name, id, options_.labels_name, labels);
  }

  const JoinOptions options_;
  std::unique_ptr<TimedSource> events_, labels_;
  std::map<uint32_t, Partition> partitions_;
  uint32_t turn_ = 0;               // the partition that is looked at next, or the first one after it
  size_t most_marks_ = kMostMarks;  // marks of a partition in this report, at most
  RecordTimes times_;
  bool warned_ = false;
  std::optional<int64_t> clock_offset_;  // to the steady clock, in ms
};

class JoinSource final : public Source {
 public:
  JoinSource(const JoinOptions& options, std::unique_ptr<TimedSource> events,
             std::unique_ptr<TimedSource> labels)
      : clock_(options.clock),
        events_(std::move(events)),
        labels_(std::move(labels), options.window_ms, options.label_bytes),
        marks_(options) {}

  Result<std::vector<PartitionRange>> Ranges() override {
    LEAT_ASSIGN_OR_RETURN(auto ranges, events_->Ranges());
    if (!marks_.wanted()) return ranges;
    LEAT_RETURN_IF_ERROR(marks_.Report(clock_ != nullptr ? *clock_ : machine_clock_, &ranges));
    return ranges;
  }
  void WantMarks(uint32_t partition, const LabelMark& last, uint64_t room) override {
    marks_.Want(partition, last, room);
  }

  Status Read(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) override {
    using Kind = Attribute::Kind;
    const std::vector<Attribute> wanted = out->wanted;
    if (std::ranges::none_of(wanted, [](const Attribute& a) { return a.kind == Kind::kLabel; }))
      return events_->Read(partition, begin, end, out);
    if (out->labels_begin > out->labels_end)
      return {Code::kInvalidArgument, StrCat("labels from ", out->labels_begin, " to ", out->labels_end)};
    std::erase_if(out->wanted, [](const Attribute& a) { return a.kind == Kind::kLabel; });
    const size_t key = Want(Kind::kKey, out), time = Want(Kind::kTimestamp, out);
    Status status = events_->Read(partition, begin, end, out);
    FoundLabels found(out->size());
    if (status.ok()) status = Join(partition, *out, key, time, &found);
    std::vector<AttributeValues> events = std::move(out->attributes);
    out->attributes.clear();
    out->wanted = wanted;
    if (!status.ok()) {
      out->Restart(partition, begin);
      out->data.resize(RecordBatch::kPadding);
      return status;
    }
    events.resize(std::max(events.size(), wanted.size()));
    size_t next = 0;  // index of the next of the events' own attributes
    for (const Attribute& attribute : wanted) {
      const bool label = attribute.kind == Kind::kLabel;
      out->attributes.push_back(label ? found.Values() : std::move(events[next++]));
    }
    return {};
  }

  Status Pin(const std::string& owner, uint32_t partition, uint64_t offset) override {
    return events_->Pin(owner, partition, offset);
  }
  Status Sync(uint32_t partition, uint64_t end) override { return events_->Sync(partition, end); }
  Status Advance(uint32_t partition, uint64_t end) override { return events_->Advance(partition, end); }
  Status CommitOffsets(const std::string& group, std::span<const uint64_t> offsets) override {
    return events_->CommitOffsets(group, offsets);
  }
  Result<uint64_t> Fingerprint(uint32_t partition, uint64_t offset) override {
    return events_->Fingerprint(partition, offset);
  }
  Status Unpin(const std::string& owner) override { return events_->Unpin(owner); }

 private:
  // The index of the attribute among those that are wanted, where it may have to be added.
  static size_t Want(Attribute::Kind kind, RecordBatch* out) {
    const size_t index = IndexOf(out->wanted, kind);
    if (index == out->wanted.size()) out->wanted.push_back({kind, ""});
    return index;
  }

  Status Join(uint32_t partition, const RecordBatch& batch, size_t key, size_t time, FoundLabels* found) {
    std::vector<LabelReader::Event> events;
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto key_of = batch.Value(key, i);
      const auto time_of = TimeOf(batch.Value(time, i));
      if (key_of && time_of) events.push_back({i, *key_of, *time_of});
    }
    return labels_.Join(partition, batch.labels_begin, batch.labels_end, std::move(events), found);
  }

  const Clock* const clock_;
  const MonotonicClock machine_clock_;
  const std::unique_ptr<TimedSource> events_;
  LabelReader labels_;
  MarkFinder marks_;
};

constexpr size_t kPartitions = 16;
constexpr uint64_t kLabels = 200;  // labels read in a partition
constexpr uint64_t kEvents = 2000;
constexpr uint64_t kMostElsewhere = 10;  // at most one key in so many may be in another partition

// In which of the partitions a key is.
using Places = std::map<std::string, std::set<uint32_t>>;

struct Sample {
  Places places;
  std::optional<int64_t> earliest;
};

// Adds the keys of the records [begin, end). Their number is small, but they may be large: one by one.
Status AddKeys(TimedSource& source, uint32_t partition, uint64_t begin, uint64_t end, Sample* sample) {
  constexpr uint64_t kAtOnce = 50;
  RecordBatch batch;
  batch.wanted = {{Attribute::Kind::kKey, ""}, {Attribute::Kind::kTimestamp, ""}};
  for (uint64_t at = begin; at < end; at += kAtOnce) {
    LEAT_RETURN_IF_ERROR(source.Read(partition, at, std::min(end, at + kAtOnce), &batch));
    for (size_t i = 0; i < batch.size(); ++i) {
      if (const auto key = batch.Value(0, i)) sample->places[std::string(AsText(*key))].insert(partition);
      const auto time = TimeOf(batch.Value(1, i));
      if (time && (!sample->earliest || *time < *sample->earliest)) sample->earliest = time;
    }
  }
  return {};
}

uint64_t LastOf(const PartitionRange& range, uint64_t records) {
  return range.end - std::min(range.end - range.begin, records);
}

}  // namespace

Result<std::unique_ptr<Source>> MakeJoinSource(JoinOptions options) {
  LEAT_ASSIGN_OR_RETURN(auto events, options.open_events());
  LEAT_ASSIGN_OR_RETURN(auto labels, options.open_labels());
  return std::unique_ptr<Source>(std::make_unique<JoinSource>(options, std::move(events), std::move(labels)));
}

Status CheckCopartitioned(TimedSource& events, const std::string& events_name, TimedSource& labels,
                          const std::string& labels_name, int64_t window_ms) {
  LEAT_ASSIGN_OR_RETURN(const auto event_ranges, events.Ranges());
  LEAT_ASSIGN_OR_RETURN(const auto label_ranges, labels.Ranges());
  if (event_ranges.size() != label_ranges.size()) {
    return {Code::kInvalidArgument,
            StrCat(events_name, " has ", event_ranges.size(), " partitions and ", labels_name, " ",
                   label_ranges.size(), "; labels are joined within partitions of the same number")};
  }
  Sample its_labels, its_events;
  const size_t count = std::min(kPartitions, event_ranges.size());
  std::vector<size_t> chosen;
  for (size_t i = 0; i < count; ++i) chosen.push_back(i * event_ranges.size() / count);
  for (const size_t i : chosen) {
    const PartitionRange& range = label_ranges[i];
    LEAT_RETURN_IF_ERROR(AddKeys(labels, range.partition, LastOf(range, kLabels), range.end, &its_labels));
  }
  for (const size_t i : chosen) {
    const PartitionRange& range = event_ranges[i];
    const uint64_t last = LastOf(range, kEvents);
    LEAT_RETURN_IF_ERROR(AddKeys(events, range.partition, last, range.end, &its_events));
    if (!its_labels.earliest || last == range.begin) continue;
    LEAT_ASSIGN_OR_RETURN(uint64_t since,
                          events.FirstSince(range.partition, *its_labels.earliest - window_ms));
    since = std::clamp(since, range.begin, last);
    LEAT_RETURN_IF_ERROR(
        AddKeys(events, range.partition, since, std::min(last, since + kEvents), &its_events));
  }
  uint64_t common = 0, elsewhere = 0;
  std::string example;
  for (const auto& [key, partitions] : its_labels.places) {
    const auto found = its_events.places.find(key);
    if (found == its_events.places.end()) continue;
    ++common;
    const auto& there = found->second;
    if (std::ranges::any_of(partitions, [&](uint32_t p) { return there.contains(p); })) continue;
    if (elsewhere++ == 0) {
      example = StrCat("a key is in partition ", *there.begin(), " of the first and in partition ",
                       *partitions.begin(), " of the second");
    }
  }
  if (elsewhere * kMostElsewhere <= common) return {};
  return {Code::kInvalidArgument,
          StrCat(events_name, " and ", labels_name, " are not partitioned alike: ", example, ", and so are ",
                 elsewhere, " of ", common, " keys; labels are joined within partitions of the same number")};
}

}  // namespace leat::stream
