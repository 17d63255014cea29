#include "report/figures.h"

#include <algorithm>

namespace leat::report {
namespace {

using enum Series;
using J = JobStatus;
using M = MemberStatus;
using protocol::CoordinatorStatus;

constexpr Figure<JobStatus> kJob[] = {
    {"Events that all slices have, since the job was created; fewer after a loss, until they are trained "
     "again.",
     Get<&J::events>, "leat_job_trained_events", "stream/events"},
    {"Events trained per second, over the last seconds.", Get<&J::events_per_s_now>, "",
     "stream/events_per_s", kEventsPerS},
    {"Events that have come into the stream.", Get<&J::stream_end>, "", "", kArrivedPerS, true},
    {"Events in the stream that some slice does not have.", Get<&J::lag>, "leat_job_lag_events", "stream/lag",
     kLag},
    {"How long the oldest event has waited that some slice does not have.", Get<&J::lag_s>,
     "leat_job_lag_seconds", "stream/lag_s", kLagS},
    {"Events that bots have published.", Get<&J::published>, "leat_job_published_events"},
    {"Batches that workers have trained.", Get<&J::steps>, "leat_job_worker_steps_total", "updates/steps"},
    {"Stepped strategies: the step that all slices have reached.", Get<&J::step>, "leat_job_step",
     "updates/step"},
    {"Stepped strategies: batches of the next step.",
     [](const J& s) { return s.lanes > 0 ? Get<&J::lanes>(s) : kUnknown; }, "leat_job_lanes"},
    {"Mean loss over the window of the last events, before training.", Get<&J::quality, &Quality::loss>,
     "leat_job_loss", "learning/loss", kLoss},
    {"Share of the window's labels that were predicted correctly.", Get<&J::quality, &Quality::accuracy>,
     "leat_job_accuracy_ratio", "learning/accuracy", kAccuracy},
    {"Mean absolute error of the predictions over the window.", Get<&J::quality, &Quality::mae>,
     "leat_job_mean_absolute_error", "learning/mae", kMae},
    {"Area under the ROC curve for the window.", Get<&J::quality, &Quality::auc>, "leat_job_auc",
     "learning/auc", kAuc},
    {"The AUC of the true probabilities, if the stream has them.", Get<&J::auc_possible>,
     "leat_job_auc_possible", "learning/auc_possible", kAucPossible},
    {"Events in the window.", Get<&J::window>, "leat_job_window_events"},
    {"Mean loss with forgetting.", Get<&J::fading, &FadingQuality::quality, &Quality::loss>, "",
     "learning/fading/loss"},
    {"Accuracy with forgetting.", Get<&J::fading, &FadingQuality::quality, &Quality::accuracy>, "",
     "learning/fading/accuracy"},
    {"Mean absolute error with forgetting.", Get<&J::fading, &FadingQuality::quality, &Quality::mae>, "",
     "learning/fading/mae"},
    {"Area under the ROC curve with forgetting.", Get<&J::fading, &FadingQuality::quality, &Quality::auc>, "",
     "learning/fading/auc"},
    {"Learning rate of the next update, with schedule and drift alarms.", Get<&J::learning_rate>, "",
     "learning/learning_rate"},
    {"Runs that came too late for their step, and are trained in another.", Get<&J::late>,
     "leat_job_late_runs_total", "updates/late"},
    {"Runs, or steps, that are not applied, since they were not finite.", Get<&J::skipped>,
     "leat_job_skipped_runs_total", "updates/skipped"},
    {"Batches whose gradient was not finite.", Get<&J::rejected_batches>, "leat_job_rejected_batches_total",
     "updates/rejected_batches"},
    {"Records that do not fit the schema.", Get<&J::dead_letters>, "leat_job_dead_letters_total",
     "stream/dead_letters", kDeadLettersPerS, true},
    {"Offsets of Kafka that retention had removed when they were read, again after a loss.",
     Get<&J::lost_to_retention>, "leat_job_lost_to_retention_total", "stream/lost_to_retention"},
    {"Late labels: events that wait for their labels.", Get<&J::unlabelled>, "leat_job_unlabelled_events"},
    {"Late labels: events for which no label came.", Get<&J::unjoined>, "leat_job_unjoined_events_total",
     "stream/unjoined"},
    {"Pushes of batches that the ledgers have, which were not applied again.", Get<&J::duplicates>,
     "leat_job_duplicate_runs_total", "updates/duplicates"},
    {"Slices of pushes that were refused as contradictory.", Get<&J::conflicts>, "leat_job_conflicts_total"},
    {"Splits that workers hold.", Get<&J::leases>, "leat_job_leases"},
    {"Splits that were leased again after a worker or server was lost.", Get<&J::regranted_leases>,
     "leat_job_regranted_leases_total"},
    {"Splits that took too long, and were leased twice.", Get<&J::overdue_leases>,
     "leat_job_overdue_leases_total"},
    {"Members that were taken for lost.", Get<&J::evictions>, "leat_job_evictions_total"},
    {"Slices that are to move to other servers.", Get<&J::moves, &MovesStatus::planned>,
     "leat_job_slices_to_move"},
    {"Slices that have moved.", Get<&J::moves, &MovesStatus::slices>, "leat_job_moved_slices_total"},
    {"Bytes of the slices that have moved.", Get<&J::moves, &MovesStatus::bytes>,
     "leat_job_moved_bytes_total"},
    {"Moves that were given up.", Get<&J::moves, &MovesStatus::failed>, "leat_job_failed_moves_total"},
    {"Jobs with replicas: slices.", Get<&J::replicas, &ReplicasStatus::of>, "leat_job_slices"},
    {"Slices that have a replica.", Get<&J::replicas, &ReplicasStatus::slices>, "leat_job_replicated_slices"},
    {"Checkpoints that failed.", Get<&J::failed_checkpoints>, "leat_job_failed_checkpoints_total",
     "checkpoints/failed"},
    {"What is written of the checkpoint that is being made.", Get<&J::saving, &SavingStatus::bytes>,
     "leat_job_saving_bytes"},
    {"Offsets whose predictions are published.",
     Get<&J::predictions, &CoordinatorStatus::Predictions::published>,
     "leat_job_predictions_published_events"},
    {"Offsets that all slices have, and whose predictions are not published.",
     Get<&J::predictions, &CoordinatorStatus::Predictions::behind>, "leat_job_predictions_behind_events"},
    {"Predictions whose scores were lost and made again.",
     Get<&J::predictions, &CoordinatorStatus::Predictions::rescored>, "leat_job_predictions_rescored_events"},
    {"Alarms of the drift detector.", Get<&J::drift, &DriftStatus::alarms>, "leat_job_drift_alarms_total",
     "learning/drift_alarms"},
    {"Factor on the learning rate after a drift alarm.", Get<&J::drift, &DriftStatus::rate>,
     "leat_job_learning_rate_factor"},
    {"Number of the view; it grows with every change.", Get<&J::generation>, "leat_job_generation"},
    {"Number of the coordinator; it grows with every takeover.", Get<&J::term>, "leat_job_term"},
    {"Time from the first trained event to the last.", Get<&J::training_s>, "leat_job_training_seconds"},
    {"Processor time of all processes, of those that are gone, too.", Get<&J::aggregated_compute_s>,
     "leat_job_compute_seconds_total", "cost/compute_s", kCores, true},
    {"Mean number of updates of a slice between a worker's pull and its push.", Get<&J::staleness_mean>, "",
     "updates/staleness_mean"},
    {"99th percentile of the updates of a slice between a worker's pull and its push.",
     Get<&J::staleness_p99>, "", "updates/staleness_p99"},
    {"Workers that the job or its autoscaler wants.", Get<&J::wanted, &WantedStatus::workers>, "",
     "members/workers_wanted"},
    {"Workers of the job.", [](const J& s) { return double(s.Count("worker")); }, "", "members/workers",
     kWorkers},
    {"Parameter servers of the job.", [](const J& s) { return double(s.Count("ps")); }, "", "members/servers",
     kServers},
    {"Feeds of the job.", [](const J& s) { return double(s.Count("feed")); }, "", "members/feeds"},
    {"Members of the job that stand by.",
     [](const J& s) {
       return double(std::ranges::count_if(s.members, [](const M& m) { return m.name.StandsBy(); }));
     },
     "", "members/standbys"},
    {"Whether something keeps the job from training, or from its end.",
     [](const J& s) { return s.waiting_for.empty() ? 0.0 : 1.0; }, "leat_job_blocked"},
    {"Processes that are alive and do nothing.",
     [](const J& s) {
       return double(std::ranges::count_if(s.members, &M::stuck)) + double(s.stuck_evicted.size());
     },
     "leat_job_stuck_members"},
    {"Pairs of a worker and a member that it cannot reach.",
     [](const J& s) {
       double pairs = 0;
       for (const M& m : s.members) pairs += double(m.unreachable.size());
       return pairs;
     },
     "leat_job_unreachable_pairs"},
};

constexpr Figure<MemberStatus> kMember[] = {
    {"Processor time of the process.", Get<&M::cpu_s>, "leat_member_compute_seconds_total"},
    {"Share of the parameters that a server has.", Get<&M::server, &ServerFigures::share>,
     "leat_member_share_ratio", "share"},
    {"Bytes that a server receives and sends per second.", Get<&M::server, &ServerFigures::bytes_per_s>, "",
     "bytes_per_s"},
    {"Whether the steps of a worker take more than 1.5 times as long as those of the others, and at least a "
     "tenth of its time.",
     Get<&M::worker, &WorkerFigures::slow>, "leat_member_slow"},
    {"How far the labels of a worker's share differ from those of the others.",
     Get<&M::worker, &WorkerFigures::label_skew>, "leat_member_label_skew"},
    {"How far the feature that differs most in a worker's share differs from that of the others.",
     Get<&M::worker, &WorkerFigures::feature_skew>, "leat_member_feature_skew"},
    {"Whether the skew of labels or features is worth a warning.", Get<&M::worker, &WorkerFigures::skewed>,
     "leat_member_skewed"},
    {"Whether the process is alive and does nothing.", Get<&M::stuck>, "leat_member_stuck"},
    {"Duration of a worker's step, without waiting for input, servers or other workers.",
     [](const M& m) { return Get<&M::worker, &WorkerFigures::step_ms>(m) / 1e3; },
     "leat_member_step_seconds"},
    {"Milliseconds of a worker's step, without waiting for input, servers or other workers.",
     Get<&M::worker, &WorkerFigures::step_ms>, "", "step_ms"},
};

using Worker = protocol::WorkerProgress;
constexpr Figure<Worker> kWorker[] = {
    {"Batches that were scored and trained.", Get<&Worker::steps>, "leat_worker_steps_total"},
    {"Events that were scored and trained, again after a loss.", Get<&Worker::events>,
     "leat_worker_events_total"},
    {"Batches whose gradient was not finite.", Get<&Worker::rejected_batches>,
     "leat_worker_rejected_batches_total"},
    {"Records that do not fit the schema.", Get<&Worker::dead_letters>, "leat_worker_dead_letters_total"},
    {"Offsets of Kafka that retention had removed when they were read.", Get<&Worker::lost_to_retention>,
     "leat_worker_lost_to_retention_total"},
    {"Events that were read and for which no label came.", Get<&Worker::unjoined>,
     "leat_worker_unjoined_events_total"},
    {"Time in which a worker waited for parameter servers; in jobs without servers, for the others of its "
     "group.",
     Get<&Worker::wait_seconds>, "leat_worker_server_wait_seconds_total", "wait_s"},
    {.help = "Time in which a worker waited for each parameter server, from each push to its reply.",
     .metric = "leat_worker_wait_for_server_seconds_total",
     .tag = "wait_s_by_server",
     .values =
         [](const Worker& worker) {
           Keyed waits;
           for (const auto& wait : worker.server_waits)
             waits.emplace_back(std::to_string(wait.ps), wait.seconds);
           return waits;
         },
     .label = "ps"},
    {"Time in which a worker had nothing to train.", Get<&Worker::input_wait_seconds>,
     "leat_worker_input_wait_seconds_total", "input_wait_s"},
    {"The longest time between the ends of two steps in the last 5 to 10 seconds, with every wait.",
     Get<&Worker::longest_step_seconds>, "leat_worker_longest_step_seconds"},
    {"Splits that are read and not yet trained.", Get<&Worker::splits_ready>, "leat_worker_ready_splits"},
    {"Records that were read and decoded.", Get<&Worker::input_records>, "leat_worker_input_records_total"},
    {"Bytes of the records that were read and decoded.", Get<&Worker::input_bytes>,
     "leat_worker_input_bytes_total"},
    {"Bytes that were read from feeds.", Get<&Worker::feed_bytes>, "leat_worker_feed_bytes_total"},
    {"Attempts to read from a feed that failed.", Get<&Worker::feed_retries>,
     "leat_worker_feed_retries_total"},
};

using GroupMember = protocol::MemberReport;
constexpr Figure<GroupMember> kGroupMember[] = {
    {"Number of the newest group of workers that it has joined.", Get<&GroupMember::group>,
     "leat_worker_group"},
    {"Whether it is connected to all workers of its group.", Get<&GroupMember::connected>,
     "leat_worker_group_connected"},
    {"Whether it has the parameters.", Get<&GroupMember::holds>, "leat_worker_state_held"},
    {"Steps that its copy of the parameters has.", Get<&GroupMember::step>, "leat_worker_group_step"},
};

using Server = protocol::ServerProgress;
constexpr Figure<Server> kServer[] = {
    {"Pushes of gradients that were answered.", Get<&Server::pushes>, "leat_server_pushes_total"},
    {"Requests for values without gradients that were answered.", Get<&Server::pulls>,
     "leat_server_pulls_total"},
    {"Bytes of requests.", Get<&Server::bytes_in>, "leat_server_received_bytes_total"},
    {"Bytes of replies, and of what was forwarded to replicas.", Get<&Server::bytes_out>,
     "leat_server_sent_bytes_total"},
    {"Bytes that were sent to other servers with slices.", Get<&Server::bytes_moved>,
     "leat_server_moved_bytes_total"},
    {"Size of the values and optimizer slots.", Get<&Server::bytes_held>, "leat_server_held_bytes"},
    {"Pushes of batches that the ledger has, which were not applied again.", Get<&Server::duplicates>,
     "leat_server_duplicate_runs_total"},
    {"Runs, or steps, that were recorded and not applied, since they were not finite.", Get<&Server::skipped>,
     "leat_server_skipped_runs_total"},
    {"Requests of followers for more than values, refused.", Get<&Server::refused>,
     "leat_server_refused_total"},
    {"Slices of pushes that were refused as contradictory.", Get<&Server::conflicts>,
     "leat_server_conflicts_total"},
};

using Feed = protocol::FeedHeartbeat;
constexpr Figure<Feed> kFeed[] = {
    {"Requests for records that were answered.", Get<&Feed::requests>, "leat_feed_requests_total"},
    {"Bytes of the answers.", Get<&Feed::bytes_sent>, "leat_feed_sent_bytes_total"},
};

using Follow = protocol::FollowProgress;
constexpr Figure<Follow> kFollow[] = {
    {"Times that all slices were up to date.", Get<&Follow::rounds>, "leat_follow_rounds_total"},
    {"Rounds that brought other values.", Get<&Follow::changed>, "leat_follow_changes_total"},
    {"Rounds that began later than --refresh, since pulling took more than a fifth of the time.",
     Get<&Follow::stretched>, "leat_follow_stretched_total"},
    {"Time from the beginning of a round to that of the next.", Get<&Follow::interval_seconds>,
     "leat_follow_interval_seconds"},
    {"Bytes of values that came.", Get<&Follow::bytes_in>, "leat_follow_received_bytes_total"},
    {"Requests that failed or were not answered in time.", Get<&Follow::retries>,
     "leat_follow_retries_total"},
};

using Bots = protocol::BotsHeartbeat;
constexpr Figure<Bots> kBots[] = {
    {"Events that the topic has from bots.", Get<&Bots::published>, "leat_bots_published_events"},
    {"Whether all events are published.", Get<&Bots::done>, "leat_bots_done"},
};

}  // namespace

constinit const Figures<JobStatus> kJobFigures = kJob;
constinit const Figures<MemberStatus> kMemberFigures = kMember;
constinit const Figures<protocol::WorkerProgress> kWorkerFigures = kWorker;
constinit const Figures<protocol::MemberReport> kGroupMemberFigures = kGroupMember;
constinit const Figures<protocol::ServerProgress> kServerFigures = kServer;
constinit const Figures<protocol::FeedHeartbeat> kFeedFigures = kFeed;
constinit const Figures<protocol::FollowProgress> kFollowFigures = kFollow;
constinit const Figures<protocol::BotsHeartbeat> kBotsFigures = kBots;

}  // namespace leat::report
