// A real pool and a real agent, as processes, with played jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"
#include "net/security/private_file.h"
#include "net/tls/testing.h"
#include "run/launcher/processes.h"
#include "run/pool/messages_json.h"
#include "run/pool/testing.h"

namespace leat::pool {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Json = nlohmann::json;
using PoolKind = protocol::PoolRequest::Kind;

class PoolProcessTest : public ::testing::Test {
 protected:
  PoolProcessTest() {
    fs::permissions(dir_.path(), fs::perms(0755));
    // A port that stays free for the pool that comes back.
    auto probe = control::ControlServer::Start("127.0.0.1:0", "t",
                                               [](auto, auto reply) { reply(protocol::Refusal{}); });
    address_ = (*probe)->address();
  }

  pid_t Start(const std::string& name, std::vector<std::string> arguments) {
    auto pid =
        processes_.Start({.name = name, .arguments = std::move(arguments), .log = dir_ / (name + ".log")});
    EXPECT_TRUE(pid.ok()) << pid.status().message();
    return *pid;
  }
  // From here on pool, agent and jobs have TLS.
  void Secure() {
    authority_ = std::make_unique<net::testing::TestAuthority>();
    tls_ = authority_->Identity({"admin"});
  }
  std::vector<std::string> Secured(std::vector<std::string> arguments) {
    if (authority_ != nullptr)
      arguments.insert(arguments.end(), {"--security", authority_->Issue({arguments.front()}).string()});
    return arguments;
  }
  pid_t StartPool(const std::string& directory = "pool") {
    return Start("pool", Secured({"pool", "--directory", dir_ / directory, "--listen", address_}));
  }
  pid_t StartAgentAlone() {
    return Start("agent",
                 Secured({"agent", "--pool", address_, "--name", "one", "--directory", dir_ / "agent"}));
  }
  pid_t StartAgent() {
    const pid_t agent = StartAgentAlone();
    Await(
        [&] {
          const auto list = Ask(PoolKind::kList, "");
          return list.ok() && !Json::parse(*list).value("agents", Json::array()).empty();
        },
        "the agent");
    return agent;
  }
  void Kill(pid_t pid, int signal = SIGKILL) {
    processes_.Signal(pid, signal);
    AwaitEnd(pid);
  }
  // Returns the exit status.
  int AwaitEnd(pid_t pid) {
    int status = -1;
    Await(
        [&] {
          for (const auto& end : processes_.Reap()) {
            if (end.pid == pid) status = end.exit_code;
          }
          return kill(pid, 0) != 0;
        },
        "its end");
    return status;
  }

  Result<std::string> Ask(PoolKind kind, const std::string& body) {
    const auto client = control::ControlClient::Make(address_, kTestToken, tls_, PoolPort());
    auto reply = client->Call(protocol::PoolRequest{kind, body}, 20s);
    if (!reply.ok()) return reply.status();
    auto& said = std::get<protocol::PoolReply>(*reply);
    if (!said.status.ok()) return said.status;
    return said.body;
  }
  // `away`: while this path exists, the job's brokers are away. `padding`: bytes of the file that say
  // nothing.
  JobId Submit(int32_t priority, uint32_t least, uint64_t events, const std::string& away = "",
               size_t padding = 0) {
    SubmitRequest request;
    request.wait = true;
    request.spec = {
        .name = "played", .priority = priority, .least_workers = least, .workers = std::max(3u, least)};
    request.spec.resources.worker = {worker_millicores_, 1 << 20};
    request.payload = {.file = std::to_string(events) + " " + away + std::string(padding, ' ') + "\n",
                       .workers = "1:3"};
    const auto id = Ask(PoolKind::kSubmit, ToJson(request));
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? FromJson<JobNumber>(*id)->job : 0;
  }
  Json JobNow(JobId id) {
    const auto list = Ask(PoolKind::kList, "");
    if (!list.ok()) return Json::object();
    const Json all = Json::parse(*list);
    for (const Json& job : all["jobs"]) {
      if (job["job"] == id) return job;
    }
    return Json::object();
  }
  std::string State(JobId id) { return JobNow(id).value("state", ""); }
  uint64_t Workers(JobId id) { return JobNow(id).value("workers", uint64_t{0}); }
  uint64_t EventsOf(JobId id) const {
    uint64_t events = 0;
    std::ifstream(dir_ / ("agent/jobs/" + std::to_string(id) + "/run/events")) >> events;
    return events;
  }
  void Await(const std::function<bool()>& condition, const std::string& what) {
    const MonotonicClock clock;
    const Time until = clock.Now() + 120s;
    while (!condition()) {
      ASSERT_LT(clock.Now(), until) << what << "\n"
                                    << ReadAll(dir_ / "pool.log") << ReadAll(dir_ / "agent.log");
      std::this_thread::sleep_for(20ms);
    }
  }

  TempDir dir_;
  uint64_t worker_millicores_ = 1000;  // the agent has 3000
  std::unique_ptr<net::testing::TestAuthority> authority_;
  std::shared_ptr<net::TlsIdentity> tls_;  // identity of the client
  std::string address_;
  launcher::Processes processes_;
};

TEST_F(PoolProcessTest, JobsShareTheHostAndSurviveThePool) {
  pid_t pool = StartPool();
  StartAgent();
  const JobId first = Submit(0, 1, 400);
  Await([&] { return Workers(first) == 3; }, "the first job has all workers");
  const JobId second = Submit(0, 1, 200);
  Await([&] { return Workers(second) >= 1 && JobNow(second).value("events", 0) > 0; },
        "the second job trains");
  EXPECT_EQ(State(first), "running") << "it has become smaller";

  const std::string coordinator = JobNow(first).value("coordinator", "");
  Kill(pool);
  const uint64_t before = EventsOf(first);
  Await([&] { return EventsOf(first) > before; }, "the job goes on without the pool");
  pool = StartPool();
  Await([&] { return JobNow(first).value("coordinator", "") == coordinator; },
        "the pool knows the job again");

  // A whole host is needed: both are preempted, and go on later.
  const JobId third = Submit(5, 3, 60);
  Await([&] { return State(third) == "done"; }, "the third job is done");
  Await([&] { return State(first) == "done" && State(second) == "done"; }, "all jobs are done");
  EXPECT_GE(JobNow(first).value("preemptions", 0), 1);
  EXPECT_EQ(EventsOf(first), 400u);
  EXPECT_EQ(EventsOf(second), 200u);
  EXPECT_EQ(EventsOf(third), 60u);
}

TEST_F(PoolProcessTest, AnAgentThatIsKilledTakesItsJobsUpAgain) {
  StartPool();
  const pid_t agent = StartAgent();
  const JobId job = Submit(0, 1, 150);
  Await([&] { return EventsOf(job) > 10; }, "the job trains");
  Kill(agent);
  StartAgent();
  Await([&] { return State(job) == "done"; }, "the job is done");
  EXPECT_EQ(EventsOf(job), 150u);
}

TEST_F(PoolProcessTest, AJobWhoseDirectoryIsGoneDoesNotBeginAgain) {
  StartPool();
  pid_t agent = StartAgent();
  const JobId job = Submit(0, 1, 150);
  Await([&] { return EventsOf(job) > 10 && JobNow(job).contains("coordinator"); }, "the job trains");
  Kill(agent);
  fs::rename(dir_ / "agent", dir_ / "unmounted");
  agent = StartAgent();
  const fs::path run = dir_ / ("agent/jobs/" + std::to_string(job) + "/run");
  Await(
      [&] {
        return JobNow(job).value("waits_for", "").find((run / "job.yaml").string() + " is not there") !=
               std::string::npos;
      },
      "the reason");
  const JobId other = Submit(0, 1, 20);
  Await([&] { return State(other) == "done"; }, "a job of the host, which is well");
  EXPECT_FALSE(fs::exists(run));
  Kill(agent);
  fs::remove_all(dir_ / "agent");
  fs::rename(dir_ / "unmounted", dir_ / "agent");
  StartAgent();
  Await([&] { return State(job) == "done"; }, "the job is done");
  EXPECT_EQ(EventsOf(job), 150u);
}

TEST_F(PoolProcessTest, JobsWaitForBrokersThatAreAway) {
  StartPool();
  pid_t agent = StartAgent();
  const std::string away = dir_ / "away";
  const JobId running = Submit(0, 1, 150, away);
  Await([&] { return EventsOf(running) > 10; }, "the job trains");
  std::ofstream(away) << "x";
  Kill(agent);
  agent = StartAgent();
  // A resumed job waits, a new job is started again and again.
  const JobId fresh = Submit(0, 1, 50, away);
  for (const JobId job : {running, fresh}) {
    Await([&, job] { return JobNow(job).value("waits_for", "").find("no broker") != std::string::npos; },
          "why job " + std::to_string(job) + " waits");
  }
  const JobId third = Submit(0, 1, 50, away);
  Await([&] { return JobNow(third).contains("waits_for"); }, "the third job waits");
  ASSERT_TRUE(Ask(PoolKind::kCancel, ToJson(CancelRequest{third})).ok());
  Await([&] { return State(third) == "cancelled"; }, "the end of a job that waits");
  fs::remove(away);
  Await([&] { return State(running) == "done" && State(fresh) == "done"; }, "both are done");
  EXPECT_EQ(EventsOf(running), 150u);
  EXPECT_EQ(EventsOf(fresh), 50u);
}

TEST_F(PoolProcessTest, AJobWaitsForAHostThatCannotStartIt) {
  StartPool();
  StartAgent();
  const fs::path secrets = dir_ / "agent/secrets";
  fs::remove_all(secrets);
  std::ofstream(secrets) << "no folder can be made in a file\n";
  const JobId job = Submit(0, 1, 20);
  Await([&] { return JobNow(job).value("waits_for", "").find("secrets") != std::string::npos; },
        "the reason");
  const Json all = Json::parse(*Ask(PoolKind::kList, ""));
  EXPECT_THAT(all["agents"][0].value("left_out", ""), ::testing::HasSubstr("secrets"));
  fs::remove(secrets);
  fs::create_directory(secrets);
  fs::permissions(secrets, fs::perms(0711));
  Await([&] { return State(job) == "done"; }, "the job is done");
}

TEST_F(PoolProcessTest, ADiskThatFailsFailsNoJob) {
  StartPool();
  StartAgent();
  const JobId job = Submit(0, 1, 100);
  Await([&] { return EventsOf(job) > 5; }, "the job trains");
  // The probe of the disk cannot be written either.
  fs::create_directories(dir_ / "agent/probe/x");
  const std::string broken = dir_ / ("agent/jobs/" + std::to_string(job) + "/run/broken");
  std::ofstream(broken) << "x";
  Await(
      [&] {
        const std::string reason = JobNow(job).value("waits_for", "");
        return reason.find("gets no processes") != std::string::npos &&
               reason.find("Input/output error; " + (dir_ / "agent/probe")) != std::string::npos;
      },
      "the reason");
  fs::remove_all(dir_ / "agent/probe");
  fs::remove(broken);
  Await([&] { return State(job) == "done"; }, "the job is done");
  EXPECT_EQ(EventsOf(job), 100u);

  // The mistake of a user, on a disk that is well.
  const JobId other = Submit(0, 1, 100'000);
  Await([&] { return EventsOf(other) > 5; }, "the other job trains");
  std::ofstream(dir_ / ("agent/jobs/" + std::to_string(other) + "/run/broken")) << "x";
  Await([&] { return State(other) == "failed"; }, "its end");
}

TEST_F(PoolProcessTest, SecretsGoWithTheLastProcess) {
  StartPool();
  const pid_t agent = StartAgent();
  // The log cannot be opened, so the coordinator's start fails after its secrets are there.
  const fs::path log = dir_ / "agent/logs/1/coordinator.log";
  fs::create_directories(log);
  const JobId job = Submit(0, 1, 100'000);
  ASSERT_EQ(job, 1u);
  Await([&] { return JobNow(job).value("waits_for", "").find("coordinator.log") != std::string::npos; },
        "the reason");
  const fs::path secrets = dir_ / "agent/secrets";
  Await([&] { return fs::is_empty(secrets); }, "no secrets");
  fs::remove(log);
  Await([&] { return EventsOf(job) > 5; }, "the job trains");
  EXPECT_TRUE(fs::exists(secrets / "1/job.yaml"));
  Kill(agent, SIGTERM);
  EXPECT_TRUE(fs::is_empty(secrets)) << "the agent has ended";
}

TEST_F(PoolProcessTest, JobsWithLargeFilesStartTogether) {
  StartPool();
  worker_millicores_ = 160;
  std::vector<JobId> jobs;
  for (int i = 0; i < 18; ++i) jobs.push_back(Submit(0, 1, 20, "", 250 << 10));
  StartAgent();
  Await([&] { return std::ranges::all_of(jobs, [&](JobId job) { return State(job) == "done"; }); },
        "all jobs are done");
}

// Numbers of jobs and processes begin again in a new pool.
TEST_F(PoolProcessTest, AnAgentServesOnePool) {
  pid_t pool = StartPool();
  pid_t agent = StartAgent();
  const JobId job = Submit(0, 1, 100'000);
  Await([&] { return EventsOf(job) > 5; }, "the job trains");
  Kill(pool);
  pool = StartPool("another");
  ASSERT_EQ(Submit(0, 1, 20), job);
  Await([&] { return ReadAll(dir_ / "agent.log").find("belongs to pool") != std::string::npos; },
        "the refusal of an agent that runs");
  const uint64_t before = EventsOf(job);
  Await([&] { return EventsOf(job) > before; }, "the job of the first pool goes on");
  EXPECT_TRUE(Json::parse(*Ask(PoolKind::kList, ""))["agents"].empty());
  EXPECT_EQ(State(job), "queued") << "the other job";

  Kill(agent);
  const uint64_t trained = EventsOf(job);
  agent = StartAgentAlone();
  EXPECT_EQ(AwaitEnd(agent), 2);
  EXPECT_THAT(ReadAll(dir_ / "agent.log"),
              ::testing::HasSubstr("the directory of agent 'one' belongs to pool " +
                                   ReadAll(dir_ / "pool/id").substr(0, 16)));
  EXPECT_GE(EventsOf(job), trained);
  Kill(pool);
  StartPool();
  StartAgent();
  Await([&] { return EventsOf(job) > trained; }, "the job goes on in its own pool");
}

TEST_F(PoolProcessTest, AJobOutlivesItsCertificates) {
  Secure();
  StartPool();
  StartAgent();
  const JobId job = Submit(0, 1, 100'000);
  Await([&] { return JobNow(job).contains("coordinator") && Workers(job) > 0; }, "the job runs");
  const std::string secrets = dir_ / ("agent/secrets/" + std::to_string(job));
  const std::string roles = ReadAll(secrets + "/roles/cert.pem"), pool = ReadAll(secrets + "/pool/cert.pem");
  ASSERT_TRUE(net::RenewalTime(roles).ok());
  const int64_t end = *net::RenewalTime(roles) + kCertificateLife.count() / 2;
  Await([&] { return std::time(nullptr) > end + 1; }, "the end of the first certificates");
  EXPECT_NE(ReadAll(secrets + "/roles/cert.pem"), roles);
  EXPECT_NE(ReadAll(secrets + "/pool/cert.pem"), pool);

  // New connections: of a user, and of workers that take the place of others.
  const auto access = FromJson<UserAccess>(*Ask(PoolKind::kAccess, ToJson(JobNumber{job})));
  ASSERT_TRUE(access.ok());
  const fs::path admin = dir_ / "admin";
  ASSERT_TRUE(net::CreatePrivateFile(admin / "ca.pem", access->admin.ca).ok());
  ASSERT_TRUE(net::CreatePrivateFile(admin / "cert.pem", access->admin.certificate).ok());
  ASSERT_TRUE(net::CreatePrivateFile(admin / "key.pem", access->admin.key).ok());
  auto tls = net::TlsIdentity::Load(admin);
  ASSERT_TRUE(tls.ok()) << tls.status().ToString();
  const auto status = control::ControlClient::Make(access->coordinator, access->token, *tls)
                          ->Call(protocol::StatusRequest{}, 20s);
  EXPECT_TRUE(status.ok()) << status.status().ToString();
  const JobId other = Submit(0, 1, 20);
  Await([&] { return State(other) == "done"; }, "a job that takes room for a while");
  Await([&] { return Workers(job) == 3; }, "workers that join again");
  const uint64_t before = EventsOf(job);
  Await([&] { return EventsOf(job) > before + 20; }, "the job goes on");
}

TEST_F(PoolProcessTest, JobsHaveUsersOfTheirOwn) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start processes as other users";
  StartPool();
  StartAgent();
  for (const JobId job : {Submit(0, 1, 20), Submit(0, 1, 20)}) {
    Await([&] { return State(job) == "done"; }, "a job");
    const std::string id = std::to_string(job);
    for (const std::string& path : {"agent/jobs/" + id, "agent/jobs/" + id + "/run/events"}) {
      struct stat found {};
      ASSERT_EQ(stat((dir_ / path).c_str(), &found), 0) << path;
      EXPECT_EQ(found.st_uid, 2'000'000'000 + job) << path;
    }
  }
}

TEST_F(PoolProcessTest, NoJobReadsAnotherOneAndNoSecretIsShown) {
  StartPool();
  StartAgent();
  const JobId job = Submit(0, 1, 100'000);
  Await([&] { return JobNow(job).contains("coordinator"); }, "the job runs");
  const auto access = FromJson<UserAccess>(*Ask(PoolKind::kAccess, ToJson(JobNumber{job})));
  ASSERT_TRUE(access.ok());
  ASSERT_GE(access->token.size(), 32u);
  EXPECT_NE(access->token, kTestToken);
  const std::string folder = dir_ / ("agent/jobs/" + std::to_string(job));
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms(0700));
  // Logs, status and process lists.
  EXPECT_EQ(Ask(PoolKind::kList, "")->find(access->token), std::string::npos);
  for (const auto& entry : fs::recursive_directory_iterator(dir_.path())) {
    if (entry.path().extension() != ".log") continue;
    EXPECT_EQ(ReadAll(entry.path()).find(access->token), std::string::npos) << entry.path();
  }
  for (const auto& entry : fs::directory_iterator("/proc"))
    EXPECT_EQ(ReadAll(entry.path() / "cmdline").find(access->token), std::string::npos);
  ASSERT_TRUE(Ask(PoolKind::kCancel, ToJson(CancelRequest{job})).ok());
  Await([&] { return State(job) == "cancelled"; }, "its end");
  EXPECT_EQ(Ask(PoolKind::kCancel, ToJson(CancelRequest{job})).status().code(), Code::kNotFound);
  const auto bad = Ask(PoolKind::kSubmit, "{\"spec\": 3}");
  EXPECT_EQ(bad.status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace leat::pool
