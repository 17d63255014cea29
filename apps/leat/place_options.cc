#include "place_options.h"

#include <cstdlib>
#include <string>

#include "base/exit_status.h"

namespace leat {

namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

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

}  // namespace leat
