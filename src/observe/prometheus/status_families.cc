#include "observe/prometheus/status_families.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace leat::observe {
namespace {

using Json = nlohmann::ordered_json;
using enum MetricType;

// A number or truth value of the status.
struct Row {
  const char* entry;  // a JSON pointer
  Metric metric;
};

constexpr Row kJob[] = {
    {"/events",
     {"leat_job_trained_events", kGauge, "",
      "Events that all slices have, since the job was created; "
      "fewer after a loss, until they are trained again."}},
    {"/lag", {"leat_job_lag_events", kGauge, "", "Events in the stream that some slice does not have."}},
    {"/lag_s", {"leat_job_lag_seconds", kGauge, "", "How long the oldest of these events has waited."}},
    {"/published", {"leat_job_published_events", kGauge, "", "Events that bots have published."}},
    {"/steps", {"leat_job_worker_steps_total", kCounter, "", "Batches that workers have trained."}},
    {"/step", {"leat_job_step", kGauge, "", "Stepped strategies: the step that all slices have reached."}},
    {"/lanes", {"leat_job_lanes", kGauge, "", "Stepped strategies: batches of the next step."}},
    {"/loss",
     {"leat_job_loss", kGauge, "", "Mean loss over the window of the last events, before training."}},
    {"/accuracy",
     {"leat_job_accuracy_ratio", kGauge, "", "Share of the window's labels that were predicted correctly."}},
    {"/mae", {"leat_job_mean_absolute_error", kGauge, "", "Of the predictions for the window."}},
    {"/auc", {"leat_job_auc", kGauge, "", "Area under the ROC curve for the window."}},
    {"/auc_possible",
     {"leat_job_auc_possible", kGauge, "", "The AUC of the true probabilities, if the stream has them."}},
    {"/window", {"leat_job_window_events", kGauge, "", "Events in the window."}},
    {"/late",
     {"leat_job_late_runs_total", kCounter, "",
      "Runs that came too late for their step, and are "
      "trained in another."}},
    {"/skipped",
     {"leat_job_skipped_runs_total", kCounter, "",
      "Runs, or steps, that are not applied, since they were not finite."}},
    {"/rejected_batches",
     {"leat_job_rejected_batches_total", kCounter, "", "Batches whose gradient was not finite."}},
    {"/dead_letters", {"leat_job_dead_letters_total", kCounter, "", "Records that do not fit the schema."}},
    {"/lost_to_retention",
     {"leat_job_lost_to_retention_total", kCounter, "",
      "Offsets of Kafka that retention had removed when they were read, again after a loss."}},
    {"/unlabelled", {"leat_job_unlabelled_events", kGauge, "", "Late labels: events that wait for theirs."}},
    {"/unjoined",
     {"leat_job_unjoined_events_total", kCounter, "", "Late labels: events for which none came."}},
    {"/duplicates",
     {"leat_job_duplicate_runs_total", kCounter, "",
      "Pushes of batches that the ledgers have, which were not applied again."}},
    {"/conflicts",
     {"leat_job_conflicts_total", kCounter, "", "Slices of pushes that were refused as contradictory."}},
    {"/leases", {"leat_job_leases", kGauge, "", "Splits that workers hold."}},
    {"/regranted_leases",
     {"leat_job_regranted_leases_total", kCounter, "",
      "Splits that were leased again after a worker or server was lost."}},
    {"/overdue_leases",
     {"leat_job_overdue_leases_total", kCounter, "", "Splits that took too long, and were leased twice."}},
    {"/evictions", {"leat_job_evictions_total", kCounter, "", "Members that were taken for lost."}},
    {"/moves/planned", {"leat_job_slices_to_move", kGauge, "", "Slices that are to move to other servers."}},
    {"/moves/slices", {"leat_job_moved_slices_total", kCounter, "", "Slices that have moved."}},
    {"/moves/bytes", {"leat_job_moved_bytes_total", kCounter, "", "Size of their values."}},
    {"/moves/failed", {"leat_job_failed_moves_total", kCounter, "", "Moves that were given up."}},
    {"/replicas/of", {"leat_job_slices", kGauge, "", "Jobs with replicas: slices."}},
    {"/replicas/slices", {"leat_job_replicated_slices", kGauge, "", "Slices that have a replica."}},
    {"/failed_checkpoints", {"leat_job_failed_checkpoints_total", kCounter, "", "Checkpoints that failed."}},
    {"/saving/bytes",
     {"leat_job_saving_bytes", kGauge, "", "What is written of the checkpoint that is being made."}},
    {"/predictions/published",
     {"leat_job_predictions_published_events", kGauge, "", "Offsets whose predictions are published."}},
    {"/predictions/behind",
     {"leat_job_predictions_behind_events", kGauge, "",
      "Offsets that all slices have, and whose predictions are not published."}},
    {"/predictions/rescored",
     {"leat_job_predictions_rescored_events", kGauge, "",
      "Predictions whose scores were lost and made again."}},
    {"/drift/alarms", {"leat_job_drift_alarms_total", kCounter, "", "Alarms of the drift detector."}},
    {"/drift/rate", {"leat_job_learning_rate_factor", kGauge, "", "On the learning rate, after an alarm."}},
    {"/generation", {"leat_job_generation", kGauge, "", "Number of the view; it grows with every change."}},
    {"/term", {"leat_job_term", kGauge, "", "Number of the coordinator; it grows with every takeover."}},
    {"/training_s",
     {"leat_job_training_seconds", kGauge, "", "Time from the first trained event to the last."}},
    {"/aggregated_compute_s",
     {"leat_job_compute_seconds_total", kCounter, "",
      "Processor time of all processes, of those that are gone, too."}},
};
constexpr Row kMember[] = {
    {"/cpu_s",
     {"leat_member_compute_seconds_total", kCounter, "role, index", "Processor time of the process."}},
    {"/share",
     {"leat_member_share_ratio", kGauge, "role, index", "Of the parameters: the share of a server."}},
    {"/slow",
     {"leat_member_slow", kGauge, "role, index",
      "Whether the steps of a worker take more than 1.5 "
      "times as long as those of the others, and at least a tenth of its time."}},
    {"/label_skew",
     {"leat_member_label_skew", kGauge, "role, index",
      "How far the labels of a worker's share differ from those of the others."}},
    {"/feature_skew",
     {"leat_member_feature_skew", kGauge, "role, index",
      "The same for the feature that "
      "differs most."}},
    {"/skewed", {"leat_member_skewed", kGauge, "role, index", "Whether one of the two is worth a warning."}},
};

constexpr Metric kInfo = {"leat_job_info", kGauge, "name, strategy", "Always 1."};
constexpr Metric kEvents = {"leat_job_events_total", kCounter, "",
                            "Events that were trained, each counted once, since this process was first asked "
                            "for metrics of the job."};
constexpr Metric kPhase = {"leat_job_phase", kGauge, "phase", "1 for the phase that the job is in, else 0."};
constexpr Metric kBlocked = {"leat_job_blocked", kGauge, "",
                             "Whether something keeps the job from training, or from its end."};
constexpr Metric kStaleness = {"leat_job_staleness", kHistogram, "le",
                               "Updates of a slice between a worker's pull and its push."};
constexpr Metric kMembers = {"leat_job_members", kGauge, "role, state", "Members of the job."};
constexpr Metric kStuck = {"leat_job_stuck_members", kGauge, "", "Processes that are alive and do nothing."};
constexpr Metric kUnreachable = {"leat_job_unreachable_pairs", kGauge, "",
                                 "Pairs of a worker and a member that it cannot reach."};
constexpr Metric kPartitionLag = {
    "leat_job_partition_lag_events", kGauge, "partition",
    "The lag of those partitions, at most 16, whose events have waited longest."};
constexpr Metric kPartitionAge = {"leat_job_partition_lag_seconds", kGauge, "partition",
                                  "How long the oldest event of such a partition has waited."};
constexpr Metric kStep = {
    "leat_member_step_seconds", kGauge, "role, index",
    "Duration of a worker's step, without waiting for input, servers or other workers."};
constexpr Metric kMemberStuck = {"leat_member_stuck", kGauge, "role, index",
                                 "Whether it is alive and does nothing."};

constexpr std::array kPhases = {
    "waiting for servers", "waiting for workers", "running", "paused", "stopping", "ended"};

// The number at `entry`; NaN if there is none.
double Number(const Json& json, const char* entry) {
  const Json::json_pointer pointer(entry);
  if (!json.contains(pointer)) return NAN;
  const Json& value = json[pointer];
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  return value.is_number() ? value.get<double>() : NAN;
}

std::string Text(const Json& json, const char* key, const char* otherwise = "") {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : otherwise;
}

const Json& List(const Json& json, const char* key) {
  static const Json kNone = Json::array();
  const auto at = json.find(key);
  return at != json.end() && at->is_array() ? *at : kNone;
}

void AddStaleness(const Json& status, Families* families) {
  std::vector<uint64_t> counts;
  uint64_t count = 0;
  for (const Json& bin : List(status, "staleness")) {
    counts.push_back(bin.is_number_unsigned() ? bin.get<uint64_t>() : 0);
    count += counts.back();
  }
  const double mean = Number(status, "/staleness_mean");
  if (!std::isfinite(mean)) return;
  // Whole, so that it never falls.
  families->AddHistogram(kStaleness, counts, std::round(mean * static_cast<double>(count)));
}

void AddPartitions(const Json& status, Families* families) {
  for (const Json& partition : List(status, "partitions")) {
    const double number = Number(partition, "/partition");
    if (!std::isfinite(number)) continue;
    const Labels labels = {{"partition", std::to_string(static_cast<uint64_t>(number))}};
    families->Add(kPartitionLag, Number(partition, "/lag"), labels);
    families->Add(kPartitionAge, Number(partition, "/lag_s"), labels);
  }
}

void AddMembers(const Json& status, Families* families) {
  std::map<std::pair<std::string, std::string>, double> numbers;
  double stuck = static_cast<double>(List(status, "stuck_evicted").size()), unreachable = 0;
  size_t shown = 0;
  for (const Json& member : List(status, "members")) {
    const std::string role = Text(member, "role");
    const std::string state = Text(member, "state", "active");
    ++numbers[{role, state}];
    const bool is_stuck = Number(member, "/stuck") == 1;
    stuck += is_stuck ? 1 : 0;
    unreachable += static_cast<double>(List(member, "unreachable").size());
    const double index = Number(member, "/index");
    if (!std::isfinite(index) || ++shown > StatusFamilies::kMostMembers) continue;
    const Labels labels = {{"role", state == "standby" ? state : role},
                           {"index", std::to_string(static_cast<uint64_t>(index))}};
    for (const Row& row : kMember) families->Add(row.metric, Number(member, row.entry), labels);
    families->Add(kMemberStuck, is_stuck ? 1 : 0, labels);
    families->Add(kStep, Number(member, "/step_ms") / 1e3, labels);
  }
  for (const auto& [group, number] : numbers)
    families->Add(kMembers, number, {{"role", group.first}, {"state", group.second}});
  families->Add(kStuck, stuck);
  families->Add(kUnreachable, unreachable);
}

}  // namespace

void StatusFamilies::Add(const Json& status, Families* families) {
  if (!status.is_object()) return;
  families->Add(kInfo, 1, {{"name", Text(status, "job")}, {"strategy", Text(status, "strategy")}});
  if (const double events = Number(status, "/events"); std::isfinite(events)) {
    most_events_ = std::max(most_events_, static_cast<uint64_t>(events));
    if (!first_events_) first_events_ = most_events_;
    families->Add(kEvents, static_cast<double>(most_events_ - *first_events_));
  }
  const std::string phase = Text(status, "phase");
  for (const char* each : kPhases) families->Add(kPhase, phase == each ? 1 : 0, {{"phase", each}});
  families->Add(kBlocked, Text(status, "waiting_for").empty() ? 0 : 1);
  for (const Row& row : kJob) families->Add(row.metric, Number(status, row.entry));
  AddStaleness(status, families);
  AddPartitions(status, families);
  AddMembers(status, families);
}

std::vector<Metric> JobMetrics() {
  std::vector<Metric> metrics = {kInfo, kPhase, kBlocked, kEvents};
  for (const Row& row : kJob) metrics.push_back(row.metric);
  metrics.insert(metrics.end(), {kStaleness, kPartitionLag, kPartitionAge, kMembers, kStuck, kUnreachable});
  return metrics;
}

std::vector<Metric> JobMemberMetrics() {
  std::vector<Metric> metrics;
  for (const Row& row : kMember) metrics.push_back(row.metric);
  metrics.insert(metrics.end(), {kMemberStuck, kStep});
  return metrics;
}

}  // namespace leat::observe
