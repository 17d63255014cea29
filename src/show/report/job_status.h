// The status of a job, the same for everybody who looks at it. Progress makes it; inside a process it is this
// struct, for others it is JSON (docs/status.md lists the entries).
//
// Figures that are not known are NaN, which JSON has as null. A figure that this job can not have is absent.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields/fields.h"
#include "base/status.h"
#include "protocol/coordinator/coordinator_settings.h"

namespace leat::protocol {
LEAT_FIELDS(PublishedPredictions, (published), (behind), (rescored));
LEAT_FIELDS(CoordinatorStatus::Grant, (workers), (servers, As("ps")));
}  // namespace leat::protocol

namespace leat::report {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
// Limits for input from another process.
inline constexpr fields::CutTo kText{1 << 12};
inline constexpr fields::AtMost kList{1 << 20};

// How far a job is behind in a partition.
struct PartitionLag {
  uint32_t partition = 0;
  uint64_t end = 0;
  uint64_t events = 0;  // events of this pass that not every slice has
  double seconds = 0;   // since the first of them came
};
LEAT_FIELDS(PartitionLag, (partition), (end), (events, As("lag")), (seconds, As("lag_s")));

// Means per event, or per label, by the names that River gives them.
struct Quality {
  double loss = kUnknown;
  std::optional<double> accuracy, mae;  // for classes; for numbers
  double auc = kUnknown;
};
LEAT_FIELDS(Quality, (loss), (accuracy), (mae), (auc));
struct QualitySinceStart {
  uint64_t events = 0;
  Quality quality;
};
LEAT_FIELDS(QualitySinceStart, (events), (quality, Flat));
struct FadingQuality {
  double factor = 0;
  Quality quality;
};
LEAT_FIELDS(FadingQuality, (factor), (quality, Flat));

struct DriftStatus {
  struct Alarm {
    uint64_t event = 0;
    double mean = kUnknown;
  };
  std::string detector, on;
  uint64_t alarms = 0;
  std::optional<Alarm> last;
  std::optional<double> rate;  // factor on the learning rate
};
LEAT_FIELDS(DriftStatus::Alarm, (event), (mean));
LEAT_FIELDS(DriftStatus, (detector, kText), (on, kText), (alarms), (last), (rate));

struct BotsStatus {
  std::string host;
  int64_t pid = 0;
  double cpu_s = 0;
  std::string metrics;
};
LEAT_FIELDS(BotsStatus, (host, kText), (pid), (cpu_s), (metrics, kText, Sparse));

struct MovesStatus {
  uint64_t planned = 0, slices = 0, bytes = 0, bytes_sent = 0, failed = 0;
};
LEAT_FIELDS(MovesStatus, (planned), (slices), (bytes), (bytes_sent), (failed));

struct ReplicasStatus {
  struct Pair {
    uint32_t ps = 0, replica = 0;
    uint64_t slices = 0;
  };
  uint64_t slices = 0, of = 0;
  std::vector<Pair> on;
};
LEAT_FIELDS(ReplicasStatus::Pair, (ps), (replica), (slices));
LEAT_FIELDS(ReplicasStatus, (slices), (of), (on, kList, Sparse));

struct WantedStatus {
  std::optional<uint32_t> workers, ps;       // none: not known yet
  std::optional<std::string> range, reason;  // from an autoscaler
  std::optional<protocol::CoordinatorStatus::Grant> granted;
  std::string hook_failure;
};
LEAT_FIELDS(WantedStatus, (workers), (range, kText), (reason, kText), (ps), (granted),
            (hook_failure, kText, Sparse));

// Which process a member is, or was.
struct MemberName {
  std::string role;  // "worker"
  uint32_t index = 0;
  uint64_t node = 0;
  std::string state = {};    // "standby", "draining" or empty
  std::string Text() const;  // "worker 3", "standby 0"
  bool standby() const { return state == "standby"; }
  // A coordinator that stands by has a role of its own.
  bool StandsBy() const { return standby() || role == "standby" || role == "coordinator"; }
  bool Works(std::string_view as) const { return role == as && !standby(); }
};
LEAT_FIELDS(MemberName, (role, kText), (index), (node), (state, kText, Sparse));

struct ServerFigures {
  uint64_t bytes_held = 0;
  double share = 0;  // share of the bytes that all servers hold
  double bytes_per_s = 0;
};
LEAT_FIELDS(ServerFigures, (bytes_held), (share), (bytes_per_s));

struct ServeFigures {
  double interval_s = 0;
  uint64_t stretched = 0, retries = 0;
};
LEAT_FIELDS(ServeFigures, (interval_s), (stretched), (retries));

struct WorkerFigures {
  protocol::WorkerProgress progress;  // as far as it is shown
  double longest_step_ms = 0;
  double input_bytes_per_s = 0, input_events_per_s = 0;
  double step_ms = kUnknown;  // without waits
  bool slow = false;
  // Only in jobs that compare the shares of their workers.
  std::optional<double> label_skew, feature_skew;
  std::string skewed_feature;
  std::optional<bool> skewed;
};
LEAT_FIELDS(WorkerFigures, (progress, Flat), (longest_step_ms), (input_bytes_per_s), (input_events_per_s),
            (step_ms), (slow), (label_skew), (feature_skew), (skewed_feature, kText, Sparse), (skewed));

struct MemberStatus {
  MemberName name;
  // Known only of a process that has joined this coordinator.
  std::string host;
  int64_t pid = 0;
  std::optional<uint64_t> done;
  std::optional<double> cpu_s;
  std::string metrics;
  std::optional<uint64_t> bytes_in, bytes_out;
  bool stuck = false;
  std::vector<std::string> unreachable;  // "ps 0"
  uint64_t all_unreachable = 0;          // as all_members
  double round_trip_ms = kUnknown;
  std::string site, zone, host_class;
  std::optional<ServerFigures> server;
  std::optional<ServeFigures> serve;
  std::optional<WorkerFigures> worker;
};
LEAT_FIELDS(MemberStatus, (name, Flat), (host, kText, Sparse), (pid, Sparse), (done), (cpu_s),
            (metrics, kText, Sparse), (bytes_in), (bytes_out), (stuck, Sparse),
            (unreachable, kList, Each(kText), Sparse), (all_unreachable, Sparse), (round_trip_ms),
            (site, kText, Sparse), (zone, kText, Sparse), (host_class, As("class"), kText, Sparse),
            (server, Flat), (serve, Flat), (worker, Flat));

struct DepartedStatus {
  uint64_t number = 0;  // since the coordinator started
  MemberName name;
  std::string how;  // "left", "lost" or "evicted"
};
LEAT_FIELDS(DepartedStatus, (number), (name, Flat), (how, kText));
struct EvictedStatus {
  MemberName name;
  std::string host;
  int64_t pid = 0;
  bool stuck = true;
};
LEAT_FIELDS(EvictedStatus, (name, Flat), (host, kText), (pid), (stuck));

// The servers that a variable is on.
struct VariableStatus {
  struct Part {
    uint32_t index = 0;  // index of the server
    uint64_t bytes = 0;
  };
  std::string name;
  uint64_t bytes = 0;
  std::vector<Part> ps = {};  // ascending
  uint64_t all_ps = 0;        // as all_members
};
LEAT_FIELDS(VariableStatus::Part, (index), (bytes));
LEAT_FIELDS(VariableStatus, (name, kText), (bytes), (ps, kList), (all_ps, Sparse));

struct SavingStatus {
  uint64_t checkpoint = 0, bytes = 0;
  std::string waiting_for;
  double limit_s = 0;
};
LEAT_FIELDS(SavingStatus, (checkpoint), (bytes), (waiting_for, kText), (limit_s));

// The evaluation after a run, in its summary alone.
struct TestFigures {
  uint64_t test_rows = 0;
  std::optional<uint64_t> test_dead_letters;
  std::optional<double> test_accuracy;
  double test_loss = kUnknown;
};
LEAT_FIELDS(TestFigures, (test_rows), (test_dead_letters), (test_accuracy), (test_loss));

struct JobStatus {
  std::string job, phase, strategy = "async";
  uint64_t events = 0;  // events that every slice has
  double events_per_s = 0, events_per_s_now = 0;
  uint64_t steps = 0;
  Quality quality;  // quality in the window
  std::optional<double> auc_possible;
  uint64_t window = 0;
  std::optional<QualitySinceStart> since_start;
  std::optional<FadingQuality> fading;
  std::optional<DriftStatus> drift;
  double staleness_mean = kUnknown;
  uint64_t staleness_p99 = 0;
  std::vector<uint64_t> staleness;  // histogram
  uint64_t step = 0;
  uint32_t lanes = 0;
  uint64_t late = 0, skipped = 0;
  std::optional<double> learning_rate;
  uint64_t lag = 0;
  double lag_s = 0;
  std::vector<PartitionLag> partitions;
  uint64_t stream_end = 0, published = 0;
  std::vector<BotsStatus> bots;
  uint64_t all_bots = 0;  // as all_members
  std::optional<protocol::PublishedPredictions> predictions;
  std::optional<uint64_t> unlabelled, unjoined;  // late labels
  uint64_t dead_letters = 0;
  std::string last_dead_letter;
  uint64_t lost_to_retention = 0, feed_bytes = 0, feed_retries = 0, push_retries = 0, rejected_batches = 0;
  uint64_t duplicates = 0, conflicts = 0, leases = 0, regranted_leases = 0, overdue_leases = 0, evictions = 0;
  std::optional<MovesStatus> moves;
  std::optional<ReplicasStatus> replicas;
  uint64_t failed_checkpoints = 0;
  std::string checkpoint_failure, waiting_for;
  uint64_t generation = 0, term = 0;
  std::optional<WantedStatus> wanted;
  std::vector<MemberStatus> members;
  uint64_t all_members = 0;  // how many there are, if the list is shortened; else 0
  std::vector<DepartedStatus> departed;
  std::vector<EvictedStatus> stuck_evicted;
  uint64_t all_stuck_evicted = 0;
  std::optional<std::vector<VariableStatus>> variables;  // none: the job has no servers
  uint64_t all_variables = 0;
  std::vector<std::string> warnings;
  uint64_t all_warnings = 0, skew_warnings = 0;
  double wall_s = kUnknown, training_s = kUnknown, aggregated_compute_s = kUnknown;
  std::optional<std::string> checkpoint;
  std::string directory, metrics, dashboard;
  std::optional<SavingStatus> saving;
  std::optional<TestFigures> test;

  size_t Count(std::string_view role) const;  // members that work
};
LEAT_FIELDS(JobStatus, (job, kText), (phase, kText), (strategy, kText), (events), (events_per_s),
            (events_per_s_now), (steps), (quality, Flat), (auc_possible), (window), (since_start), (fading),
            (drift), (staleness_mean), (staleness_p99), (staleness, kList), (step), (lanes, Sparse), (late),
            (skipped), (learning_rate), (lag), (lag_s), (partitions, kList, Sparse), (stream_end),
            (published), (bots, kList, Sparse), (all_bots, Sparse), (predictions), (unlabelled), (unjoined),
            (dead_letters), (last_dead_letter, kText, Sparse), (lost_to_retention), (feed_bytes, Sparse),
            (feed_retries, Sparse), (push_retries, Sparse), (rejected_batches), (duplicates), (conflicts),
            (leases), (regranted_leases), (overdue_leases), (evictions), (moves), (replicas),
            (failed_checkpoints), (checkpoint_failure, kText, Sparse), (waiting_for, kText, Sparse),
            (generation), (term), (wanted), (members, kList), (all_members, Sparse),
            (departed, kList, Sparse), (stuck_evicted, kList, Sparse), (all_stuck_evicted, Sparse),
            (variables, kList), (all_variables, Sparse), (warnings, kList, Each(kText)),
            (all_warnings, Sparse), (skew_warnings), (wall_s), (training_s), (aggregated_compute_s),
            (checkpoint, kText, OrNull), (directory, kText), (metrics, kText, Sparse),
            (dashboard, kText, Sparse), (saving), (test, Flat));

std::string ToJson(const JobStatus& status);  // on one line
// Reads the status of another process, which may have another version: entries that are absent or have
// unexpected types keep their defaults. kDataLoss: it is no JSON object.
Result<JobStatus> StatusFromJson(std::string_view json);
// The same with lists of a bounded length: what matters most of the members, variables and so on.
JobStatus Trimmed(JobStatus status);

}  // namespace leat::report
