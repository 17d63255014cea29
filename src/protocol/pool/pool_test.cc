// Reactions of the pool to processes that end, and to hosts that cannot start them, one report at a time.
#include "protocol/pool/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/exit_status.h"

namespace leat::pool {
namespace {

class PoolTest : public ::testing::Test {
 protected:
  // An agent that obeys at once.
  struct Agent {
    uint64_t instance = 1, sequence = 0, events = 0;
    std::map<uint64_t, ProcessId> processes;
    std::vector<AgentReport::Ended> ended;
    std::set<uint64_t> started;
    uint32_t attempts = 0;  // starts that it was asked for
    bool full = false;
    bool unmounted = false;  // directories of jobs are not there
    std::string waits;       // condition that its coordinators wait for: they accept no calls
  };

  PoolTest() : pool_(now_, {}, {}) {}

  JobId Submit(uint32_t workers, uint32_t least = 1) {
    JobSpec spec{.name = "job", .servers = 1, .least_workers = least, .workers = workers};
    spec.resources = {{100, 0}, {500, 0}, {1000, 0}};
    return pool_.Submit(now_, spec);
  }

  void Report(const std::string& name) {
    Agent& agent = agents_[name];
    AgentReport report{.agent = name,
                       .instance = agent.instance,
                       .sequence = ++agent.sequence,
                       .host = name,
                       .offer = {6000, uint64_t{1} << 40}};
    for (const auto& [number, id] : agent.processes) {
      const bool coordinator = id.role == ProcessRole::kCoordinator;
      const bool accepts = coordinator && agent.waits.empty();
      report.running.push_back({id, accepts ? name + ":1" : "", coordinator ? agent.waits : ""});
      if (accepts) report.wants.push_back({id.job, 1, wants_, events_});
    }
    report.ended = agent.ended;
    const auto orders = pool_.OnReport(now_, report);
    ASSERT_TRUE(orders.ok()) << orders.status().message();
    std::erase_if(agent.ended, [&](const auto& e) { return e.event <= orders->acknowledged; });
    for (const auto& start : orders->starts) {
      if (!agent.started.insert(start.id.number).second) continue;
      ++agent.attempts;
      if (agent.full || (agent.unmounted && start.resumes)) {
        agent.ended.push_back(
            {++agent.events, start.id, ExitStatus::kMayHeal, "No space left on device", agent.full});
      } else {
        agent.processes[start.id.number] = start.id;
      }
    }
    for (const ProcessId& id : orders->ends) {
      if (agent.processes.contains(id.number)) End(name, id, agent.waits.empty() ? 0 : 130);
    }
  }
  void Pass(Duration time) {
    for (const Time until = now_ + time; now_ < until;) {
      now_ += std::chrono::milliseconds(200);
      for (const auto& [name, agent] : agents_) Report(name);
      pool_.Decide(now_);
      pool_.TakeChanged();
    }
  }

  std::optional<ProcessId> Find(ProcessRole role, std::string* where = nullptr) {
    for (auto& [name, agent] : agents_) {
      for (const auto& [number, id] : agent.processes) {
        if (id.role != role) continue;
        if (where != nullptr) *where = name;
        return id;
      }
    }
    return std::nullopt;
  }
  void End(const std::string& name, const ProcessId& id, int exit_code, const std::string& error = "") {
    Agent& agent = agents_.at(name);
    agent.processes.erase(id.number);
    agent.ended.push_back({++agent.events, id, exit_code, error});
  }
  // Ends one of the role.
  void End(ProcessRole role, int exit_code, const std::string& error = "") {
    std::string where;
    const auto id = Find(role, &where);
    ASSERT_TRUE(id);
    End(where, *id, exit_code, error);
  }
  JobStatus Now(JobId id = 1) { return pool_.jobs(now_).at(id - 1); }
  JobState State(JobId id = 1) { return Now(id).record.state; }

  Time now_{std::chrono::seconds(100)};
  Pool pool_;
  std::map<std::string, Agent> agents_;
  uint64_t events_ = 1;
  uint32_t wants_ = 2;
};

TEST_F(PoolTest, WhatMayHealIsStartedAgainHoweverOften) {
  agents_["a"];
  Submit(2);
  Pass(std::chrono::seconds(3));
  for (const ProcessRole role : {ProcessRole::kWorker, ProcessRole::kServer, ProcessRole::kCoordinator}) {
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(Find(role)) << fields::NameOf(role) << " " << i;
      End(role, ExitStatus::kMayHeal, "no broker answers");
      Pass(std::chrono::milliseconds(400));
      ASSERT_EQ(State(), JobState::kRunning)
          << fields::NameOf(role) << " " << i << ": " << Now().record.reason;
      EXPECT_THAT(Now().waiting, ::testing::HasSubstr("no broker answers"))
          << fields::NameOf(role) << " " << i << " ps " << Now().servers << " of " << Now().grant.servers
          << " workers " << Now().workers << " of " << Now().grant.workers << " state "
          << fields::NameOf(State());
      Pass(std::chrono::seconds(11));  // the longest pause, and a report
    }
  }
  EXPECT_EQ(Now().waiting, "");
}

TEST_F(PoolTest, OneProcessReplacesOne) {
  agents_["a"];
  Submit(2, 2);
  Pass(std::chrono::seconds(3));
  for (const ProcessRole role : {ProcessRole::kServer, ProcessRole::kWorker}) {
    End(role, 137);
    Pass(std::chrono::seconds(3));
    EXPECT_EQ(Now().servers, 1u);
    EXPECT_EQ(Now().workers, 2u);
    EXPECT_EQ(agents_["a"].processes.size(), 4u);
  }
}

TEST_F(PoolTest, PausesBetweenStartsGrow) {
  agents_["a"];
  Submit(2);
  Pass(std::chrono::seconds(3));
  const uint32_t before = agents_["a"].attempts;
  for (int i = 0; i < 300; ++i) {  // a minute
    if (Find(ProcessRole::kServer)) End(ProcessRole::kServer, ExitStatus::kMayHeal);
    Pass(std::chrono::milliseconds(200));
  }
  EXPECT_LE(agents_["a"].attempts - before, 12u);
  EXPECT_GE(agents_["a"].attempts - before, 6u);
  events_ += 10;  // it trains again
  Pass(std::chrono::seconds(11));
  End(ProcessRole::kServer, ExitStatus::kMayHeal);
  Pass(std::chrono::seconds(2));
  EXPECT_TRUE(Find(ProcessRole::kServer)) << "the first pause is short again";
}

TEST_F(PoolTest, AMistakeFailsTheJobAtOnce) {
  agents_["a"];
  Submit(2);
  Pass(std::chrono::seconds(3));
  End(ProcessRole::kWorker, ExitStatus::kBadInput, "no such topic");
  Pass(std::chrono::milliseconds(400));
  EXPECT_EQ(State(), JobState::kStopping);
  End(ProcessRole::kCoordinator, 0);
  Pass(std::chrono::milliseconds(400));
  EXPECT_EQ(State(), JobState::kFailed);
  EXPECT_EQ(Now().record.reason, "worker 0: no such topic");
}

TEST_F(PoolTest, ACoordinatorThatWasReplacedIsNotStartedAgain) {
  agents_["a"];
  Submit(2);
  Pass(std::chrono::seconds(3));
  End(ProcessRole::kCoordinator, ExitStatus::kFailed, "another coordinator has taken over");
  Pass(std::chrono::milliseconds(400));
  EXPECT_EQ(State(), JobState::kFailed);
  EXPECT_EQ(Now().record.reason, "another coordinator has taken over");
}

TEST_F(PoolTest, CrashesInARowFailTheJob) {
  agents_["a"];
  Submit(2);
  Pass(std::chrono::seconds(3));
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(State(), JobState::kRunning) << i;
    End(ProcessRole::kWorker, i % 2 == 0 ? 139 : 1);
    Pass(std::chrono::seconds(11));
  }
  EXPECT_EQ(State(), JobState::kStopping);
  EXPECT_THAT(Now().record.reason, ::testing::HasSubstr("6 processes ended without progress"));
}

TEST_F(PoolTest, ACoordinatorThatCrashesBeforeItAcceptsCallsFailsTheJob) {
  agents_["a"].waits = "its start";
  Submit(2);
  for (int i = 0; i < 6; ++i) {
    Pass(std::chrono::seconds(11));
    ASSERT_EQ(State(), JobState::kRunning) << i;
    End(ProcessRole::kCoordinator, 134);
  }
  Pass(std::chrono::seconds(11));
  EXPECT_EQ(State(), JobState::kFailed);
}

TEST_F(PoolTest, AJobGoesToAnotherHostIfTheFirstOneIsFull) {
  agents_["a"].full = true;
  Submit(2);
  Pass(std::chrono::seconds(2));
  agents_["b"];
  Pass(std::chrono::seconds(2));
  EXPECT_EQ(agents_["a"].attempts, 1u) << "it is left out";
  EXPECT_EQ(State(), JobState::kRunning);
  EXPECT_EQ(Now().record.home, "b");
  EXPECT_EQ(agents_["b"].processes.size(), 4u);
  EXPECT_EQ(Now().waiting, "");
}

TEST_F(PoolTest, AHostThatStartsNoProcessIsLeftOutWhateverTheStatus) {
  agents_["a"];
  Submit(2);
  Pass(std::chrono::seconds(2));
  ASSERT_EQ(State(), JobState::kRunning);
  End(ProcessRole::kCoordinator, 127);
  agents_["a"].ended.back().host_failed = true;
  Pass(std::chrono::seconds(1));
  EXPECT_FALSE(pool_.agents(now_).at(0).left_out.empty());
  EXPECT_THAT(State(), ::testing::AnyOf(JobState::kRunning, JobState::kQueued)) << Now().record.reason;
  Pass(std::chrono::minutes(6));
  EXPECT_EQ(State(), JobState::kRunning) << Now().record.reason;
}

TEST_F(PoolTest, AHostIsLeftOutLongerEachTimeAndTriedAgain) {
  agents_["a"].full = true;
  Submit(2);
  Pass(std::chrono::seconds(2));
  EXPECT_EQ(State(), JobState::kQueued);
  EXPECT_EQ(Now().record.home, "") << "nothing of it is there";
  EXPECT_THAT(Now().waiting, ::testing::HasSubstr("No space left on device"));
  EXPECT_THAT(pool_.agents(now_).at(0).left_out, ::testing::HasSubstr("No space left on device"));
  Pass(std::chrono::hours(1));
  EXPECT_EQ(State(), JobState::kQueued) << Now().record.reason;
  EXPECT_LE(agents_["a"].attempts, 20u);
  EXPECT_GE(agents_["a"].attempts, 12u);
  agents_["a"].full = false;
  Pass(std::chrono::minutes(6));
  EXPECT_EQ(State(), JobState::kRunning);
  EXPECT_EQ(agents_["a"].processes.size(), 4u);
  EXPECT_EQ(pool_.agents(now_).at(0).left_out, "");
}

TEST_F(PoolTest, AJobThatRunsOnAFullHostGoesOn) {
  agents_["a"];
  Submit(2, 2);
  Pass(std::chrono::seconds(3));
  ASSERT_EQ(agents_["a"].processes.size(), 4u);
  agents_["a"].full = true;
  End(ProcessRole::kWorker, 137);
  for (int i = 0; i < 600; ++i) {
    Pass(std::chrono::seconds(1));
    ASSERT_EQ(State(), JobState::kRunning) << i << ": " << Now().record.reason;
    ASSERT_EQ(agents_["a"].processes.size(), 3u) << "the others stay";
  }
  EXPECT_THAT(Now().waiting, ::testing::HasSubstr("No space left on device"));
  // A second job has to wait, although most of the host is free.
  Submit(1);
  Pass(std::chrono::seconds(1));
  EXPECT_EQ(State(2), JobState::kQueued);
  EXPECT_THAT(Now(2).waiting, ::testing::HasSubstr("No space left on device"));
  agents_["a"].full = false;
  Pass(std::chrono::minutes(6));
  EXPECT_EQ(Now(1).workers, 2u);
  EXPECT_EQ(State(2), JobState::kRunning);
}

TEST_F(PoolTest, AJobWaitsForItsDirectoryOnAFullHost) {
  agents_["a"];
  Submit(2);
  Pass(std::chrono::seconds(3));
  agents_["b"];
  agents_["a"].full = true;
  End(ProcessRole::kCoordinator, 137);
  Pass(std::chrono::seconds(20));
  EXPECT_EQ(Now().record.home, "a");
  EXPECT_THAT(Now().waiting, ::testing::HasSubstr("No space left on device"));
  EXPECT_EQ(State(), JobState::kRunning);
  agents_["a"].full = false;
  Pass(std::chrono::seconds(60));
  std::string where;
  ASSERT_TRUE(Find(ProcessRole::kCoordinator, &where));
  EXPECT_EQ(where, "a");
}

TEST_F(PoolTest, AJobWithoutACoordinatorKeepsNoRoomForMembersThatNobodyStarted) {
  wants_ = 6;
  agents_["a"];
  Submit(6);
  Pass(std::chrono::seconds(5));
  EXPECT_EQ(Now().workers, 5u);
  agents_["a"] = {.instance = 2, .unmounted = true};
  now_ += std::chrono::seconds(3);
  Pass(std::chrono::seconds(3));
  EXPECT_EQ(Now().workers, 5u) << "planned";
  const JobId other = Submit(2);
  Pass(std::chrono::seconds(3));
  EXPECT_EQ(State(other), JobState::kRunning);
}

TEST_F(PoolTest, ARestartedAgentIsTriedAtOnce) {
  agents_["a"].full = true;
  Submit(2);
  Pass(std::chrono::seconds(60));
  agents_["a"].full = false;
  agents_["a"].instance = 2;
  agents_["a"].sequence = agents_["a"].events = 0;
  now_ += std::chrono::seconds(3);
  Pass(std::chrono::seconds(2));
  EXPECT_EQ(State(), JobState::kRunning);
}

TEST_F(PoolTest, ACoordinatorThatWaitsIsExplainedAndCanBeEnded) {
  agents_["a"].waits = "Kafka topic 'events': no broker has answered";
  Submit(2);
  Pass(std::chrono::seconds(600));
  EXPECT_EQ(State(), JobState::kRunning);
  EXPECT_EQ(Now().waiting, agents_["a"].waits);
  ASSERT_TRUE(pool_.Cancel(now_, 1, false).ok());
  Pass(std::chrono::seconds(1));
  EXPECT_EQ(State(), JobState::kCancelled);
  EXPECT_THAT(agents_["a"].processes, ::testing::IsEmpty());
}

std::vector<JobRecord> Done(size_t count, int64_t over_s) {
  std::vector<JobRecord> records;
  for (size_t i = 1; i <= count; ++i)
    records.push_back({.id = i, .state = JobState::kDone, .over_s = over_s + static_cast<int64_t>(i)});
  return records;
}

TEST(PoolMemoryTest, JobsThatAreOverCostNothingAndAreForgotten) {
  constexpr size_t kJobs = 20'000;
  constexpr int64_t kStart = 1'800'000'000;
  Time now{0};
  Pool pool(now, {.start_s = kStart, .most_over = 1000}, Done(kJobs, kStart - 100'000));
  EXPECT_EQ(pool.live_jobs(), 0u);
  std::set<JobId> forgotten;
  size_t decisions = 0;
  for (; forgotten.size() < kJobs - 1000 && decisions < 1000; ++decisions) {
    pool.Decide(now += std::chrono::milliseconds(200));
    const auto some = pool.TakeForgotten();
    EXPECT_LE(some.size(), 20u) << "each of them is a file";
    for (const JobRecord& record : some) forgotten.insert(record.id);
  }
  ASSERT_EQ(forgotten.size(), kJobs - 1000);
  EXPECT_EQ(*forgotten.rbegin(), kJobs - 1000) << "the oldest ones";
  EXPECT_EQ(pool.jobs(now).size(), 1000u);
  EXPECT_EQ(pool.Cancel(now, 5, false).message(), "the pool has no job 5");
  EXPECT_EQ(pool.Cancel(now, kJobs, false).message(), "job 20000 is over: it is done");

  // A week later.
  now += std::chrono::hours(24 * 7);
  for (int i = 0; i < 100; ++i) pool.Decide(now);
  EXPECT_EQ(pool.TakeForgotten().size(), 999u);
  ASSERT_EQ(pool.jobs(now).size(), 1u);
  EXPECT_EQ(pool.jobs(now)[0].record.id, kJobs) << "numbers go on from it";
  EXPECT_EQ(pool.Submit(now, {.name = "next"}), kJobs + 1);
  EXPECT_EQ(pool.live_jobs(), 1u);
  ASSERT_TRUE(pool.Cancel(now, kJobs + 1, false).ok());
  pool.Decide(now);
  EXPECT_EQ(pool.live_jobs(), 0u);
  EXPECT_EQ(pool.job(now, kJobs + 1)->record.over_s, kStart + Seconds(now));
}

TEST(PoolMemoryTest, AgentsThatAreSilentForADayAreForgotten) {
  Time now{0};
  Pool pool(now, {}, {});
  for (int i = 0; i < 100; ++i) {
    const std::string name = "spot-" + std::to_string(i);
    ASSERT_TRUE(pool.OnReport(now, {.agent = name, .instance = 1, .sequence = 1, .host = name}).ok());
  }
  now += std::chrono::hours(23);
  pool.Decide(now);
  EXPECT_EQ(pool.agents(now).size(), 100u) << "somebody may look for them";
  ASSERT_TRUE(pool.OnReport(now, {.agent = "spot-7", .instance = 2, .sequence = 1, .host = "h"}).ok());
  now += std::chrono::hours(2);
  pool.Decide(now);
  ASSERT_EQ(pool.agents(now).size(), 1u);
  EXPECT_EQ(pool.agents(now)[0].name, "spot-7");
}

// An agent was silent while its job ended, and was perhaps forgotten.
TEST(PoolMemoryTest, ProcessesOfJobsThatAreOverAreEnded) {
  const Time now{0};
  Pool pool(now, {.start_s = 1'800'000'000, .most_over = 1}, Done(3, 1'799'999'000));
  pool.Decide(now);
  ASSERT_EQ(pool.TakeForgotten().size(), 2u);
  AgentReport report{.agent = "a", .instance = 1, .sequence = 1, .host = "a", .offer = {6000, 1 << 30}};
  for (const JobId job : {1, 3, 7})
    report.running.push_back({{job, ProcessRole::kWorker, 10 + job, 0}, "", ""});
  auto orders = pool.OnReport(now, report);
  ASSERT_TRUE(orders.ok());
  std::set<JobId> ended;
  for (const ProcessId& id : orders->ends) ended.insert(id.job);
  EXPECT_EQ(ended, (std::set<JobId>{1, 3})) << "nobody knows job 7";
  EXPECT_EQ(pool.live_jobs(), 1u);
  report.running.clear();
  ++report.sequence;
  orders = pool.OnReport(now, report);
  ASSERT_TRUE(orders.ok());
  EXPECT_TRUE(orders->ends.empty());
  pool.Decide(now);
  EXPECT_EQ(pool.live_jobs(), 0u);
}

}  // namespace
}  // namespace leat::pool
