#include "observer_listener.h"

#include <utility>

#include "base/exit_status.h"
#include "net/address.h"
#include "observe/http/view_token.h"

namespace leat {
namespace {

void RequireOption(const Status& status, const std::string& option) {
  ThrowIfError(status.With(option));
}

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

}  // namespace

ObserverListener ListenForObservers(const ObserverOptions& options, std::vector<observe::HttpRoute> routes) {
  RequireOption(launcher::CheckListen(options.security, options.address), options.option);
  observe::HttpListener::Options listen{.address = options.address,
                                        .view_token = observe::ViewToken(options.token),
                                        .tls = options.security.tls};
  if (std::string host = AdvertisedHost(options.advertise); !host.empty())
    listen.hosts.push_back(std::move(host));
  auto listener = observe::HttpListener::Start(std::move(listen), std::move(routes));
  RequireOption(listener.status(), options.option);
  std::string address = KnownAs(options, (*listener)->address());
  return {.listener = std::move(*listener), .address = std::move(address)};
}

}  // namespace leat
