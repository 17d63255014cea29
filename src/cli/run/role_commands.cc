// leat ps, worker, feed and bots: start a process of a job.
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/observer_listener.h"
#include "cli/run/job_options.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "run/roles/role.h"

namespace leat {
namespace {

struct RoleArguments {
  std::string coordinator;
  std::string listen = launcher::RunnerOptions().listen;
  std::string advertise;
  std::string metrics = MetricsVariable();
  std::string data;
  std::string scratch;
  SecurityOptions security;
  topology::PlaceSettings place;
  double rate = -1;
  bool standby = false;
};

// `name`: of the role. Its listener ends after the role.
roles::RoleOptions RoleOptionsOf(const RoleArguments& a, const std::string& name, MetricsListener* metrics) {
  launcher::BlockSignals();
  roles::RoleOptions options;
  options.coordinator_client.coordinator = a.coordinator;
  options.coordinator_client.token = RequiredToken();
  const launcher::Security security = a.security.Read();
  ThrowIfError(launcher::CheckListen(security, a.listen));
  options.coordinator_client.tls = security.tls;
  options.coordinator_client.data = a.data;
  options.coordinator_client.place = PlaceOfProcess(a.place);
  *metrics = ListenForMetrics(name, {.address = a.metrics,
                                     .token = options.coordinator_client.token,
                                     .security = security,
                                     .advertise = a.advertise,
                                     .coordinator = a.coordinator});
  options.coordinator_client.metrics = metrics->metrics;
  options.listen = a.listen;
  options.advertise = a.advertise;
  options.coordinator_client.scratch = a.scratch;
  options.standby = a.standby;
  options.plan = Kernels();
  if (a.rate >= 0) options.rate = a.rate;
  return options;
}

}  // namespace

void AddRoleCommands(CLI::App& app, int* result) {
  const auto a = std::make_shared<RoleArguments>();
  const auto add_role = [&](const char* name, const char* what, Status (*run)(const roles::RoleOptions&),
                            const char* listens) {
    auto* role = app.add_subcommand(name, what);
    role->add_option("--coordinator", a->coordinator, kCoordinatorAddress)->required();
    AddSecurity(role, &a->security);
    AddPlaceOptions(role, &a->place);
    if (listens != nullptr) {
      role->add_option("--listen", a->listen, listens)->capture_default_str();
      AddAdvertise(role, &a->advertise);
    }
    role->add_option("--scratch", a->scratch,
                     "where checkpoints wait for their transfer, if this host does not see the job's "
                     "directory, and where copies of ONNX files from a feed are (default: $TMPDIR)");
    AddMetrics(role, &a->metrics,
               "address for Prometheus: /metrics, /healthz, /readyz; port 0: any free port");
    role->callback([a, result, run, name = std::string(name)] {
      MetricsListener metrics;
      *result = PrintOutcome(run(RoleOptionsOf(*a, name, &metrics)));
    });
    return role;
  };
  const auto add_data = [&](CLI::App* role) {
    AddData(role, &a->data,
            "directory of this host's copies of the job's input files (default: the job's --data)");
  };
  add_data(add_role("ps", "start a parameter server", roles::RunServer,
                    "address that workers connect to; port 0: any free port"));
  auto* worker = add_role("worker", "start a worker", roles::RunWorker,
                          "address that other workers connect to (all-reduce jobs); port 0: any free port");
  worker->add_flag("--standby", a->standby,
                   "get no work until another worker dies or leaves, and take its place");
  add_data(worker);
  add_data(add_role("feed", "serve the job's stream to workers on hosts that do not have it", roles::RunFeed,
                    "address that workers connect to; port 0: any free port"));
  add_role("bots", "start simulated customers that publish the job's events", roles::RunBots, nullptr)
      ->add_option("--rate", a->rate, "events per second; 0: no limit (default: the job's)")
      ->check(CLI::Range(0.0, 1e9));
}

}  // namespace leat
