#include "run/roles/autoscale/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/testing.h"

namespace leat::roles {
namespace {

using protocol::CoordinatorStatus;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class ScalingTest : public ::testing::Test {
 protected:
  static CoordinatorStatus Running(uint32_t workers) {
    CoordinatorStatus status;
    status.phase = CoordinatorStatus::Phase::kRunning;
    uint64_t node = 1;
    status.view.members.push_back({NodeId(node++), protocol::Role::kServer, 0, ""});
    for (uint32_t i = 0; i < workers; ++i)
      status.view.members.push_back({NodeId(node++), protocol::Role::kWorker, i, ""});
    status.wanted = {.workers = {2, 4}, .servers = 1};
    return status;
  }
  // The job trains 1000 events a second, whatever comes, for so many seconds.
  void Run(Scaling& scaling, uint32_t workers, int seconds_long, double rate) {
    for (int i = 0; i < 4 * seconds_long; ++i) {
      now_ += milliseconds(250);
      events_ += 250;
      arrived_ += rate / 4;
      CoordinatorStatus status = Running(workers);
      status.events = events_;
      status.ends = {static_cast<uint64_t>(arrived_ / 2), static_cast<uint64_t>(arrived_ / 2)};
      status.lag = static_cast<uint64_t>(std::max(arrived_ - static_cast<double>(events_), 0.0));
      scaling.OnStatus(now_, status, FromSeconds(static_cast<double>(status.lag) / 1000));
      wanted_ = status.wanted;
      scaling.Fill(&wanted_);
    }
  }

  std::pair<double, double> Gauges() {
    return {metrics_.gauge("leat_wanted_workers").value(), metrics_.gauge("leat_wanted_ps").value()};
  }

  net::Loop loop_;
  metrics::Registry metrics_;
  Time now_{seconds(50)};
  uint64_t events_ = 0;
  double arrived_ = 0;
  CoordinatorStatus::Wanted wanted_;
};

TEST_F(ScalingTest, TheLoadIsThatOfTheStatus) {
  CoordinatorStatus status = Running(3);
  status.events = 70;
  status.ends = {40, 50};
  status.lag = 20;
  status.view.members.at(1).state = protocol::Member::State::kDraining;
  status.view.members.push_back(
      {NodeId(9), protocol::Role::kWorker, 0, "", protocol::Member::State::kStandby});
  const protocol::Load load = LoadOf(status, seconds(3));
  EXPECT_TRUE(load.training);
  EXPECT_EQ(load.arrived, 90u);
  EXPECT_EQ(load.trained, 70u);
  EXPECT_EQ(load.lag, 20u);
  EXPECT_EQ(load.oldest, seconds(3));
  EXPECT_EQ(load.workers, 2u) << "without the one that is to leave, and the one that stands by";
  EXPECT_EQ(load.servers, 1u);
  status.phase = CoordinatorStatus::Phase::kPaused;
  EXPECT_FALSE(LoadOf(status, seconds(3)).training);
}

TEST_F(ScalingTest, AFixedNumberIsWhatIsWanted) {
  Scaling scaling(loop_, {}, "fraud", metrics_);
  CoordinatorStatus status = Running(2);
  status.wanted.workers = {7, 7};
  scaling.OnStatus(now_, status, seconds(100));
  scaling.Fill(&status.wanted);
  EXPECT_EQ(status.wanted.now(), 7u);
  EXPECT_EQ(status.wanted.reason, "");
  EXPECT_EQ(Gauges(), std::pair(7.0, 1.0));
}

TEST_F(ScalingTest, OfARangeTheAutoscalerChooses) {
  job::AutoscaleSpec spec;
  spec.lag = seconds(8);
  Scaling scaling(loop_, spec, "fraud", metrics_);
  Run(scaling, 2, 2, 900);
  EXPECT_EQ(wanted_.now(), 0u) << "not known yet";
  EXPECT_EQ(scaling.chosen(), 0u);
  EXPECT_EQ(Gauges(), std::pair(0.0, 1.0));
  Run(scaling, 2, 10, 900);
  EXPECT_EQ(wanted_.now(), 2u);
  EXPECT_THAT(wanted_.reason, HasSubstr("2 workers: "));
  Run(scaling, 2, 30, 2000);
  EXPECT_EQ(wanted_.now(), 3u) << wanted_.reason;
  EXPECT_EQ(scaling.chosen(), 3u);
  EXPECT_EQ(Gauges(), std::pair(3.0, 1.0));
  EXPECT_THAT(wanted_.reason, HasSubstr("waiting for workers"));
  // A number that is pinned, and a range that is given again.
  CoordinatorStatus status = Running(2);
  status.wanted.workers = {1, 1};
  scaling.OnStatus(now_, status, seconds(1));
  scaling.Fill(&status.wanted);
  EXPECT_EQ(status.wanted.now(), 1u);
  Run(scaling, 2, 7, 900);
  EXPECT_EQ(wanted_.now(), 2u) << "begins anew";
}

TEST_F(ScalingTest, TheHookIsToldWhatIsWanted) {
  const TempDir dir;
  job::AutoscaleSpec spec;
  spec.command = {"sh", "-c", "echo {workers} {ps} >> " + dir / "calls"};
  spec.timeout = std::chrono::minutes(2);
  Scaling scaling(loop_, spec, "fraud", metrics_);
  const auto told = [&](const std::string& text) {
    const Time until = loop_.Now() + seconds(120);
    while (ReadAll(dir / "calls") != text && loop_.Now() < until) loop_.RunOnce(milliseconds(1));
    return ReadAll(dir / "calls") == text;
  };
  Run(scaling, 2, 2, 900);
  for (int i = 0; i < 20; ++i) loop_.RunOnce(milliseconds(1));
  EXPECT_FALSE(std::filesystem::exists(dir / "calls")) << "nothing is known yet";
  Run(scaling, 2, 10, 900);
  EXPECT_TRUE(told("2 1\n")) << ReadAll(dir / "calls");
  // Not while the job ends.
  for (int i = 0; i < 50; ++i) loop_.RunOnce(milliseconds(1));
  CoordinatorStatus status = Running(2);
  status.wanted.workers = {3, 3};
  status.phase = CoordinatorStatus::Phase::kStopping;
  scaling.OnStatus(now_, status, seconds(0));
  for (int i = 0; i < 20; ++i) loop_.RunOnce(milliseconds(1));
  EXPECT_EQ(ReadAll(dir / "calls"), "2 1\n");
}

class Told final : public control::ScalerServer {
 public:
  void Set(const Wanted& wanted) override { last = wanted; }
  const std::string& address() const override { return where_; }
  Wanted last;

 private:
  std::string where_;
};

TEST_F(ScalingTest, KedaIsToldWhatIsWantedAndWhetherAnyWorkerIs) {
  Told told;
  Scaling scaling(loop_, {}, "fraud", metrics_, &told);
  Run(scaling, 2, 2, 900);
  EXPECT_EQ(told.last, (control::ScalerServer::Wanted{.workers = 0, .active = true}));
  Run(scaling, 2, 10, 900);
  EXPECT_EQ(told.last, (control::ScalerServer::Wanted{.workers = 2, .active = true}));
  // Everything is trained, and nothing comes any more.
  CoordinatorStatus status = Running(2);
  status.events = events_;
  status.ends = {events_};
  const auto silent = [&](int seconds_long) {
    for (int i = 0; i < 4 * seconds_long; ++i)
      scaling.OnStatus(now_ += milliseconds(250), status, seconds(0));
    return !told.last.active;
  };
  EXPECT_FALSE(silent(4));
  EXPECT_TRUE(silent(3));
  EXPECT_FALSE(scaling.needs_workers());
  const uint32_t before = told.last.workers;
  EXPECT_GE(before, 2u) << "when they are needed";
  // The first event, while nobody is there.
  status.view.members.resize(1);
  EXPECT_TRUE(silent(60));
  status.ends = {events_ + 1};
  status.lag = 1;
  EXPECT_FALSE(silent(1));
  EXPECT_TRUE(scaling.needs_workers());
  EXPECT_EQ(told.last.workers, before) << "nothing is decided without workers";
  // Predictions that are to be published.
  status.ends = {events_};
  status.lag = 0;
  EXPECT_TRUE(silent(7));
  protocol::PublishedPredictions predictions;
  predictions.behind = 5;
  status.predictions = predictions;
  EXPECT_FALSE(silent(7));
}

TEST_F(ScalingTest, AJobWithoutServersAlwaysNeedsWorkers) {
  Told told;
  Scaling scaling(loop_, {}, "fraud", metrics_, &told, true);
  CoordinatorStatus status = Running(2);
  for (int i = 0; i < 100; ++i) scaling.OnStatus(now_ += milliseconds(250), status, seconds(0));
  EXPECT_TRUE(told.last.active);
}

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
