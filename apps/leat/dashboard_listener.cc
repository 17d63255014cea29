#include "dashboard_listener.h"

#include <spdlog/spdlog.h>

#include <stdexcept>
#include <utility>

#include "net/address.h"
#include "observe/http/view_token.h"

namespace leat {
namespace {

// For viewers that are still there when the job ends.
constexpr Duration kLastFrame = std::chrono::seconds(1);

void Require(const Status& status, const std::string& option) {
  if (!status.ok()) throw std::invalid_argument(option + ": " + status.message());
}

// The host of --advertise, which may come with a port.
std::string AdvertisedHost(const std::string& advertise) {
  return std::string(net::ParseAddress(advertise).ok() ? net::HostOf(advertise) : advertise);
}

// The address that others are told. A wildcard is none.
std::string KnownAs(const std::string& advertised_host, const std::string& listening) {
  const std::string_view host = net::HostOf(listening);
  if (host != "0.0.0.0" && host != "[::]") return listening;
  std::string known = advertised_host.empty() ? net::HostName() : advertised_host;
  if (known.find(':') != std::string::npos && !known.starts_with('[')) known = "[" + known + "]";
  return known + listening.substr(host.size());
}

}  // namespace

DashboardListener ListenForDashboard(const DashboardOptions& options) {
  if (options.address.empty()) return {};
  Require(launcher::CheckListen(options.security, options.address), options.option);
  DashboardListener made{.monitor = std::make_shared<observe::JobMonitor>()};
  made.dashboard = std::make_unique<observe::Dashboard>(made.monitor);
  const std::string host = AdvertisedHost(options.advertise);
  observe::HttpListener::Options listen{.address = options.address,
                                        .view_token = observe::ViewToken(options.token),
                                        .tls = options.security.tls};
  if (!host.empty()) listen.hosts.push_back(host);
  auto listener = observe::HttpListener::Start(std::move(listen), made.dashboard->Routes());
  Require(listener.status(), options.option);
  made.listener = std::move(*listener);
  made.address = KnownAs(host, made.listener->address());
  return made;
}

void DashboardListener::Finish() const {
  if (dashboard != nullptr) dashboard->Finish(kLastFrame);
}

}  // namespace leat
