// The commands of the `leat` program: the only place where concrete parts are wired together.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
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
#include "cli/leat.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/passes.h"
#include "job/job.h"
#include "run/roles/role.h"

namespace leat {

engine::PlanOptions Kernels() {
  engine::PlanOptions options;
  options.tables = {&cpu::Table(), &reference::Kernels()};
  options.passes = ops::StandardPasses();
  return options;
}

int PrintOutcome(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "leat: %s\n", status.message().c_str());
  return ExitStatusOf(status.code());
}

namespace {

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

// Output of `leat` without arguments: the first commands to try.
constexpr const char* kFirstSteps =
    "Leat trains neural networks on live event streams.\n"
    "\n"
    "  leat demo             try it: train a fraud detector on simulated payments, on this machine\n"
    "  leat schema FILE      your own data: propose a job's schema for a CSV or JSON-lines file\n"
    "  leat train job.yaml   run a job on this machine\n"
    "  leat --help           list all commands\n";

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

// An empty text is a shell's variable that is not set, as in --resume "$DIR"; NaN passes every range; CLI11
// takes -1 for the largest number without a sign.
void CheckValues(CLI::App* app) {
  for (CLI::App* command : app->get_subcommands([](CLI::App*) { return true; })) CheckValues(command);
  for (CLI::Option* option : app->get_options()) {
    const auto is = [type = option->get_type_name()](const char* of) { return type.find(of) != type.npos; };
    option->check([number = is("FLOAT"), no_sign = is("UINT")](const std::string& text) -> std::string {
      if (text.empty()) return "its value is empty";
      if (no_sign && text.front() == '-') return text + " is negative";
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

// In the order of `leat --help`.
constexpr AddCommands* kCommands[] = {
    AddTrainCommands,    AddCoordinatorCommand, AddRoleCommands,     AddAdminCommands,   AddAdviseCommand,
    AddCalibrateCommand, AddCertCommand,        AddDashboardCommand, AddDevicesCommand,  AddGraphCommand,
    AddHealthCommand,    AddExportCommand,      AddLogCommand,       AddPeekCommand,     AddPoolCommands,
    AddPublishCommand,   AddSchemaCommand,      AddServeCommand,     AddSimulateCommand, AddSoakCommand,
    AddStudyCommand,     AddViewTokenCommand};

int Run(int argc, char** argv) {
  if (argc == 1) {
    std::fputs(kFirstSteps, stdout);
    return 0;
  }

  CheckAddressSpace();
  CLI::App app{"Leat trains neural networks on live event streams."};
  app.set_version_flag("--version", roles::ProgramVersion());
  app.require_subcommand(1);
  int result = 0;
  for (AddCommands* add : kCommands) add(app, &result);
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
    result = PrintOutcome(StatusOf(e));
  }
  const int flushed = FlushOutput();
  return result == ExitStatus::kDone ? flushed : result;
}

}  // namespace leat
