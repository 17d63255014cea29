// leat coordinator: start the coordinator of a job, or a standby of one.
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/exit_status.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/demo_job.h"
#include "cli/options.h"
#include "job/resume.h"
#include "net/rpc/scaler/scaler_server.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "run/launcher/start/start_job.h"
#include "run/pool/pool_server.h"
#include "run/roles/feed/job_feeds.h"
#include "run/roles/standby/standby.h"
#include "run/roles/start/coordinator_options.h"

namespace leat {
namespace {

// For viewers that are still there when the job ends.
constexpr Duration kLastFrame = std::chrono::seconds(1);

struct CoordinatorArguments {
  JobOptions job;
  roles::CoordinatorOptions coordinate;
  bool demo = false;
  bool wait_for_feed = false;
  bool auto_resume = false;
  std::string scaler;       // HOST:PORT
  std::string standby_for;  // addresses of the coordinator

  bool standby() const { return !standby_for.empty(); }
  bool resume() const { return !job.run.source.resume.empty(); }
  // A standby with a directory of its own gets the job from the coordinator.
  bool own_directory() const { return standby() && !resume() && !job.run.overrides.directory.empty(); }
};

// Says what a resumed job waits for, also to the process that has started this one.
void SayWait(const CoordinatorArguments& a, const std::string& what) {
  what.empty() ? spdlog::info("nothing is waited for any more") : spdlog::warn("waits for {}", what);
  const std::string line = launcher::WaitsLine(what);
  if (a.job.run.ready_fd >= 0 && write(a.job.run.ready_fd, line.data(), line.size()) < 0)
    spdlog::warn("cannot write to file descriptor {} (--ready-fd)", a.job.run.ready_fd);
}

// --auto-resume: for what starts a coordinator again with the same command line.
void ResumeWhatIsThere(CoordinatorArguments* a) {
  std::string& directory = a->job.run.overrides.directory;
  RefuseIf(directory.empty() || !a->job.run.source.resume.empty(),
           "--auto-resume needs --directory, and no --resume");
  if (std::filesystem::exists(std::filesystem::path(directory) / "job.yaml"))
    a->job.run.source.resume = std::exchange(directory, "");
}

// A bucket as the source of a resume.
Status FetchFromBucket(CoordinatorArguments* a) {
  if (!job::IsBucket(a->job.run.source.resume)) return {};
  RefuseIf(a->standby() || a->coordinate.take_over,
           "--resume " + a->job.run.source.resume + " starts the job anew: no other coordinator runs");
  LEAT_RETURN_IF_ERROR(FetchJob(&a->job, [a](const std::string& what) { SayWait(*a, what); }));
  a->coordinate.new_members = true;
  return {};
}

void CheckSources(const CoordinatorArguments& a) {
  const auto& source = a.job.run.source;
  const bool has_directory = !a.job.run.overrides.directory.empty();
  const bool own = a.own_directory();
  RefuseIf(!own && source.file.empty() && source.text.empty() && !a.resume(),
           "coordinator needs a job file, or --resume with the directory of an earlier run");
  RefuseIf(
      own && (!source.file.empty() || !source.text.empty()),
      "--standby needs --resume with the directory of the running job, or --directory with one of its own "
      "and no job file: the coordinator sends the job");
  RefuseIf(
      a.standby() && a.resume() && has_directory,
      "--standby needs either --resume with the directory of the running job, or --directory with one of "
      "its own");
  RefuseIf(!a.resume() && !has_directory,
           "coordinator needs --directory, or --resume with the directory of an earlier run");
}

// Options of the role, without its listeners.
void SetOptions(CoordinatorArguments* a, const launcher::Security& security) {
  roles::CoordinatorOptions& options = a->coordinate;
  const launcher::RunnerOptions& run = a->job.run;
  options.tls = security.tls;
  options.place = PlaceOfProcess(a->job.place);
  options.listen = run.listen;
  options.token = OrThrow(launcher::UserToken());
  options.resume = a->resume();
  RefuseIf(options.take_over && !options.resume,
           "--take-over needs --resume with the directory of the running job");
  // Numbers on the command line or in a job file replace those that `leat scale` had set.
  options.keep_scale =
      options.resume && run.source.file.empty() && run.overrides.workers == 0 && run.overrides.servers == 0;
  options.pause_at = run.pause_at;
}

// Listeners of those who look at the job. They end after the role.
struct Observers {
  MetricsListener metrics;
  DashboardListener page;
};

// --scaler: where KEDA asks how many workers the job wants. Null without an address. Throws
// std::invalid_argument with the option if the address may not, or cannot, be listened on.
std::shared_ptr<control::ScalerServer> ListenForScaler(const launcher::Security& security,
                                                       const std::string& address) {
  if (address.empty()) return nullptr;
  const auto require = [](const Status& status) { ThrowIfError(status.With("--scaler")); };
  require(launcher::CheckListen(security, address));
  auto server = control::ScalerServer::Start(address, security.tls);
  require(server.status());
  return std::move(*server);
}

Observers StartObservers(CoordinatorArguments* a, const launcher::Security& security) {
  roles::CoordinatorOptions& options = a->coordinate;
  ObserverOptions given{.address = a->job.run.metrics,
                        .token = options.token,
                        .security = security,
                        .advertise = options.advertise,
                        .coordinator = a->standby_for};
  Observers made{.metrics = ListenForMetrics("coordinator", given)};
  options.metrics = made.metrics.metrics;
  if (options.metrics != nullptr)
    options.metrics->NotReady(a->standby() ? "it stands by" : "the coordinator starts");
  given.option = "--dashboard";
  given.address = a->job.dashboard.value_or("");
  made.page = ListenForDashboard(given);
  options.monitor = made.page.monitor;
  options.dashboard = made.page.address;
  RefuseIf(options.pool && !a->scaler.empty(),
           "--scaler: a pool starts and ends the job's workers; a job has one executor");
  options.scaler = ListenForScaler(security, a->scaler);
  if (!options.dashboard.empty()) {
    spdlog::info("the page of the job is at {}://{}; leat dashboard --link shows a link with the view token",
                 security.tls != nullptr ? "https" : "http", options.dashboard);
  }
  return made;
}

// Reports of the role while it starts.
void SetReports(CoordinatorArguments* a) {
  a->coordinate.on_wait = [a, metrics = a->coordinate.metrics](const std::string& what) {
    SayWait(*a, what);
    if (metrics != nullptr)
      metrics->NotReady(what.empty() ? "the coordinator starts" : "it waits for its stream or bucket");
  };
  a->coordinate.on_ready = [a](const std::string& address) {
    const Status said = launcher::SayReady(std::exchange(a->job.run.ready_fd, -1), address);
    if (!said.ok()) spdlog::warn("{}", said.message());
  };
}

Status StandBy(CoordinatorArguments* a, const std::function<job::Job()>& load) {
  launcher::RunnerOptions& run = a->job.run;
  const bool own = a->own_directory();
  if (own) run.source.resume = std::exchange(run.overrides.directory, "");  // when it takes over
  return roles::RunStandby({.leader = a->standby_for,
                            .directory = run.source.resume,
                            .own_directory = own,
                            .load = load,
                            .coordinator = a->coordinate});
}

// kAborted: a signal came before the role had started.
Status FindFeed(CoordinatorArguments* a) {
  launcher::RunnerOptions& run = a->job.run;
  roles::CoordinatorOptions& options = a->coordinate;
  LEAT_ASSIGN_OR_RETURN(const roles::FoundFeed found,
                        roles::WaitForFeed(options, job::Job::WithoutFiles(run.source, run.overrides)));
  options.listen = found.listen;
  options.feed = found.address;
  run.overrides.found = found.found;
  ThrowIfError(roles::FetchAssets(options, job::Job::WithoutFiles(run.source, run.overrides)));
  return {};
}

int Coordinator(CoordinatorArguments a) {
  launcher::BlockSignals();
  if (const Status fetched = FetchFromBucket(&a); !fetched.ok()) return PrintOutcome(fetched);
  if (a.demo && !a.resume()) a.job.run.source.text = kDemoJob;
  CheckSources(a);
  if (a.auto_resume) ResumeWhatIsThere(&a);
  const launcher::Security security = a.job.security.Read();
  ThrowIfError(launcher::CheckListen(security, a.job.run.listen));
  SetOptions(&a, security);
  const Observers observers = StartObservers(&a, security);
  SetReports(&a);
  const auto load = [&a, &security] {
    auto job = job::Job::Load(a.job.run.source, a.job.run.overrides);
    ThrowIfError(launcher::CheckJob(security, job));
    if (a.coordinate.pool) ThrowIfError(pool::CheckJob(job));
    return job;
  };
  Status outcome;
  if (a.standby()) {
    outcome = StandBy(&a, load);
  } else {
    if (const Status found = a.wait_for_feed ? FindFeed(&a) : Status(); !found.ok())
      return found.code() == Code::kAborted ? ExitStatus::kDone : PrintOutcome(found);
    outcome = roles::RunCoordinator(load(), a.coordinate);
  }
  if (observers.page.dashboard != nullptr) observers.page.dashboard->Finish(kLastFrame);
  return PrintOutcome(outcome);
}

}  // namespace

void AddCoordinatorCommand(CLI::App& app, int* result) {
  const auto [coordinator, a] =
      AddCommand(app, result, "coordinator", "start the coordinator of a job", Coordinator);
  coordinator->add_option("job", a->job.run.source.file, kJobFile);
  AddJobOptions(coordinator, &a->job, &a->coordinate, "required, except with --resume");
  AddAdvertise(coordinator, &a->coordinate.advertise);
  AddCoordinatorOptions(coordinator, false, &a->coordinate);
  coordinator->add_flag("--demo", a->demo, "run the job of `leat demo`");
  coordinator->add_flag("--wait-for-feed", a->wait_for_feed,
                        "what the job reads is on another host: read it from the first feed that joins");
  coordinator->add_flag(
      "--take-over", a->coordinate.take_over,
      "with --resume: replace a coordinator that may still be alive, and let the members go on");
  coordinator
      ->add_option(
          "--standby", a->standby_for,
          "take over when the coordinator at this address, HOST:PORT, or at any of several with commas "
          "between, does not answer; with --resume and the job's directory, or with --directory and one of "
          "its own, to which the journal and the checkpoints are copied")
      ->excludes("--take-over")
      ->excludes("--pause-at")
      ->excludes("--wait-for-feed");
  coordinator
      ->add_flag("--auto-resume", a->auto_resume,
                 "with --directory: resume the job that the directory has, if it has one")
      ->excludes("--standby")
      ->excludes("--take-over");
  coordinator
      ->add_option(
          "--scaler", a->scaler,
          "address for KEDA's operator, which asks how many workers the job wants; port 0: any free port")
      ->type_name("HOST:PORT")
      ->excludes("--standby");
  coordinator->add_flag(
      "--new-members", a->coordinate.new_members,
      "with --resume: no process of the job is alive any more, so ask nobody whether another "
      "coordinator has taken over");
  AddDescriptors(coordinator, &a->job.run.ready_fd);
  coordinator->add_flag("--pool", a->coordinate.pool, "an agent of a pool has started it")->group("");
}

}  // namespace leat
