#include "dashboard_listener.h"

#include <chrono>
#include <utility>

namespace leat {
namespace {

// For viewers that are still there when the job ends.
constexpr Duration kLastFrame = std::chrono::seconds(1);

}  // namespace

DashboardListener ListenForDashboard(const ObserverOptions& options) {
  if (options.address.empty()) return {};
  DashboardListener made{.monitor = std::make_shared<observe::JobMonitor>()};
  made.dashboard = std::make_unique<observe::Dashboard>(made.monitor);
  ObserverListener observers = ListenForObservers(options, made.dashboard->Routes());
  made.listener = std::move(observers.listener);
  made.address = std::move(observers.address);
  return made;
}

void DashboardListener::Finish() const {
  if (dashboard != nullptr) dashboard->Finish(kLastFrame);
}

}  // namespace leat
