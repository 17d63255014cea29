#include "show/report/figures.h"

#include <algorithm>

namespace leat::report {
namespace {

using enum Series;
using enum Shown::As;
using J = JobStatus;
using M = MemberStatus;
using protocol::CoordinatorStatus;
using protocol::PublishedPredictions;
using Worker = protocol::WorkerProgress;

constexpr Shown OnPage(Shown::As as, std::string_view label, Chart chart = Chart::kNone, int color = -1,
                       Column column = Column::kNone) {
  return {as, label, chart, color, column};
}
constexpr Shown InColumn(Column column) {
  return {.column = column};
}

double Standbys(const J& s) {
  return double(std::ranges::count_if(s.members, [](const M& m) { return m.name.StandsBy(); }));
}
double StuckMembers(const J& s) {
  return double(std::ranges::count_if(s.members, &M::stuck)) + double(s.stuck_evicted.size());
}
double UnreachablePairs(const J& s) {
  double pairs = 0;
  for (const M& m : s.members) pairs += double(m.unreachable.size());
  return pairs;
}

constexpr Figure<JobStatus> kJob[] = {
    {"Events that all slices have, since the job was created; fewer after a loss, until they are trained "
     "again.",
     "events", Get<&J::events>, "leat_job_trained_events", "stream/events", OnPage(kFact, "Events trained")},
    {"Time since the first process joined.", "seconds", Get<&J::wall_s>, "", "",
     OnPage(kFact, "Running for")},
    {"Events trained per second, over the last seconds.", "events/s", Get<&J::events_per_s_now>, "",
     "stream/events_per_s", OnPage(kFilled, "trained", Chart::kEvents, 0), kEventsPerS},
    {"Events that have come into the stream.", "events", Get<&J::stream_end>, "", "",
     OnPage(kDashed, "arriving", Chart::kEvents, 2), kArrivedPerS, true},
    {"Events in the stream that some slice does not have.", "events", Get<&J::lag>, "leat_job_lag_events",
     "stream/lag", OnPage(kFilled, "events", Chart::kLag, 4), kLag},
    {"How long the oldest event has waited that some slice does not have.", "seconds", Get<&J::lag_s>,
     "leat_job_lag_seconds", "stream/lag_s", OnPage(kRight, "oldest", Chart::kLag, 2), kLagS},
    {"Events that bots have published.", "events", Get<&J::published>, "leat_job_published_events"},
    {"Batches that workers have trained.", "batches", Get<&J::steps>, "leat_job_worker_steps_total",
     "updates/steps", OnPage(kFact, "Steps")},
    {"Processor time of all processes, of those that are gone, too.", "seconds",
     Get<&J::aggregated_compute_s>, "leat_job_compute_seconds_total", "cost/compute_s",
     OnPage(kFactPerS, "Processors in use"), kCores, true},
    {"Stepped strategies: the step that all slices have reached.", "steps", Get<&J::step>, "leat_job_step",
     "updates/step"},
    {"Stepped strategies: batches of the next step.", "batches",
     [](const J& s) { return s.lanes > 0 ? Get<&J::lanes>(s) : kUnknown; }, "leat_job_lanes"},
    {"Mean loss over the window of the last events, before training.", "", Get<&J::quality, &Quality::loss>,
     "leat_job_loss", "learning/loss", OnPage(kFilled, "before training on the event", Chart::kLoss, 3),
     kLoss},
    {"Area under the ROC curve for the window.", "", Get<&J::quality, &Quality::auc>, "leat_job_auc",
     "learning/auc", OnPage(kLine, "AUC", Chart::kQuality, 0), kAuc},
    {"The AUC of the true probabilities, if the stream has them.", "", Get<&J::auc_possible>,
     "leat_job_auc_possible", "learning/auc_possible", OnPage(kDashed, "possible AUC", Chart::kQuality, 0),
     kAucPossible},
    {"Share of the window's labels that were predicted correctly.", "ratio",
     Get<&J::quality, &Quality::accuracy>, "leat_job_accuracy_ratio", "learning/accuracy",
     OnPage(kLine, "accuracy", Chart::kQuality, 1), kAccuracy},
    {"Mean absolute error of the predictions over the window.", "", Get<&J::quality, &Quality::mae>,
     "leat_job_mean_absolute_error", "learning/mae", OnPage(kLine, "mean absolute error", Chart::kQuality, 2),
     kMae},
    {"Events in the window.", "events", Get<&J::window>, "leat_job_window_events"},
    {"Mean loss with forgetting.", "", Get<&J::fading, &FadingQuality::quality, &Quality::loss>, "",
     "learning/fading/loss"},
    {"Accuracy with forgetting.", "ratio", Get<&J::fading, &FadingQuality::quality, &Quality::accuracy>, "",
     "learning/fading/accuracy"},
    {"Mean absolute error with forgetting.", "", Get<&J::fading, &FadingQuality::quality, &Quality::mae>, "",
     "learning/fading/mae"},
    {"Area under the ROC curve with forgetting.", "", Get<&J::fading, &FadingQuality::quality, &Quality::auc>,
     "", "learning/fading/auc"},
    {"Learning rate of the next update, with schedule and drift alarms.", "", Get<&J::learning_rate>, "",
     "learning/learning_rate"},
    {"Runs that came too late for their step, and are trained in another.", "runs", Get<&J::late>,
     "leat_job_late_runs_total", "updates/late"},
    {"Runs, or steps, that are not applied, since they were not finite.", "runs", Get<&J::skipped>,
     "leat_job_skipped_runs_total", "updates/skipped"},
    {"Batches whose gradient was not finite.", "batches", Get<&J::rejected_batches>,
     "leat_job_rejected_batches_total", "updates/rejected_batches"},
    {"Records that do not fit the schema.", "records", Get<&J::dead_letters>, "leat_job_dead_letters_total",
     "stream/dead_letters", OnPage(kFact, "Dead letters"), kDeadLettersPerS, true},
    {"Offsets of Kafka that retention had removed when they were read, again after a loss.", "offsets",
     Get<&J::lost_to_retention>, "leat_job_lost_to_retention_total", "stream/lost_to_retention",
     OnPage(kRareFact, "Lost to retention")},
    {"Late labels: events that wait for their labels.", "events", Get<&J::unlabelled>,
     "leat_job_unlabelled_events"},
    {"Late labels: events for which no label came.", "events", Get<&J::unjoined>,
     "leat_job_unjoined_events_total", "stream/unjoined"},
    {"Pushes of batches that the ledgers have, which were not applied again.", "runs", Get<&J::duplicates>,
     "leat_job_duplicate_runs_total", "updates/duplicates"},
    {"Slices of pushes that were refused as contradictory.", "slices", Get<&J::conflicts>,
     "leat_job_conflicts_total"},
    {"Splits that workers hold.", "splits", Get<&J::leases>, "leat_job_leases"},
    {"Splits that were leased again after a worker or server was lost.", "splits", Get<&J::regranted_leases>,
     "leat_job_regranted_leases_total"},
    {"Splits that took too long, and were leased twice.", "splits", Get<&J::overdue_leases>,
     "leat_job_overdue_leases_total"},
    {"Members that were taken for lost.", "members", Get<&J::evictions>, "leat_job_evictions_total"},
    {"Slices that are to move to other servers.", "slices", Get<&J::moves, &MovesStatus::planned>,
     "leat_job_slices_to_move"},
    {"Slices that have moved.", "slices", Get<&J::moves, &MovesStatus::slices>,
     "leat_job_moved_slices_total"},
    {"Bytes of the slices that have moved.", "bytes", Get<&J::moves, &MovesStatus::bytes>,
     "leat_job_moved_bytes_total"},
    {"Moves that were given up.", "moves", Get<&J::moves, &MovesStatus::failed>,
     "leat_job_failed_moves_total"},
    {"Jobs with replicas: slices.", "slices", Get<&J::replicas, &ReplicasStatus::of>, "leat_job_slices"},
    {"Slices that have a replica.", "slices", Get<&J::replicas, &ReplicasStatus::slices>,
     "leat_job_replicated_slices"},
    {"Checkpoints that failed.", "checkpoints", Get<&J::failed_checkpoints>,
     "leat_job_failed_checkpoints_total", "checkpoints/failed"},
    {"What is written of the checkpoint that is being made.", "bytes", Get<&J::saving, &SavingStatus::bytes>,
     "leat_job_saving_bytes"},
    {"Offsets whose predictions are published.", "events",
     Get<&J::predictions, &PublishedPredictions::published>, "leat_job_predictions_published_events", "",
     OnPage(kFact, "Predictions")},
    {"Offsets that all slices have, and whose predictions are not published.", "events",
     Get<&J::predictions, &protocol::PublishedPredictions::behind>, "leat_job_predictions_behind_events"},
    {"Predictions whose scores were lost and made again.", "events",
     Get<&J::predictions, &protocol::PublishedPredictions::rescored>, "leat_job_predictions_rescored_events"},
    {"Alarms of the drift detector.", "alarms", Get<&J::drift, &DriftStatus::alarms>,
     "leat_job_drift_alarms_total", "learning/drift_alarms", OnPage(kFact, "Drift alarms")},
    {"Factor on the learning rate after a drift alarm.", "", Get<&J::drift, &DriftStatus::rate>,
     "leat_job_learning_rate_factor"},
    {"Number of the view; it grows with every change.", "", Get<&J::generation>, "leat_job_generation"},
    {"Number of the coordinator; it grows with every takeover.", "", Get<&J::term>, "leat_job_term"},
    {"Time from the first trained event to the last.", "seconds", Get<&J::training_s>,
     "leat_job_training_seconds"},
    {"Mean number of updates of a slice between a worker's pull and its push.", "updates",
     Get<&J::staleness_mean>, "", "updates/staleness_mean"},
    {"99th percentile of the updates of a slice between a worker's pull and its push.", "updates",
     Get<&J::staleness_p99>, "", "updates/staleness_p99"},
    {"Workers that the job or its autoscaler wants.", "members", Get<&J::wanted, &WantedStatus::workers>, "",
     "members/workers_wanted"},
    {"Workers of the job.", "members", [](const J& s) { return double(s.Count("worker")); }, "",
     "members/workers", Shown(), kWorkers},
    {"Parameter servers of the job.", "members", [](const J& s) { return double(s.Count("ps")); }, "",
     "members/servers", Shown(), kServers},
    {"Feeds of the job.", "members", [](const J& s) { return double(s.Count("feed")); }, "", "members/feeds"},
    {"Members of the job that stand by.", "members", Standbys, "", "members/standbys"},
    {"Whether something keeps the job from training, or from its end.", "",
     [](const J& s) { return s.waiting_for.empty() ? 0.0 : 1.0; }, "leat_job_blocked"},
    {"Processes that are alive and do nothing.", "members", StuckMembers, "leat_job_stuck_members"},
    {"Pairs of a worker and a member that it cannot reach.", "pairs", UnreachablePairs,
     "leat_job_unreachable_pairs"},
};

constexpr Figure<MemberStatus> kMember[] = {
    {"Processor time of the process.", "seconds", Get<&M::cpu_s>, "leat_member_compute_seconds_total"},
    {"Share of the parameters that a server has.", "ratio", Get<&M::server, &ServerFigures::share>,
     "leat_member_share_ratio", "share", OnPage(kBar, "memory")},
    {.help = "Bytes of the values and optimizer slots that a server has.",
     .unit = "bytes",
     .value = Get<&M::server, &ServerFigures::bytes_held>,
     .shown = OnPage(kDetail, "share"),
     .name = "bytes_held"},
    {"Bytes that a server receives and sends per second.", "bytes/s",
     Get<&M::server, &ServerFigures::bytes_per_s>, "", "bytes_per_s"},
    {"Whether the steps of a worker take more than 1.5 times as long as those of the others, and at least a "
     "tenth of its time.",
     "", Get<&M::worker, &WorkerFigures::slow>, "leat_member_slow"},
    {"How far the labels of a worker's share differ from those of the others.", "",
     Get<&M::worker, &WorkerFigures::label_skew>, "leat_member_label_skew"},
    {"How far the feature that differs most in a worker's share differs from that of the others.", "",
     Get<&M::worker, &WorkerFigures::feature_skew>, "leat_member_feature_skew"},
    {"Whether the skew of labels or features is worth a warning.", "",
     Get<&M::worker, &WorkerFigures::skewed>, "leat_member_skewed"},
    {"Whether the process is alive and does nothing.", "", Get<&M::stuck>, "leat_member_stuck"},
    {"Duration of a worker's step, without waiting for input, servers or other workers.", "seconds",
     [](const M& m) { return Get<&M::worker, &WorkerFigures::step_ms>(m) / 1e3; },
     "leat_member_step_seconds"},
    {"Milliseconds of a worker's step, without waiting for input, servers or other workers.", "milliseconds",
     Get<&M::worker, &WorkerFigures::step_ms>, "", "step_ms", InColumn(Column::kStep)},
    {.help = "Events that a worker has trained, updates that a server has made, or requests that another "
             "member has answered.",
     .unit = "events, updates or requests",
     .value = Get<&M::done>,
     .shown = InColumn(Column::kDone),
     .name = "done"},
};

template <auto kSum>
double OfWorker(const M& m) {
  return Get<&M::worker, &WorkerFigures::progress, kSum>(m);
}
double TrafficOf(const M& m) {
  return Get<&M::bytes_in>(m) + Get<&M::bytes_out>(m);
}

constexpr Figure<MemberStatus> kWorkerRate[] = {
    {"Events that a worker has trained.", "events", Get<&M::done>, "", "events_per_s",
     InColumn(Column::kSpeed)},
    {"Time in which a worker computes.", "seconds", OfWorker<&Worker::compute_seconds>, "", "compute",
     OnPage(kPart, "computing", Chart::kTime, 0), kCompute},
    {"Time in which a worker waits for servers or, without any, for the others of its group.", "seconds",
     OfWorker<&Worker::wait_seconds>, "", "wait", OnPage(kPart, "server wait", Chart::kTime, 2), kWait},
    {"Time in which a worker waits for input.", "seconds", OfWorker<&Worker::input_wait_seconds>, "",
     "input_wait", OnPage(kPart, "input wait", Chart::kTime, 1), kInputWait},
    {"Time in which the thread of a worker that decodes is busy.", "seconds",
     OfWorker<&Worker::decode_seconds>, "", "decode",
     OnPage(kBar, "decoding, on a thread of its own", Chart::kNone, 4), kDecode},
    {"Processor time of a worker.", "seconds", Get<&M::cpu_s>, "", "cores", InColumn(Column::kProcessors)},
};
constexpr Figure<MemberStatus> kServerRate[] = {
    {"Bytes that a server receives and sends.", "bytes", TrafficOf, "", "bytes_per_s",
     OnPage(kPart, "traffic", Chart::kTraffic, 0, Column::kSpeed), kServerBytesPerS},
    {"Updates that a server has made.", "updates", Get<&M::done>, "", "updates_per_s"},
    {"Processor time of a server.", "seconds", Get<&M::cpu_s>, "", "cores", InColumn(Column::kProcessors)},
};

constexpr Figure<Worker> kWorker[] = {
    {"Batches that were scored and trained.", "batches", Get<&Worker::steps>, "leat_worker_steps_total"},
    {"Events that were scored and trained, again after a loss.", "events", Get<&Worker::events>,
     "leat_worker_events_total"},
    {"Batches whose gradient was not finite.", "batches", Get<&Worker::rejected_batches>,
     "leat_worker_rejected_batches_total"},
    {"Records that do not fit the schema.", "records", Get<&Worker::dead_letters>,
     "leat_worker_dead_letters_total"},
    {"Offsets of Kafka that retention had removed when they were read.", "offsets",
     Get<&Worker::lost_to_retention>, "leat_worker_lost_to_retention_total"},
    {"Events that were read and for which no label came.", "events", Get<&Worker::unjoined>,
     "leat_worker_unjoined_events_total"},
    {"Time in which a worker waited for parameter servers; in jobs without servers, for the others of its "
     "group.",
     "seconds", Get<&Worker::wait_seconds>, "leat_worker_server_wait_seconds_total", "wait_s"},
    {.help = "Time in which a worker waited for each parameter server, from each push to its reply.",
     .unit = "seconds",
     .metric = "leat_worker_wait_for_server_seconds_total",
     .tag = "wait_s_by_server",
     .shown = OnPage(kDetail, "wait"),
     .values = Each<&Worker::server_waits, &protocol::ServerWait::ps, &protocol::ServerWait::seconds>,
     .label = "ps",
     .name = "server_waits"},
    {"Time in which a worker had nothing to train.", "seconds", Get<&Worker::input_wait_seconds>,
     "leat_worker_input_wait_seconds_total", "input_wait_s"},
    {"The longest time between the ends of two steps in the last 5 to 10 seconds, with every wait.",
     "seconds", Get<&Worker::longest_step_seconds>, "leat_worker_longest_step_seconds"},
    {"Splits that are read and not yet trained.", "splits", Get<&Worker::splits_ready>,
     "leat_worker_ready_splits"},
    {"Records that were read and decoded.", "records", Get<&Worker::input_records>,
     "leat_worker_input_records_total"},
    {"Bytes of the records that were read and decoded.", "bytes", Get<&Worker::input_bytes>,
     "leat_worker_input_bytes_total"},
    {"Bytes that were read from feeds.", "bytes", Get<&Worker::feed_bytes>, "leat_worker_feed_bytes_total"},
    {"Attempts to read from a feed that failed.", "attempts", Get<&Worker::feed_retries>,
     "leat_worker_feed_retries_total"},
};

using GroupMember = protocol::MemberReport;
constexpr Figure<GroupMember> kGroupMember[] = {
    {"Number of the newest group of workers that it has joined.", "", Get<&GroupMember::group>,
     "leat_worker_group"},
    {"Whether it is connected to all workers of its group.", "", Get<&GroupMember::connected>,
     "leat_worker_group_connected"},
    {"Whether it has the parameters.", "", Get<&GroupMember::holds>, "leat_worker_state_held"},
    {"Steps that its copy of the parameters has.", "steps", Get<&GroupMember::step>,
     "leat_worker_group_step"},
};

using Server = protocol::ServerProgress;
constexpr Figure<Server> kServer[] = {
    {"Pushes of gradients that were answered.", "pushes", Get<&Server::pushes>, "leat_server_pushes_total"},
    {"Requests for values without gradients that were answered.", "requests", Get<&Server::pulls>,
     "leat_server_pulls_total"},
    {"Bytes of requests.", "bytes", Get<&Server::bytes_in>, "leat_server_received_bytes_total"},
    {"Bytes of replies, and of what was forwarded to replicas.", "bytes", Get<&Server::bytes_out>,
     "leat_server_sent_bytes_total"},
    {"Bytes that were sent to other servers with slices.", "bytes", Get<&Server::bytes_moved>,
     "leat_server_moved_bytes_total"},
    {"Size of the values and optimizer slots.", "bytes", Get<&Server::bytes_held>, "leat_server_held_bytes"},
    {"Pushes of batches that the ledger has, which were not applied again.", "runs", Get<&Server::duplicates>,
     "leat_server_duplicate_runs_total"},
    {"Runs, or steps, that were recorded and not applied, since they were not finite.", "runs",
     Get<&Server::skipped>, "leat_server_skipped_runs_total"},
    {"Requests of followers for more than values, refused.", "requests", Get<&Server::refused>,
     "leat_server_refused_total"},
    {"Slices of pushes that were refused as contradictory.", "slices", Get<&Server::conflicts>,
     "leat_server_conflicts_total"},
};

using Feed = protocol::FeedHeartbeat;
constexpr Figure<Feed> kFeed[] = {
    {"Requests for records that were answered.", "requests", Get<&Feed::requests>,
     "leat_feed_requests_total"},
    {"Bytes of the answers.", "bytes", Get<&Feed::bytes_sent>, "leat_feed_sent_bytes_total"},
};

using Follow = protocol::FollowProgress;
constexpr Figure<Follow> kFollow[] = {
    {"Times that all slices were up to date.", "rounds", Get<&Follow::rounds>, "leat_follow_rounds_total"},
    {"Rounds that brought other values.", "rounds", Get<&Follow::changed>, "leat_follow_changes_total"},
    {"Rounds that began later than --refresh, since pulling took more than a fifth of the time.", "rounds",
     Get<&Follow::stretched>, "leat_follow_stretched_total"},
    {"Time from the beginning of a round to that of the next.", "seconds", Get<&Follow::interval_seconds>,
     "leat_follow_interval_seconds"},
    {"Bytes of values that came.", "bytes", Get<&Follow::bytes_in>, "leat_follow_received_bytes_total"},
    {"Requests that failed or were not answered in time.", "requests", Get<&Follow::retries>,
     "leat_follow_retries_total"},
};

using Bots = protocol::BotsHeartbeat;
constexpr Figure<Bots> kBots[] = {
    {"Events that the topic has from bots.", "events", Get<&Bots::published>, "leat_bots_published_events"},
    {"Whether all events are published.", "", Get<&Bots::done>, "leat_bots_done"},
};

}  // namespace

constinit const Figures<JobStatus> kJobFigures = kJob;
constinit const Figures<MemberStatus> kMemberFigures = kMember;
constinit const Figures<MemberStatus> kWorkerRates = kWorkerRate;
constinit const Figures<MemberStatus> kServerRates = kServerRate;
constinit const Figures<protocol::WorkerProgress> kWorkerFigures = kWorker;
constinit const Figures<protocol::MemberReport> kGroupMemberFigures = kGroupMember;
constinit const Figures<protocol::ServerProgress> kServerFigures = kServer;
constinit const Figures<protocol::FeedHeartbeat> kFeedFigures = kFeed;
constinit const Figures<protocol::FollowProgress> kFollowFigures = kFollow;
constinit const Figures<protocol::BotsHeartbeat> kBotsFigures = kBots;

}  // namespace leat::report
