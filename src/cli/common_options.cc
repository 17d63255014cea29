#include "cli/common_options.h"

#include <cstdlib>
#include <type_traits>
#include <variant>

#include "base/exit_status.h"

namespace leat {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
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

}  // namespace leat
