#include "metrics_listener.h"

#include <stdexcept>
#include <utility>

#include "net/address.h"
#include "observe/http/view_token.h"
#include "roles/role.h"

namespace leat {
namespace {

void Require(const Status& status) {
  if (!status.ok()) throw std::invalid_argument("--metrics: " + status.message());
}

// The host of --advertise, which may come with a port.
std::string AdvertisedHost(const MetricsOptions& options) {
  if (options.advertise.empty()) return "";
  const auto with_port = net::ParseAddress(options.advertise);
  return std::string(with_port.ok() ? net::HostOf(options.advertise) : options.advertise);
}

// The address that others are told. A wildcard is none: this host has a name or an address towards the
// coordinator.
std::string KnownAs(const MetricsOptions& options, const std::string& listening) {
  std::string host(net::HostOf(listening));
  const std::string port = listening.substr(host.size());
  if (host != "0.0.0.0" && host != "[::]") return listening;
  host = AdvertisedHost(options);
  if (host.empty() && !options.coordinator.empty())
    host = net::LocalHostTowards(options.coordinator.substr(0, options.coordinator.find(',')));
  if (host.empty()) host = net::HostName();
  if (host.find(':') != std::string::npos && !host.starts_with('[')) host = "[" + host + "]";
  return host + port;
}

}  // namespace

MetricsListener ListenForMetrics(const MetricsOptions& options) {
  if (options.address.empty()) return {};
  Require(launcher::CheckListen(options.security, options.address));
  MetricsListener made{
      .metrics = std::make_shared<observe::RoleMetrics>(observe::RoleMetrics::Options{
          .role = options.role, .version = roles::ProgramVersion(), .tls = options.security.tls != nullptr})};
  observe::HttpListener::Options listen{.address = options.address,
                                        .view_token = observe::ViewToken(options.token),
                                        .tls = options.security.tls};
  if (std::string host = AdvertisedHost(options); !host.empty()) listen.hosts.push_back(std::move(host));
  auto listener = observe::HttpListener::Start(std::move(listen), observe::MetricsRoutes(made.metrics));
  Require(listener.status());
  made.listener = std::move(*listener);
  made.metrics->SetAddress(KnownAs(options, made.listener->address()));
  return made;
}

}  // namespace leat
