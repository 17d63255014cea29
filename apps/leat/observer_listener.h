// What --metrics and --dashboard have in common: a listener for those who look at a role.
#pragma once

#include <memory>
#include <string>

#include "launcher/security.h"
#include "observe/dashboard/dashboard.h"
#include "observe/history/job_monitor.h"
#include "observe/http/listener.h"
#include "observe/prometheus/role_metrics.h"

namespace leat {

struct ObserverOptions {
  std::string option = "--metrics";  // that the address comes from
  std::string address;               // HOST:PORT; empty: no listener
  std::string token;
  launcher::Security security;
  std::string advertise = "";    // of the role; its host is also that of the listener
  std::string coordinator = "";  // of a member or standby; several with commas between
};

// --metrics of a role: where Prometheus, probes and people read what it does.
struct MetricsListener {
  std::shared_ptr<observe::RoleMetrics> metrics;              // null: nobody is to look
  std::unique_ptr<observe::HttpListener> listener = nullptr;  // ends before the metrics
};

// --dashboard of a coordinator: the page of its job.
struct DashboardListener {
  std::string address;  // that others are told; empty: there is no page
  std::shared_ptr<observe::JobMonitor> monitor = nullptr;
  std::unique_ptr<observe::Dashboard> dashboard = nullptr;
  std::unique_ptr<observe::HttpListener> listener = nullptr;  // ends before the others

  // Gives those who look the end of the job, before the listener ends.
  void Finish() const;
};

// They throw std::invalid_argument with the option if the address may not, or cannot, be listened on.
MetricsListener ListenForMetrics(const std::string& role, const ObserverOptions& options);
DashboardListener ListenForDashboard(const ObserverOptions& options);

}  // namespace leat
