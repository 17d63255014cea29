// The commands of the `leat` program: the only place where concrete parts are wired together.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/config/config.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "net/rpc/client.h"
#include "cli/demo/demo_job.h"
#include "job/bucket.h"
#include "job/worker_range.h"
#include "cli/demo/kafka_demo.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "run/launcher/admin.h"
#include "run/launcher/runner.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "run/launcher/start/await_healing.h"
#include "run/launcher/start/ready.h"
#include "run/launcher/token.h"
#include "cli/leat.h"
#include "net/address.h"
#include "show/http/view_token.h"
#include "cli/observer_listener.h"
#include "compute/ops/fuse.h"
#include "run/pool/job_check.h"
#include "show/report/display.h"
#include "run/roles/bots_role.h"
#include "run/roles/coordinator_role.h"
#include "run/roles/feed/feed_role.h"
#include "run/roles/feed/wait_for_feed.h"
#include "run/roles/role.h"
#include "run/roles/server_role.h"
#include "run/roles/standby/standby.h"
#include "run/roles/worker_role.h"
#include "cli/scaler_listener.h"

namespace leat {

engine::PlanOptions Kernels() {
  engine::PlanOptions options;
  options.tables = {&cpu::Table(), &reference::Kernels()};
  options.passes = ops::StandardPasses();
  return options;
}

namespace {

// The token for a command that cannot do without.
std::string Token() {
  return OrThrow(launcher::UserToken());
}

// Allows as many descriptors as the system does. Each member costs the coordinator two.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Refuses an address space in which not all threads could be started: gRPC would wait for them for ever.
void CheckAddressSpace() {
  constexpr uint64_t kMb = 1000 * 1000;
  const uint64_t needed = (750 + 125 * std::max(1u, std::thread::hardware_concurrency())) * kMb;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed)
    return;
  throw std::invalid_argument("the address space of a process is limited to " +
                              std::to_string(limit.rlim_cur / kMb) + " MB; at least " +
                              std::to_string(needed / kMb) + " MB are needed here (ulimit -v)");
}

// Prints an error as one line on stderr and returns the exit status.
int Report(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "leat: %s\n", status.message().c_str());
  return ExitStatusOf(status.code());
}

struct Arguments {
  // Options that `leat train` and `leat coordinator` pass on; other commands share some of them.
  launcher::RunnerOptions run{.metrics = MetricsVariable()};
  roles::CoordinatorOptions coordinate;
  bool demo = false;
  bool on_kafka = false;  // the demo
  std::string brokers;    // brokers of an existing Kafka cluster for it
  std::string coordinator;
  SecurityOptions security;
  std::string scratch;
  topology::PlaceSettings place;
  double rate = -1;
  bool discard = false;
  bool wait_for_feed = false;
  bool auto_resume = false;
  std::string scaler;       // HOST:PORT
  std::string standby_for;  // addresses of the coordinator
  bool standby = false;
  std::optional<std::string> dashboard;  // HOST:PORT
  // Arguments of `leat scale` and `leat drain`.
  std::string workers;
  std::optional<uint32_t> servers;
  std::vector<std::string> member;
  // Arguments of `leat timeline`.
  double seconds = 5;
  std::string out = "trace.json";
};

void AddMetrics(CLI::App* app, Arguments* a, const std::string& what) {
  app->add_option("--metrics", a->run.metrics, what)->type_name("HOST:PORT");
}

void AddDashboard(CLI::App* app, Arguments* a) {
  app->add_option_function<std::vector<std::string>>(
         "--dashboard",
         [a](const std::vector<std::string>& given) {
           a->dashboard = given.empty() || given[0].empty() ? "127.0.0.1:0" : given[0];
           if (net::ParseAddress(*a->dashboard).ok()) return;
           throw CLI::ValidationError("--dashboard", "'" + *a->dashboard +
                                                         "' is no address HOST:PORT (a job file goes before "
                                                         "--dashboard)");
         },
         "show the job in a browser, at this address (default: 127.0.0.1 and any free port)")
      ->type_name("[HOST:PORT]")
      ->expected(0, 1);
}

void AddJobOptions(CLI::App* app, Arguments* a, const std::string& directory_default) {
  AddData(app, &a->run.overrides.data);
  app->add_option_function<std::string>(
         "--workers",
         [a](const std::string& text) {
           const auto workers = job::ParseWorkerRange(text);
           if (!workers.ok()) throw CLI::ValidationError("--workers", workers.status().message());
           a->run.overrides.workers = workers->least;
           a->run.overrides.max_workers = workers->most;
         },
         "number of worker processes, or a range for the autoscaler, MIN:MAX (default: the job's)")
      ->type_name("N|MIN:MAX");
  app->add_option("--ps", a->run.overrides.servers, "number of parameter servers (default, or 0: the job's)")
      ->check(CLI::Range(0u, 1000u));
  app->add_option("--directory", a->run.overrides.directory,
                  "directory for checkpoints, journal and logs (" + directory_default + ")");
  app->add_option(
      "--resume", a->run.source.resume,
      "resume from the newest checkpoint in this job directory, or, into an empty --directory, in "
      "s3://BUCKET/PREFIX");
  app->add_option("--rate", a->rate,
                  "events per second that the bots publish; 0: no limit (default: the job's)")
      ->check(CLI::Range(0.0, 1e9));
  app->add_option("--events", a->run.overrides.events,
                  "number of events that the bots publish (default: the job's)");
  app->add_option("--pause-at", a->run.pause_at, "pause after this many events, until `leat continue`");
  auto* tensorboard = app->add_option(
      "--tensorboard", a->run.tensorboard,
      "directory for TensorBoard: the run, named as the job's directory, is written below it");
  app->add_flag("--tensorboard-gradients", a->run.tensorboard_gradients,
                "with the distribution of each variable's gradient")
      ->needs(tensorboard);
  app->add_option("--listen", a->run.listen, "address that the coordinator listens on; port 0: any free port")
      ->capture_default_str();
  AddMetrics(app, a,
             "address for Prometheus: the coordinator's /metrics, /healthz, /readyz, and all roles at "
             "/targets; port 0: any free port");
  AddDashboard(app, a);
  AddSecurity(app, &a->security);
  AddPlaceOptions(app, &a->place);
}

constexpr const char* kNewDirectory = "default: a new directory in leat-jobs/";
constexpr const char* kJobFile = "job file (YAML); not needed with --resume";
constexpr const char* kJsonResult =
    "print the result as one JSON object on stdout, and the progress on stderr";

// Says what a resumed job waits for, also to the process that has started this one.
void SayWait(const Arguments& a, const std::string& what) {
  what.empty() ? spdlog::info("nothing is waited for any more") : spdlog::warn("waits for {}", what);
  const std::string line = launcher::WaitsLine(what);
  if (a.run.ready_fd >= 0 && write(a.run.ready_fd, line.data(), line.size()) < 0)
    spdlog::warn("cannot write to file descriptor {} (--ready-fd)", a.run.ready_fd);
}

// A job that is resumed from a bucket goes on in --directory. kAborted: a signal came while the bucket was
// away.
Status FetchJob(Arguments* a, const std::function<void(const std::string&)>& on_wait) {
  if (!job::IsBucket(a->run.source.resume)) return {};
  launcher::BlockSignals();
  // A fetch that was interrupted goes on next time, and nothing ends one that takes an hour but this.
  const auto end = [] { _exit(ExitStatus::kInterrupted); };
  LEAT_RETURN_IF_ERROR(launcher::AwaitHealing({.on_wait = on_wait, .on_signal = end}, [a] {
    job::FetchFromBucket(a->run.source.resume, a->run.source.file, a->run.overrides.directory);
    return Status();
  }));
  a->run.source.resume = std::exchange(a->run.overrides.directory, "");
  return {};
}

int Train(Arguments a) {
  const Status fetched = FetchJob(&a, [](const std::string& what) {
    std::fprintf(stderr, "%s\n", what.empty() ? "the bucket answers" : ("waiting for " + what).c_str());
  });
  if (!fetched.ok()) return Report(fetched);
  if (a.rate >= 0) a.run.overrides.rate = a.rate;
  launcher::RunnerOptions& options = a.run;
  if (a.demo && a.run.source.resume.empty()) options.source.text = kDemoJob;
  if (a.demo) options.source_arguments = {"--demo"};
  if (!a.run.source.file.empty()) options.source_arguments = {a.run.source.file};
  if (options.source.file.empty() && options.source.text.empty() && options.source.resume.empty()) {
    throw std::invalid_argument("train needs a job file, or --resume with the directory of an earlier run");
  }
  options.plan = Kernels();
  options.security = a.security.Read();
  options.place = PlaceOfProcess(a.place);
  options.dashboard = a.dashboard.value_or("");
  options.dashboard_link = [tls = options.security.tls != nullptr](const std::string& address,
                                                                   const std::string& job_token) {
    return observe::DashboardLink(address, tls, observe::ViewToken(job_token));
  };
  auto token = launcher::UserToken();
  if (token.ok()) {
    options.token = std::move(token).value();
  } else if (token.status().code() != Code::kNotFound || !a.run.metrics.empty()) {
    Throw(token.status());
  }  // otherwise the job gets a random token that only its own processes know
  return launcher::RunLocally(options);
}

int Demo(Arguments a) {
  if (!a.on_kafka) return Train(a);
  const KafkaDemo kafka(a.brokers);
  a.demo = false;
  a.run.source.file = kafka.job_file();
  return Train(a);
}

// --auto-resume: for what starts a coordinator again with the same command line.
void ResumeWhatIsThere(Arguments* a) {
  std::string& directory = a->run.overrides.directory;
  if (directory.empty() || !a->run.source.resume.empty())
    throw std::invalid_argument("--auto-resume needs --directory, and no --resume");
  if (std::filesystem::exists(std::filesystem::path(directory) / "job.yaml"))
    a->run.source.resume = std::exchange(directory, "");
}

int Coordinator(Arguments a) {
  launcher::BlockSignals();
  if (job::IsBucket(a.run.source.resume)) {
    if (!a.standby_for.empty() || a.coordinate.take_over)
      throw std::invalid_argument("--resume " + a.run.source.resume +
                                  " starts the job anew: no other coordinator runs");
    if (const Status fetched = FetchJob(&a, [&a](const std::string& what) { SayWait(a, what); });
        !fetched.ok())
      return Report(fetched);
    a.coordinate.new_members = true;
  }
  if (a.rate >= 0) a.run.overrides.rate = a.rate;
  if (a.demo && a.run.source.resume.empty()) a.run.source.text = kDemoJob;
  // A standby with a directory of its own gets the job from the coordinator.
  const bool own =
      !a.standby_for.empty() && a.run.source.resume.empty() && !a.run.overrides.directory.empty();
  if (!own && a.run.source.file.empty() && a.run.source.text.empty() && a.run.source.resume.empty()) {
    throw std::invalid_argument(
        "coordinator needs a job file, or --resume with the directory of an earlier run");
  }
  if (own && (!a.run.source.file.empty() || !a.run.source.text.empty())) {
    throw std::invalid_argument(
        "--standby needs --resume with the directory of the running job, or --directory with one of its own "
        "and no job file: the coordinator sends the job");
  }
  if (!a.standby_for.empty() && !a.run.source.resume.empty() && !a.run.overrides.directory.empty()) {
    throw std::invalid_argument(
        "--standby needs either --resume with the directory of the running job, or --directory with one of "
        "its own");
  }
  if (a.run.source.resume.empty() && a.run.overrides.directory.empty()) {
    throw std::invalid_argument(
        "coordinator needs --directory, or --resume with the directory of an earlier run");
  }
  if (a.auto_resume) ResumeWhatIsThere(&a);
  const launcher::Security security = a.security.Read();
  ThrowIfError(launcher::CheckListen(security, a.run.listen));
  roles::CoordinatorOptions& options = a.coordinate;
  options.tls = security.tls;
  options.place = PlaceOfProcess(a.place);
  options.listen = a.run.listen;
  options.token = Token();
  options.resume = !a.run.source.resume.empty();
  if (a.coordinate.take_over && !options.resume) {
    throw std::invalid_argument("--take-over needs --resume with the directory of the running job");
  }
  if (!a.standby_for.empty() && !options.resume && !own) {
    throw std::invalid_argument(
        "--standby needs --resume with the directory of the running job, or --directory with one of its own");
  }
  // Numbers on the command line or in a job file replace those that `leat scale` had set.
  options.keep_scale = options.resume && a.run.source.file.empty() && a.run.overrides.workers == 0 &&
                       a.run.overrides.servers == 0;
  options.pause_at = a.run.pause_at;
  options.tensorboard = a.run.tensorboard;
  options.tensorboard_gradients = a.run.tensorboard_gradients;
  const MetricsListener metrics = ListenForMetrics("coordinator", {.address = a.run.metrics,
                                                                   .token = options.token,
                                                                   .security = security,
                                                                   .advertise = a.coordinate.advertise,
                                                                   .coordinator = a.standby_for});
  options.metrics = metrics.metrics;
  if (metrics.metrics != nullptr)
    metrics.metrics->NotReady(a.standby_for.empty() ? "the coordinator starts" : "it stands by");
  const DashboardListener page = ListenForDashboard({.option = "--dashboard",
                                                     .address = a.dashboard.value_or(""),
                                                     .token = options.token,
                                                     .security = security,
                                                     .advertise = a.coordinate.advertise,
                                                     .coordinator = a.standby_for});
  options.monitor = page.monitor;
  options.dashboard = page.address;
  if (a.coordinate.pool && !a.scaler.empty())
    throw std::invalid_argument("--scaler: a pool starts and ends the job's workers; a job has one executor");
  options.scaler = ListenForScaler(security, a.scaler);
  if (!page.address.empty()) {
    spdlog::info("the page of the job is at {}://{}; leat dashboard --link shows a link with the view token",
                 security.tls != nullptr ? "https" : "http", page.address);
  }
  options.on_wait = [&a, metrics = metrics.metrics](const std::string& what) {
    SayWait(a, what);
    if (metrics != nullptr)
      metrics->NotReady(what.empty() ? "the coordinator starts" : "it waits for its stream or bucket");
  };
  options.on_ready = [&a](const std::string& address) {
    const Status said = launcher::SayReady(std::exchange(a.run.ready_fd, -1), address);
    if (!said.ok()) spdlog::warn("{}", said.message());
  };
  const auto load = [&a, &security] {
    auto job = job::Job::Load(a.run.source, a.run.overrides);
    ThrowIfError(launcher::CheckJob(security, job));
    if (a.coordinate.pool) ThrowIfError(pool::CheckJob(job));
    return job;
  };
  Status outcome;
  if (own) {
    const std::string directory = std::exchange(a.run.overrides.directory, "");
    a.run.source.resume = directory;  // when it takes over
    outcome = roles::RunStandby({a.standby_for, directory, true, load, options});
  } else if (!a.standby_for.empty()) {
    outcome = roles::RunStandby({a.standby_for, a.run.source.resume, false, load, options});
  } else {
    if (a.wait_for_feed) {
      const auto found = roles::WaitForFeed(options, job::Job::WithoutFiles(a.run.source, a.run.overrides));
      if (found.status().code() == Code::kAborted) return ExitStatus::kDone;
      if (!found.ok()) return Report(found.status());
      options.listen = found->listen;
      options.feed = found->address;
      a.run.overrides.found = found->found;
      ThrowIfError(roles::FetchAssets(options, job::Job::WithoutFiles(a.run.source, a.run.overrides)));
    }
    outcome = roles::RunCoordinator(load(), options);
  }
  page.Finish();
  return Report(outcome);
}

// `name`: of the role. Its listener ends after the role.
roles::RoleOptions Role(const Arguments& a, const std::string& name, MetricsListener* metrics) {
  launcher::BlockSignals();
  roles::RoleOptions options;
  options.coordinator_client.coordinator = a.coordinator;
  options.coordinator_client.token = Token();
  const launcher::Security security = a.security.Read();
  ThrowIfError(launcher::CheckListen(security, a.run.listen));
  options.coordinator_client.tls = security.tls;
  options.coordinator_client.data = a.run.overrides.data;
  options.coordinator_client.place = PlaceOfProcess(a.place);
  *metrics = ListenForMetrics(name, {.address = a.run.metrics,
                                     .token = options.coordinator_client.token,
                                     .security = security,
                                     .advertise = a.coordinate.advertise,
                                     .coordinator = a.coordinator});
  options.coordinator_client.metrics = metrics->metrics;
  options.listen = a.run.listen;
  options.advertise = a.coordinate.advertise;
  options.coordinator_client.scratch = a.scratch;
  options.standby = a.standby;
  options.plan = Kernels();
  if (a.rate >= 0) options.rate = a.rate;
  return options;
}

std::unique_ptr<control::ControlClient> Client(const Arguments& a) {
  return control::ControlClient::Make(a.coordinator, Token(), a.security.Read().tls);
}

int ShowStatus(const Arguments& a) {
  const auto client = Client(a);
  auto reply = client->Call(protocol::StatusRequest{}, std::chrono::seconds(5));
  if (!reply.ok()) return Report(reply.status());
  const auto* status = std::get_if<protocol::StatusReply>(&*reply);
  if (status == nullptr) return Report({Code::kInternal, "the coordinator sent a reply of the wrong type"});
  if (a.run.json) {
    std::printf("%s\n", status->json.c_str());
  } else {
    const auto shown = report::StatusFromJson(status->json);
    if (!shown.ok()) return Report(shown.status());
    for (const auto& line : report::RenderTable(*shown, {}, 100, false)) std::printf("%s\n", line.c_str());
  }
  return 0;
}

int Admin(const Arguments& a, const protocol::AdminRequest& request) {
  const auto client = Client(a);
  return Report(launcher::RunAdmin(*client, request, stderr));
}

int Timeline(const Arguments& a) {
  const auto client = Client(a);
  return Report(RecordTimeline(*client, a.seconds, a.out));
}

int Scale(const Arguments& a) {
  protocol::AdminRequest request{.kind = protocol::AdminRequest::Kind::kScale};
  if (a.workers.empty() && !a.servers)
    throw std::invalid_argument("scale needs --workers, --ps, or both: how many are wanted");
  if (!a.workers.empty()) {
    const auto workers = job::ParseWorkerRange(a.workers);
    if (!workers.ok()) Throw(workers.status().With("--workers"));
    request.workers = *workers;
  }
  request.servers = a.servers;
  return Admin(a, request);
}

int Drain(const Arguments& a) {
  std::string name;
  for (const std::string& word : a.member) name += (name.empty() ? "" : " ") + word;
  const auto request = launcher::DrainRequest(name);
  ThrowIfError(request.status());
  return Admin(a, *request);
}

// Output of `leat` without arguments: the first commands to try.
constexpr const char* kFirstSteps =
    "Leat trains neural networks on live event streams.\n"
    "\n"
    "  leat demo             try it: train a fraud detector on simulated payments, on this machine\n"
    "  leat schema FILE      your own data: propose a job's schema for a CSV or JSON-lines file\n"
    "  leat train job.yaml   run a job on this machine\n"
    "  leat --help           list all commands\n";

// `result` is set to the exit status of the command.
void AddJobCommands(CLI::App& app, Arguments& a, int& result) {
  auto* demo = app.add_subcommand("demo", "train a fraud detector on simulated payments, on this machine");
  AddJobOptions(demo, &a, kNewDirectory);
  demo->add_flag("--json", a.run.json, kJsonResult);
  auto* kafka =
      demo->add_option("--kafka", a.brokers,
                       "with the events in Kafka: in a broker that tools/kafka starts for the demo, or "
                       "in a running cluster, HOST:PORT,HOST:PORT")
          ->expected(0, 1)
          ->excludes("--resume");
  demo->callback([&a, &result, kafka] {
    a.demo = true;
    a.on_kafka = kafka->count() > 0;
    result = Demo(a);
  });

  auto* train = app.add_subcommand("train", "run a job on this machine, with one process per role");
  train->add_option("job", a.run.source.file, kJobFile);
  AddJobOptions(train, &a, kNewDirectory);
  train->add_flag("--json", a.run.json, kJsonResult);
  train->add_option("--ready-fd", a.run.ready_fd, "file descriptor to write the coordinator's address to")
      ->group("");
  train
      ->add_option("--life-fd", a.run.life_fd,
                   "pipe whose other end the caller holds as long as it wants the job")
      ->group("");
  train->callback([&] { result = Train(a); });
}

void AddAdvertise(CLI::App* app, Arguments& a) {
  app->add_option("--advertise", a.coordinate.advertise,
                  "address that others use instead of --listen's, HOST or HOST:PORT (default: --listen's)");
}

constexpr const char* kCoordinatorAddress =
    "address of the coordinator, HOST:PORT, or several with commas between, if it may be restarted at "
    "another";

void AddRoleCommands(CLI::App& app, Arguments& a, int& result) {
  auto* coordinator = app.add_subcommand("coordinator", "start the coordinator of a job");
  coordinator->add_option("job", a.run.source.file, kJobFile);
  AddJobOptions(coordinator, &a, "required, except with --resume");
  AddAdvertise(coordinator, a);
  coordinator->add_option("--transfer-port", a.coordinate.transfer_port,
                          "port on --listen's host for checkpoints of other hosts; 0: any free port");
  coordinator->add_option("--feed-port", a.coordinate.feed_port,
                          "port on --listen's host of the coordinator's feed; 0: any free port");
  coordinator->add_flag("--demo", a.demo, "run the job of `leat demo`");
  coordinator->add_flag("--wait-for-feed", a.wait_for_feed,
                        "what the job reads is on another host: read it from the first feed that joins");
  coordinator->add_flag(
      "--take-over", a.coordinate.take_over,
      "with --resume: replace a coordinator that may still be alive, and let the members go on");
  coordinator
      ->add_option(
          "--standby", a.standby_for,
          "take over when the coordinator at this address, HOST:PORT, or at any of several with commas "
          "between, does not answer; with --resume and the job's directory, or with --directory and one of "
          "its own, to which the journal and the checkpoints are copied")
      ->excludes("--take-over")
      ->excludes("--pause-at")
      ->excludes("--wait-for-feed");
  coordinator
      ->add_flag("--auto-resume", a.auto_resume,
                 "with --directory: resume the job that the directory has, if it has one")
      ->excludes("--standby")
      ->excludes("--take-over");
  coordinator
      ->add_option(
          "--scaler", a.scaler,
          "address for KEDA's operator, which asks how many workers the job wants; port 0: any free port")
      ->type_name("HOST:PORT")
      ->excludes("--standby");
  coordinator->add_flag(
      "--new-members", a.coordinate.new_members,
      "with --resume: no process of the job is alive any more, so ask nobody whether another "
      "coordinator has taken over");
  coordinator->add_option("--ready-fd", a.run.ready_fd, "file descriptor to write the address to")->group("");
  coordinator->add_flag("--pool", a.coordinate.pool, "an agent of a pool has started it")->group("");
  coordinator->callback([&] { result = Coordinator(a); });

  const auto add_role = [&](const char* name, const char* what, Status (*run)(const roles::RoleOptions&),
                            const char* listens) {
    auto* role = app.add_subcommand(name, what);
    role->add_option("--coordinator", a.coordinator, kCoordinatorAddress)->required();
    AddSecurity(role, &a.security);
    AddPlaceOptions(role, &a.place);
    if (listens != nullptr) {
      role->add_option("--listen", a.run.listen, listens)->capture_default_str();
      AddAdvertise(role, a);
    }
    role->add_option("--scratch", a.scratch,
                     "where checkpoints wait for their transfer, if this host does not see the job's "
                     "directory, and where copies of ONNX files from a feed are (default: $TMPDIR)");
    AddMetrics(role, &a, "address for Prometheus: /metrics, /healthz, /readyz; port 0: any free port");
    role->callback([&a, &result, run, name = std::string(name)] {
      MetricsListener metrics;
      result = Report(run(Role(a, name, &metrics)));
    });
    return role;
  };
  const auto add_data = [&](CLI::App* role) {
    AddData(role, &a.run.overrides.data,
            "directory of this host's copies of the job's input files (default: the job's --data)");
  };
  add_data(add_role("ps", "start a parameter server", roles::RunServer,
                    "address that workers connect to; port 0: any free port"));
  auto* worker = add_role("worker", "start a worker", roles::RunWorker,
                          "address that other workers connect to (all-reduce jobs); port 0: any free port");
  worker->add_flag("--standby", a.standby,
                   "get no work until another worker dies or leaves, and take its place");
  add_data(worker);
  add_data(add_role("feed", "serve the job's stream to workers on hosts that do not have it", roles::RunFeed,
                    "address that workers connect to; port 0: any free port"));
  add_role("bots", "start simulated customers that publish the job's events", roles::RunBots, nullptr)
      ->add_option("--rate", a.rate, "events per second; 0: no limit (default: the job's)")
      ->check(CLI::Range(0.0, 1e9));
}

// Commands for a running job.
void AddAdminCommands(CLI::App& app, Arguments& a, int& result) {
  const auto add = [&](const char* name, const char* what, std::function<int()> run) {
    auto* command = app.add_subcommand(name, what);
    command->add_option("--coordinator", a.coordinator, kCoordinatorAddress)->required();
    AddSecurity(command, &a.security);
    command->callback([&result, run = std::move(run)] { result = run(); });
    return command;
  };
  using Kind = protocol::AdminRequest::Kind;
  add("status", "show the progress of a running job", [&a] {
    return ShowStatus(a);
  })->add_flag("--json", a.run.json, "print one JSON object");
  auto* timeline = add("timeline", "record what the processes of a running job do, as a trace for Perfetto",
                       [&a] { return Timeline(a); });
  timeline->add_option("--seconds", a.seconds, "time to record")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 60.0));
  timeline->add_option("--out", a.out, "file to write: a Chrome trace, in JSON")->capture_default_str();
  add("checkpoint", "write a checkpoint of a running job",
      [&a] { return Admin(a, {.kind = Kind::kCheckpoint}); });
  auto* scale =
      add("scale", "set how many workers and servers a running job wants", [&a] { return Scale(a); });
  scale
      ->add_option("--workers", a.workers,
                   "number of workers, or a range for the autoscaler (default: as before)")
      ->type_name("N|MIN:MAX");
  scale->add_option("--ps", a.servers, "number of parameter servers (default: as before)");
  add("drain", "let a member of a running job hand over what it has, and leave", [&a] { return Drain(a); })
      ->add_option("member", a.member, "as `leat status` names it: worker 3, ps 1")
      ->required()
      ->expected(1, 2);
  add("pause", "let a running job finish what it has begun, and wait",
      [&a] { return Admin(a, {.kind = Kind::kPause}); });
  add("continue", "continue a job that has paused, by leat pause or at --pause-at",
      [&a] { return Admin(a, {.kind = Kind::kContinue}); });
  add("stop", "write a checkpoint of a running job and end it",
      [&a] { return Admin(a, {.kind = a.discard ? Kind::kDiscard : Kind::kStop}); })
      ->add_flag("--discard", a.discard,
                 "do not write the checkpoint: what was trained since the last one is lost");
}

// CLI11 reports an unknown command without a suggestion.
void CheckCommand(const CLI::App& app, std::string_view word) {
  if (word.empty() || word.front() == '-') return;
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(command->get_name());
  }
  if (std::ranges::find(known, word) != known.end()) return;
  const std::string nearest = Nearest(word, known);
  throw std::invalid_argument("unknown command '" + std::string(word) + "'" +
                              (nearest.empty() ? "; see leat --help" : "; did you mean '" + nearest + "'?"));
}

// An empty text is a shell's variable that is not set, as in --resume "$DIR"; NaN passes every range.
void CheckValues(CLI::App* app) {
  for (CLI::App* command : app->get_subcommands([](CLI::App*) { return true; })) CheckValues(command);
  for (CLI::Option* option : app->get_options()) {
    const bool number = option->get_type_name().find("FLOAT") != std::string::npos;
    option->check([number](const std::string& text) -> std::string {
      if (text.empty()) return "its value is empty";
      return number && std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is not a number" : "";
    });
  }
}

// Printed text may not have arrived: a full disk, a closed descriptor.
int FlushOutput() {
  errno = 0;
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (written) return ExitStatus::kDone;
  // The reason of an earlier failure is not on record; another attempt fails for the same one.
  if (errno == 0) (void)!write(STDOUT_FILENO, "\n", 1);
  const int error = errno != 0 ? errno : EIO;
  std::fprintf(stderr, "leat: standard output: %s\n", std::strerror(error));
  const int status = ExitStatusOf(CodeOfErrno(error));
  return status == ExitStatus::kBadInput ? ExitStatus::kFailed : status;
}

int Run(int argc, char** argv) {
  if (argc == 1) {
    std::fputs(kFirstSteps, stdout);
    return 0;
  }

  CheckAddressSpace();
  CLI::App app{"Leat trains neural networks on live event streams."};
  app.set_version_flag("--version", roles::ProgramVersion());
  app.require_subcommand(1);
  Arguments a;
  int result = 0;
  AddJobCommands(app, a, result);
  AddRoleCommands(app, a, result);
  AddAdminCommands(app, a, result);
  AddAdviseCommand(app, &result);
  AddCalibrateCommand(app, &result);
  AddCertCommand(app, &result);
  AddDashboardCommand(app, &result);
  AddDevicesCommand(app, &result);
  AddGraphCommand(app, &result);
  AddHealthCommand(app, &result);
  AddExportCommand(app, &result);
  AddLogCommand(app, &result);
  AddPeekCommand(app, &result);
  AddPoolCommands(app, &result);
  AddPublishCommand(app, &result);
  AddSchemaCommand(app, &result);
  AddServeCommand(app, &result);
  AddSimulateCommand(app, &result);
  AddSoakCommand(app, &result);
  AddStudyCommand(app, &result);
  AddViewTokenCommand(app, &result);
  CheckCommand(app, argv[1]);
  CheckValues(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "leat: %s\n", e.what());
    return ExitStatus::kBadInput;
  }
  return result;
}

}  // namespace

int Main(int argc, char** argv, Extensions extensions) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("leat"));
  RaiseDescriptorLimit();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error of its write
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  int result = ExitStatus::kDone;
  try {
    job::UseExtensions(std::move(extensions));
    result = Run(argc, argv);
  } catch (const std::exception& e) {
    result = Report(StatusOf(e));
  }
  const int flushed = FlushOutput();
  return result == ExitStatus::kDone ? flushed : result;
}

}  // namespace leat
