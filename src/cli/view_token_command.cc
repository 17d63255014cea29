// leat view-token: for Prometheus and other observers, who may look at jobs and change nothing.
#include <cstdio>

#include "base/exit_status.h"
#include "cli/commands.h"
#include "run/launcher/token.h"
#include "show/http/listener.h"

namespace leat {

void AddViewTokenCommand(CLI::App& app, int* result) {
  auto* command =
      app.add_subcommand("view-token", "show the token with which Prometheus and others may look at jobs");
  command->callback([result] {
    const auto token = OrThrow(launcher::UserToken());
    std::printf("%s\n", observe::ViewToken(token).c_str());
    *result = 0;
  });
}

}  // namespace leat
