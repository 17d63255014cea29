#include "run/roles/autoscale/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <fstream>
#include <thread>

#include "base/testing.h"

namespace leat::roles {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

Command Shell(const std::string& script, Duration deadline = minutes(2)) {
  return {.arguments = {"sh", "-c", script}, .environment = {}, .deadline = deadline};
}

TEST(CommandRunner, EndsWithTheCommand) {
  const TempDir dir;
  CommandRunner runner;
  EXPECT_EQ(runner.Run(Shell("echo done > " + dir / "out")), Status());
  EXPECT_EQ(ReadAll(dir / "out"), "done\n");
}

TEST(CommandRunner, NoShellReadsArguments) {
  const TempDir dir;
  CommandRunner runner;
  const std::string argument = "$HOME; touch " + dir / "no" + " `id` > *";
  Command command = Shell(R"(printf %s "$1" > "$2")");
  command.arguments.insert(command.arguments.end(), {"sh", argument, dir / "out"});
  EXPECT_EQ(runner.Run(command), Status());
  EXPECT_EQ(ReadAll(dir / "out"), argument);
  EXPECT_FALSE(std::filesystem::exists(dir / "no"));
}

TEST(CommandRunner, VariablesAreAddedAndRemoved) {
  const TempDir dir;
  setenv("LEAT_TEST_SECRET", "secret", 1);
  setenv("LEAT_TEST_OLD", "old", 1);
  CommandRunner runner;
  Command command = Shell(R"(echo "$LEAT_TEST_SECRET,$LEAT_TEST_OLD,$LEAT_TEST_NEW" > )" + dir / "out");
  command.environment = {{"LEAT_TEST_SECRET", ""}, {"LEAT_TEST_OLD", "other"}, {"LEAT_TEST_NEW", "4"}};
  EXPECT_EQ(runner.Run(command), Status());
  EXPECT_EQ(ReadAll(dir / "out"), ",other,4\n");
}

TEST(CommandRunner, AFailureHasTheLastLine) {
  CommandRunner runner;
  const Status failed = runner.Run(Shell("echo first; echo 'no such deployment' >&2; echo; exit 3"));
  EXPECT_EQ(failed.code(), Code::kUnavailable);
  EXPECT_EQ(failed.message(), "'sh' ended with status 3: no such deployment");
  EXPECT_EQ(runner.Run(Shell("exit 1")).message(), "'sh' ended with status 1");
  EXPECT_EQ(runner.Run(Shell("kill -9 $$")).message(), "'sh' was ended by signal 9");
  EXPECT_THAT(runner.Run(Shell("yes | head -c 3000000; exit 1")).message(), HasSubstr("status 1: y"));
}

TEST(CommandRunner, AProgramThatIsMissingIsNamed) {
  CommandRunner runner;
  const Status failed =
      runner.Run({.arguments = {"/nowhere/kubectl"}, .environment = {}, .deadline = seconds(9)});
  EXPECT_EQ(failed.code(), Code::kFailedPrecondition);
  EXPECT_THAT(failed.message(), HasSubstr("'/nowhere/kubectl' cannot be started: No such file"));
}

// The process that has written its number into the file.
pid_t PidIn(const std::string& path) {
  pid_t pid = 0;
  EXPECT_TRUE(WaitFor([&] { return static_cast<bool>(std::ifstream(path) >> pid); }));
  return pid;
}

bool Gone(pid_t pid) {
  // A killed orphan may stay a zombie for a moment.
  return WaitFor([pid] {
    const std::string stat = ReadAll("/proc/" + std::to_string(pid) + "/stat");
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  });
}

TEST(CommandRunner, TheDeadlineEndsTheCommandAndItsChildren) {
  const TempDir dir;
  CommandRunner runner;
  const Status failed = runner.Run(Shell("echo waiting; sleep 1000 & echo $! > " + dir / "pid" + "; wait",
                                         std::chrono::milliseconds(800)));
  EXPECT_EQ(failed.code(), Code::kDeadlineExceeded);
  EXPECT_THAT(failed.message(), HasSubstr("'sh' took longer than 0.8 s"));
  if (std::filesystem::exists(dir / "pid")) {  // it may not have come so far
    EXPECT_TRUE(Gone(PidIn(dir / "pid")));
  }
}

TEST(CommandRunner, AChildThatGoesOnWritingIsNotWaitedFor) {
  const TempDir dir;
  CommandRunner runner;
  EXPECT_EQ(runner.Run(Shell("sleep 1000 & echo $! > " + dir / "pid")), Status());
  kill(PidIn(dir / "pid"), SIGKILL);
}

TEST(CommandRunner, AnAbortEndsTheCommandAndAllLaterOnes) {
  const TempDir dir;
  CommandRunner runner;
  std::thread aborts([&] {
    PidIn(dir / "pid");
    runner.Abort();
  });
  const Status aborted = runner.Run(Shell("echo $$ > " + dir / "pid" + "; sleep 1000"));
  aborts.join();
  EXPECT_EQ(aborted.code(), Code::kAborted);
  EXPECT_TRUE(Gone(PidIn(dir / "pid")));
  EXPECT_EQ(runner.Run(Shell("sleep 1000")).code(), Code::kAborted);
}

}  // namespace
}  // namespace leat::roles
