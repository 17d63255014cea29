// Where a process is: --site, --zone and --class, or LEAT_SITE, LEAT_ZONE and LEAT_CLASS.
#pragma once

#include <CLI/CLI.hpp>

#include "protocol/topology/host_place.h"

namespace leat {

// `options` outlives the command.
void AddPlaceOptions(CLI::App* command, protocol::PlaceSettings* options);

// Throws std::invalid_argument with the name of the option or variable.
protocol::HostPlace PlaceOfProcess(const protocol::PlaceSettings& options);

}  // namespace leat
