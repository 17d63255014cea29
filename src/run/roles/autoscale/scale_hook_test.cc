#include "run/roles/autoscale/scale_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/testing.h"

namespace leat::roles {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ScaleHookTest : public ::testing::Test {
 protected:
  // The command appends its numbers to the file `calls`, then runs the rest of the script.
  void Make(const std::string& then) {
    spec_.command = {"sh", "-c", "echo {workers} $LEAT_PS $LEAT_JOB >> " + dir_ / "calls" + "; " + then};
    spec_.timeout = std::chrono::minutes(2);
    hook_.emplace(loop_, spec_, "fraud");
  }
  std::string Calls() const { return ReadAll(dir_ / "calls"); }
  // Lets the command that runs come to its end, and tells the hook what is wanted meanwhile.
  bool RunUntil(const std::function<bool()>& condition) {
    const Time until = loop_.Now() + seconds(120);
    while (!condition() && loop_.Now() < until) loop_.RunOnce(milliseconds(1));
    return condition();
  }
  // The command does not run, although the time passes.
  void ExpectNoCall(Time now, const ScaleHook::Numbers& numbers) {
    const std::string before = Calls();
    hook_->Want(now, numbers);
    for (int i = 0; i < 20; ++i) loop_.RunOnce(milliseconds(1));
    EXPECT_EQ(Calls(), before);
  }

  TempDir dir_;
  net::Loop loop_;
  job::AutoscaleSpec spec_;
  std::optional<ScaleHook> hook_;
};

TEST_F(ScaleHookTest, TellsEachChangeOnce) {
  Make("true");
  hook_->Want(seconds(1), {2, 1});
  ASSERT_TRUE(RunUntil([&] { return Calls() == "2 1 fraud\n"; }));
  // The end of the command has to arrive before the next one starts.
  ASSERT_TRUE(RunUntil([&] {
    hook_->Want(seconds(2), {4, 1});
    return Calls() == "2 1 fraud\n4 1 fraud\n";
  }));
  for (int i = 0; i < 50; ++i) loop_.RunOnce(milliseconds(1));
  ExpectNoCall(seconds(3), {4, 1});
  EXPECT_EQ(hook_->failure(), "");
}

TEST_F(ScaleHookTest, AFailureIsRepeatedWithTheNumbersOfThatTime) {
  Make("echo no cluster for {workers}; test -e " + dir_ / "good");
  const auto failed = [&](const std::string& line) {
    return RunUntil([&] { return hook_->failure() == "'sh' ended with status 1: " + line; });
  };
  hook_->Want(seconds(100), {2, 1});
  ASSERT_TRUE(failed("no cluster for 2")) << hook_->failure();
  ExpectNoCall(seconds(100) + milliseconds(900), {3, 1});
  hook_->Want(seconds(101), {3, 1});
  ASSERT_TRUE(failed("no cluster for 3")) << hook_->failure();
  dir_.Write("good", "");
  ExpectNoCall(seconds(102) + milliseconds(900), {3, 1});  // the pause has doubled
  hook_->Want(seconds(103), {3, 1});
  ASSERT_TRUE(RunUntil([&] { return hook_->failure().empty(); }));
  EXPECT_EQ(Calls(), "2 1 fraud\n3 1 fraud\n3 1 fraud\n");
  ExpectNoCall(seconds(200), {3, 1});
}

TEST_F(ScaleHookTest, ItsEndEndsTheCommand) {
  Make("sleep 1000");
  hook_->Want(seconds(1), {2, 1});
  ASSERT_TRUE(RunUntil([&] { return Calls() == "2 1 fraud\n"; }));
  hook_.reset();  // would take a quarter of an hour
}

TEST(ScaleHookCommand, HasTheNumbersAndNoToken) {
  job::AutoscaleSpec spec;
  spec.command = {"kubectl", "scale", "--replicas={workers}", "{ps}+{ps}", "{WORKERS} {"};
  const Command command = ScaleHook::CommandFor(spec, "fraud", {12, 3});
  EXPECT_THAT(command.arguments, ElementsAre("kubectl", "scale", "--replicas=12", "3+3", "{WORKERS} {"));
  EXPECT_EQ(command.environment.at("LEAT_WORKERS"), "12");
  EXPECT_EQ(command.environment.at("LEAT_PS"), "3");
  EXPECT_EQ(command.environment.at("LEAT_JOB"), "fraud");
  EXPECT_EQ(command.environment.at("LEAT_TOKEN"), "") << "removed";
  EXPECT_EQ(command.deadline, std::chrono::seconds(30));
}

}  // namespace
}  // namespace leat::roles
