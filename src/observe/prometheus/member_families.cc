#include "observe/prometheus/member_families.h"

#include <span>
#include <variant>

namespace leat::observe {
namespace {

using enum MetricType;

template <class T>
struct MemberRow {
  Metric metric;
  double (*value)(const T&);
};

template <class T>
using Rows = std::span<const MemberRow<T>>;

template <auto kMember, class T>
double Get(const T& from) {
  return static_cast<double>(from.*kMember);
}

using Worker = protocol::WorkerProgress;
constexpr MemberRow<Worker> kWorker[] = {
    {{"leat_worker_steps_total", kCounter, "", "Batches that were scored and trained."}, Get<&Worker::steps>},
    {{"leat_worker_events_total", kCounter, "", "Events that were scored and trained, again after a loss."},
     Get<&Worker::events>},
    {{"leat_worker_rejected_batches_total", kCounter, "", "Batches whose gradient was not finite."},
     Get<&Worker::rejected_batches>},
    {{"leat_worker_dead_letters_total", kCounter, "", "Records that do not fit the schema."},
     Get<&Worker::dead_letters>},
    {{"leat_worker_lost_to_retention_total", kCounter, "",
      "Offsets of Kafka that retention had removed when they were read."},
     Get<&Worker::lost_to_retention>},
    {{"leat_worker_unjoined_events_total", kCounter, "",
      "Events that were read and for which no label came."},
     Get<&Worker::unjoined>},
    {{"leat_worker_server_wait_seconds_total", kCounter, "",
      "Time in which it waited for parameter servers; in jobs without servers, for the others of its group."},
     Get<&Worker::wait_seconds>},
    {{"leat_worker_input_wait_seconds_total", kCounter, "", "Time in which there was nothing to train."},
     Get<&Worker::input_wait_seconds>},
    {{"leat_worker_longest_step_seconds", kGauge, "",
      "The longest time between the ends of two steps in the last 5 to 10 seconds, with every wait."},
     Get<&Worker::longest_step_seconds>},
    {{"leat_worker_ready_splits", kGauge, "", "Splits that are read and not yet trained."},
     Get<&Worker::splits_ready>},
    {{"leat_worker_input_records_total", kCounter, "", "Records that were read and decoded."},
     Get<&Worker::input_records>},
    {{"leat_worker_input_bytes_total", kCounter, "", "Size of the records that were read and decoded."},
     Get<&Worker::input_bytes>},
    {{"leat_worker_feed_bytes_total", kCounter, "", "Bytes that were read from feeds."},
     Get<&Worker::feed_bytes>},
    {{"leat_worker_feed_retries_total", kCounter, "", "Attempts to read from a feed that failed."},
     Get<&Worker::feed_retries>},
};

using GroupMember = protocol::MemberReport;
constexpr MemberRow<GroupMember> kGroupMember[] = {
    {{"leat_worker_group", kGauge, "", "Number of the newest group of workers that it has joined."},
     Get<&GroupMember::group>},
    {{"leat_worker_group_connected", kGauge, "", "Whether it is connected to all workers of its group."},
     Get<&GroupMember::connected>},
    {{"leat_worker_state_held", kGauge, "", "Whether it has the parameters."}, Get<&GroupMember::holds>},
    {{"leat_worker_group_step", kGauge, "", "Steps that its copy of the parameters has."},
     Get<&GroupMember::step>},
};

using Server = protocol::ServerProgress;
constexpr MemberRow<Server> kServer[] = {
    {{"leat_server_pushes_total", kCounter, "", "Pushes of gradients that were answered."},
     Get<&Server::pushes>},
    {{"leat_server_pulls_total", kCounter, "", "Requests for values without gradients that were answered."},
     Get<&Server::pulls>},
    {{"leat_server_received_bytes_total", kCounter, "", "Bytes of requests."}, Get<&Server::bytes_in>},
    {{"leat_server_sent_bytes_total", kCounter, "",
      "Bytes of replies, and of what was forwarded to replicas."},
     Get<&Server::bytes_out>},
    {{"leat_server_moved_bytes_total", kCounter, "", "Bytes that were sent to other servers with slices."},
     Get<&Server::bytes_moved>},
    {{"leat_server_held_bytes", kGauge, "", "Size of the values and optimizer slots."},
     Get<&Server::bytes_held>},
    {{"leat_server_duplicate_runs_total", kCounter, "",
      "Pushes of batches that the ledger has, which were not applied again."},
     Get<&Server::duplicates>},
    {{"leat_server_skipped_runs_total", kCounter, "",
      "Runs, or steps, that were recorded and not applied, since they were not finite."},
     Get<&Server::skipped>},
    {{"leat_server_refused_total", kCounter, "", "Requests of followers for more than values, refused."},
     Get<&Server::refused>},
    {{"leat_server_conflicts_total", kCounter, "", "Slices of pushes that were refused as contradictory."},
     Get<&Server::conflicts>},
};
constexpr Metric kServerStaleness = {"leat_server_staleness", kHistogram, "le",
                                     "Updates of a slice between a worker's pull and its push."};

using Feed = protocol::FeedHeartbeat;
constexpr MemberRow<Feed> kFeed[] = {
    {{"leat_feed_requests_total", kCounter, "", "Requests for records that were answered."},
     Get<&Feed::requests>},
    {{"leat_feed_sent_bytes_total", kCounter, "", "Bytes of the answers."}, Get<&Feed::bytes_sent>},
};

using Follow = protocol::FollowProgress;
constexpr MemberRow<Follow> kFollow[] = {
    {{"leat_follow_rounds_total", kCounter, "", "Times that all slices were up to date."},
     Get<&Follow::rounds>},
    {{"leat_follow_changes_total", kCounter, "", "Rounds that brought other values."}, Get<&Follow::changed>},
    {{"leat_follow_stretched_total", kCounter, "",
      "Rounds that began later than --refresh, since pulling took more than a fifth of the time."},
     Get<&Follow::stretched>},
    {{"leat_follow_interval_seconds", kGauge, "", "From the beginning of a round to that of the next."},
     Get<&Follow::interval_seconds>},
    {{"leat_follow_received_bytes_total", kCounter, "", "Bytes of values that came."},
     Get<&Follow::bytes_in>},
    {{"leat_follow_retries_total", kCounter, "", "Requests that failed or were not answered in time."},
     Get<&Follow::retries>},
};

using Bots = protocol::BotsHeartbeat;
constexpr MemberRow<Bots> kBots[] = {
    {{"leat_bots_published_events", kGauge, "", "Events that the topic has from bots."},
     Get<&Bots::published>},
    {{"leat_bots_done", kGauge, "", "Whether all events are published."}, Get<&Bots::done>},
};

template <class T>
std::vector<Metric> MetricsOf(const T& rows) {
  std::vector<Metric> metrics;
  for (const auto& row : rows) metrics.push_back(row.metric);
  return metrics;
}

}  // namespace

void MemberFigures::Take(const protocol::ControlRequest& heartbeat) {
  const auto begin = [this] { values_.clear(); };
  const auto take = [this](const auto& rows, const auto& from) {
    for (const auto& row : rows) values_.emplace_back(&row.metric, row.value(from));
  };
  if (const auto* worker = std::get_if<protocol::WorkerHeartbeat>(&heartbeat)) {
    begin();
    take(kWorker, worker->progress);
    if (worker->member_report) take(kGroupMember, *worker->member_report);
  } else if (const auto* server = std::get_if<protocol::ServerHeartbeat>(&heartbeat)) {
    begin();
    take(kServer, server->progress);
    server_ = true;
    staleness_ = server->progress.staleness;
    staleness_sum_ = static_cast<double>(server->progress.staleness_sum);
  } else if (const auto* feed = std::get_if<protocol::FeedHeartbeat>(&heartbeat)) {
    begin();
    take(kFeed, *feed);
  } else if (const auto* serve = std::get_if<protocol::ServeHeartbeat>(&heartbeat)) {
    begin();
    take(kFollow, serve->progress);
  } else if (const auto* bots = std::get_if<protocol::BotsHeartbeat>(&heartbeat)) {
    begin();
    take(kBots, *bots);
  }
}

void MemberFigures::AddTo(Families* families) const {
  for (const auto& [metric, value] : values_) families->Add(*metric, value);
  if (server_) families->AddHistogram(kServerStaleness, staleness_, staleness_sum_);
}

std::vector<Metric> WorkerMetrics() {
  return MetricsOf(kWorker);
}
std::vector<Metric> GroupMemberMetrics() {
  return MetricsOf(kGroupMember);
}
std::vector<Metric> ServerMetrics() {
  auto metrics = MetricsOf(kServer);
  metrics.push_back(kServerStaleness);
  return metrics;
}
std::vector<Metric> FeedMetrics() {
  return MetricsOf(kFeed);
}
std::vector<Metric> FollowMetrics() {
  return MetricsOf(kFollow);
}
std::vector<Metric> BotsMetrics() {
  return MetricsOf(kBots);
}

}  // namespace leat::observe
