// --dashboard of a coordinator: the page of its job.
#pragma once

#include <memory>
#include <string>

#include "observe/dashboard/dashboard.h"
#include "observe/history/job_monitor.h"
#include "observe/http/listener.h"
#include "observer_listener.h"

namespace leat {

struct DashboardListener {
  std::string address;  // that others are told; empty: there is no page
  std::shared_ptr<observe::JobMonitor> monitor = nullptr;
  std::unique_ptr<observe::Dashboard> dashboard = nullptr;
  std::unique_ptr<observe::HttpListener> listener = nullptr;  // ends before the others

  // Gives those who look the end of the job, before the listener ends.
  void Finish() const;
};

// Without an address there is no page. Throws as ListenForObservers does.
DashboardListener ListenForDashboard(const ObserverOptions& options);

}  // namespace leat
