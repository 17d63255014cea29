#include "run/roles/input/coordinator_streams.h"

#include <algorithm>
#include <set>
#include <stdexcept>

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

Status PrepareStream(bool resume, job::Job* job) {
  LEAT_RETURN_IF_ERROR(job->stream->Prepare());
  std::string warning;
  LEAT_RETURN_IF_ERROR(job->stream->Check(job->checkpoint_interval_s, &warning));
  if (!warning.empty()) spdlog::warn("{}", warning);
  if (resume) return {};
  LEAT_ASSIGN_OR_RETURN(const auto bounds, job->stream->FindBounds());
  if (!bounds.start.empty()) *job = job->WithBounds(bounds);
  return {};
}

Result<CoordinatorStreams> OpenOnThisHost(const job::Job& job) {
  CoordinatorStreams streams;
  LEAT_ASSIGN_OR_RETURN(streams.source, job.stream->Open());
  const job::StreamTraits& traits = job.stream->traits();
  streams.remote = traits.remote;
  if (traits.fingerprints) {
    LEAT_ASSIGN_OR_RETURN(streams.fingerprints, job.stream->OpenEvents(""));
  }
  if (traits.upkeep) {
    LEAT_ASSIGN_OR_RETURN(streams.background, job.stream->OpenEvents(job.name));  // the group of its commits
  }
  return streams;
}

std::vector<topology::PartitionPlaces> FindPartitionPlaces(const job::Job& job) {
  if (job.topology.brokers.empty()) return {};
  const auto replicas = job.stream->Replicas();
  if (!replicas.ok()) {
    spdlog::warn("it is not known where the partitions are: {}", replicas.status().message());
    return {};
  }
  std::vector<topology::PartitionPlaces> places;
  std::set<int32_t> unknown;
  for (const std::vector<int32_t>& brokers : *replicas) {
    topology::PartitionPlaces& copies = places.emplace_back();
    for (const int32_t broker : brokers) {
      if (const auto at = job.topology.brokers.find(broker); at != job.topology.brokers.end()) {
        copies.push_back(at->second);
      } else {
        unknown.insert(broker);
      }
    }
  }
  for (const int32_t broker : unknown)
    spdlog::warn("topology: brokers does not have broker {}, which has partitions of the topic", broker);
  return places;
}

CoordinatorStreams OpenAtFeed(const job::Job& job, const CoordinatorOptions& options) {
  CoordinatorStreams streams;
  streams.remote = true;
  streams.feeds = std::make_shared<FeedAddresses>(std::vector{options.feed});
  for (auto* source : {&streams.source, &streams.background, &streams.fingerprints}) {
    streams.clients.push_back(
        std::make_shared<feed::Client>(FeedsAt(streams.feeds, options, job.InputsHash())));
    *source = feed::MakeRemoteSource(streams.clients.back());
  }
  return streams;
}

Status PinStream(const job::Job& job, stream::Source& source, const protocol::RecoveredState& restored,
                 const std::vector<stream::PartitionRange>& ranges) {
  const auto from = [&](const std::vector<protocol::Position>& watermark, size_t p) {
    // With more epochs to come, every event will be wanted again.
    const bool once = restored.manifest && job.stream->epochs == 1 && p < watermark.size();
    return once ? std::max(ranges[p].begin, watermark[p].offset) : ranges[p].begin;
  };
  for (size_t p = 0; p < ranges.size(); ++p) {
    const uint32_t partition = ranges[p].partition;
    Status pinned = source.Pin(job.PinOwner(), partition, from(restored.oldest_watermark, p));
    if (pinned.code() == Code::kNotFound && restored.manifest)
      pinned = source.Pin(job.PinOwner(), partition, from(restored.manifest->watermark, p));
    LEAT_RETURN_IF_ERROR(pinned);
  }
  return {};
}

void WithDamage(const checkpoint::IntactCheckpoint& found, const std::function<void()>& check) {
  try {
    check();
  } catch (const std::invalid_argument& error) {
    if (found.damaged.empty()) throw;
    throw std::invalid_argument(checkpoint::NoneLeft(found.damaged, error.what()));
  }
}

Status CheckFingerprints(stream::Source& source, std::span<const protocol::Fingerprint> taken) {
  for (uint32_t partition = 0; partition < taken.size(); ++partition) {
    const auto& [offset, hash] = taken[partition];
    if (hash == 0) continue;
    LEAT_ASSIGN_OR_RETURN(const uint64_t now, source.Fingerprint(partition, offset));
    if (now == 0 || now == hash) continue;
    return {Code::kDataLoss, "partition " + std::to_string(partition) + " has another record before offset " +
                                 std::to_string(offset) +
                                 " than the one that was trained: the topic was deleted and made again"};
  }
  return {};
}

Result<std::vector<protocol::Fingerprint>> TakeFingerprints(stream::Source& source,
                                                            std::span<const protocol::Position> watermark,
                                                            std::span<const protocol::Fingerprint> last) {
  LEAT_RETURN_IF_ERROR(CheckFingerprints(source, last));
  std::vector<protocol::Fingerprint> taken(last.begin(), last.end());
  taken.resize(watermark.size());
  for (uint32_t partition = 0; partition < watermark.size(); ++partition) {
    const uint64_t offset = watermark[partition].offset;
    if (offset == 0 || offset == taken[partition].offset) continue;
    LEAT_ASSIGN_OR_RETURN(const uint64_t hash, source.Fingerprint(partition, offset));
    if (hash != 0) taken[partition] = {offset, hash};
  }
  return taken;
}

StreamWatch::StreamWatch(LoopWork& work, BackgroundThread& others, CoordinatorStreams& streams,
                         Options options)
    : work_(work),
      others_(others),
      streams_(streams),
      options_(std::move(options)),
      fingerprints_(options_.fingerprints) {}

void StreamWatch::Poll() {
  if (!streams_.remote) return OnRanges(streams_.source->Ranges());
  const auto ask = [this, marks = options_.label_marks()] {
    for (size_t i = 0; i < marks.size(); ++i) {
      const auto last = marks[i].last.value_or(protocol::LabelMark());
      streams_.source->WantMarks(options_.partitions[i], {last.events, last.labels_begin, last.labels_end},
                                 marks[i].room);
    }
    return streams_.source->Ranges();
  };
  work_.Post(others_, ask, [this](const Result<Ranges>& ranges) { OnRanges(ranges); });
}

void StreamWatch::OnRanges(const Result<Ranges>& ranges) {
  pause_ = std::min(2 * pause_, kQuietPause);
  if (ranges.ok()) {
    if (*ranges != ranges_) pause_ = kPause;
    ranges_ = *ranges;
    away_since_.reset();
    // A line when partitions cannot be asked, and one when all of them can again.
    std::string unasked = Unasked(ranges_);
    if (unasked_.empty() && !unasked.empty()) spdlog::warn("{}", unasked);
    if (!unasked_.empty() && unasked.empty()) spdlog::info("over: {}", unasked_);
    options_.on_unasked(unasked);
    unasked_ = std::move(unasked);
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
  // A local stream has none. The others are asked where nothing waits for them. If those before are not taken
  // yet, the next checkpoint has newer ones.
  if (!streams_.remote || std::exchange(fingerprinting_, true)) return;
  using Taken = Result<std::vector<protocol::Fingerprint>>;
  work_.Post(
      fingerprint_thread_,
      [this, watermark = std::move(watermark), last = fingerprints_] {
        return roles::TakeFingerprints(*streams_.fingerprints, watermark, last);
      },
      [this](const Taken& taken) {
        fingerprinting_ = false;
        if (taken.ok()) {
          fingerprints_ = *taken;
        } else if (taken.status().code() == Code::kDataLoss) {
          options_.on_failure(taken.status().With(options_.name));
        }
      });
}

}  // namespace leat::roles
