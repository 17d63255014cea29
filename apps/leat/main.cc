// The `leat` program: the only place where concrete parts are wired together.
#include <pwd.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "commands.h"
#include "control/control.h"
#include "demo_job.h"
#include "kernels/cpu/table.h"
#include "kernels/reference/reference.h"
#include "launcher/runner.h"
#include "launcher/signals.h"
#include "ops/fuse.h"
#include "report/display.h"
#include "roles/bots_role.h"
#include "roles/coordinator_role.h"
#include "roles/role.h"
#include "roles/server_role.h"
#include "roles/worker_role.h"

namespace leat {

engine::PlanOptions Kernels() {
  engine::PlanOptions options;
  options.tables = {&onednn::Table(), &reference::Kernels()};
  options.passes = ops::StandardPasses();
  return options;
}

namespace {

constexpr int kBadInput = 2;

// The secret that roles of a job show each other: $LEAT_TOKEN, else ~/.config/leat/token, which is made when
// it is not there. Machines of a cluster need the same file, or the same variable.
std::string Token() {
  if (const char* token = std::getenv("LEAT_TOKEN"); token != nullptr && *token != '\0') return token;
  const char* home = std::getenv("HOME");
  if (home == nullptr) {
    const passwd* user = getpwuid(getuid());
    home = user != nullptr ? user->pw_dir : "/tmp";
  }
  const std::filesystem::path path = std::filesystem::path(home) / ".config/leat/token";
  const auto read = [&path] {
    std::ifstream in(path);
    std::string token;
    std::getline(in, token);
    return token;
  };
  if (std::string token = read(); !token.empty()) return token;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::random_device random;
  std::string token;
  for (int i = 0; i < 32; ++i) token += "0123456789abcdef"[random() % 16];
  const mode_t old = umask(0077);
  std::ofstream(path) << token << "\n";
  umask(old);
  if (std::string kept = read(); !kept.empty()) return kept;
  throw std::invalid_argument("cannot write " + path.string() + "; set LEAT_TOKEN instead");
}

// That goes with an error.
int ExitStatus(const Status& status) {
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kPermissionDenied:
    case Code::kDataLoss:
    case Code::kFailedPrecondition:
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kResourceExhausted:
      return kBadInput;
    default:
      return 1;
  }
}

// One line on stderr that begins with "leat: ", and the exit status.
int Report(const Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "leat: %s\n", status.message().c_str());
  return ExitStatus(status);
}

struct Arguments {
  train::JobSource source;
  train::JobOverrides overrides;
  bool demo = false;
  bool json = false;
  std::string listen = "127.0.0.1:0";
  std::string coordinator;
  int ready_fd = -1;
  double rate = -1;
  uint64_t pause_at = 0;
};

void AddJobOptions(CLI::App* app, Arguments* a) {
  app->add_option("--data", a->overrides.data, "directory that the job's files are looked up in")
      ->check(CLI::ExistingDirectory);
  app->add_option("--workers", a->overrides.workers, "worker processes")->check(CLI::Range(1u, 10'000u));
  app->add_option("--ps", a->overrides.servers, "parameter servers; 0: as the job says")
      ->check(CLI::Range(0u, 1000u));
  app->add_option("--directory", a->overrides.directory,
                  "of the job: checkpoints, journal, log (default: a new one below leat-jobs/)");
  app->add_option("--resume", a->source.resume, "go on from the newest checkpoint in this job's directory");
  app->add_option("--rate", a->rate, "events a second that bots publish, 0 = as fast as it goes")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--events", a->overrides.events, "events that bots publish");
  app->add_option("--pause-at", a->pause_at, "pause after this many events, until `leat continue`");
  app->add_option("--listen", a->listen, "address of the coordinator, port 0 = any that is free")
      ->capture_default_str();
}

int Train(Arguments a) {
  if (a.rate >= 0) a.overrides.rate = a.rate;
  train::RunnerOptions options;
  options.source = a.source;
  if (a.demo && a.source.resume.empty()) options.source.text = kDemoJob;
  if (a.demo) options.source_arguments = {"--demo"};
  if (!a.source.file.empty()) options.source_arguments = {a.source.file};
  if (options.source.file.empty() && options.source.text.empty() && options.source.resume.empty()) {
    throw std::invalid_argument("train needs a job file, or --resume with the directory of an earlier run");
  }
  options.overrides = a.overrides;
  options.json = a.json;
  options.listen = a.listen;
  options.pause_at = a.pause_at;
  options.plan = Kernels();
  return train::RunLocally(options);
}

int Coordinator(Arguments a) {
  train::BlockSignals();
  if (a.rate >= 0) a.overrides.rate = a.rate;
  if (a.demo && a.source.resume.empty()) a.source.text = kDemoJob;
  if (a.source.file.empty() && a.source.text.empty() && a.source.resume.empty()) {
    throw std::invalid_argument(
        "coordinator needs a job file, or --resume with the directory of an earlier run");
  }
  if (a.source.resume.empty() && a.overrides.directory.empty()) {
    throw std::invalid_argument(
        "coordinator needs --directory, or --resume with the directory of an earlier run");
  }
  const auto job = train::Job::Load(a.source, a.overrides);
  train::CoordinatorOptions options;
  options.listen = a.listen;
  options.token = Token();
  options.resume = !a.source.resume.empty();
  options.pause_at = a.pause_at;
  options.on_ready = [&a](const std::string& address) {
    if (a.ready_fd < 0) return;
    const std::string line = address + "\n";
    if (write(a.ready_fd, line.data(), line.size()) < 0) spdlog::warn("nobody reads the address");
    close(a.ready_fd);
  };
  return Report(train::RunCoordinator(job, options));
}

train::RoleOptions Role(const Arguments& a) {
  train::BlockSignals();
  train::RoleOptions options;
  options.coordinator_client.coordinator = a.coordinator;
  options.coordinator_client.token = Token();
  options.listen = a.listen;
  options.plan = Kernels();
  options.exit_status = ExitStatus;
  return options;
}

int ShowStatus(const Arguments& a) {
  auto client = control::ControlClient::Make(a.coordinator, Token());
  auto reply = client->Call(protocol::StatusRequest{}, std::chrono::seconds(5));
  if (!reply.ok()) return Report(reply.status());
  const auto* status = std::get_if<protocol::StatusReply>(&*reply);
  if (status == nullptr) return Report(Status(Code::kInternal, "the coordinator answered out of turn"));
  if (a.json) {
    std::printf("%s\n", status->json.c_str());
  } else {
    for (const auto& line : train::RenderTable(status->json, {}, 100, false))
      std::printf("%s\n", line.c_str());
  }
  return 0;
}

int Admin(const Arguments& a, protocol::AdminRequest::Kind kind) {
  auto client = control::ControlClient::Make(a.coordinator, Token());
  auto reply = client->Call(protocol::AdminRequest{.kind = kind, .node = {}}, std::chrono::seconds(10));
  if (!reply.ok()) return Report(reply.status());
  const auto* admin = std::get_if<protocol::AdminReply>(&*reply);
  return Report(admin != nullptr ? admin->status
                                 : Status(Code::kInternal, "the coordinator answered out of turn"));
}

// For somebody who has just built the program.
constexpr const char* kFirstSteps =
    "Leat trains neural networks on live event streams.\n"
    "\n"
    "  leat demo             try it: simulated payments train a fraud detector on this machine\n"
    "  leat schema FILE      your own data: propose a job's schema for a CSV or JSON-lines file\n"
    "  leat train job.yaml   run a job on this machine\n"
    "  leat --help           list all commands\n";

int Run(int argc, char** argv) {
  if (argc == 1) {
    std::fputs(kFirstSteps, stdout);
    return 0;
  }

  CLI::App app{"Leat: neural networks that learn from a live stream of events"};
  app.set_version_flag("--version", train::ProgramVersion());
  app.require_subcommand(1);
  Arguments a;
  int result = 0;

  auto* demo = app.add_subcommand("demo", "simulated payments train a fraud detector on this machine");
  AddJobOptions(demo, &a);
  demo->add_flag("--json", a.json, "one JSON object as the last line");
  demo->callback([&] {
    a.demo = true;
    result = Train(a);
  });

  auto* train = app.add_subcommand("train", "run a job on this machine, every role a process of its own");
  train->add_option("job", a.source.file, "job file (YAML)");
  AddJobOptions(train, &a);
  train->add_flag("--json", a.json, "one JSON object as the last line");
  train->callback([&] { result = Train(a); });

  auto* coordinator = app.add_subcommand("coordinator", "the coordinator of a job");
  coordinator->add_option("job", a.source.file, "job file (YAML)");
  AddJobOptions(coordinator, &a);
  coordinator->add_flag("--demo", a.demo, "the demo's job");
  coordinator->add_option("--ready-fd", a.ready_fd, "file descriptor to write the address to")->group("");
  coordinator->callback([&] { result = Coordinator(a); });

  const auto add_role = [&](const char* name, const char* what, Status (*run)(const train::RoleOptions&),
                            bool listens) {
    auto* role = app.add_subcommand(name, what);
    role->add_option("--coordinator", a.coordinator, "host:port")->required();
    if (listens)
      role->add_option("--listen", a.listen,
                       "address to serve workers on (worker: where there are no servers)")
          ->capture_default_str();
    role->callback([&a, &result, run] { result = Report(run(Role(a))); });
  };
  add_role("ps", "a parameter server", train::RunServer, true);
  add_role("worker", "a worker", train::RunWorker, true);
  add_role("bots", "simulated customers that publish the job's events", train::RunBots, false);

  auto* status = app.add_subcommand("status", "what a running job does");
  status->add_option("--coordinator", a.coordinator, "host:port")->required();
  status->add_flag("--json", a.json, "as one JSON object");
  status->callback([&] { result = ShowStatus(a); });
  auto* checkpoint = app.add_subcommand("checkpoint", "save a running job now");
  checkpoint->add_option("--coordinator", a.coordinator, "host:port")->required();
  checkpoint->callback([&] { result = Admin(a, protocol::AdminRequest::Kind::kCheckpoint); });
  auto* go_on = app.add_subcommand("continue", "let a job that has reached --pause-at go on");
  go_on->add_option("--coordinator", a.coordinator, "host:port")->required();
  go_on->callback([&] { result = Admin(a, protocol::AdminRequest::Kind::kContinue); });
  auto* stop = app.add_subcommand("stop", "save a running job and end it");
  stop->add_option("--coordinator", a.coordinator, "host:port")->required();
  stop->callback([&] { result = Admin(a, protocol::AdminRequest::Kind::kStop); });

  AddDevicesCommand(app, &result);
  AddGraphCommand(app, &result);
  AddExportCommand(app, &result);
  AddSchemaCommand(app, &result);
  AddSimulateCommand(app, &result);

  if (const std::string_view word = argc > 1 ? argv[1] : ""; !word.empty() && word.front() != '-') {
    std::vector<std::string> known;
    for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      known.push_back(command->get_name());
    }
    if (std::ranges::find(known, word) == known.end()) {
      const std::string nearest = Nearest(word, known);
      throw std::invalid_argument(
          "unknown command '" + std::string(word) + "'" +
          (nearest.empty() ? "; leat --help lists them" : "; did you mean '" + nearest + "'?"));
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "leat: %s\n", e.what());
    return kBadInput;
  }
  return result;
}

}  // namespace
}  // namespace leat

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("leat"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  try {
    return leat::Run(argc, argv);
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "leat: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "leat: %s\n", e.what());
    return 1;
  }
}
