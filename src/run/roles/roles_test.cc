// Whole jobs: every role on a thread of this process (so that ThreadSanitizer sees them together), and roles
// as processes that signals reach.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <thread>

#include "base/rng.h"
#include "base/testing.h"
#include "compute/kernels/reference/reference.h"
#include "job/testing.h"
#include "run/launcher/processes.h"
#include "run/launcher/signals.h"
#include "run/launcher/testing.h"
#include "run/roles/role.h"
#include "run/roles/start/coordinator_options.h"
#include "run/roles/testing.h"
#include "show/history/job_monitor.h"
#include "storage/checkpoint/store.h"
#include "storage/checkpoint/testing.h"
#include "stream/decode/decoder.h"
#include "stream/log/log.h"
#include "train/step/trainer.h"

namespace leat::roles {
namespace {

using Json = nlohmann::json;
using job::kSmallJob;
using protocol::AdminRequest;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr const char* kToken = "secret";
constexpr uint64_t kEvents = 4000;

class RolesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
    launcher::BlockSignals();
  }
  void TearDown() override {
    if (client_ != nullptr) Admin(AdminRequest::Kind::kStop);
    roles_.clear();
    coordinator_.reset();
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

  // The coordinator of the job, new or resumed; returns once it serves.
  void Coordinate(const std::string& text, bool resume = false, const std::string& name = "j") {
    const std::string where = directory_ / name;
    job_.emplace(resume ? job::Job::Load({.text = resume_text_, .resume = where}, overrides_)
                        : job::Job::Load({.text = text}, {.data = directory_.path(), .directory = where}));
    job_->heartbeat_timeout = heartbeat_timeout_;
    std::atomic<bool> ready{false};
    const CoordinatorOptions options{.token = kToken,
                                     .resume = resume,
                                     .pause_at = pause_at_,
                                     .monitor = monitor_,
                                     .on_ready = [&](const std::string& address) {
                                       address_ = address;
                                       ready = true;
                                     }};
    coordinator_.emplace([this, options] { return RunCoordinator(*job_, options); });
    ASSERT_TRUE(WaitFor([&] { return ready || coordinator_->over(); }));
    ASSERT_TRUE(ready) << coordinator_->Wait().ToString();
    client_ = control::ControlClient::Make(address_, kToken);
  }
  RoleOptions Options() const {
    RoleOptions options;
    options.coordinator_client.coordinator = address_;
    options.coordinator_client.token = kToken;
    options.coordinator_client.silence_limit = silence_limit_;
    options.plan.tables = {kernels_};
    options.transport = transport_;
    return options;
  }
  Thread& Start(Status (*role)(const RoleOptions&)) {
    roles_.push_back(std::make_unique<Thread>([role, options = Options()] { return role(options); }));
    return *roles_.back();
  }
  // Two servers, two workers, and the bots of the job.
  void StartAll() {
    Start(RunServer);
    Start(RunServer);
    Start(RunWorker);
    Start(RunWorker);
    Start(RunBots);
  }
  Json Now() {
    auto reply = client_->Call(protocol::StatusRequest{}, std::chrono::seconds(60));
    if (reply.ok()) last_ = Json::parse(std::get<protocol::StatusReply>(*reply).json);
    return last_;
  }
  void Admin(AdminRequest::Kind kind, NodeId node = {}, Duration deadline = std::chrono::seconds(60)) {
    (void)client_->Call(AdminRequest{.kind = kind, .node = node}, deadline);
  }
  // Waits until the job has trained pause_at_ events and does nothing more.
  bool Pauses() {
    return WaitFor([&] { return Now()["phase"] == "paused" && Now()["events"] >= pause_at_; });
  }
  void MakeACheckpointAndPause() {
    pause_at_ = kEvents / 2;
    Coordinate(Replaced(job::kSmallJob, "events: 4000", "events: 4000, rate: 4000"));
    StartAll();
    ASSERT_TRUE(WaitFor([&] { return Now()["events"] > 500; }));
    Admin(AdminRequest::Kind::kCheckpoint);
    ASSERT_TRUE(Pauses());
  }
  // Waits until all roles have ended with ok, and returns the coordinator's summary.
  Json Finish() {
    EXPECT_EQ(coordinator_->Wait(), Status());
    for (const auto& role : roles_) EXPECT_EQ(role->Wait(), Status());
    roles_.clear();
    client_.reset();
    return Json::parse(ReadAll(job_->directory + "/summary.json"));
  }
  // Values of the newest checkpoint: each is the number of events that counted.
  std::vector<float> Parameters() const {
    const auto manifest = checkpoint::ReadNewest(job_->directory);
    EXPECT_TRUE(manifest.ok()) << manifest.status().ToString();
    const auto variables = checkpoint::ReadVariables(job_->directory, *manifest, job_->Slices());
    EXPECT_TRUE(variables.ok()) << variables.status().ToString();
    return variables->at(0);
  }

  TempDir directory_;
  net::TransportOptions transport_;  // for the roles that are started
  const graph::KernelTable* kernels_ = &reference::Kernels();
  Duration heartbeat_timeout_ = std::chrono::seconds(5);
  std::shared_ptr<observe::JobMonitor> monitor_;  // for the coordinators that are started
  uint64_t pause_at_ = 0;                         // for the coordinators that are started
  Duration silence_limit_ = std::chrono::seconds(30);
  job::JobOverrides overrides_;
  std::string resume_text_;  // another file for a job that is resumed
  std::optional<job::Job> job_;
  std::string address_;
  std::optional<Thread> coordinator_;
  std::vector<std::unique_ptr<Thread>> roles_;
  std::unique_ptr<control::ControlClient> client_;
  Json last_;
  sigset_t mask_;
};

TEST_F(RolesTest, AWholeJobAndItsResumption) {
  Coordinate(job::kSmallJob);
  StartAll();
  Json summary = Finish();
  EXPECT_EQ(summary["events"], kEvents);
  EXPECT_EQ(summary["published"], kEvents);
  EXPECT_EQ(summary["phase"], "ended");
  EXPECT_EQ(summary["evictions"], 0);
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
  // It was done, so there is nothing to do.
  Coordinate("", true);
  StartAll();
  summary = Finish();
  EXPECT_EQ(summary["events"], kEvents);
  EXPECT_EQ(summary["steps"], 0);
  EXPECT_EQ(summary["evictions"], 0);
  EXPECT_TRUE(summary["loss"].is_null());
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
}

TEST_F(RolesTest, StoppedWithACheckpointAndResumed) {
  // Were it over before the stop comes, nothing would be left to resume.
  pause_at_ = kEvents / 2;
  Coordinate(Replaced(job::kSmallJob, "events: 4000", "events: 4000, rate: 4000"));
  StartAll();
  ASSERT_TRUE(WaitFor([&] { return Now()["events"] > 500; }));
  Admin(AdminRequest::Kind::kStop);
  const Json stopped = Finish();
  const uint64_t before = stopped["events"];
  EXPECT_GT(before, 500u);
  EXPECT_LT(before, kEvents);
  pause_at_ = 0;
  overrides_.rate = 0;
  overrides_.servers = 1;
  Coordinate("", true);
  Start(RunServer);
  Start(RunWorker);
  Start(RunBots);
  EXPECT_EQ(Finish()["events"], kEvents);
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
}

TEST_F(RolesTest, TheShareThatAWorkerTrainsIsInTheStatus) {
  pause_at_ = kEvents / 2;
  Coordinate(job::kSmallJob);
  StartAll();
  ASSERT_TRUE(Pauses());
  const auto compared = [&] {
    const Json members = Now().value("members", Json::array());
    return std::ranges::any_of(members, [](const Json& member) {
      return member.contains("label_skew") && member.contains("feature_skew") && member["skewed"] == false;
    });
  };
  EXPECT_TRUE(WaitFor(compared)) << last_.dump();
  EXPECT_EQ(last_["skew_warnings"], 0);
  Admin(AdminRequest::Kind::kContinue);
  EXPECT_EQ(Finish()["events"], kEvents);
}

// Flips a byte of every shard of the newest checkpoint. Returns its number.
uint64_t DamageNewest(const std::string& directory) {
  const auto manifest = checkpoint::ReadNewest(directory);
  EXPECT_TRUE(manifest.ok()) << manifest.status().ToString();
  for (const auto& shard : manifest->shards)
    checkpoint::FlipByte(directory + "/" + manifest->directory + "/" + shard.file, shard.bytes - 1, 1);
  return manifest->id;
}

TEST_F(RolesTest, ADamagedCheckpointIsPassedOverOnResume) {
  ASSERT_NO_FATAL_FAILURE(MakeACheckpointAndPause());
  Admin(AdminRequest::Kind::kStop);
  Finish();
  const uint64_t damaged = DamageNewest(job_->directory);
  pause_at_ = 0;
  overrides_.rate = 0;
  Coordinate("", true);
  StartAll();
  EXPECT_EQ(Finish()["events"], kEvents);
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
  EXPECT_TRUE(std::filesystem::exists(job_->directory + "/" + checkpoint::AsideName(damaged)));
  EXPECT_GT(checkpoint::ReadNewest(job_->directory)->id, damaged);
}

TEST_F(RolesTest, ADamagedCheckpointIsPassedOverWhileTheJobRuns) {
  ASSERT_NO_FATAL_FAILURE(MakeACheckpointAndPause());
  Admin(AdminRequest::Kind::kCheckpoint);
  const uint64_t damaged = DamageNewest(job_->directory);
  const Json members = Now()["members"];
  const auto server =
      std::ranges::find_if(members, [](const Json& member) { return member["role"] == "ps"; });
  ASSERT_NE(server, members.end());
  Admin(AdminRequest::Kind::kNodeLost, NodeId((*server)["node"].get<uint64_t>()));  // it comes back
  EXPECT_TRUE(WaitFor(
      [&] { return std::filesystem::exists(job_->directory + "/" + checkpoint::AsideName(damaged)); }));
  Admin(AdminRequest::Kind::kContinue);
  EXPECT_EQ(Finish()["events"], kEvents);
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
  EXPECT_GT(checkpoint::ReadNewest(job_->directory)->id, damaged);
}

// The largest file that this process may write.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST_F(RolesTest, WithoutSpaceForTheJournalAllWait) {
  signal(SIGXFSZ, SIG_IGN);
  silence_limit_ = std::chrono::seconds(2);
  pause_at_ = kEvents / 2;
  Coordinate(job::kSmallJob);
  StartAll();
  ASSERT_TRUE(Pauses());
  ASSERT_TRUE(WaitFor([&] { return Now()["published"] == kEvents; }));
  {
    const FileSizeLimit limit(std::filesystem::file_size(job_->directory + "/term-000001/journal"));
    // The answer would wait for the journal.
    Admin(AdminRequest::Kind::kContinue, {}, std::chrono::seconds(5));
    const auto waiting = [&] { return Now().value("waiting_for", std::string()); };
    ASSERT_TRUE(WaitFor([&] { return !waiting().empty(); }));
    EXPECT_THAT(waiting(),
                HasSubstr("the journal: " + job_->directory + "/term-000001/journal: write: File too large"));
    // Roles without replies would give up by now.
    const Time until = MonotonicClock().Now() + 3 * silence_limit_;
    ASSERT_TRUE(WaitFor([&] { return MonotonicClock().Now() > until; }));
    EXPECT_FALSE(coordinator_->over());
    EXPECT_EQ(Now()["evictions"], 0);
    EXPECT_EQ(Now()["leases"], 0);
    EXPECT_LT(Now()["events"], kEvents);
    EXPECT_FALSE(waiting().empty());
  }
  EXPECT_EQ(Finish()["events"], kEvents);
  EXPECT_EQ(last_["evictions"], 0);
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
}

TEST_F(RolesTest, WhoeverIsTakenForLostJoinsAgain) {
  Coordinate(Replaced(job::kSmallJob, "events: 4000", "events: 4000, rate: 8000"));
  StartAll();
  // All nodes that there are, in turns: the next ones are their successors.
  uint64_t node = 1;
  for (const uint64_t target : {200, 800, 1500}) {
    ASSERT_TRUE(WaitFor([&] { return Now()["events"] >= target; }));
    for (int i = 0; i < 5; ++i) Admin(AdminRequest::Kind::kNodeLost, NodeId(node++));
  }
  EXPECT_EQ(Finish()["events"], kEvents);
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
}

TEST_F(RolesTest, AStandbyTakesThePlaceOfAWorkerThatIsLost) {
  pause_at_ = kEvents / 4;
  Coordinate(job::kSmallJob);
  StartAll();
  RoleOptions standby = Options();
  standby.standby = true;
  roles_.push_back(std::make_unique<Thread>([standby] { return RunWorker(standby); }));
  const auto those = [&](const std::string& state) {
    std::vector<uint64_t> nodes;
    for (const Json& member : Now().value("members", Json::array())) {
      if (member["role"] == "worker" && member.value("state", "active") == state)
        nodes.push_back(member["node"]);
    }
    return nodes;
  };
  ASSERT_TRUE(WaitFor([&] {
    return Now()["phase"] == "paused" && those("active").size() == 2 && those("standby").size() == 1;
  }));
  const uint64_t node = those("standby").at(0);
  Admin(AdminRequest::Kind::kNodeLost, NodeId(those("active").at(0)));
  EXPECT_THAT(those("standby"), ::testing::IsEmpty());
  EXPECT_THAT(those("active"), ::testing::Contains(node));
  Admin(AdminRequest::Kind::kContinue);
  EXPECT_EQ(Finish()["events"], kEvents);
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
}

TEST_F(RolesTest, BotsThatAreTakenForLostGoOnWhereTheTopicEnds) {
  Coordinate(Replaced(job::kSmallJob, "events: 4000", "events: 4000, rate: 10000"));
  Start(RunBots);
  for (uint64_t node = 1; node <= 3; ++node) {
    ASSERT_TRUE(WaitFor([&] { return Now()["published"] >= 500 * node; }));
    Admin(AdminRequest::Kind::kNodeLost, NodeId(node));
  }
  for (auto* role : {RunServer, RunServer, RunWorker}) Start(role);
  EXPECT_EQ(Finish()["events"], kEvents);
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
}

// Least time of every kernel.
constexpr Duration kSlow = std::chrono::milliseconds(300);

class SlowKernel final : public graph::Kernel {
 public:
  explicit SlowKernel(std::unique_ptr<graph::Kernel> kernel) : kernel_(std::move(kernel)) {}
  void Run(const graph::KernelArgs& args) override {
    kernel_->Run(args);
    std::this_thread::sleep_for(kSlow);
  }
  size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }

 private:
  const std::unique_ptr<graph::Kernel> kernel_;
};

// Members without a spare core compute on the loop's thread if a step is short.
TEST_F(RolesTest, ABatchMayTakeLongerThanAMemberMayBeSilent) {
  graph::KernelTable slow{.backend = "slow", .factories = {}};
  for (const auto& [op, factory] : reference::Kernels().factories) {
    slow.factories[op] = [&factory](const graph::KernelRequest& request) {
      return std::make_unique<SlowKernel>(factory(request));
    };
  }
  kernels_ = &slow;
  heartbeat_timeout_ = 4 * kSlow;
  Coordinate(Replaced(Replaced(job::kSmallJob, "events: 4000", "events: 200"), "name: small",
                      "name: small\nstrategy: allreduce"));
  Start(RunWorker);
  Start(RunWorker);
  Start(RunBots);
  const Json summary = Finish();
  EXPECT_EQ(summary["events"], 200);
  EXPECT_EQ(summary["evictions"], 0);
  EXPECT_THAT(Parameters(), Each(200.0f));
}

TEST_F(RolesTest, WhoComesWhenTheJobIsOverEndsWell) {
  Coordinate(job::kSmallJob);
  StartAll();
  ASSERT_TRUE(WaitFor([&] { return Now()["events"] == kEvents || coordinator_->over(); }));
  // Some of these meet a coordinator that turns them away, some one that is gone or has no time any more.
  const auto options = [&] {
    auto o = Options();
    o.coordinator_client.join_deadline = std::chrono::milliseconds(100);
    return o;
  }();
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(RunWorker(options).code(), AnyOf(Code::kOk, Code::kUnavailable, Code::kDeadlineExceeded));
  Finish();
}

TEST_F(RolesTest, StatusIsThereBeforeAnybodyElseIs) {
  Coordinate(job::kSmallJob);
  const Json status = Now();
  EXPECT_EQ(status["phase"], "waiting for servers");
  EXPECT_EQ(status["events"], 0);
  EXPECT_EQ(status["members"], Json::array());
  Admin(AdminRequest::Kind::kStop);
  const Json summary = Finish();
  EXPECT_EQ(summary["events"], 0);
  EXPECT_TRUE(summary["checkpoint"].is_null());
}

// ---- network settings of the job

class NetworkTest : public RolesTest, public ::testing::WithParamInterface<bool> {};

// On one host, without memory to share: whether tensors travel by UCX is for the job to say.
TEST_P(NetworkTest, IsTrustedByEveryRoleWhereTheJobSaysSo) {
  const bool trusted = GetParam();
  for (const std::string strategy : {"async", "allreduce"}) {
    metrics::Registry metrics;
    transport_ = {.shared_memory = false, .network_transports = "tcp", .metrics = &metrics};
    pause_at_ = kEvents / 2;
    Coordinate(Replaced(job::kSmallJob, "placement: partitioned",
                        std::string("placement: partitioned, trusted_network: ") +
                            (trusted ? "true}\nstrategy: " : "false}\nstrategy: ") + strategy + "\n#"),
               false, strategy);
    if (strategy == "async") {
      StartAll();
    } else {
      for (auto* role : {RunWorker, RunWorker, RunBots}) Start(role);
    }
    // Connected, and not over.
    ASSERT_TRUE(Pauses());
    EXPECT_EQ(metrics.gauge("leat_net_ucx_connections").value() > 0, trusted) << strategy;
    Admin(AdminRequest::Kind::kContinue);
    EXPECT_EQ(Finish()["events"], kEvents);
    EXPECT_THAT(Parameters(), Each(float{kEvents}));
    coordinator_.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(Trusted, NetworkTest, ::testing::Bool());

// ---- missing resources

TEST_F(RolesTest, NoCoordinatorIsSaidWithItsAddress) {
  RoleOptions options = Options();
  options.coordinator_client.coordinator = "127.0.0.1:1";
  options.coordinator_client.join_deadline = std::chrono::milliseconds(300);
  for (auto* role : {RunServer, RunWorker, RunBots}) {
    const Status status = role(options);
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("127.0.0.1:1"));
  }
}

TEST_F(RolesTest, ATokenOfAnotherJobIsSaid) {
  Coordinate(job::kSmallJob);
  RoleOptions options = Options();
  options.coordinator_client.token = "other";
  for (auto* role : {RunServer, RunWorker, RunBots}) EXPECT_EQ(role(options).code(), Code::kPermissionDenied);
}

TEST_F(RolesTest, AnAddressThatCannotBeHadIsSaid) {
  Coordinate(job::kSmallJob);
  RoleOptions options = Options();
  options.listen = address_;
  const Status status = RunServer(options);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(address_));
  // The coordinator whose port is taken leaves a directory in which it can be started again.
  const job::Job job = job::Job::Load({.text = job::kSmallJob}, {.directory = directory_ / "second"});
  const Status refused = RunCoordinator(job, {.listen = address_, .token = kToken});
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr(address_));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "second/job.yaml"));
  Admin(AdminRequest::Kind::kStop);
  ASSERT_EQ(coordinator_->Wait(), Status());
  Coordinate(job::kSmallJob, false, "second");
}

TEST_F(RolesTest, ADirectoryIsOneCoordinatorsAlone) {
  Coordinate(job::kSmallJob);
  const Status second = RunCoordinator(*job_, {.token = kToken});
  EXPECT_EQ(second.code(), Code::kFailedPrecondition);
  EXPECT_THAT(second.message(), HasSubstr(job_->directory));
}

TEST_F(RolesTest, WhoeverLooksIsToldWhenACoordinatorIsReplaced) {
  monitor_ = std::make_shared<observe::JobMonitor>();
  Coordinate(job::kSmallJob);
  ASSERT_TRUE(WaitFor([&] { return monitor_->present()->number > 0; }));
  EXPECT_TRUE(monitor_->present()->live);
  const auto resumed = job::Job::Load({.text = resume_text_, .resume = directory_ / "j"}, overrides_);
  std::string address;
  std::atomic<bool> ready{false};
  Thread second([&] {
    return RunCoordinator(
        resumed, {.token = kToken, .resume = true, .take_over = true, .on_ready = [&](const std::string& at) {
                    address = at;
                    ready = true;
                  }});
  });
  ASSERT_TRUE(WaitFor([&] { return ready || second.over(); }));
  EXPECT_EQ(coordinator_->Wait().code(), Code::kStale);
  EXPECT_FALSE(monitor_->present()->live);
  client_ = control::ControlClient::Make(address, kToken);
  Admin(AdminRequest::Kind::kStop);
  client_ = nullptr;
}

// A topic without bots, filled, with a mark in each record.
constexpr const char* kLogJob = R"(name: small
stream: {topic: events, log: log}
schema: {format: json, fields: {amount: {type: number}, note: {role: ignore}}}
model: {layers: [bias: {units: 4}], loss: {type: negative_sum, reduction: sum}}
optimizer: {type: sgd, learning_rate: 1}
train: {batch_size: 50, split_batches: 4}
cluster: {workers: 1, ps: 1}
)";

class LogTest : public RolesTest {
 protected:
  void SetUp() override {
    RolesTest::SetUp();
    ASSERT_TRUE(stream::EmbeddedLog::Create(directory_ / "log", "events", {.partitions = 1}).ok());
    auto writer = stream::LogWriter::Open(directory_ / "log", "events");
    ASSERT_TRUE(writer.ok());
    const std::vector<std::string_view> records(1000, R"({"amount": 1, "note": "MARK"})");
    ASSERT_TRUE((*writer)->Append(0, records).ok());
    ASSERT_TRUE((*writer)->Seal().ok());
  }
};

TEST_F(LogTest, IsTrained) {
  Coordinate(kLogJob);
  Start(RunServer);
  Start(RunWorker);
  EXPECT_EQ(Finish()["events"], 1000);
  EXPECT_THAT(Parameters(), Each(1000.0f));
}

TEST_F(LogTest, DamagedEventsEndAWorkerInAnErrorAndNotInALoop) {
  Coordinate(kLogJob);
  Start(RunServer);
  std::string bytes = ReadAll(directory_ / "log/events/0000.log");
  bytes = Replaced(bytes, "MARK", "KRAM");
  directory_.Write("log/events/0000.log", bytes);
  RoleOptions options = Options();
  options.read_timeout = std::chrono::milliseconds(300);
  const Time began = MonotonicClock().Now();
  const Status status = RunWorker(options);
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("the stream cannot be read"));
  EXPECT_GE(MonotonicClock().Now() - began, options.read_timeout);
  const Json now = Now();
  EXPECT_EQ(now["events"], 0);
  EXPECT_LT(now["regranted_leases"], 60) << "it does not spin";
  for (uint64_t node = 1; node <= 2; ++node) Admin(AdminRequest::Kind::kNodeLost, NodeId(node));
}

TEST_F(LogTest, AStreamThatIsNotThereIsSaid) {
  Coordinate(kLogJob);
  std::filesystem::rename(directory_ / "log", directory_ / "away");
  const Status status = RunWorker(Options());
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(directory_ / "log"));
  Admin(AdminRequest::Kind::kNodeLost, NodeId(1));
}

// ---- servers compute what a loop in one thread does

constexpr const char* kClassesJob = R"(name: classes
stream: {files: {format: csv, paths: [rows.csv], header: true}, epochs: 2}
schema: {format: csv, fields: {x: {type: number}, y: {type: number}, class: {type: number, role: label}}}
model: {layers: [dense: {units: 9}, batch_norm, dense: {units: 3}], loss: softmax_cross_entropy}
optimizer: {type: adamw, learning_rate: 0.05, weight_decay: 0.1, clip_norm: 0.25,
            schedule: {type: cosine, warmup: 5, steps: 30, final: 0.01}}
train: {batch_size: 16, split_batches: 3, shuffle: false}
cluster: {workers: 1, ps: 2}
)";

class ExactTest : public RolesTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    RolesTest::SetUp();
    Rng rng(1);
    std::ofstream rows(directory_ / "rows.csv");
    rows << "x,y,class\n";
    for (int i = 0; i < 250; ++i) {
      const double x = rng.Normal(), y = rng.Normal();
      rows << x << "," << y << "," << (x > 0.3) + (y > x) << "\n";
    }
  }
  void Run() {
    Start(RunServer);
    Start(RunServer);
    Start(RunWorker);
    Finish();
  }
  std::vector<std::vector<float>> Values() const {
    const auto manifest = checkpoint::ReadNewest(job_->directory);
    EXPECT_TRUE(manifest.ok()) << manifest.status().ToString();
    auto variables = checkpoint::ReadVariables(job_->directory, *manifest, job_->Slices());
    EXPECT_TRUE(variables.ok()) << variables.status().ToString();
    return *variables;
  }
  // The same without servers, slices, splits or checkpoints.
  std::vector<std::vector<float>> TrainedHere() const {
    const job::Job& job = *job_;
    const auto table = job.Slices();
    protocol::Parameters parameters(table);
    std::vector<optim::OptimizerConfig> rules;
    std::vector<std::vector<std::vector<float>>> slots;
    for (size_t v = 0; v < table.variables.size(); ++v) {
      const auto values = parameters.values(v);
      optim::Initialise(table.variables[v].init, job.seed, table.variables[v].name, 0, values);
      rules.push_back(optim::RuleFor(job.optimizer, table.variables[v]));
      slots.emplace_back();
      for (size_t s = 0; s < optim::SlotNames(rules[v]).size(); ++s)
        slots[v].emplace_back(values.size(), optim::InitialSlot(rules[v], s));
    }
    const auto source = job.stream->Open();
    const auto range = (*source)->Ranges()->at(0);
    stream::RecordBatch records;
    stream::DecodedRows rows;
    EXPECT_TRUE((*source)->Read(0, range.begin, range.end, &records).ok());
    stream::MakeDecoder(job.schema)->Decode(records, &rows);
    std::vector<uint32_t> order(rows.rows);
    std::iota(order.begin(), order.end(), 0u);

    step::Trainer trainer(*job.model, parameters, Options().plan, job.optimizer.clipping);
    uint64_t step = 0;
    for (uint32_t epoch = 0; epoch < job.stream->epochs; ++epoch) {
      for (size_t at = 0; at < order.size(); at += job.batch_size) {
        const auto batch = std::span(order).subspan(at, std::min<size_t>(job.batch_size, order.size() - at));
        trainer.Step({.features = rows.features, .labels = rows.labels, .truth = {}}, batch, job.batch_size);
        ++step;
        for (size_t v = 0; v < rules.size(); ++v) {
          const std::vector<std::span<float>> spans(slots[v].begin(), slots[v].end());
          optim::Apply(rules[v], parameters.values(v), parameters.gradients(v), spans, step, 1);
        }
      }
    }
    EXPECT_EQ(step, 32u);
    std::vector<std::vector<float>> values;
    for (size_t v = 0; v < rules.size(); ++v)
      values.emplace_back(parameters.values(v).begin(), parameters.values(v).end());
    return values;
  }
};

TEST_P(ExactTest, ServersAndALoopComputeTheSameBits) {
  Coordinate(Replaced(kClassesJob, "adamw", GetParam()));
  Run();
  EXPECT_EQ(Values(), TrainedHere());
}

// Slots and counts of updates come back with the slices: bias corrections and schedule go on.
TEST_P(ExactTest, SoTheyDoWhenTheJobIsResumedInBetween) {
  const std::string text = Replaced(kClassesJob, "adamw", GetParam());
  Coordinate(Replaced(text, "epochs: 2", "epochs: 1"));
  Run();
  const auto halfway = Values();
  coordinator_.reset();
  resume_text_ = text;
  Coordinate("", true);
  Run();
  EXPECT_NE(Values(), halfway);
  EXPECT_EQ(Values(), TrainedHere());
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ExactTest, ::testing::Values("adamw", "lamb"));

// ---- signals

class SignalsTest : public RolesTest {
 protected:
  // A role as a process of its own.
  pid_t Spawn(const std::string& role) {
    const auto pid = processes_.Start({.name = role,
                                       .arguments = {launcher::kChild, "role", role, address_},
                                       .environment = {{"LEAT_TOKEN", kToken}},
                                       .log = directory_ / (role + ".log")});
    EXPECT_TRUE(pid.ok());
    return *pid;
  }
  int AwaitExit(pid_t pid) {
    int status = -1;
    EXPECT_TRUE(WaitFor([&] {
      for (const auto& end : processes_.Reap()) {
        if (end.pid == pid) status = end.exit_code;
      }
      return status >= 0;
    }));
    return status;
  }
  bool Has(pid_t pid) {
    const Json status = Now();
    for (const auto& member : status["members"]) {
      if (member.value("pid", 0) == pid) return true;
    }
    return false;
  }

  launcher::Processes processes_;
};

TEST_F(SignalsTest, RolesLeaveCleanlyAndTheJobGoesOn) {
  // Slow enough that the second bots find something left to publish.
  Coordinate(Replaced(job::kSmallJob, "events: 4000", "events: 4000, rate: 1500"));
  Start(RunServer);
  Start(RunServer);
  Start(RunWorker);
  for (const int signal : {SIGTERM, SIGINT}) {
    const pid_t worker = Spawn("worker");
    ASSERT_TRUE(WaitFor([&] { return Has(worker); }));
    kill(worker, signal);
    EXPECT_EQ(AwaitExit(worker), 0);
    EXPECT_FALSE(Has(worker)) << "it has told that it goes";
    const pid_t bots = Spawn("bots");
    const uint64_t before = Now()["published"];
    ASSERT_TRUE(WaitFor([&] { return Now()["published"] > before; }));
    kill(bots, signal);
    EXPECT_EQ(AwaitExit(bots), 0);
    const pid_t server = Spawn("ps");
    ASSERT_TRUE(WaitFor([&] { return Has(server); }));
    kill(server, signal);
    EXPECT_EQ(AwaitExit(server), 0);
    EXPECT_FALSE(Has(server));
  }
  EXPECT_EQ(Now()["evictions"], 0) << "nobody has been waited for";
  Start(RunBots);
  EXPECT_EQ(Finish()["events"], kEvents);
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
}

TEST_F(SignalsTest, AServerThatJoinsGetsSlicesAndHandsThemOverWhenItLeaves) {
  pause_at_ = kEvents / 2;  // the job does not end before
  Coordinate(kSmallJob);
  StartAll();
  const auto moves = [&](const char* what) {
    const Json status = Now();
    return status.contains("moves") ? status["moves"].value(what, uint64_t{0}) : 0;
  };
  ASSERT_TRUE(WaitFor([&] { return Now()["events"] > 100; }));
  const pid_t server = Spawn("ps");
  ASSERT_TRUE(WaitFor([&] { return moves("slices") > 0 && moves("planned") == 0; }));
  const uint64_t moved = moves("slices");
  EXPECT_GE(moved, 13u) << "a third of 40";
  EXPECT_LE(moved, 14u);
  kill(server, SIGTERM);
  EXPECT_EQ(AwaitExit(server), 0);
  EXPECT_FALSE(Has(server));
  EXPECT_EQ(moves("slices"), 2 * moved);
  Admin(AdminRequest::Kind::kContinue);
  const Json summary = Finish();
  EXPECT_EQ(summary["events"], kEvents);
  EXPECT_EQ(summary["evictions"], 0);
  EXPECT_EQ(summary["regranted_leases"], 0) << "nothing was trained twice";
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
}

TEST_F(SignalsTest, AServerThatIsKilledIsReplacedByItsReplicas) {
  pause_at_ = kEvents / 2;  // the job does not end before
  Coordinate(Replaced(kSmallJob, "ps: 2", "ps: 2, replicas: 2"));
  Start(RunServer);
  const pid_t server = Spawn("ps");
  Start(RunWorker);
  Start(RunWorker);
  Start(RunBots);
  const auto replicated = [&] {
    const Json status = Now();
    const auto at = status.find("replicas");
    return at != status.end() && (*at)["of"] > 0 && (*at)["slices"] == (*at)["of"];
  };
  ASSERT_TRUE(WaitFor(replicated));
  kill(server, SIGKILL);
  ASSERT_TRUE(WaitFor([&] { return !Has(server) && Now()["replicas"]["slices"] == 0; }));
  ASSERT_TRUE(WaitFor([&] { return Now()["phase"] == "paused"; }));
  Start(RunServer);
  ASSERT_TRUE(WaitFor(replicated)) << "on the server that has joined";
  Admin(AdminRequest::Kind::kContinue);
  const Json summary = Finish();
  EXPECT_EQ(summary["events"], kEvents);
  EXPECT_EQ(summary["regranted_leases"], 0) << "nothing was trained twice";
  EXPECT_THAT(Parameters(), Each(float{kEvents}));
}

TEST_F(SignalsTest, ACoordinatorStopsTheJobWithACheckpoint) {
  const std::string file =
      directory_.Write("job.yaml", Replaced(job::kSmallJob, "events: 4000", "events: 4000, rate: 4000"));
  job_.emplace(job::Job::Load({.file = file}, {.directory = directory_ / "j"}));
  const auto coordinator =
      processes_.Start({.name = "coordinator",
                        .arguments = {launcher::kChild, "coordinator", file, job_->directory},
                        .environment = {{"LEAT_TOKEN", kToken}},
                        .log = directory_ / "coordinator.log"});
  ASSERT_TRUE(coordinator.ok());
  ASSERT_TRUE(
      WaitFor([&] { return ReadAll(directory_ / "coordinator.log").find('\n') != std::string::npos; }));
  std::ifstream(directory_ / "coordinator.log") >> address_;
  client_ = control::ControlClient::Make(address_, kToken);
  StartAll();
  ASSERT_TRUE(WaitFor([&] { return Now()["events"] > 100; }));
  kill(*coordinator, SIGTERM);
  EXPECT_EQ(AwaitExit(*coordinator), 0);
  for (const auto& role : roles_) EXPECT_EQ(role->Wait(), Status());
  client_.reset();
  const Json summary = Json::parse(ReadAll(job_->directory + "/summary.json"));
  EXPECT_GT(summary["events"], 100);
  EXPECT_THAT(Parameters(), Each(summary["events"].get<float>()));
}

}  // namespace
}  // namespace leat::roles
