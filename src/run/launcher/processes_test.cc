// The children are this test program itself (main_test.cc).
#include "run/launcher/processes.h"
#include "base/testing.h"
#include "run/launcher/testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <thread>

namespace leat::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool IsAlive(pid_t pid) {
  return kill(pid, 0) == 0;
}

class ProcessesTest : public ::testing::Test {
 protected:
  pid_t Start(const std::string& name, std::vector<std::string> arguments,
              std::map<std::string, std::string> environment = {}) {
    arguments.insert(arguments.begin(), kChild);
    auto pid = processes_->Start({.name = name,
                                  .arguments = std::move(arguments),
                                  .environment = std::move(environment),
                                  .log = LogOf(name)});
    EXPECT_TRUE(pid.ok()) << pid.status().ToString();
    return pid.ok() ? *pid : -1;
  }
  std::string LogOf(const std::string& name) const { return directory_ / (name + ".log"); }
  // The next child that ends.
  ProcessEnd Await() {
    std::vector<ProcessEnd> ended;
    EXPECT_TRUE(WaitFor([&] {
      ended = processes_->Reap();
      return !ended.empty();
    }));
    EXPECT_EQ(ended.size(), 1u);
    return ended.empty() ? ProcessEnd{} : ended[0];
  }
  // Waits until it has written a line.
  void AwaitLog(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WaitFor([&] { return ReadAll(LogOf(name)).find(text) != std::string::npos; }));
  }

  TempDir directory_;
  std::optional<Processes> processes_{std::in_place};
};

TEST_F(ProcessesTest, EndsAreToldOnceWithTheExitStatus) {
  EXPECT_TRUE(processes_->empty());
  EXPECT_THAT(processes_->Reap(), IsEmpty());
  for (const int status : {0, 1, 2, 77}) {
    const pid_t pid = Start("child", {"exit", std::to_string(status)});
    EXPECT_FALSE(processes_->empty());
    const ProcessEnd end = Await();
    EXPECT_EQ(end.pid, pid);
    EXPECT_EQ(end.name, "child");
    EXPECT_EQ(end.exit_code, status);
    EXPECT_TRUE(processes_->empty());
    EXPECT_THAT(processes_->Reap(), IsEmpty());
  }
}

TEST_F(ProcessesTest, AnEnvironmentOfItsOwnHasNothingElse) {
  setenv("LEAT_TEST_SECRET", "of the parent", 1);
  const auto pid = processes_->Start({.name = "own",
                                      .arguments = {kChild, "print", "LEAT_TEST_SECRET", "LEAT_TEST_OWN"},
                                      .environment = {{"LEAT_TEST_OWN", "given"}},
                                      .log = LogOf("own"),
                                      .own_environment = true});
  unsetenv("LEAT_TEST_SECRET");
  ASSERT_TRUE(pid.ok());
  EXPECT_EQ(Await().exit_code, 0);
  EXPECT_EQ(ReadAll(LogOf("own")), "[LEAT_TEST_SECRET]\n[LEAT_TEST_OWN]=given\n");
}

TEST_F(ProcessesTest, AnotherUserHasNoGroupsOfThisOneAndIsKilledToo) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start processes of others";
  constexpr uint32_t kUser = 2'000'000'001;
  const auto pid = processes_->Start({.name = "other",
                                      .arguments = {kChild, "who"},
                                      .log = LogOf("other"),
                                      .user = kUser,
                                      .directory = "/usr"});
  ASSERT_TRUE(pid.ok());
  AwaitLog("other", "waiting");
  EXPECT_EQ(ReadAll(LogOf("other")), "2000000001 2000000001 0 /usr\nwaiting\n");
  processes_->Signal(*pid, SIGKILL);
  EXPECT_EQ(Await().exit_code, 128 + SIGKILL);
  processes_->Signal(*pid, SIGKILL);  // it has ended: nothing happens
  ASSERT_TRUE(
      processes_
          ->Start({.name = "shut", .log = LogOf("shut"), .user = kUser, .directory = directory_ / "none"})
          .ok());
  const ProcessEnd shut = Await();
  EXPECT_EQ(shut.exit_code, 127);
  EXPECT_THAT(shut.last_error, HasSubstr("cannot enter its directory"));
}

TEST_F(ProcessesTest, AwaitLastsUntilOneEnds) {
  Start("stays", {"wait"});
  AwaitLog("stays", "waiting");
  const pid_t pid = Start("goes", {"wait"});
  AwaitLog("goes", "waiting");
  processes_->Await(std::chrono::milliseconds(1));
  EXPECT_THAT(processes_->Reap(), IsEmpty());
  kill(pid, SIGKILL);
  processes_->Await(std::chrono::hours(1));
  processes_->Await(std::chrono::hours(1));  // it is not reaped yet
  const auto ended = processes_->Reap();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].pid, pid);
}

TEST_F(ProcessesTest, AwaitLastsUntilItIsWoken) {
  processes_->Wake();
  processes_->Await(std::chrono::hours(1));
  std::thread waker([this] { processes_->Wake(); });
  processes_->Await(std::chrono::hours(1));
  waker.join();
}

TEST_F(ProcessesTest, ASignalIsToldAs128AndMore) {
  for (const int signal : {SIGKILL, SIGTERM, SIGUSR1}) {
    const pid_t pid = Start("child", {"wait"});
    AwaitLog("child", "waiting");
    kill(pid, signal);
    EXPECT_EQ(Await().exit_code, 128 + signal);
    std::filesystem::remove(LogOf("child"));
  }
}

TEST_F(ProcessesTest, SignalsGoToAllThatRun) {
  Start("a", {"wait"});
  Start("b", {"wait"});
  AwaitLog("a", "waiting");
  AwaitLog("b", "waiting");
  EXPECT_THAT(processes_->Reap(), IsEmpty());
  processes_->Signal(SIGTERM);
  std::vector<std::string> names;
  ASSERT_TRUE(WaitFor([&] {
    for (const auto& end : processes_->Reap()) names.push_back(end.name);
    return names.size() == 2;
  }));
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("a", "b"));
}

TEST_F(ProcessesTest, ArgumentsAndEnvironmentArrive) {
  ::setenv("LEAT_TEST_OLD", "old", 1);
  ::setenv("LEAT_TEST_BOTH", "parent's", 1);
  Start("child", {"print", "with blank", "", "LEAT_TEST_OLD", "LEAT_TEST_BOTH", "LEAT_TEST_NEW"},
        {{"LEAT_TEST_BOTH", "child's"}, {"LEAT_TEST_NEW", "a=b"}});
  EXPECT_EQ(Await().exit_code, 0);
  EXPECT_EQ(ReadAll(LogOf("child")),
            "[with blank]\n[]\n[LEAT_TEST_OLD]=old\n[LEAT_TEST_BOTH]=child's\n[LEAT_TEST_NEW]=a=b\n");
}

TEST_F(ProcessesTest, ChildrenStandAlone) {
  // Signals that the parent blocks or ignores have their default action in its children.
  sigset_t kept, before;
  sigemptyset(&kept);
  sigaddset(&kept, SIGTERM);
  sigaddset(&kept, SIGINT);
  pthread_sigmask(SIG_BLOCK, &kept, &before);
  const pid_t pid = Start("child", {"stand"});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(Await().exit_code, 0);
  const std::string said = ReadAll(LogOf("child"));
  EXPECT_THAT(said, HasSubstr("group " + std::to_string(pid) + "\n")) << "Ctrl-C does not reach it";
  EXPECT_THAT(said, HasSubstr("blocked 0\n"));
  EXPECT_THAT(said, HasSubstr("stdin ends\n"));
}

TEST_F(ProcessesTest, NothingIsLeftOfThemWhenTheyAreDestroyed) {
  const pid_t quiet = Start("quiet", {"wait"}), stubborn = Start("stubborn", {"stubborn"});
  AwaitLog("quiet", "waiting");
  AwaitLog("stubborn", "waiting");
  processes_.reset();
  EXPECT_FALSE(IsAlive(quiet));
  EXPECT_FALSE(IsAlive(stubborn));
}

TEST_F(ProcessesTest, TheyDieWithTheirParent) {
  const pid_t parent = Start("parent", {"parent", LogOf("grandchild")});
  AwaitLog("grandchild", "waiting");
  const std::string said = ReadAll(LogOf("parent"));
  const pid_t grandchild = static_cast<pid_t>(std::stol(said.substr(said.find(' '))));
  ASSERT_TRUE(IsAlive(grandchild));
  kill(parent, SIGKILL);
  EXPECT_EQ(Await().exit_code, 128 + SIGKILL);
  // It is a zombie until its new parent reaps it.
  EXPECT_TRUE(WaitFor([&] {
    const std::string stat = ReadAll("/proc/" + std::to_string(grandchild) + "/stat");
    return stat.empty() || stat.find(") Z") != std::string::npos;
  }));
}

TEST_F(ProcessesTest, WhatTheyUsedIsCounted) {
  Start("child", {"work"});
  const ProcessEnd end = Await();
  EXPECT_GE(end.cpu_seconds, 0.02);
  EXPECT_GE(end.peak_rss_bytes, 32u << 20);
  EXPECT_EQ(processes_->cpu_seconds(), end.cpu_seconds);
  Start("child", {"exit", "0"});
  const ProcessEnd second = Await();
  EXPECT_EQ(processes_->cpu_seconds(), end.cpu_seconds + second.cpu_seconds);
}

TEST_F(ProcessesTest, EndsAreToldThoughThisProcessWasStartedToIgnoreThem) {
  processes_.reset();
  signal(SIGCHLD, SIG_IGN);
  processes_.emplace();
  Start("child", {"exit", "3"});
  EXPECT_EQ(Await().exit_code, 3);
}

TEST_F(ProcessesTest, ALogThatCannotBeWrittenIsSaid) {
  const auto pid = processes_->Start({.name = "child", .arguments = {}, .log = "/proc/none/child.log"});
  ASSERT_FALSE(pid.ok());
  EXPECT_THAT(pid.status().message(), HasSubstr("/proc/none/child.log"));
  EXPECT_TRUE(processes_->empty());
}

TEST_F(ProcessesTest, LastWordsAreOfTheProcessThatSaidThem) {
  Start("child", {"say", "1", "first", "leat: not this", "leat: but this", "and no more"});
  ProcessEnd end = Await();
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_EQ(end.last_error, "but this");
  // Its replacement writes to the same log, and fails without an error line.
  Start("child", {"say", "2", "nothing to tell"});
  end = Await();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_EQ(end.last_error, "");
  EXPECT_EQ(ReadAll(LogOf("child")), "first\nleat: not this\nleat: but this\nand no more\nnothing to tell\n");
}

TEST_F(ProcessesTest, ALogBeginsAgainBeforeItIsTooLong) {
  const pid_t pid = Start("child", {"chatter"});
  const std::string before = LogOf("child") + ".1";
  ASSERT_TRUE(WaitFor([&] {
    EXPECT_THAT(processes_->Reap(), IsEmpty());
    return std::filesystem::exists(before) && ReadAll(LogOf("child")).find("more") != std::string::npos;
  }));
  EXPECT_GT(std::filesystem::file_size(before), kMostLog);
  EXPECT_LT(std::filesystem::file_size(LogOf("child")), kMostLog / 2);
  EXPECT_EQ(ReadAll(LogOf("child")).find('\0'), std::string::npos) << "no hole";
  processes_->Signal(pid, SIGKILL);
  Await();
}

TEST(LastErrorLine, OfAnyFile) {
  const TempDir directory;
  EXPECT_EQ(LastErrorLine(directory / "none"), "");
  EXPECT_EQ(LastErrorLine(directory.Write("empty", "")), "");
  EXPECT_EQ(LastErrorLine(directory.Write("log", "said leat: no\n leat: no\n")), "");
  EXPECT_EQ(LastErrorLine(directory.Write("log", "leat: torn")), "torn");
  EXPECT_EQ(LastErrorLine(directory.Write("log", "leat: a\nleat: b\nc\n")), "b");
  EXPECT_EQ(LastErrorLine(directory / "log", 16), "");
  EXPECT_EQ(LastErrorLine(directory / "log", 8), "b");
  EXPECT_EQ(LastErrorLine(directory / "log", 1000), "");
  const std::string far = "leat: far\n" + std::string(2 << 20, 'x') + "\n";
  EXPECT_EQ(LastErrorLine(directory.Write("log", far + "leat: near\n")), "near");
}

}  // namespace
}  // namespace leat::launcher
