#include "observe/prometheus/role_metrics.h"

#include <algorithm>
#include <utility>

#include "net/address.h"
#include "observe/prometheus/process_families.h"
#include "observe/prometheus/targets.h"

namespace leat::observe {
namespace {

constexpr const char* kTextFormat = "text/plain; version=0.0.4; charset=utf-8";

constexpr Metric kBuild = {"leat_build_info", "Always 1.", "version, role"};
constexpr Metric kReady = {"leat_ready", "Whether /readyz answers with status 200."};
// Of the registry (net/transport_context.cc, net/ucx/ucx.cc, roles/), by their names there.
constexpr Metric kNetwork[] = {
    {"leat_net_bytes_sent_total", "Bytes sent on the tensor plane."},
    {"leat_net_bytes_received_total", "Bytes received on the tensor plane."},
    {"leat_net_connections_refused_total", "Connections closed before authentication."},
    {"leat_net_connections_stalled_total", "Connections closed because they made no progress."},
    {"leat_net_ucx_connections", "Connections over UCX."},
};
// Of the registry, too (serve/).
constexpr Metric kServe[] = {
    {"leat_serve_age_seconds",
     "Time since the newest version's values were those of the job, for all that is known."},
    {"leat_serve_version", "Number of the newest version of the parameters."},
    {"leat_serve_requests_total", "Requests that were read."},
    {"leat_serve_request_seconds", "From the end of a request for predictions to its reply.", "le"},
    {"leat_serve_rows_total", "Rows that were predicted."},
    {"leat_serve_batches_total", "Batches that were computed."},
    {"leat_serve_waiting_rows", "Rows that wait for a batch."},
    {"leat_serve_rejected_events_total", "Events that did not fit the schema, and got no prediction."},
    {"leat_serve_connections", "Open connections."},
    {"leat_serve_connections_refused_total",
     "Connections beyond the limit: they, or others for them, have ended."},
};
// Of the registry, too (object_store/s3.cc).
constexpr Metric kObjectStore[] = {
    {"leat_object_store_requests_total", "Requests to the object store."},
    {"leat_object_store_retries_total", "Requests to the object store that were made again."},
    {"leat_object_store_sent_bytes_total", "Bytes that the object store has received."},
    {"leat_object_store_received_bytes_total", "Bytes that the object store has sent."},
};
constexpr Metric kCoordinator[] = {
    {"leat_wanted_workers", "Workers that the job wants; 0: not known yet."},
    {"leat_wanted_ps", "Parameter servers that the job wants."},
    {"leat_job_checkpoints_total", "Complete checkpoints."},
    {"leat_job_last_checkpoint_time_seconds",
     "When the last one was complete, since 1970; 0: none was since the start."},
};

constexpr Metric kServerStaleness = {"leat_server_staleness",
                                     "Updates of a slice between a worker's pull and its push.", "le"};

// The text of what a heartbeat says, as far as it is exported; empty: other requests say nothing.
std::string TextOf(const protocol::ControlRequest& heartbeat) {
  Families families;
  if (const auto* worker = std::get_if<protocol::WorkerHeartbeat>(&heartbeat)) {
    families.Add(report::kWorkerFigures, worker->progress);
    if (worker->member_report) families.Add(report::kGroupMemberFigures, *worker->member_report);
  } else if (const auto* server = std::get_if<protocol::ServerHeartbeat>(&heartbeat)) {
    families.Add(report::kServerFigures, server->progress);
    families.AddHistogram(kServerStaleness, server->progress.staleness,
                          static_cast<double>(server->progress.staleness_sum));
  } else if (const auto* feed = std::get_if<protocol::FeedHeartbeat>(&heartbeat)) {
    families.Add(report::kFeedFigures, *feed);
  } else if (const auto* serve = std::get_if<protocol::ServeHeartbeat>(&heartbeat)) {
    families.Add(report::kFollowFigures, serve->progress);
  } else if (const auto* bots = std::get_if<protocol::BotsHeartbeat>(&heartbeat)) {
    families.Add(report::kBotsFigures, *bots);
  }
  return families.Text();
}

// Whether the job could train, as far as its coordinator knows. Without names and paths: everyone may ask.
std::string WhyNotReady(const report::JobStatus& status, bool needs_workers) {
  if (status.phase != "running" && status.phase != "paused")
    return status.phase.empty() ? "no status" : "the job: " + status.phase;
  if (!status.waiting_for.empty()) return "the job is blocked; its status has the reason";
  return !needs_workers || status.Count("worker") > 0 ? "" : "the job has no worker";
}

Reply Unavailable(const std::string& why) {
  return {.status = 503, .type = kText, .body = why + "\n"};
}

}  // namespace

void RoleMetrics::SetAddress(std::string address) {
  std::lock_guard lock(mutex_);
  address_ = std::move(address);
}

std::string RoleMetrics::address() const {
  std::lock_guard lock(mutex_);
  return address_;
}

void RoleMetrics::NotReady(std::string why) {
  std::lock_guard lock(mutex_);
  not_ready_ = std::move(why);
}

void RoleMetrics::OnHeartbeat(const protocol::ControlRequest& heartbeat) {
  std::string text = TextOf(heartbeat);
  std::lock_guard lock(mutex_);
  not_ready_.clear();
  if (!text.empty()) member_text_ = std::move(text);
}

bool RoleMetrics::Alive(Time now) {
  return std::ranges::all_of(liveness_, [now](Liveness& part) { return part.Alive(now); });
}

std::string RoleMetrics::WhyNotReady() {
  const auto status = status_.Get();
  if (status.ok()) return observe::WhyNotReady(**status, needs_workers_);
  if (status.status().code() != Code::kNotFound) return status.status().message();
  std::lock_guard lock(mutex_);
  return not_ready_;
}

std::string RoleMetrics::Text() {
  const std::string not_ready = WhyNotReady();
  const auto status = status_.Get();
  Families families;
  families.Add(kBuild, 1, {{"version", options_.version}, {"role", options_.role}});
  families.Add(kReady, not_ready.empty() ? 1 : 0);
  families.Add(registry_);
  AddProcess(&families);
  std::lock_guard lock(mutex_);
  if (status.ok()) job_.Add(**status, &families);
  return families.Text() + member_text_;
}

std::string RoleMetrics::Targets() {
  const auto status = status_.Get();
  return status.ok() ? TargetsJson(**status, address(), net::HostName(), options_.tls) : "";
}

std::vector<HttpRoute> MetricsRoutes(const std::shared_ptr<RoleMetrics>& metrics) {
  using enum HttpRoute::Access;
  const auto text = [metrics](const Request&) { return Reply{.type = kTextFormat, .body = metrics->Text()}; };
  const auto alive = [metrics](const Request&) {
    if (metrics->Alive(MonotonicClock().Now())) return Reply{.type = kText, .body = "ok\n"};
    return Unavailable("it hangs: it has done nothing for a minute");
  };
  const auto ready = [metrics](const Request&) {
    const std::string why = metrics->WhyNotReady();
    return why.empty() ? Reply{.type = kText, .body = "ready\n"} : Unavailable(why);
  };
  const auto targets = [metrics](const Request&) {
    std::string known = metrics->Targets();
    return known.empty() ? Unavailable("the coordinator of the job has the targets")
                         : Reply{.body = std::move(known)};
  };
  return {{.path = "/metrics", .handler = text},
          {.path = "/healthz", .access = kEveryone, .handler = alive},
          {.path = "/readyz", .access = kEveryone, .handler = ready},
          {.path = "/targets", .handler = targets}};
}

std::vector<MetricGroup> AllMetrics() {
  std::vector<MetricGroup> groups = {
      {"Every role", {kBuild, kReady}},
      {"Coordinator: the job", JobMetrics()},
      {"Coordinator: each member", MetricsOf(report::kMemberFigures, "role, index")},
      {"Worker", MetricsOf(report::kWorkerFigures)},
      {"Worker of a job without servers, in addition", MetricsOf(report::kGroupMemberFigures)},
      {"Parameter server", MetricsOf(report::kServerFigures)},
      {"Feed", MetricsOf(report::kFeedFigures)},
      {"Serve: the values that it follows", MetricsOf(report::kFollowFigures)},
      {"Bots", MetricsOf(report::kBotsFigures)},
      {"`leat serve`", {std::begin(kServe), std::end(kServe)}},
      {"Connections on the tensor plane", {std::begin(kNetwork), std::end(kNetwork)}},
      {"Checkpoints in object storage: each role that reads or writes them",
       {std::begin(kObjectStore), std::end(kObjectStore)}},
  };
  auto& every = groups[0].metrics;
  const auto process = ProcessMetrics();
  every.insert(every.end(), process.begin(), process.end());
  auto& job = groups[1].metrics;
  job.insert(job.end(), std::begin(kCoordinator), std::end(kCoordinator));
  groups[5].metrics.push_back(kServerStaleness);
  return groups;
}

}  // namespace leat::observe
