// Options and inputs of the commands that start a job: `leat train`, `leat demo` and `leat coordinator`.
// Other commands of roles share some of them. The structs outlive the commands.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "protocol/topology/host_place.h"
#include "run/launcher/runner.h"
#include "run/roles/start/coordinator_options.h"

namespace leat {

struct JobOptions {
  // Settings that `leat train` and `leat coordinator` pass on.
  launcher::RunnerOptions run{.metrics = MetricsVariable()};
  SecurityOptions security;
  topology::PlaceSettings place;
  double rate = -1;
  std::optional<std::string> dashboard;  // HOST:PORT
};
// Sets those members of `coordinate` that `leat train` has options for.
void AddJobOptions(CLI::App* app, JobOptions* a, roles::CoordinatorOptions* coordinate,
                   const std::string& directory_default);
void AddMetrics(CLI::App* app, std::string* address, const std::string& what);
void AddAdvertise(CLI::App* app, std::string* address);

inline constexpr const char* kJobFile = "job file (YAML); not needed with --resume";
inline constexpr const char* kCoordinatorAddress =
    "address of the coordinator, HOST:PORT, or several with commas between, if it may be restarted at "
    "another";

// The token for a command that cannot do without.
std::string RequiredToken();
// Prints an error as one line on stderr and returns the exit status.
int PrintOutcome(const Status& status);

// A job that is resumed from a bucket goes on in --directory. kAborted: a signal came while the bucket was
// away.
Status FetchJob(JobOptions* a, const std::function<void(const std::string&)>& on_wait);

}  // namespace leat
