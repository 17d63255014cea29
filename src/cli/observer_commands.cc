// Commands for those who look at a job: leat dashboard, health and view-token.
#include <cstdio>
#include <stdexcept>
#include <string>

#include "base/exit_status.h"
#include "base/log.h"
#include "base/threads/thread.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "net/rpc/client.h"
#include "run/launcher/admin.h"
#include "run/launcher/signals.h"
#include "show/history/history_file.h"
#include "show/http/listener.h"

namespace leat {
namespace {

constexpr Duration kLookAtFile = std::chrono::seconds(1);  // at a file that may grow

struct DashboardOptions {
  std::string directory;
  std::string listen = "127.0.0.1:0";
  bool link = false;
  std::string coordinator;
  SecurityOptions security;
};

int ShowLink(const DashboardOptions& a) {
  RefuseIf(a.coordinator.empty(), "dashboard --link needs --coordinator, the address of the running job");
  const launcher::Security security = a.security.Read();
  const std::string token = OrThrow(launcher::UserToken());
  auto client = control::ControlClient::Make(a.coordinator, token, security.tls);
  const std::string address = OrThrow(launcher::AskStatus(*client, std::chrono::seconds(5))).dashboard;
  RefuseIf(address.empty(), "the coordinator at " + a.coordinator + " was started without --dashboard");
  std::printf("%s\n",
              observe::DashboardLink(address, security.tls != nullptr, observe::ViewToken(token)).c_str());
  return 0;
}

// Serves the page from the job's directory. If the job still runs, the page follows it.
int ServeDashboard(const DashboardOptions& a) {
  launcher::BlockSignals();
  const launcher::Security security = a.security.Read();
  observe::HistoryReader reader(a.directory);
  if (const auto read = reader.Update(); !read.ok()) {
    if (read.status().code() != Code::kDataLoss || reader.history().empty())
      throw std::invalid_argument("--directory " + a.directory +
                                  " has no history of a job: " + read.status().message());
    spdlog::warn("{}; the page shows what is before it", read.status().message());
  }
  const auto user = launcher::UserToken();
  const std::string token = user.ok() ? *user : launcher::RandomToken();
  const DashboardListener page =
      ListenForDashboard({.option = "--listen", .address = a.listen, .token = token, .security = security});
  StopEvent stop;
  const launcher::SignalWatch signals([&](int) { stop.Set(); });
  const auto show = [&] {
    page.monitor->Load(reader.history(), reader.status());
    if (page.monitor->present()->reading.phase == "ended") page.monitor->Close();
  };
  show();
  std::printf(
      "%s\n",
      observe::DashboardLink(page.address, security.tls != nullptr, observe::ViewToken(token)).c_str());
  std::fflush(stdout);
  const MonotonicClock clock;
  const double unix_s = Seconds(UnixTime());
  observe::HistoryGrowth growth(clock.Now(), unix_s - reader.history().end_s());
  do {
    page.monitor->SetLive(growth.live(clock.Now()));
    const auto changed = reader.Update();
    if (!changed.ok() || !*changed) continue;
    growth.OnGrowth(clock.Now());
    show();
  } while (!stop.Await(kLookAtFile));
  return 0;
}

int Dashboard(const DashboardOptions& a) {
  RefuseIf(!a.link && a.directory.empty(),
           "dashboard needs --directory with the directory of a job, or --link and --coordinator with the "
           "address of a running one");
  return a.link ? ShowLink(a) : ServeDashboard(a);
}

struct HealthOptions {
  std::string address = MetricsVariable();
  std::string security;
  bool ready = false;
};

int Health(const HealthOptions& a) {
  RefuseIf(a.address.empty(), "health needs the address of a role's --metrics, HOST:PORT, or $LEAT_METRICS");
  const auto security = OrThrow(launcher::UserSecurity(a.security, false));
  const Status alive = observe::Probe(
      {.address = a.address, .path = a.ready ? "/readyz" : "/healthz", .tls = security.tls != nullptr});
  if (alive.code() == Code::kInvalidArgument) Throw(alive);
  if (alive.ok()) return ExitStatus::kDone;
  std::fprintf(stderr, "leat: %s\n", alive.message().c_str());
  return ExitStatus::kFailed;
}

struct NoArguments {};

int ShowViewToken(NoArguments /*a*/) {
  std::printf("%s\n", observe::ViewToken(OrThrow(launcher::UserToken())).c_str());
  return 0;
}

}  // namespace

void AddDashboardCommand(CLI::App& app, int* result) {
  const auto [command, a] = AddCommand(
      app, result, "dashboard", "show a job in a browser: one that is over, or one that runs", Dashboard);
  auto* directory =
      command->add_option("--directory", a->directory, "serve the page of the job in this directory");
  directory->check(CLI::ExistingDirectory);
  command->add_option("--listen", a->listen, "address for the page of --directory; port 0: any free port")
      ->capture_default_str();
  command
      ->add_flag(
          "--link", a->link,
          "print a link to the page of a running job, which was started with --dashboard; it has the view "
          "token")
      ->excludes(directory);
  command->add_option("--coordinator", a->coordinator, "address of the running job, HOST:PORT, for --link");
  AddSecurity(command, &a->security);
}

void AddHealthCommand(CLI::App& app, int* result) {
  const auto [command, a] =
      AddCommand(app, result, "health", "ask a role whether it is alive: exit status 0, else 1", Health);
  command->add_option("address", a->address, "of the role's --metrics (default: $LEAT_METRICS)")
      ->type_name("HOST:PORT");
  command->add_flag("--ready", a->ready, "ask whether it is ready");
  command->add_option("--security", a->security,
                      "the role uses TLS: the folder of its certificate (default: $LEAT_SECURITY)");
}

void AddViewTokenCommand(CLI::App& app, int* result) {
  AddCommand(app, result, "view-token", "show the token with which Prometheus and others may look at jobs",
             ShowViewToken);
}

}  // namespace leat
