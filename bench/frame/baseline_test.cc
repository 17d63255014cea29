#include "baseline.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace leat::bench {
namespace {

const std::string kShell = "/bin/sh";

// The message of the exception that `body` throws.
template <class Body>
std::string Reason(Body body) {
  try {
    body();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(CleanEnvironmentTest, HasNothingThatSteersLibraries) {
  for (const char* name :
       {"OPENBLAS_CORETYPE", "GOTO_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_CBWR", "OMP_NUM_THREADS",
        "KMP_BLOCKTIME", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "XLA_FLAGS", "TF_NUM_INTRAOP_THREADS",
        "TORCH_LOGS", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}) {
    setenv(name, "steered", 1);
  }
  setenv("LEAT_BENCH_KEPT", "kept", 1);
  const std::vector<std::string> clean = CleanEnvironment({"OMP_NUM_THREADS=1"});
  for (const std::string& variable : clean)
    EXPECT_EQ(variable.find("steered"), std::string::npos) << variable;
  EXPECT_EQ(std::ranges::count(clean, "LEAT_BENCH_KEPT=kept"), 1);
  EXPECT_EQ(std::ranges::count(clean, "OMP_NUM_THREADS=1"), 1);
  Baseline program("program", {kShell, "-c", "env"});
  EXPECT_EQ(program.Finish(60).find("steered"), std::string::npos);
}

TEST(CleanEnvironmentTest, ASettingReplacesTheVariable) {
  setenv("LEAT_BENCH_REPLACED", "old", 1);
  const std::vector<std::string> clean = CleanEnvironment({"LEAT_BENCH_REPLACED=new"});
  EXPECT_EQ(std::ranges::count(clean, "LEAT_BENCH_REPLACED=old"), 0);
  EXPECT_EQ(std::ranges::count(clean, "LEAT_BENCH_REPLACED=new"), 1);
}

TEST(BaselineTest, AnswersLines) {
  Baseline program("program", {kShell, "-c", "echo ready; while read x; do echo \"got $x\"; done; echo end"});
  EXPECT_EQ(program.ReadLine(60), "ready");
  EXPECT_EQ(program.Ask("one", 60), "got one");
  EXPECT_EQ(program.Ask("two", 60), "got two");
  EXPECT_EQ(program.Finish(60), "end\n");
}

TEST(BaselineTest, ItsPathIsItsArgv0) {
  Baseline program(kShell, {kShell, "-c", "tr '\\0' '\\n' < /proc/$$/cmdline | head -1"});
  EXPECT_EQ(program.Finish(60), kShell + "\n");
}

TEST(BaselineTest, FailuresGiveTheirReason) {
  EXPECT_EQ(Reason([] {
              Baseline("broken.py", {kShell, "-c", "echo trace >&2; echo 'Error: no torch' >&2; exit 1"})
                  .ReadLine(60);
            }),
            "broken.py: exit status 1: Error: no torch");
  EXPECT_EQ(Reason([] {
              Baseline("silent", {kShell, "-c", "exit 3"}).Ask("x", 60);
            }),
            "silent: exit status 3");
  EXPECT_EQ(Reason([] { Baseline("absent", {"/nowhere/python3"}).ReadLine(60); }),
            "absent: exit status 127: /nowhere/python3 cannot be started");
  EXPECT_EQ(Reason([] {
              Baseline("killed", {kShell, "-c", "kill -9 $$"}).ReadLine(60);
            }),
            "killed: ended by signal 9");
  EXPECT_EQ(Reason([] {
              Baseline("slow", {kShell, "-c", "read x"}).ReadLine(0.05);
            }),
            "slow: no answer within 0 s");
  EXPECT_EQ(Reason([] {
              Baseline("late", {kShell, "-c", "echo 12; exit 4"}).Finish(60);
            }),
            "late: exit status 4");
}

// The error of environment.py for a list with these lines, in an empty directory.
std::string Environment(const std::string& lines) {
  const std::string directory = ::testing::TempDir() + "/environment-" + std::to_string(getpid());
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/list.txt") << lines;
  const std::string reason = Reason([&] {
    Baseline("environment.py",
             {"/usr/bin/python3", LEAT_ENVIRONMENT, directory + "/list.txt", directory + "/made"})
        .Finish(60);
  });
  EXPECT_FALSE(std::filesystem::exists(directory + "/made"));
  std::filesystem::remove_all(directory);
  return reason;
}

TEST(EnvironmentTest, IsNotMadeWhereItDoesNotFit) {
  const std::string reason = Environment("# size: 1000 999999999\nnothing==1\n");
  EXPECT_NE(reason.find("exit status 1"), std::string::npos) << reason;
  EXPECT_NE(reason.find("free; 1000001.0 GB are needed"), std::string::npos) << reason;
}

TEST(EnvironmentTest, AListHasToSayItsSize) {
  const std::string reason = Environment("nothing==1\n");
  EXPECT_NE(reason.find("has no line '# size: DOWNLOAD INSTALLED'"), std::string::npos) << reason;
}

}  // namespace
}  // namespace leat::bench
