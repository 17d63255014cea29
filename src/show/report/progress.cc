#include "show/report/progress.h"

#include <cmath>
#include <numeric>

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

void Lag::OnStatus(Time now, std::span<const uint64_t> ends, std::span<const uint64_t> done) {
  partitions_.resize(ends.size());
  for (size_t p = 0; p < ends.size() && p < done.size(); ++p) {
    State& state = partitions_[p];
    state.done = done[p];
    if (state.ends.empty() || ends[p] > state.ends.back().second) state.ends.emplace_back(now, ends[p]);
    // The last one is kept: it tells where the partition ends.
    while (state.ends.size() > 1 && state.ends.front().second <= done[p]) state.ends.pop_front();
    if (state.ends.size() <= kMoments) continue;
    // Merging two neighbours assumes that the later end came with the earlier one.
    auto closest = state.ends.begin();
    for (auto at = state.ends.begin(); at + 2 < state.ends.end(); ++at) {
      if ((at + 1)->first - at->first < (closest + 1)->first - closest->first) closest = at;
    }
    closest->second = (closest + 1)->second;
    state.ends.erase(closest + 1);
  }
}

Time Lag::State::first() const {
  return std::ranges::upper_bound(ends, done, {}, &std::pair<Time, uint64_t>::second)->first;
}

Duration Lag::Oldest(Time now) const {
  Duration oldest{0};
  for (const State& state : partitions_) {
    if (state.behind()) oldest = std::max(oldest, now - state.first());
  }
  return oldest;
}

std::vector<PartitionLag> Lag::Behind(Time now, size_t most) const {
  std::vector<PartitionLag> behind;
  for (uint32_t p = 0; p < partitions_.size(); ++p) {
    const State& state = partitions_[p];
    if (!state.behind()) continue;
    behind.push_back({.partition = p,
                      .end = state.ends.back().second,
                      .events = state.ends.back().second - state.done,
                      .seconds = Seconds(now - state.first())});
  }
  std::ranges::sort(behind, std::ranges::greater(), &PartitionLag::events);
  if (behind.size() > most) behind.resize(most);
  return behind;
}

Prequential::Prequential(Options options) : options_(std::move(options)) {
  if (options_.fading) {
    const double factor = *options_.fading;
    fading_.emplace(Fading{factor, metrics::FadingScores(factor), metrics::FadingAuc(factor)});
  }
  if (options_.drift) detector_.emplace(*options_.drift);
}

double Prequential::DetectorValue(const protocol::BatchScores& batch) const {
  const auto events = static_cast<double>(batch.events), labels = events * options_.labels;
  switch (options_.drift->on) {
    case metrics::DriftConfig::On::kLoss:
      return batch.loss_sum / events;
    case metrics::DriftConfig::On::kError:
      return 1 - static_cast<double>(batch.correct) / labels;
    case metrics::DriftConfig::On::kAbsoluteError:
      return batch.absolute_error / labels;
  }
  return 0;
}

void Prequential::Add(uint64_t events_before, const protocol::BatchScores& batch) {
  if (batch.events == 0) return;
  events_ += batch.events;
  if (!std::isfinite(batch.loss_sum) || !std::isfinite(batch.absolute_error)) return;
  if (fading_) {
    fading_->scores.Add({.events = batch.events,
                         .loss = batch.loss_sum,
                         .correct = static_cast<double>(batch.correct),
                         .absolute_error = batch.absolute_error});
  }
  if (!detector_) return;
  const double mean = detector_->mean();
  if (!detector_->Update(DetectorValue(batch))) return;
  last_ = {.number = alarms() + 1, .event = events_before + events_, .mean = mean};
  new_alarms_.push_back(*last_);
}

void Prequential::AddScores(const metrics::AucCounts& earlier, const metrics::AucCounts& now) {
  if (fading_) fading_->auc.Add(earlier, now);
}

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

Progress::Node* Progress::Heard(Time now, NodeId node, protocol::Role role, uint64_t done,
                                double cpu_seconds) {
  Node* const known = Heard(now, node, role);
  if (known == nullptr) return nullptr;
  known->done = done;
  known->cpu_seconds = cpu_seconds;
  return known;
}

void Progress::OnServer(Time now, NodeId node, const protocol::ServerProgress& progress) {
  Node* const known = Heard(now, node, protocol::Role::kServer, progress.pushes, progress.cpu_seconds);
  if (known == nullptr) return;
  known->traffic.Note(now, progress.bytes_in + progress.bytes_out);
  servers_[node] = progress;
}

void Progress::OnBots(Time now, NodeId node, const protocol::BotsHeartbeat& progress) {
  Node* const known = Heard(now, node, protocol::Role::kBots, progress.published, progress.cpu_seconds);
  if (known == nullptr) return;
  known->ends = progress.done;
  published_ = progress.published;
}

void Progress::OnFeed(Time now, NodeId node, const protocol::FeedHeartbeat& progress) {
  Node* const known = Heard(now, node, protocol::Role::kFeed, progress.requests, progress.cpu_seconds);
  if (known != nullptr) known->feed_bytes = progress.bytes_sent;
}

void Progress::OnServe(Time now, NodeId node, const protocol::ServeHeartbeat& heartbeat) {
  const protocol::FollowProgress& progress = heartbeat.progress;
  Node* const known = Heard(now, node, protocol::Role::kServe, progress.rounds, progress.cpu_seconds);
  if (known != nullptr) known->follow = progress;
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
