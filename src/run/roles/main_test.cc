// main() of the test program: runs the tests, or acts as a child process that a test has started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "compute/kernels/reference/reference.h"
#include "run/launcher/signals.h"
#include "run/launcher/testing.h"
#include "run/roles/role.h"
#include "run/roles/start/coordinator_options.h"

namespace leat::roles {
namespace {

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Plays a child of roles_test.cc. `arguments`: a role and its coordinator's address, or a coordinator's job
// file and directory.
int PlayRole(const std::string& part, const std::vector<std::string>& arguments) {
  launcher::BlockSignals();
  const std::string token = std::getenv("LEAT_TOKEN");
  Status status;
  if (part == "coordinator") {
    const job::Job job = job::Job::Load({.file = arguments.at(0)}, {.directory = arguments.at(1)});
    status = RunCoordinator(job, {.token = token, .on_ready = Say});
  } else {
    RoleOptions options;
    options.coordinator_client.coordinator = arguments.at(1);
    options.coordinator_client.token = token;
    options.plan.tables = {&reference::Kernels()};
    const auto run = arguments.at(0) == "ps" ? RunServer : arguments.at(0) == "worker" ? RunWorker : RunBots;
    status = run(options);
  }
  if (!status.ok()) Say("leat: " + status.message());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace leat::roles

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::off);
  if (argc > 2 && std::string_view(argv[1]) == leat::launcher::kChild)
    return leat::roles::PlayRole(argv[2], {argv + 3, argv + argc});
  // Tests send it to this process; a thread of gRPC's that an earlier test has left would end the process.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
