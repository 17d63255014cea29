#include "show/prometheus/role_metrics.h"

#include <algorithm>
#include <utility>

#include "net/address.h"
#include "show/prometheus/targets.h"

namespace leat::observe {
namespace {

constexpr const char* kTextFormat = "text/plain; version=0.0.4; charset=utf-8";

constexpr Metric kBuild = {"leat_build_info", "Always 1."};
constexpr Metric kReady = {"leat_ready", "Whether /readyz answers with status 200."};
constexpr Metric kServerStaleness = {"leat_server_staleness",
                                     "Updates of a slice between a worker's pull and its push."};

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

}  // namespace leat::observe
