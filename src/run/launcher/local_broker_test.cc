#include "run/launcher/local_broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/testing.h"
#include "run/launcher/signals.h"

namespace leat::launcher {
namespace {

using ::testing::HasSubstr;

// With a script in place of the tool, which writes down how it is called.
class LocalBrokerTest : public ::testing::Test {
 protected:
  std::string Tool(const std::string& at_start) {
    const std::string path = dir_ / "tool";
    std::ofstream(path) << "#!/bin/sh\necho \"$@\" >> " << (dir_ / "calls") << "\ncase $1 in start) "
                        << at_start << ";; esac\n";
    chmod(path.c_str(), 0700);
    return path;
  }
  std::string Calls() const {
    std::stringstream text;
    text << std::ifstream(dir_ / "calls").rdbuf();
    return text.str();
  }
  TempDir dir_;
};

TEST_F(LocalBrokerTest, LivesAsLongAsTheObject) {
  const std::string directory = dir_ / "some broker";
  const std::string started = "start --directory " + directory + " --listen 127.0.0.1:0\n";
  {
    const auto broker = LocalBroker::Start(Tool("echo 127.0.0.1:4711"), directory);
    ASSERT_TRUE(broker.ok()) << broker.status().ToString();
    EXPECT_EQ((*broker)->address(), "127.0.0.1:4711");
    EXPECT_EQ(Calls(), started);
  }
  EXPECT_EQ(Calls(), started + "stop --directory " + directory + "\n");
}

TEST_F(LocalBrokerTest, AToolThatFails) {
  const auto broker = LocalBroker::Start(Tool("exit 3"), dir_ / "b");
  EXPECT_THAT(broker.status().message(), HasSubstr("tool could not start a broker (exit status 3)"));
  EXPECT_THAT(Calls(), HasSubstr("stop")) << "it may have started one all the same";
  EXPECT_EQ(LocalBroker::Start(dir_ / "absent", dir_ / "c").status().code(), Code::kUnavailable);
}

TEST_F(LocalBrokerTest, CtrlCEndsTheTool) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  BlockSignals();
  // The tool sends it as soon as it runs.
  const auto broker =
      LocalBroker::Start(Tool("kill -INT " + std::to_string(getpid()) + "; sleep 1000 & wait"), dir_ / "b");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(broker.status().code(), Code::kAborted);
  EXPECT_THAT(Calls(), HasSubstr("stop"));
}

TEST(BrokerTool, IsFoundAboveTheProgram) {
  const auto tool = FindBrokerTool();
  ASSERT_TRUE(tool.ok()) << tool.status().ToString();
  EXPECT_THAT(*tool, ::testing::EndsWith("/tools/kafka"));
}

}  // namespace
}  // namespace leat::launcher
