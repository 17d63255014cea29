#include "report/progress.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace leat::train {
namespace {

using Json = nlohmann::ordered_json;

// Moments that a window is made of; a window is right to one part in so many.
constexpr uint64_t kMomentsInWindow = 16;
constexpr Duration kSpeedWindow = std::chrono::seconds(3);
constexpr Duration kTrafficWindow = std::chrono::seconds(1);
// Before so many steps nobody's pace is judged; slow is who takes so many times what the others do.
constexpr uint64_t kStepsToJudge = 20;
constexpr double kSlow = 1.5;

// The least staleness that 99 of 100 do not exceed.
size_t Percentile99(const std::vector<uint64_t>& histogram) {
  uint64_t count = 0, so_far = 0;
  for (const uint64_t bin : histogram) count += bin;
  for (size_t i = 0; i < histogram.size(); ++i) {
    so_far += histogram[i];
    if (so_far * 100 >= count * 99) return i;
  }
  return 0;
}

// JSON has no NaN.
Json Number(double x) {
  return std::isfinite(x) ? Json(x) : Json(nullptr);
}

std::string_view PhaseName(protocol::CoordinatorStatus::Phase phase) {
  using Phase = protocol::CoordinatorStatus::Phase;
  switch (phase) {
    case Phase::kWaitingForServers:
      return "waiting for servers";
    case Phase::kWaitingForWorkers:
      return "waiting for workers";
    case Phase::kRunning:
      return "running";
    case Phase::kPaused:
      return "paused";
    case Phase::kStopping:
      return "stopping";
    case Phase::kEnded:
      return "ended";
  }
  return "?";
}

}  // namespace

Progress::Progress(Options options) : options_(std::move(options)) {
  moments_.emplace_back();
}

void Progress::OnJoin(Time now, NodeId node, const protocol::JoinRequest& request) {
  if (start_ < Time{0}) start_ = now;
  nodes_[node] = {.role = request.role, .host = request.host, .pid = request.pid};
}

void Progress::OnWorker(Time now, NodeId node, const protocol::WorkerProgress& progress) {
  // A late heartbeat of an evicted process, or one that is made up, changes nothing.
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || known->second.role != protocol::Role::kWorker) return;
  // Sums only grow: a report that was overtaken on its way is not news.
  if (progress.steps < workers_[node].steps) return;
  known->second.done = progress.events;
  known->second.cpu_seconds = progress.cpu_seconds;
  Node& pace = known->second;
  if (pace.since < Time{0} && progress.steps > 0) {
    pace.since = now;
    pace.base = progress.steps;
    pace.base_wait = progress.wait_seconds;
  } else if (pace.since >= Time{0} && progress.steps >= pace.base + kStepsToJudge) {
    const double busy = Seconds(now - pace.since) - (progress.wait_seconds - pace.base_wait);
    pace.step_s = std::max(busy, 0.0) / static_cast<double>(progress.steps - pace.base);
  }
  workers_[node] = progress;
  workers_[node].scores.clear();
  workers_[node].true_scores.clear();
  for (const auto& [bytes, part] : {std::pair{&progress.scores, 0}, std::pair{&progress.true_scores, 1}}) {
    if (bytes->empty()) continue;
    auto counts = metrics::AucCounts::Decode(*bytes);
    if (!counts.ok()) continue;
    (part == 0 ? counts_[node].first : counts_[node].second) = std::move(*counts);
  }
}

void Progress::OnServer(Time now, NodeId node, const protocol::ServerProgress& progress) {
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || known->second.role != protocol::Role::kServer) return;
  known->second.done = progress.pushes;
  known->second.cpu_seconds = progress.cpu_seconds;
  Node& traffic = known->second;
  const uint64_t bytes = progress.bytes_in + progress.bytes_out;
  if (traffic.since < Time{0} || now - traffic.since >= kTrafficWindow) {
    if (traffic.since >= Time{0}) {
      traffic.bytes_per_s =
          static_cast<double>(bytes - std::min(bytes, traffic.base)) / Seconds(now - traffic.since);
    }
    traffic.since = now;
    traffic.base = bytes;
  }
  servers_[node] = progress;
}

void Progress::OnBots(Time, NodeId node, const protocol::BotsHeartbeat& progress) {
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || known->second.role != protocol::Role::kBots) return;
  known->second.done = progress.published;
  known->second.cpu_seconds = progress.cpu_seconds;
  published_ = progress.published;
}

void Progress::OnMemberReport(NodeId node, const protocol::MemberReport& report) {
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || known->second.role != protocol::Role::kWorker) return;
  members_skipped_ = std::max(members_skipped_, report.skipped);  // all count the same steps
}

double Progress::UsualStep(const protocol::View& view) const {
  std::vector<double> steps;
  for (const auto& member : view.members) {
    const auto node = nodes_.find(member.node);
    const bool known = node != nodes_.end() && node->second.step_s > 0;
    if (member.role == protocol::Role::kWorker && known) steps.push_back(node->second.step_s);
  }
  if (steps.empty()) return 0;
  // Whoever takes longer than that is not among those before it, so to him it is the median of the others.
  const auto middle = steps.begin() + static_cast<ptrdiff_t>((steps.size() - 1) / 2);
  std::ranges::nth_element(steps, middle);
  return *middle;
}

Progress::Totals Progress::Sum() const {
  Totals sum;
  for (const auto& [node, worker] : workers_) {
    sum.steps += worker.steps;
    sum.events += worker.events;
    sum.loss_sum += worker.loss_sum;
    sum.correct += worker.correct;
  }
  for (const auto& [node, counts] : counts_) {
    sum.scores.Merge(counts.first);
    sum.truths.Merge(counts.second);
  }
  return sum;
}

void Progress::OnStatus(Time now, const protocol::CoordinatorStatus& status) {
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

  uint64_t events = 0;
  for (const auto& [node, worker] : workers_) events += worker.events;
  if (events < moments_.back().events + std::max<uint64_t>(1, options_.window / kMomentsInWindow)) return;
  moments_.push_back(Sum());
  // The front is the last moment that is at least a window ago.
  while (moments_.size() > 2 && moments_[1].events + options_.window <= events) moments_.pop_front();
}

std::string Progress::ToJson(Time now, const protocol::CoordinatorStatus& status,
                             double own_cpu_seconds) const {
  Totals total = Sum();
  Totals window = total;
  const Totals& before = moments_.front();
  window.events -= std::min(window.events, before.events);
  window.correct -= std::min(window.correct, before.correct);
  window.loss_sum -= before.loss_sum;
  window.scores.Subtract(before.scores);
  window.truths.Subtract(before.truths);

  Json json;
  json["job"] = options_.job;
  json["phase"] = PhaseName(status.phase);
  json["strategy"] = options_.strategy;
  json["events"] = status.events;
  const double training_s =
      training_start_ < Time{0}
          ? 0
          : Seconds((last_change_ > training_start_ ? last_change_ : now) - training_start_);
  const uint64_t here = status.events - std::min(status.events, first_events_);
  json["events_per_s"] = training_s > 0 ? std::round(static_cast<double>(here) / training_s) : 0.0;
  double speed = 0;
  if (speed_.size() >= 2 && now > speed_.front().first) {
    speed = static_cast<double>(status.events - std::min(status.events, speed_.front().second)) /
            Seconds(now - speed_.front().first);
  }
  json["events_per_s_now"] = std::round(speed);
  json["steps"] = total.steps;
  json["loss"] =
      window.events > 0 ? Number(window.loss_sum / static_cast<double>(window.events)) : Json(nullptr);
  if (options_.task == nn::Task::kBinary || options_.task == nn::Task::kClasses) {
    const auto labels = static_cast<double>(window.events) * options_.labels;
    json["accuracy"] =
        window.events > 0 ? Number(static_cast<double>(window.correct) / labels) : Json(nullptr);
  }
  json["auc"] = options_.task == nn::Task::kBinary ? Number(window.scores.Auc()) : Json(nullptr);
  if (options_.truth) json["auc_possible"] = Number(window.truths.Auc());
  json["window"] = window.events;

  uint64_t staleness_sum = 0, staleness_count = 0, duplicates = 0, rejected = 0, dead = 0;
  uint64_t skipped = members_skipped_, held = 0;
  std::vector<uint64_t> histogram;
  for (const auto& [node, server] : servers_) {
    // Every server is told of the same ones.
    skipped = std::max(skipped, server.skipped);
    histogram.resize(std::max(histogram.size(), server.staleness.size()));
    for (size_t i = 0; i < server.staleness.size(); ++i) histogram[i] += server.staleness[i];
    if (status.view.Find(node) != nullptr) held += server.bytes_held;
    staleness_sum += server.staleness_sum;
    staleness_count += server.staleness_count;
    duplicates += server.duplicates;
  }
  std::string last_dead;
  for (const auto& [node, worker] : workers_) {
    rejected += worker.rejected_batches;
    dead += worker.dead_letters;
    if (!worker.last_dead_letter.empty()) last_dead = worker.last_dead_letter;
  }
  json["staleness_mean"] =
      staleness_count > 0 ? static_cast<double>(staleness_sum) / static_cast<double>(staleness_count) : 0.0;
  while (!histogram.empty() && histogram.back() == 0) histogram.pop_back();
  json["staleness_p99"] = Percentile99(histogram);
  json["staleness"] = histogram;
  json["step"] = status.step;
  json["late"] = status.late;
  json["skipped"] = skipped;
  json["lag"] = status.lag;
  json["published"] = published_;
  json["dead_letters"] = dead;
  if (!last_dead.empty()) json["last_dead_letter"] = last_dead;
  json["rejected_batches"] = rejected;
  json["duplicates"] = duplicates;
  json["leases"] = status.leases;
  json["regranted_leases"] = status.regranted_leases;
  json["evictions"] = status.evictions;
  json["failed_checkpoints"] = status.failed_checkpoints;
  json["generation"] = status.view.generation.value;

  double compute_s = own_cpu_seconds;
  for (const auto& [node, n] : nodes_) compute_s += n.cpu_seconds;
  const double usual_s = UsualStep(status.view);
  Json members = Json::array();
  for (const auto& member : status.view.members) {
    Json m;
    m["role"] = protocol::Name(member.role);
    m["index"] = member.index;
    m["node"] = member.node.value;
    if (const auto n = nodes_.find(member.node); n != nodes_.end()) {
      m["host"] = n->second.host;
      m["pid"] = n->second.pid;
      m["done"] = n->second.done;
      m["cpu_s"] = n->second.cpu_seconds;
    }
    if (const auto s = servers_.find(member.node); s != servers_.end()) {
      m["bytes_held"] = s->second.bytes_held;
      m["share"] = held > 0 ? static_cast<double>(s->second.bytes_held) / static_cast<double>(held) : 0.0;
      m["bytes_in"] = s->second.bytes_in;
      m["bytes_out"] = s->second.bytes_out;
      m["bytes_per_s"] = std::round(nodes_.at(member.node).bytes_per_s);
    }
    if (const auto w = workers_.find(member.node); w != workers_.end()) {
      m["steps"] = w->second.steps;
      m["wait_s"] = w->second.wait_seconds;
      const double step_s = nodes_.at(member.node).step_s;
      m["step_ms"] = step_s > 0 ? Json(step_s * 1e3) : Json(nullptr);
      m["slow"] = step_s > kSlow * usual_s;
    }
    members.push_back(std::move(m));
  }
  json["members"] = std::move(members);
  json["warnings"] = options_.warnings;
  json["wall_s"] = start_ < Time{0} ? 0.0 : Seconds(now - start_);
  json["training_s"] = training_s;
  json["aggregated_compute_s"] = compute_s;
  json["checkpoint"] = status.checkpoint ? Json(status.checkpoint_directory) : Json(nullptr);
  json["directory"] = options_.directory;
  // Names of hosts and reasons of dead letters may hold any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace leat::train
