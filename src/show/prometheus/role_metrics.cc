#include "show/prometheus/role_metrics.h"

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json/text.h"
#include "net/address.h"

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

using Json = nlohmann::ordered_json;

}  // namespace

void Liveness::Watch(Time now, std::function<uint64_t()> kernels) {
  std::lock_guard lock(mutex_);
  kernels_ = std::move(kernels);
  last_ = now;
  finished_ = kernels_();
}

void Liveness::Unwatch() {
  std::lock_guard lock(mutex_);
  kernels_ = nullptr;
}

void Liveness::Turned(Time now) {
  std::lock_guard lock(mutex_);
  if (kernels_ == nullptr) return;
  last_ = now;
  finished_ = kernels_();
}

bool Liveness::Alive(Time now) {
  std::lock_guard lock(mutex_);
  if (kernels_ == nullptr) return true;
  if (const uint64_t finished = kernels_(); finished != finished_) {
    last_ = now;
    finished_ = finished;
  }
  return now - last_ <= kStalled;
}

void StatusSource::Set(Ask ask) {
  std::lock_guard lock(ask_mutex_);
  ask_ = std::move(ask);
  ++coordinators_;
}

Result<std::shared_ptr<const report::JobStatus>> StatusSource::Get() {
  std::lock_guard lock(get_mutex_);
  const uint64_t coordinators = coordinators_;
  if (coordinators != answered_by_ || clock_.Now() - asked_ >= kFresh) {
    last_ = AskNow();
    asked_ = clock_.Now();
    answered_by_ = coordinators;
  }
  return last_;
}

Result<std::shared_ptr<const report::JobStatus>> StatusSource::AskNow() {
  auto promise = std::make_shared<std::promise<report::JobStatus>>();
  std::future<report::JobStatus> answer = promise->get_future();
  {
    std::lock_guard lock(ask_mutex_);
    if (ask_ == nullptr) return Status(Code::kNotFound, "no coordinator");
    ask_([promise = std::move(promise)](report::JobStatus status) { promise->set_value(std::move(status)); });
  }
  if (answer.wait_for(kDeadline) != std::future_status::ready)
    return Status(Code::kUnavailable, "the coordinator is busy");
  try {
    return std::make_shared<const report::JobStatus>(answer.get());
  } catch (const std::future_error&) {  // the question was dropped
    return Status(Code::kUnavailable, "the coordinator ends");
  }
}

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

std::string TargetsJson(const report::JobStatus& status, const std::string& own, const std::string& host,
                        bool tls) {
  Json targets = Json::array();
  // The names differ from those of the labels of metrics.
  const auto add = [&](const std::string& address, const std::string& role, uint64_t index) {
    Json labels{{"leat_job", status.job}, {"leat_role", role}, {"leat_index", std::to_string(index)}};
    if (tls) labels["__scheme__"] = "https";
    targets.push_back({{"targets", {address}}, {"labels", std::move(labels)}});
  };
  add(own, "coordinator", 0);
  const auto reachable = [&](const auto& process) {
    const std::string& address = process.metrics;
    const bool on_loopback = address.starts_with("127.") || address.starts_with("[::1]");
    return !address.empty() && (!on_loopback || process.host.empty() || process.host == host);
  };
  for (const report::MemberStatus& m : status.members) {
    // Both are counted by themselves.
    const bool apart = m.name.role == "coordinator" || m.name.standby();
    if (reachable(m)) add(m.metrics, m.name.role + (apart ? "-standby" : ""), m.name.index);
  }
  for (const report::BotsStatus& bots : status.bots) {
    if (reachable(bots)) add(bots.metrics, "bots", 0);
  }
  return JsonText(targets, 2) + "\n";
}

}  // namespace leat::observe
