#include "cli/observer_listener.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/exit_status.h"
#include "net/address.h"
#include "run/roles/role.h"
#include "show/http/listener.h"

namespace leat {
namespace {

// For viewers that are still there when the job ends.
constexpr Duration kLastFrame = std::chrono::seconds(1);

// The host of --advertise, which may come with a port.
std::string AdvertisedHost(const std::string& advertise) {
  return std::string(net::ParseAddress(advertise).ok() ? net::HostOf(advertise) : advertise);
}

// The address that others are told. A wildcard is none: this host has a name, or an address towards the
// coordinator.
std::string KnownAs(const ObserverOptions& options, const std::string& listening) {
  std::string host(net::HostOf(listening));
  const std::string port = listening.substr(host.size());
  if (host != "0.0.0.0" && host != "[::]") return listening;
  host = AdvertisedHost(options.advertise);
  if (host.empty() && !options.coordinator.empty())
    host = net::LocalHostTowards(options.coordinator.substr(0, options.coordinator.find(',')));
  if (host.empty()) host = net::HostName();
  if (host.find(':') != std::string::npos && !host.starts_with('[')) host = "[" + host + "]";
  return host + port;
}

// Returns the address that others are told, too.
std::unique_ptr<observe::HttpListener> ListenForObservers(const ObserverOptions& options,
                                                          std::vector<observe::HttpRoute> routes,
                                                          std::string* address) {
  ThrowIfError(launcher::CheckListen(options.security, options.address).With(options.option));
  observe::HttpListener::Options listen{.address = options.address,
                                        .view_token = observe::ViewToken(options.token),
                                        .tls = options.security.tls};
  if (std::string host = AdvertisedHost(options.advertise); !host.empty())
    listen.hosts.push_back(std::move(host));
  auto listener = observe::HttpListener::Start(std::move(listen), std::move(routes));
  ThrowIfError(listener.status().With(options.option));
  *address = KnownAs(options, (*listener)->address());
  return std::move(*listener);
}

}  // namespace

MetricsListener ListenForMetrics(const std::string& role, const ObserverOptions& options) {
  if (options.address.empty()) return {};
  MetricsListener made{
      .metrics = std::make_shared<observe::RoleMetrics>(observe::RoleMetrics::Options{
          .role = role, .version = roles::ProgramVersion(), .tls = options.security.tls != nullptr})};
  std::string address;
  made.listener = ListenForObservers(options, observe::MetricsRoutes(made.metrics), &address);
  made.metrics->SetAddress(std::move(address));
  return made;
}

DashboardListener ListenForDashboard(const ObserverOptions& options) {
  if (options.address.empty()) return {};
  DashboardListener made{.monitor = std::make_shared<observe::JobMonitor>()};
  made.dashboard = std::make_unique<observe::Dashboard>(made.monitor);
  made.listener = ListenForObservers(options, made.dashboard->Routes(), &made.address);
  return made;
}

void DashboardListener::Finish() const {
  if (dashboard != nullptr) dashboard->Finish(kLastFrame);
}

}  // namespace leat
