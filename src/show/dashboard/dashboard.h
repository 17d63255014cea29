// The page of a job: its files, the job's past, and events for those who follow it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "show/dashboard/frames.h"
#include "show/history/job_monitor.h"
#include "show/http/listener.h"

namespace leat::observe {

// Thread-safe.
class Dashboard {
 public:
  explicit Dashboard(std::shared_ptr<const JobMonitor> monitor);

  // For an HttpListener that this outlives.
  std::vector<HttpRoute> Routes();

  // Blocks until those who follow the job have got its end, for `at_most`. The monitor is closed.
  void Finish(Duration at_most) const;

 private:
  Reply History(const Request& request) const;
  Reply Events();

  const std::shared_ptr<const JobMonitor> monitor_;
  const std::shared_ptr<Frames> frames_;
  const std::shared_ptr<std::atomic<int>> viewers_ = std::make_shared<std::atomic<int>>(0);
};

// The address of the page with the view token, for a browser. The token is behind #, so it is in no request
// and no log; the page exchanges it for a cookie.
std::string DashboardLink(std::string_view address, bool tls, std::string_view view_token);

}  // namespace leat::observe
