// leat ps, worker, feed and bots: start a process of a job.
#include <memory>
#include <string>

#include "base/exit_status.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "run/roles/role.h"

namespace leat {
namespace {

struct RoleArguments {
  roles::RoleOptions options;
  std::string metrics = MetricsVariable();
  SecurityOptions security;
  topology::PlaceSettings place;
};

// `name`: of the role. Its listener ends after the role.
roles::RoleOptions RoleOptionsOf(const RoleArguments& a, const std::string& name, MetricsListener* metrics) {
  launcher::BlockSignals();
  roles::RoleOptions options = a.options;
  roles::CoordinatorClientOptions& client = options.coordinator_client;
  client.token = OrThrow(launcher::UserToken());
  const launcher::Security security = a.security.Read();
  ThrowIfError(launcher::CheckListen(security, options.listen));
  client.tls = security.tls;
  client.place = PlaceOfProcess(a.place);
  *metrics = ListenForMetrics(name, {.address = a.metrics,
                                     .token = client.token,
                                     .security = security,
                                     .advertise = options.advertise,
                                     .coordinator = client.coordinator});
  client.metrics = metrics->metrics;
  options.plan = Kernels();
  return options;
}

}  // namespace

void AddRoleCommands(CLI::App& app, int* result) {
  const auto a = std::make_shared<RoleArguments>();
  const auto add_role = [&](const char* name, const char* what, Status (*run)(const roles::RoleOptions&),
                            const char* listens) {
    auto* role = app.add_subcommand(name, what);
    role->add_option("--coordinator", a->options.coordinator_client.coordinator, kCoordinatorAddress)
        ->required();
    AddSecurity(role, &a->security);
    AddPlaceOptions(role, &a->place);
    if (listens != nullptr) {
      role->add_option("--listen", a->options.listen, listens)->capture_default_str();
      AddAdvertise(role, &a->options.advertise);
    }
    role->add_option("--scratch", a->options.coordinator_client.scratch,
                     "where checkpoints wait for their transfer, if this host does not see the job's "
                     "directory, and where copies of ONNX files from a feed are (default: $TMPDIR)");
    AddMetrics(role, &a->metrics);
    role->callback([a, result, run, name = std::string(name)] {
      MetricsListener metrics;
      *result = PrintOutcome(run(RoleOptionsOf(*a, name, &metrics)));
    });
    return role;
  };
  const auto add_data = [&](CLI::App* role) {
    AddData(role, &a->options.coordinator_client.data,
            "directory of this host's copies of the job's input files (default: the job's --data)");
  };
  add_data(add_role("ps", "start a parameter server", roles::RunServer,
                    "address that workers connect to; port 0: any free port"));
  auto* worker = add_role("worker", "start a worker", roles::RunWorker,
                          "address that other workers connect to (all-reduce jobs); port 0: any free port");
  worker->add_flag("--standby", a->options.standby,
                   "get no work until another worker dies or leaves, and take its place");
  add_data(worker);
  add_data(add_role("feed", "serve the job's stream to workers on hosts that do not have it", roles::RunFeed,
                    "address that workers connect to; port 0: any free port"));
  auto* bots =
      add_role("bots", "start simulated customers that publish the job's events", roles::RunBots, nullptr);
  AddNumber(bots, "--rate", &a->options.rate, "events per second; 0: no limit (default: the job's)", 0.0,
            1e9);
}

}  // namespace leat
