#include "protocol/predictions/predictions.h"

#include <utility>

namespace leat::protocol {

// ---- the stream

void Predictions::Restore(std::optional<PublishersGrouped> groups, bool started,
                          const std::vector<Cut>& cuts) {
  if (!enabled()) return;
  if (started && !groups) groups = {static_cast<uint32_t>(cursors_.size())};
  if (groups) publications_.Restore(*groups);
  for (const Cut& cut : cuts) {
    if (cut.partition < cursors_.size()) publications_.OnCut(cut);
  }
}

void Predictions::JournalGroups() {
  if (auto groups = publications_.TakeGrouped()) outbox_.Journal(*groups);
}

void Predictions::OnCuts(const std::vector<Cut>& cuts) {
  if (!enabled()) return;
  for (const Cut& cut : cuts) publications_.OnCut(cut);
}

// ---- feeds

// Feeds that are members come first: they may be on other hosts than the coordinator, which has enough to do.
void Predictions::Assign(bool feeds_awaited) {
  if (!enabled() || feeds_awaited) return;
  std::vector<NodeId> feeds;
  for (const auto& [node, member] : roster_.members()) {
    if (member.Is(Role::kFeed)) feeds.push_back(node);
  }
  if (feeds.empty() && !roster_.settings().feeds.empty()) feeds.emplace_back();
  if (publications_.Assign(feeds, [this] { return outbox_.NextId(); })) outbox_.ChangeView();
}

void Predictions::Adopt(NodeId feed, const std::vector<PublisherReport>& reports) {
  if (enabled() && publications_.Adopt(feed, reports)) outbox_.ChangeView();
}

Status Predictions::OnReports(NodeId feed, const std::vector<PublisherReport>& reports) {
  return publications_.OnReports(feed, reports);
}

std::vector<PublisherOrder> Predictions::OrdersFor(NodeId feed) const {
  return enabled() ? publications_.OrdersFor(feed) : std::vector<PublisherOrder>();
}

void Predictions::AddTo(View* view) const {
  for (size_t p = 0; enabled() && p < cursors_.size(); ++p) {
    const auto publisher = publications_.PublisherOf(p);
    std::string& address = view->publishers.emplace_back();
    if (!publisher) continue;
    address = *publisher == NodeId() ? roster_.settings().feeds[0] : roster_.AddressOf(*publisher);
  }
}

// ---- workers

void Predictions::OnHeartbeat(Time now, const WorkerHeartbeat& heartbeat) {
  if (enabled()) publications_.OnWorker(now, heartbeat.node, heartbeat.unsent, heartbeat.rescoring);
}

void Predictions::GrantRescores(Time now, const WorkerHeartbeat& heartbeat,
                                const std::vector<Position>& watermark, WorkerHeartbeatReply* reply) {
  if (!enabled() || !heartbeat.can_rescore) return;
  // A member that the others of its group cannot reach may just have been evicted.
  if (const MemberState* worker = roster_.Find(heartbeat.node); worker == nullptr || !worker->active())
    return;
  const auto next_id = [this] { return outbox_.NextId(); };
  if (auto lease = publications_.Grant(now, heartbeat.node, watermark, next_id))
    reply->rescores.push_back(std::move(*lease));
}

void Predictions::Reclaim(NodeId worker) {
  if (enabled()) publications_.Reclaim(worker);
}

// ---- how far it is

bool Predictions::Done(const std::vector<Position>& positions) const {
  return !enabled() || publications_.Done(positions);
}

std::vector<Position> Predictions::Needed(const std::vector<Position>& watermark) const {
  return enabled() ? publications_.Needed(watermark) : watermark;
}

std::optional<PublishedPredictions> Predictions::Progress(const std::vector<Position>& watermark) const {
  return enabled() ? std::optional(publications_.Progress(watermark)) : std::nullopt;
}

std::string Predictions::WaitingFor() const {
  return enabled() ? publications_.WaitingFor() : std::string();
}

}  // namespace leat::protocol
