// Listeners of --metrics and --dashboard, by which observers watch a role.
#pragma once

#include <memory>
#include <string>

#include "run/launcher/security.h"
#include "show/dashboard/dashboard.h"
#include "show/history/job_monitor.h"
#include "show/http/listener.h"
#include "show/prometheus/role_metrics.h"

namespace leat {

struct ObserverOptions {
  std::string option = "--metrics";  // name of the option, for errors
  std::string address;               // HOST:PORT; empty: no listener
  std::string token;
  launcher::Security security;
  std::string advertise = "";    // address that the role advertises; the listener advertises its host
  std::string coordinator = "";  // a member's or standby's coordinator; commas between several addresses
};

// --metrics of a role: listener for Prometheus, probes and people.
struct MetricsListener {
  std::shared_ptr<observe::RoleMetrics> metrics;              // null: no listener
  std::unique_ptr<observe::HttpListener> listener = nullptr;  // ends before the metrics
};

// --dashboard of a coordinator: the page of its job.
struct DashboardListener {
  std::string address;  // advertised address; empty: no page
  std::shared_ptr<observe::JobMonitor> monitor = nullptr;
  std::unique_ptr<observe::Dashboard> dashboard = nullptr;
  std::unique_ptr<observe::HttpListener> listener = nullptr;  // ends before the others

  // Sends observers the end of the job, before the listener ends.
  void Finish() const;
};

// They throw std::invalid_argument with the option if the address may not, or cannot, be listened on.
MetricsListener ListenForMetrics(const std::string& role, const ObserverOptions& options);
DashboardListener ListenForDashboard(const ObserverOptions& options);

}  // namespace leat
