// Options that several commands have, and the listeners that they ask for. The structs outlive the commands.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/status.h"
#include "protocol/topology/host_place.h"
#include "run/launcher/runner.h"
#include "run/launcher/security.h"
#include "run/roles/start/coordinator_options.h"
#include "show/dashboard/dashboard.h"
#include "show/history/job_monitor.h"
#include "show/http/listener.h"
#include "show/prometheus/role_metrics.h"

namespace leat {

// --security and --trusted-network, or LEAT_SECURITY and LEAT_TRUSTED_NETWORK.
struct SecurityOptions {
  std::string folder;
  bool trusted_network = false;

  // Reads the folder. Throws the errors of launcher::UserSecurity.
  launcher::Security Read() const;
};
void AddSecurity(CLI::App* command, SecurityOptions* options);

// Where a process is: --site, --zone and --class, or LEAT_SITE, LEAT_ZONE and LEAT_CLASS.
void AddPlaceOptions(CLI::App* command, topology::PlaceSettings* options);
// Throws std::invalid_argument with the name of the option or variable.
topology::HostPlace PlaceOfProcess(const topology::PlaceSettings& options);

// The options of roles::kCoordinatorOptions that `leat train` has (`train`), or those that it has not.
void AddCoordinatorOptions(CLI::App* command, bool train, roles::CoordinatorOptions* options);

// --data, an existing directory.
void AddData(CLI::App* command, std::string* directory,
             const std::string& what = "directory of the job's input files (default: the current directory)");

// $LEAT_METRICS, the address of --metrics if none is given; empty: none.
std::string MetricsVariable();
void AddMetrics(
    CLI::App* command, std::string* address,
    const std::string& what = "address for Prometheus: /metrics, /healthz, /readyz; port 0: any free port");
void AddAdvertise(CLI::App* command, std::string* address);
// --workers, a number or a range.
void AddWorkers(CLI::App* command, uint32_t* least, uint32_t* most, const std::string& what);
// --ready-fd and --life-fd, for a program that starts this one; no help shows them.
void AddDescriptors(CLI::App* command, int* ready_fd, int* life_fd = nullptr);

inline constexpr const char* kJobFile = "job file (YAML); not needed with --resume";
inline constexpr const char* kCoordinatorAddress =
    "address of the coordinator, HOST:PORT, or several with commas between, if it may be restarted at "
    "another";

// Settings that `leat train`, `leat demo` and `leat coordinator` pass on.
struct JobOptions {
  launcher::RunnerOptions run{.metrics = MetricsVariable()};
  SecurityOptions security;
  topology::PlaceSettings place;
  std::optional<std::string> dashboard;  // HOST:PORT
};
// Sets those members of `coordinate` that `leat train` has options for.
void AddJobOptions(CLI::App* command, JobOptions* a, roles::CoordinatorOptions* coordinate,
                   const std::string& directory_default);
// A job that is resumed from a bucket goes on in --directory. kAborted: a signal came while the bucket was
// away.
Status FetchJob(JobOptions* a, const std::function<void(const std::string&)>& on_wait);

// Validates an option by `parse`, such as sim::ParseDuration, before anything begins: the text of its
// exception, after the option's name, becomes the reason.
template <class Parse>
CLI::Validator ValidIf(Parse parse) {
  return CLI::Validator(
      [parse](std::string& text) {
        try {
          (void)parse(text);
          return std::string();
        } catch (const std::invalid_argument& error) {
          return std::string(error.what());
        }
      },
      "");
}

// Listeners of --metrics and --dashboard, by which observers watch a role.
struct ObserverOptions {
  std::string option = "--metrics";  // name of the option, for errors
  std::string address;               // HOST:PORT; empty: no listener
  std::string token;
  launcher::Security security;
  std::string advertise = "";    // address that the role advertises; the listener advertises its host
  std::string coordinator = "";  // a member's or standby's coordinator; commas between several addresses
};

// --metrics of a role: listener for Prometheus, probes and people.
struct MetricsListener {
  std::shared_ptr<observe::RoleMetrics> metrics;              // null: no listener
  std::unique_ptr<observe::HttpListener> listener = nullptr;  // ends before the metrics
};

// --dashboard of a coordinator: the page of its job.
struct DashboardListener {
  std::string address;  // advertised address; empty: no page
  std::shared_ptr<observe::JobMonitor> monitor = nullptr;
  std::unique_ptr<observe::Dashboard> dashboard = nullptr;
  std::unique_ptr<observe::HttpListener> listener = nullptr;  // ends before the others
};

// They throw std::invalid_argument with the option if the address may not, or cannot, be listened on.
MetricsListener ListenForMetrics(const std::string& role, const ObserverOptions& options);
DashboardListener ListenForDashboard(const ObserverOptions& options);

}  // namespace leat
