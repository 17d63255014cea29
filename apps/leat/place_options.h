// Where a process is: --site, --zone and --class, or LEAT_SITE, LEAT_ZONE and LEAT_CLASS.
#pragma once

#include <CLI/CLI.hpp>

#include "topology/host_place.h"

namespace leat {

// `options` outlives the command.
void AddPlaceOptions(CLI::App* command, topology::PlaceSettings* options);

// Throws std::invalid_argument with the name of the option or variable.
topology::HostPlace PlaceOfProcess(const topology::PlaceSettings& options);

}  // namespace leat
