#include "run/roles/input/stream_watch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"

namespace leat::roles {
namespace {

// A stream that cannot be asked for so long is in the status.
constexpr Duration kStreamAway = std::chrono::seconds(5);

// A line about the partitions that cannot be asked; empty: all can.
std::string Unasked(const std::vector<stream::PartitionRange>& ranges) {
  constexpr size_t kNamed = 8;
  std::string names, why;
  size_t count = 0;
  for (const auto& range : ranges) {
    if (range.unasked.empty()) continue;
    if (count++ < kNamed) names += (names.empty() ? "" : ", ") + std::to_string(range.partition);
    if (why.empty()) why = range.unasked;
  }
  if (count == 0) return "";
  return "nothing new is known of " + std::to_string(count) + " of " + std::to_string(ranges.size()) +
         " partitions (" + names + (count > kNamed ? ", …" : "") + "): " + why;
}

}  // namespace

StreamWatch::StreamWatch(LoopWork& work, BackgroundThread& others, CoordinatorStreams& streams,
                         Options options)
    : work_(work),
      others_(others),
      streams_(streams),
      options_(std::move(options)),
      fingerprints_(options_.fingerprints),
      fingerprint_thread_(std::move(streams.fingerprints)) {}

void StreamWatch::Poll() {
  if (!streams_.remote) return OnRanges(streams_.source->Ranges());
  others_.Post([this, marks = options_.label_marks()] {
    for (size_t i = 0; i < marks.size(); ++i) {
      const auto last = marks[i].last.value_or(protocol::LabelMark());
      streams_.source->WantMarks(options_.partitions[i], {last.events, last.labels_begin, last.labels_end},
                                 marks[i].room);
    }
    auto ranges = std::make_shared<Result<Ranges>>(streams_.source->Ranges());
    work_.loop().Post([this, ranges] { OnRanges(*ranges); });
  });
}

void StreamWatch::OnRanges(const Result<Ranges>& ranges) {
  pause_ = std::min(2 * pause_, kQuietPause);
  if (ranges.ok()) {
    if (*ranges != ranges_) pause_ = kPause;
    ranges_ = *ranges;
    away_since_.reset();
    LogUnasked();
    std::vector<protocol::StreamRange> known;
    for (const auto& range : *ranges) {
      known.push_back({range.partition, range.begin, range.end, range.sealed});
      for (const auto& mark : range.marks)
        known.back().marks.push_back({mark.events, mark.labels_begin, mark.labels_end});
    }
    options_.on_ranges(known);
  } else {
    if (ranges.status().message() != away_) spdlog::warn("stream: {}", ranges.status().ToString());
    away_ = ranges.status().message();
    if (!away_since_) away_since_ = work_.loop().Now();
    if (ranges.status().code() == Code::kDataLoss) return options_.on_failure(ranges.status());
  }
  const bool whole = !ranges_.empty() && std::ranges::all_of(ranges_, &stream::PartitionRange::sealed);
  if (!work_.ended() && !whole) work_.loop().After(pause_, [this] { Poll(); });
}

// Once, when partitions cannot be asked, and when all of them can again.
void StreamWatch::LogUnasked() {
  std::string now = Unasked(ranges_);
  if (unasked_.empty() && !now.empty()) spdlog::warn("{}", now);
  if (!unasked_.empty() && now.empty()) spdlog::info("over: {}", unasked_);
  options_.on_unasked(now);
  unasked_ = std::move(now);
}

void StreamWatch::OnView(const protocol::View& view) {
  if (streams_.feeds == nullptr) return;
  std::vector<std::string> feeds;
  for (const auto& member : view.members) {
    if (member.role == protocol::Role::kFeed) feeds.push_back(member.address);
  }
  // The first feed is not a member yet when the job starts.
  if (feeds.empty()) feeds.push_back(options_.feed);
  streams_.feeds->Set(std::move(feeds));
}

std::string StreamWatch::WaitsFor(Time now) const {
  return away_since_ && now - *away_since_ > kStreamAway ? "the stream: " + away_ : "";
}

void StreamWatch::TakeFingerprints(std::vector<protocol::Position> watermark) {
  // A local stream has none. The others are asked where nothing waits for them.
  if (!streams_.remote) return;
  const auto done = [this](Result<std::vector<protocol::Fingerprint>> taken) {
    work_.loop().Post([this, taken = std::move(taken)] {
      if (taken.ok()) {
        fingerprints_ = *taken;
      } else if (taken.status().code() == Code::kDataLoss) {
        options_.on_failure(taken.status().With(options_.name));
      }
    });
  };
  // If those before are not taken yet, the next checkpoint has newer ones.
  (void)fingerprint_thread_.Take(std::move(watermark), fingerprints_, done);
}

}  // namespace leat::roles
