// Options that several commands have. The structs outlive the commands.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "protocol/topology/host_place.h"
#include "run/launcher/security.h"
#include "run/roles/start/coordinator_options.h"

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

}  // namespace leat
