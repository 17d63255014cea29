// leat health: whether a role is alive, for the health checks of containers.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/exit_status.h"
#include "cli/commands.h"
#include "run/launcher/security.h"
#include "show/http/listener.h"

namespace leat {
namespace {

struct HealthOptions {
  std::string address = MetricsVariable();
  std::string security;
  bool ready = false;
};

int Health(const HealthOptions& a) {
  if (a.address.empty())
    throw std::invalid_argument(
        "health needs the address of a role's --metrics, HOST:PORT, or $LEAT_METRICS");
  const auto security = OrThrow(launcher::UserSecurity(a.security, false));
  const Status alive = observe::Probe(
      {.address = a.address, .path = a.ready ? "/readyz" : "/healthz", .tls = security.tls != nullptr});
  if (alive.code() == Code::kInvalidArgument) Throw(alive);
  if (alive.ok()) return ExitStatus::kDone;
  std::fprintf(stderr, "leat: %s\n", alive.message().c_str());
  return ExitStatus::kFailed;
}

}  // namespace

std::string MetricsVariable() {
  const char* address = std::getenv("LEAT_METRICS");
  return address != nullptr ? address : "";
}

void AddHealthCommand(CLI::App& app, int* result) {
  const auto a = std::make_shared<HealthOptions>();
  auto* command = app.add_subcommand("health", "ask a role whether it is alive: exit status 0, else 1");
  command->add_option("address", a->address, "of the role's --metrics (default: $LEAT_METRICS)")
      ->type_name("HOST:PORT");
  command->add_flag("--ready", a->ready, "ask whether it is ready");
  command->add_option("--security", a->security,
                      "the role uses TLS: the folder of its certificate (default: $LEAT_SECURITY)");
  command->callback([a, result] { *result = Health(*a); });
}

}  // namespace leat
