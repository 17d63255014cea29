#include "stream/join/copartitioned.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace leat::stream {
namespace {

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

Status CheckCopartitioned(TimedSource& events, const std::string& events_name, TimedSource& labels,
                          const std::string& labels_name, int64_t window_ms) {
  LEAT_ASSIGN_OR_RETURN(const auto event_ranges, events.Ranges());
  LEAT_ASSIGN_OR_RETURN(const auto label_ranges, labels.Ranges());
  if (event_ranges.size() != label_ranges.size()) {
    return {Code::kInvalidArgument, events_name + " has " + std::to_string(event_ranges.size()) +
                                        " partitions and " + labels_name + " " +
                                        std::to_string(label_ranges.size()) +
                                        "; labels are joined within partitions of the same number"};
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
      example = "a key is in partition " + std::to_string(*there.begin()) +
                " of the first and in partition " + std::to_string(*partitions.begin()) + " of the second";
    }
  }
  if (elsewhere * kMostElsewhere <= common) return {};
  return {Code::kInvalidArgument, events_name + " and " + labels_name +
                                      " are not partitioned alike: " + example + ", and so are " +
                                      std::to_string(elsewhere) + " of " + std::to_string(common) +
                                      " keys; labels are joined within partitions of the same number"};
}

}  // namespace leat::stream
