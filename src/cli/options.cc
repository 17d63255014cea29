#include "cli/options.h"

#include <unistd.h>

#include <cstdlib>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/exit_status.h"
#include "cli/commands.h"
#include "job/job.h"
#include "job/resume.h"
#include "net/address.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "run/roles/role.h"

namespace leat {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void AddDashboard(CLI::App* command, JobOptions* a) {
  command
      ->add_option_function<std::vector<std::string>>(
          "--dashboard",
          [a](const std::vector<std::string>& given) {
            a->dashboard = given.empty() || given[0].empty() ? "127.0.0.1:0" : given[0];
            if (net::ParseAddress(*a->dashboard).ok()) return;
            throw CLI::ValidationError("--dashboard", "'" + *a->dashboard +
                                                          "' is no address HOST:PORT (a job file goes before "
                                                          "--dashboard)");
          },
          "show the job in a browser, at this address (default: 127.0.0.1 and any free port)")
      ->type_name("[HOST:PORT]")
      ->expected(0, 1);
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

launcher::Security SecurityOptions::Read() const {
  return OrThrow(launcher::UserSecurity(folder, trusted_network));
}

void AddSecurity(CLI::App* command, SecurityOptions* options) {
  command->add_option(
      "--security", options->folder,
      "folder of ca.pem, cert.pem and key.pem for TLS (default: $LEAT_SECURITY); see leat cert");
  command->add_flag("--trusted-network", options->trusted_network,
                    "every host on the network is trusted: no TLS (default: $LEAT_TRUSTED_NETWORK=1)");
}

void AddPlaceOptions(CLI::App* command, topology::PlaceSettings* options) {
  command->add_option("--site", options->site,
                      "site of this host; narrow links join sites (default: $LEAT_SITE)");
  command->add_option("--zone", options->zone,
                      "failure domain of this host within its site (default: $LEAT_ZONE)");
  command->add_option("--class", options->host_class,
                      "what this host is good for, as the job names it (default: $LEAT_CLASS)");
}

topology::HostPlace PlaceOfProcess(const topology::PlaceSettings& options) {
  return OrThrow(topology::MakeHostPlace(
      options, {Variable("LEAT_SITE"), Variable("LEAT_ZONE"), Variable("LEAT_CLASS")}));
}

void AddCoordinatorOptions(CLI::App* command, bool train, roles::CoordinatorOptions* options) {
  for (const roles::CoordinatorOption& option : roles::kCoordinatorOptions) {
    if (option.train != train) continue;
    CLI::Option* const added = std::visit(
        [&](auto member) {
          auto& value = options->*member;
          if constexpr (std::is_same_v<decltype(value), bool&>) {
            return command->add_flag(option.name, value, option.help);
          } else {
            return command->add_option(option.name, value, option.help);
          }
        },
        option.member);
    if (option.needs != nullptr) added->needs(command->get_option(option.needs));
  }
}

void AddData(CLI::App* command, std::string* directory, const std::string& what) {
  command->add_option("--data", *directory, what)->check(CLI::ExistingDirectory);
}

std::string MetricsVariable() {
  return Variable("LEAT_METRICS");
}

void AddMetrics(CLI::App* command, std::string* address, const std::string& what) {
  command->add_option("--metrics", *address, what)->type_name("HOST:PORT");
}

void AddAdvertise(CLI::App* command, std::string* address) {
  command->add_option(
      "--advertise", *address,
      "address that others use instead of --listen's, HOST or HOST:PORT (default: --listen's)");
}

void AddWorkers(CLI::App* command, uint32_t* least, uint32_t* most, const std::string& what) {
  const auto take = [least, most](const std::string& text) {
    const auto workers = job::ParseWorkerRange(text);
    if (!workers.ok()) throw CLI::ValidationError("--workers", workers.status().message());
    *least = workers->least;
    *most = workers->most;
  };
  command->add_option_function<std::string>("--workers", take, what)->type_name("N|MIN:MAX");
}

void AddDescriptors(CLI::App* command, int* ready_fd, int* life_fd) {
  command->add_option("--ready-fd", *ready_fd, "file descriptor to write the address to")->group("");
  if (life_fd == nullptr) return;
  command
      ->add_option("--life-fd", *life_fd,
                   "pipe whose other end the caller holds as long as it wants this process")
      ->group("");
}

void AddJobOptions(CLI::App* command, JobOptions* a, roles::CoordinatorOptions* coordinate,
                   const std::string& directory_default) {
  AddData(command, &a->run.overrides.data);
  AddWorkers(command, &a->run.overrides.workers, &a->run.overrides.max_workers,
             "number of worker processes, or a range for the autoscaler, MIN:MAX (default: the job's)");
  AddNumber(command, "--ps", &a->run.overrides.servers,
            "number of parameter servers (default, or 0: the job's)", 0, 1000);
  command->add_option("--directory", a->run.overrides.directory,
                      "directory for checkpoints, journal and logs (" + directory_default + ")");
  command->add_option(
      "--resume", a->run.source.resume,
      "resume from the newest checkpoint in this job directory, or, into an empty --directory, in "
      "s3://BUCKET/PREFIX");
  AddNumber(command, "--rate", &a->run.overrides.rate,
            "events per second that the bots publish; 0: no limit (default: the job's)", 0.0, 1e9);
  command->add_option("--events", a->run.overrides.events,
                      "number of events that the bots publish (default: the job's)");
  command->add_option("--pause-at", a->run.pause_at, "pause after this many events, until `leat continue`");
  AddCoordinatorOptions(command, true, coordinate);
  command
      ->add_option("--listen", a->run.listen,
                   "address that the coordinator listens on; port 0: any free port")
      ->capture_default_str();
  AddMetrics(command, &a->run.metrics,
             "address for Prometheus: the coordinator's /metrics, /healthz, /readyz, and all roles at "
             "/targets; port 0: any free port");
  AddDashboard(command, a);
  AddSecurity(command, &a->security);
  AddPlaceOptions(command, &a->place);
}

Status FetchJob(JobOptions* a, const std::function<void(const std::string&)>& on_wait) {
  if (!job::IsBucket(a->run.source.resume)) return {};
  launcher::BlockSignals();
  // A fetch that was interrupted goes on next time, and nothing ends one that takes an hour but this.
  const auto end = [] { _exit(ExitStatus::kInterrupted); };
  LEAT_RETURN_IF_ERROR(launcher::AwaitHealing({.on_wait = on_wait, .on_signal = end}, [a] {
    job::FetchFromBucket(a->run.source.resume, a->run.source.file, a->run.overrides.directory);
    return Status();
  }));
  a->run.source.resume = std::exchange(a->run.overrides.directory, "");
  return {};
}

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

}  // namespace leat
