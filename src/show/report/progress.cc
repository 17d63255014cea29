#include "show/report/progress.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace leat::report {
namespace {

// Number of recorded totals per window, which is the precision of the window's length.
constexpr uint64_t kMomentsInWindow = 16;
constexpr Duration kSpeedWindow = std::chrono::seconds(3);
constexpr Duration kTrafficWindow = std::chrono::seconds(1);
// A worker's step time is that of the last one to two windows, or longer until it has made
// kStepsToJudge steps.
constexpr Duration kPaceWindow = std::chrono::seconds(30);
constexpr uint64_t kStepsToJudge = 20;

}  // namespace

Progress::Progress(Options options)
    : options_(std::move(options)),
      prequential_({.labels = options_.labels, .fading = options_.fading, .drift = options_.drift}) {
  if (options_.shares) shares_.emplace(*options_.shares);
  moments_.emplace_back();
}

void Progress::OnJoin(Time now, NodeId node, const protocol::JoinRequest& request) {
  if (start_ < Time{0}) start_ = now;
  nodes_[node] = {.role = request.role, .host = request.host, .pid = request.pid};
  nodes_[node].seen = now;
}

void Progress::OnWorker(Time now, NodeId node, const protocol::WorkerProgress& progress) {
  Node* const known = Heard(now, node, protocol::Role::kWorker);
  if (known == nullptr) return;
  // Sums only grow, so a report with a smaller sum arrived out of order and is ignored.
  if (progress.steps < workers_[node].steps) return;
  known->done = progress.events;
  known->cpu_seconds = progress.cpu_seconds;
  MeasureStep(now, progress, known);
  known->records.Note(now, progress.input_records);
  known->input.Note(now, progress.input_bytes);
  workers_[node] = progress;
  workers_[node].scores.clear();
  workers_[node].true_scores.clear();
  workers_[node].batches.clear();
  workers_[node].share.clear();
  TakeBatches(node, progress);
  TakeCounts(node, progress);
  if (shares_ && !progress.share.empty()) shares_->OnReport(node, progress.share);
}

void Progress::OnMetrics(NodeId node, const std::string& address) {
  const auto known = nodes_.find(node);
  if (known != nodes_.end()) known->second.metrics = address;
}

void Progress::TakeBatches(NodeId node, const protocol::WorkerProgress& progress) {
  uint64_t& next = next_batch_[node];
  uint64_t number = progress.first_batch;
  for (const auto& batch : progress.batches) {
    if (number++ < next) continue;
    prequential_.Add(first_events_, batch);
    next = number;
  }
}

void Progress::TakeCounts(NodeId node, const protocol::WorkerProgress& progress) {
  for (const auto& [bytes, part] : {std::pair{&progress.scores, 0}, std::pair{&progress.true_scores, 1}}) {
    if (bytes->empty()) continue;
    auto counts = metrics::AucCounts::Decode(*bytes);
    if (!counts.ok()) continue;
    if (part == 0) prequential_.AddScores(counts_[node].first, *counts);
    (part == 0 ? counts_[node].first : counts_[node].second) = std::move(*counts);
  }
}

void Progress::MeasureStep(Time now, const protocol::WorkerProgress& progress, Node* node) {
  if (progress.steps == 0) return;
  const Node::Pace pace{now, progress.steps, progress.wait_seconds + progress.input_wait_seconds};
  if (node->pace.at < Time{0}) node->pace = node->next_pace = pace;
  const auto enough = [&](const Node::Pace& since) { return pace.steps >= since.steps + kStepsToJudge; };
  if (enough(node->pace)) {
    const double elapsed = Seconds(now - node->pace.at);
    const double busy = std::max(elapsed - (pace.wait - node->pace.wait), 0.0);
    node->step_s = busy / static_cast<double>(pace.steps - node->pace.steps);
    node->busy_share = elapsed > 0 ? busy / elapsed : 0;
  }
  if (now - node->next_pace.at >= kPaceWindow && enough(node->next_pace))
    node->pace = std::exchange(node->next_pace, pace);
}

void Progress::Rate::Note(Time now, uint64_t sum) {
  if (since >= Time{0} && now - since < kTrafficWindow) return;
  if (since >= Time{0}) per_s = static_cast<double>(sum - std::min(sum, base)) / Seconds(now - since);
  since = now;
  base = sum;
}

Progress::Node* Progress::Heard(Time now, NodeId node, protocol::Role role) {
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || known->second.role != role) return nullptr;
  known->second.seen = now;
  return &known->second;
}

void Progress::OnServer(Time now, NodeId node, const protocol::ServerProgress& progress) {
  Node* const known = Heard(now, node, protocol::Role::kServer);
  if (known == nullptr) return;
  known->done = progress.pushes;
  known->cpu_seconds = progress.cpu_seconds;
  known->traffic.Note(now, progress.bytes_in + progress.bytes_out);
  servers_[node] = progress;
}

void Progress::OnBots(Time now, NodeId node, const protocol::BotsHeartbeat& progress) {
  Node* const known = Heard(now, node, protocol::Role::kBots);
  if (known == nullptr) return;
  known->done = progress.published;
  known->ends = progress.done;
  known->cpu_seconds = progress.cpu_seconds;
  published_ = progress.published;
}

void Progress::OnFeed(Time now, NodeId node, const protocol::FeedHeartbeat& progress) {
  Node* const known = Heard(now, node, protocol::Role::kFeed);
  if (known == nullptr) return;
  known->done = progress.requests;
  known->cpu_seconds = progress.cpu_seconds;
  known->feed_bytes = progress.bytes_sent;
}

void Progress::OnServe(Time now, NodeId node, const protocol::ServeHeartbeat& heartbeat) {
  Node* const known = Heard(now, node, protocol::Role::kServe);
  if (known == nullptr) return;
  known->done = heartbeat.progress.rounds;
  known->cpu_seconds = heartbeat.progress.cpu_seconds;
  known->follow = heartbeat.progress;
}

void Progress::OnMemberReport(NodeId node, const protocol::MemberReport& report) {
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || known->second.role != protocol::Role::kWorker) return;
  members_skipped_ = std::max(members_skipped_, report.skipped);  // all members count the same steps
}

double Progress::UsualStep(const protocol::View& view) const {
  std::vector<double> steps;
  for (const auto& member : view.members) {
    const auto node = nodes_.find(member.node);
    const bool known = node != nodes_.end() && node->second.step_s > 0;
    if (member.role == protocol::Role::kWorker && known) steps.push_back(node->second.step_s);
  }
  if (steps.empty()) return 0;
  // The lower median: for a worker that is slower than it, this is the median of the other workers.
  const auto middle = steps.begin() + static_cast<ptrdiff_t>((steps.size() - 1) / 2);
  std::ranges::nth_element(steps, middle);
  return *middle;
}

std::pair<std::string, int64_t> Progress::ProcessOf(NodeId node) const {
  const auto known = nodes_.find(node);
  if (known == nodes_.end()) return {};
  return {known->second.host, known->second.pid};
}

void Progress::Add(const protocol::WorkerProgress& worker, protocol::WorkerProgress* sum) {
  sum->steps += worker.steps;
  sum->events += worker.events;
  sum->loss_sum += worker.loss_sum;
  sum->correct += worker.correct;
  sum->absolute_error += worker.absolute_error;
  sum->rejected_batches += worker.rejected_batches;
  sum->dead_letters += worker.dead_letters;
  sum->unjoined += worker.unjoined;
  sum->lost_to_retention += worker.lost_to_retention;
  sum->feed_bytes += worker.feed_bytes;
  sum->feed_retries += worker.feed_retries;
  sum->push_retries += worker.push_retries;
  if (!worker.last_dead_letter.empty()) sum->last_dead_letter = worker.last_dead_letter;
}

void Progress::Add(const protocol::ServerProgress& server, protocol::ServerProgress* sum) {
  sum->duplicates += server.duplicates;
  sum->conflicts += server.conflicts;
  sum->bytes_moved += server.bytes_moved;
  sum->skipped = std::max(sum->skipped, server.skipped);
  sum->staleness.resize(std::max(sum->staleness.size(), server.staleness.size()));
  for (size_t i = 0; i < server.staleness.size(); ++i) sum->staleness[i] += server.staleness[i];
  sum->staleness_sum += server.staleness_sum;
  sum->staleness_count += server.staleness_count;
}

protocol::WorkerProgress Progress::SumOfWorkers() const {
  protocol::WorkerProgress sum = forgotten_.workers;
  for (const auto& [node, worker] : workers_) Add(worker, &sum);
  return sum;
}

Progress::Totals Progress::Sum() const {
  Totals sum{SumOfWorkers(), forgotten_.scores, forgotten_.truths};
  for (const auto& [node, counts] : counts_) {
    sum.scores.Merge(counts.first);
    sum.truths.Merge(counts.second);
  }
  return sum;
}

Progress::DeadLetters Progress::dead_letters(const protocol::CoordinatorStatus& status) const {
  const protocol::WorkerProgress workers = SumOfWorkers();
  DeadLetters dead{workers.dead_letters, workers.last_dead_letter};
  const uint64_t all = std::accumulate(status.ends.begin(), status.ends.end(), uint64_t{0}) * options_.epochs;
  if (status.finished && all >= status.events) dead.count = std::min(dead.count, all - status.events);
  return dead;
}

void Progress::Forget(Time now, const protocol::View& view) {
  if (now < look_again_) return;
  look_again_ = now + kForgetAfter / 10;
  std::erase_if(nodes_, [&](const auto& entry) {
    const auto& [id, node] = entry;
    if (now - node.seen < kForgetAfter || view.Find(id) != nullptr) return false;
    forgotten_cpu_seconds_ += node.cpu_seconds;
    if (const auto worker = workers_.extract(id)) Add(worker.mapped(), &forgotten_.workers);
    if (const auto server = servers_.extract(id)) Add(server.mapped(), &forgotten_servers_);
    if (const auto counts = counts_.extract(id)) {
      forgotten_.scores.Merge(counts.mapped().first);
      forgotten_.truths.Merge(counts.mapped().second);
    }
    next_batch_.erase(id);
    if (shares_) shares_->Forget(id);
    return true;
  });
}

void Progress::OnStatus(Time now, const protocol::CoordinatorStatus& status) {
  Forget(now, status.view);
  if (shares_) shares_->Compare(now, status.view);
  std::vector<uint64_t> done;
  for (const auto& position : status.watermark) done.push_back(position.offset);
  lag_.OnStatus(now, status.ends, done);
  if (training_start_ < Time{0}) {
    if (!status.view.ready()) return;
    training_start_ = last_change_ = now;
    first_events_ = last_events_ = status.events;
  }
  if (status.events != last_events_) last_change_ = now;
  last_events_ = status.events;
  if (speed_.empty() || now - speed_.back().first >= kSpeedWindow / 10)
    speed_.emplace_back(now, status.events);
  while (speed_.size() > 2 && now - speed_[1].first >= kSpeedWindow) speed_.pop_front();

  const uint64_t events = SumOfWorkers().events;
  if (events < moments_.back().workers.events + std::max<uint64_t>(1, options_.window / kMomentsInWindow))
    return;
  moments_.push_back(Sum());
  // The front is the latest total that is at least a window old.
  while (moments_.size() > 2 && moments_[1].workers.events + options_.window <= events) moments_.pop_front();
}

}  // namespace leat::report
