#include "protocol/predictions/predictions.h"

#include <algorithm>
#include <stdexcept>

namespace leat::protocol {

Predictions::Predictions(const PredictionSettings& settings, PartitionCursors* cursors, Roster* roster,
                         Outbox* outbox)
    : cursors_(*cursors), roster_(*roster), outbox_(*outbox), enabled_(settings.max_unpublished > 0) {
  if (!enabled_) return;
  groups_.resize(std::min<size_t>(std::max(settings.publishing_groups, 1u), cursors->size()));
  partitions_.resize(cursors->size());
  to_journal_ = PublishersGrouped{static_cast<uint32_t>(groups_.size())};
  cursors_.LimitAhead(settings.max_unpublished);
}

// ---- the stream

void Predictions::Restore(std::optional<PublishersGrouped> groups, bool started,
                          const std::vector<Cut>& cuts) {
  if (!enabled_) return;
  if (started && !groups) groups = {static_cast<uint32_t>(cursors_.size())};
  if (groups && (groups->groups == 0 || groups->groups > partitions_.size())) {
    throw std::invalid_argument("the journal has " + std::to_string(groups->groups) +
                                " publishing groups; the stream has " + std::to_string(partitions_.size()) +
                                " partitions");
  }
  if (groups) {
    groups_.resize(groups->groups);
    to_journal_.reset();
  }
  OnCuts(cuts);
}

void Predictions::OnCuts(const std::vector<Cut>& cuts) {
  for (const Cut& cut : cuts) {
    if (cut.partition >= partitions_.size()) continue;
    Partition& partition = partitions_[cut.partition];
    if (!partition.published || cut.end > *partition.published) partition.cuts.emplace(cut.begin.offset, cut);
  }
}

// ---- feeds

void Predictions::Partition::OnPublisher() {
  held.clear();
  more_held = false;
  rescored_before += std::exchange(rescored, 0);
  status = Status();
}

// Feeds that are members come first: they may be on other hosts than the coordinator, which has enough to do.
void Predictions::Assign(bool feeds_awaited) {
  if (!enabled_ || feeds_awaited || !cursors_.started()) return;
  std::map<NodeId, size_t> load;  // groups, by feed
  for (const auto& [node, member] : roster_.members()) {
    if (member.Is(Role::kFeed)) load[node] = 0;
  }
  if (load.empty() && !roster_.settings().feeds.empty()) load[NodeId()] = 0;
  for (Group& group : groups_) {
    if (!group.publisher) continue;
    if (const auto at = load.find(*group.publisher); at != load.end()) {
      ++at->second;
    } else {
      group.publisher.reset();
      outbox_.ChangeView();
    }
  }
  for (size_t p = 0; p < partitions_.size(); ++p) {
    Group& group = groups_[GroupOf(p)];
    if (group.publisher || load.empty() || !Begun(p)) continue;
    const auto least = std::ranges::min_element(load, {}, [](const auto& entry) { return entry.second; });
    ++least->second;
    group = {least->first, outbox_.NextId()};
    outbox_.ChangeView();
    for (size_t other = GroupOf(p); other < partitions_.size(); other += groups_.size())
      partitions_[other].OnPublisher();
  }
}

bool Predictions::Begun(size_t partition) const {
  const PartitionCursors::Partition& contents = cursors_[partition];
  return std::max(contents.end, contents.at.offset) > contents.first;
}

void Predictions::Adopt(NodeId feed, const std::vector<PublisherReport>& reports) {
  for (const PublisherReport& report : reports) {
    if (report.partition >= partitions_.size()) continue;
    Group& group = groups_[GroupOf(report.partition)];
    if (group.publisher && group.assignment >= report.assignment) continue;
    group = {feed, report.assignment};
    outbox_.ChangeView();
  }
}

std::vector<PublisherOrder> Predictions::OrdersFor(NodeId feed) const {
  std::vector<PublisherOrder> orders;
  for (uint32_t p = 0; p < partitions_.size(); ++p) {
    const size_t group = GroupOf(p);
    if (groups_[group].publisher != feed || !Begun(p)) continue;
    const PartitionCursors::Partition& contents = cursors_[p];
    orders.push_back({.partition = p,
                      .group = static_cast<uint32_t>(group),
                      .assignment = groups_[group].assignment,
                      .start = contents.first,
                      .fresh = contents.at == Position{0, contents.first}});
  }
  return orders;
}

Status Predictions::OnReports(NodeId feed, const std::vector<PublisherReport>& reports) {
  for (const PublisherReport& report : reports) {
    if (report.partition >= partitions_.size()) continue;
    Partition& partition = partitions_[report.partition];
    const Group& group = groups_[GroupOf(report.partition)];
    if (group.publisher != feed || group.assignment != report.assignment) continue;
    partition.status = report.status;
    if (report.status.code() == Code::kDataLoss || report.status.code() == Code::kFailedPrecondition)
      return report.status;
    partition.rescored = std::max(partition.rescored, report.rescored);
    if (!report.published) continue;
    const uint64_t published = *report.published;
    if (partition.published && published < *partition.published) continue;
    partition.published = published;
    while (!partition.cuts.empty() && partition.cuts.begin()->second.end <= published)
      partition.cuts.erase(partition.cuts.begin());
    partition.lacking_since.erase(partition.lacking_since.begin(),
                                  partition.lacking_since.lower_bound(published));
    if (!partition.cuts.empty() && partition.cuts.begin()->first < published) {
      return {Code::kFailedPrecondition,
              "the predictions of partition " + std::to_string(report.partition) +
                  " are published up to offset " + std::to_string(published) +
                  ", in the middle of a split of this job: another job has published them"};
    }
    partition.held.clear();
    for (const OpenSplit& split : report.held) partition.held[split.cut.begin.offset] = split;
    partition.more_held = report.held.size() >= PublisherReport::kMaxHeld;
    cursors_.Release(report.partition, published);
  }
  return {};
}

void Predictions::AddTo(View* view) const {
  for (size_t p = 0; p < partitions_.size(); ++p) {
    const auto& publisher = PublisherOf(p);
    std::string& address = view->publishers.emplace_back();
    if (!publisher) continue;
    address = *publisher == NodeId() ? roster_.settings().feeds[0] : roster_.AddressOf(*publisher);
  }
}

// ---- workers

void Predictions::OnHeartbeat(Time now, const WorkerHeartbeat& heartbeat) {
  if (!enabled_) return;
  unsent_[heartbeat.node] = heartbeat.unsent;
  std::erase_if(leases_, [&](const auto& entry) {
    const auto& [id, lease] = entry;
    if (lease.worker != heartbeat.node || std::ranges::count(heartbeat.rescoring, id) > 0) return false;
    // Its scores are on their way to the publisher.
    partitions_[lease.partition].lacking_since[lease.begin] = now;
    return true;
  });
}

bool Predictions::Underway(uint32_t partition, uint64_t begin) const {
  const bool leased = std::ranges::any_of(leases_, [&](const auto& entry) {
    return entry.second.partition == partition && entry.second.begin == begin;
  });
  return leased || std::ranges::any_of(unsent_, [&](const auto& entry) {
           return std::ranges::any_of(entry.second, [&](const UnsentScores& unsent) {
             return unsent.partition == partition && unsent.begin <= begin;
           });
         });
}

RunSet Predictions::Lacking(const Partition& partition, const Cut& cut) {
  const auto held = partition.held.find(cut.begin.offset);
  if (held == partition.held.end() || held->second.cut != cut) return RunSet(cut.runs(), true);
  return held->second.batches.Complement();
}

void Predictions::GrantRescores(Time now, const WorkerHeartbeat& heartbeat,
                                const std::vector<Position>& watermark, WorkerHeartbeatReply* reply) {
  if (!heartbeat.can_rescore) return;
  // A member that the others of its group cannot reach may just have been evicted.
  const MemberState* const worker = roster_.Find(heartbeat.node);
  if (worker == nullptr || !worker->active()) return;
  for (uint32_t p = 0; p < partitions_.size() && reply->rescores.empty(); ++p) {
    if (auto lease = GrantOf(now, heartbeat.node, p, watermark[p]))
      reply->rescores.push_back(std::move(*lease));
  }
}

std::optional<Lease> Predictions::GrantOf(Time now, NodeId worker, uint32_t p, Position watermark) {
  Partition& partition = partitions_[p];
  if (!PublisherOf(p) || !partition.published) return std::nullopt;
  const uint64_t last_held = partition.held.empty() ? 0 : partition.held.rbegin()->first;
  for (const auto& [begin, cut] : partition.cuts) {
    if (cut.next() > watermark || (partition.more_held && begin > last_held)) break;
    RunSet lacking = Lacking(partition, cut);
    if (lacking.empty()) {
      partition.lacking_since.erase(begin);
      continue;
    }
    const Time since = partition.lacking_since.try_emplace(begin, now).first->second;
    if (now - since < kScoresLostAfter || Underway(p, begin)) continue;
    const uint64_t id = outbox_.NextId();
    leases_[id] = {worker, p, begin};
    return Lease{.id = id, .cut = cut, .missing = std::move(lacking), .labels = cursors_.LabelsOf(cut)};
  }
  return std::nullopt;
}

// ---- how far it is

bool Predictions::Done(const std::vector<Position>& positions) const {
  for (size_t p = 0; p < partitions_.size(); ++p) {
    const PartitionCursors::Partition& contents = cursors_[p];
    if (positions[p].offset <= contents.first) continue;
    if (!partitions_[p].published || *partitions_[p].published < positions[p].offset) return false;
  }
  return true;
}

std::vector<Position> Predictions::Needed(std::vector<Position> watermark) const {
  for (size_t p = 0; p < partitions_.size(); ++p) {
    const uint64_t published = partitions_[p].published.value_or(cursors_[p].first);
    watermark[p].offset = std::min(watermark[p].offset, published);
  }
  return watermark;
}

std::optional<PublishedPredictions> Predictions::Progress(const std::vector<Position>& watermark) const {
  if (!enabled_) return std::nullopt;
  PublishedPredictions progress;
  for (size_t p = 0; p < partitions_.size(); ++p) {
    const Partition& partition = partitions_[p];
    const uint64_t first = cursors_[p].first, published = partition.published.value_or(first);
    progress.published += published - std::min(first, published);
    progress.behind += watermark[p].offset - std::min(watermark[p].offset, published);
    progress.rescored += partition.rescored_before + partition.rescored;
  }
  return progress;
}

std::string Predictions::WaitingFor() const {
  const auto what = [](size_t p) { return "the predictions of partition " + std::to_string(p); };
  for (size_t p = 0; p < partitions_.size(); ++p) {
    if (!partitions_[p].status.ok()) return what(p) + ": " + partitions_[p].status.message();
  }
  size_t most = 0;  // the partition with most events that are not published
  bool held = false;
  for (size_t p = 0; p < partitions_.size(); ++p) {
    if (cursors_[p].ahead() > cursors_[most].ahead()) most = p;
    if (!cursors_.Held(p) || cursors_[p].end <= cursors_[p].at.offset) continue;
    held = true;
    if (!PublisherOf(p)) return what(p) + ", which no feed can publish";
    if (!partitions_[p].published) return what(p) + ", whose publisher is being opened";
  }
  return held ? what(most) + " to be published" : std::string();
}

}  // namespace leat::protocol
