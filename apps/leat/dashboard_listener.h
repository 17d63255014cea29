// --dashboard of a coordinator: the page of its job.
#pragma once

#include <memory>
#include <string>

#include "launcher/security.h"
#include "observe/dashboard/dashboard.h"
#include "observe/history/job_monitor.h"
#include "observe/http/listener.h"

namespace leat {

struct DashboardListener {
  std::string address;  // that others are told; empty: there is no page
  std::shared_ptr<observe::JobMonitor> monitor = nullptr;
  std::unique_ptr<observe::Dashboard> dashboard = nullptr;
  std::unique_ptr<observe::HttpListener> listener = nullptr;  // ends before the others

  // Gives those who look the end of the job, before the listener ends.
  void Finish() const;
};

struct DashboardOptions {
  std::string option;   // that the address comes from
  std::string address;  // HOST:PORT; empty: no page
  std::string token;
  launcher::Security security;
  std::string advertise = "";  // of the coordinator; its host is also that of the page
};

// Throws std::invalid_argument with the option if the address may not, or cannot, be listened on.
DashboardListener ListenForDashboard(const DashboardOptions& options);

}  // namespace leat
