#include "metrics_listener.h"

#include <utility>

#include "observer_listener.h"
#include "roles/role.h"

namespace leat {

MetricsListener ListenForMetrics(const MetricsOptions& options) {
  if (options.address.empty()) return {};
  MetricsListener made{
      .metrics = std::make_shared<observe::RoleMetrics>(observe::RoleMetrics::Options{
          .role = options.role, .version = roles::ProgramVersion(), .tls = options.security.tls != nullptr})};
  ObserverListener observers = ListenForObservers({.option = "--metrics",
                                                   .address = options.address,
                                                   .token = options.token,
                                                   .security = options.security,
                                                   .advertise = options.advertise,
                                                   .coordinator = options.coordinator},
                                                  observe::MetricsRoutes(made.metrics));
  made.listener = std::move(observers.listener);
  made.metrics->SetAddress(std::move(observers.address));
  return made;
}

}  // namespace leat
