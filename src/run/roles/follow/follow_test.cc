// Members that follow the parameters of whole jobs, with every role on a thread of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "compute/kernels/reference/reference.h"
#include "job/testing.h"
#include "net/rpc/client.h"
#include "net/tls/testing.h"
#include "run/launcher/signals.h"
#include "run/roles/follow/follower_role.h"
#include "run/roles/role.h"
#include "run/roles/start/coordinator_options.h"
#include "run/roles/testing.h"

namespace leat::roles {
namespace {

using Json = nlohmann::json;
using protocol::AdminRequest;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr const char* kFollowToken = "secret";
// In its jobs, each parameter is the number of events that have counted.
constexpr uint64_t kPauseAt = 2000;

// Keeps the newest values, and receives the next ones beside them.
class Values final : public ValueSink {
 public:
  Status OnJob(const job::Job& job) override {
    std::lock_guard lock(mutex_);
    ++jobs_;
    if (!refuse_.ok()) return refuse_;
    if (memories_.empty()) {
      for (int i = 0; i < 2; ++i)
        memories_.push_back(
            std::make_unique<protocol::Parameters>(job.Slices(), protocol::WithoutGradients()));
    }
    return {};
  }
  protocol::Parameters* Begin() override {
    std::lock_guard lock(mutex_);
    return without_room_-- > 0 ? nullptr : memories_[1 - newest_].get();
  }
  void Complete(protocol::Parameters* parameters, Time asked, bool changed) override {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(parameters, memories_[1 - newest_].get());
    newest_ = 1 - newest_;
    EXPECT_GT(asked, asked_);
    asked_ = asked;
    ++rounds_;
    if (changed) ++changes_;
    const auto all = parameters->values(size_t{0});
    values_.assign(all.begin(), all.end());
  }
  void OnConnected(bool connected, const std::string& why) override {
    std::lock_guard lock(mutex_);
    connected_ = connected;
    why_ = why;
  }

  std::vector<float> values() const { return Locked(values_); }
  bool connected() const { return Locked(connected_); }
  std::string why() const { return Locked(why_); }
  uint64_t rounds() const { return Locked(rounds_); }
  uint64_t changes() const { return Locked(changes_); }
  uint64_t jobs() const { return Locked(jobs_); }
  void Refuse(Status why) {
    std::lock_guard lock(mutex_);
    refuse_ = std::move(why);
  }
  void WithoutRoom(int times) {
    std::lock_guard lock(mutex_);
    without_room_ = times;
  }

 private:
  template <class T>
  T Locked(const T& value) const {
    std::lock_guard lock(mutex_);
    return value;
  }

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<protocol::Parameters>> memories_;
  size_t newest_ = 0;
  Time asked_{0};
  uint64_t rounds_ = 0, changes_ = 0, jobs_ = 0;
  int without_room_ = 0;
  std::vector<float> values_;
  bool connected_ = false;
  std::string why_;
  Status refuse_;
};

class FollowTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
    launcher::BlockSignals();
  }
  void TearDown() override {
    stop_.request_stop();
    if (client_ != nullptr) (void)Admin({.kind = AdminRequest::Kind::kStop});
    follower_.reset();
    roles_.clear();
    coordinator_.reset();
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

  // The coordinator of the job, new or resumed at the same address.
  void Coordinate(const std::string& text, bool resume = false) {
    const std::string where = directory_ / "j";
    job_.emplace(resume ? job::Job::Load({.resume = where}, {})
                        : job::Job::Load({.text = text}, {.data = directory_.path(), .directory = where}));
    job_->heartbeat_timeout = heartbeat_timeout_;
    std::atomic<bool> ready{false};
    const CoordinatorOptions options{.listen = address_.empty() ? "127.0.0.1:0" : address_,
                                     .token = kFollowToken,
                                     .tls = coordinator_tls_,
                                     .resume = resume,
                                     .pause_at = pause_at_,
                                     .on_ready = [&](const std::string& address) {
                                       address_ = address;
                                       ready = true;
                                     }};
    coordinator_.emplace([this, options] { return RunCoordinator(*job_, options); });
    ASSERT_TRUE(WaitFor([&] { return ready || coordinator_->over(); }));
    ASSERT_TRUE(ready) << coordinator_->Wait().ToString();
    client_ = control::ControlClient::Make(address_, kFollowToken, tls_);
  }
  RoleOptions Options() const {
    RoleOptions options;
    options.coordinator_client.coordinator = address_;
    options.coordinator_client.token = kFollowToken;
    options.coordinator_client.tls = tls_;
    options.plan.tables = {&reference::Kernels()};
    return options;
  }
  void Start(Status (*role)(const RoleOptions&)) {
    roles_.push_back(std::make_unique<Thread>([role, options = Options()] { return role(options); }));
  }
  void Follow(std::shared_ptr<net::TlsIdentity> tls = nullptr) {
    FollowOptions options{.role = Options(), .refresh = std::chrono::milliseconds(20)};
    options.role.coordinator_client.token = token_;
    if (tls != nullptr) options.role.coordinator_client.tls = std::move(tls);
    follower_.emplace(
        [this, options, stop = stop_.get_token()] { return roles::Follow(options, values_, stop); });
  }
  void StartServersAndWorkers() {
    if (job_->strategy.on_servers()) {
      Start(RunServer);
      Start(RunServer);
    }
    Start(RunWorker);
    Start(RunWorker);
    Start(RunBots);
  }
  Json Now() {
    auto reply = client_->Call(protocol::StatusRequest{}, std::chrono::seconds(60));
    if (reply.ok()) last_ = Json::parse(std::get<protocol::StatusReply>(*reply).json);
    return last_;
  }
  // The member that follows, as the status has it; null: there is none.
  Json Serve() {
    const Json status = Now();
    for (const Json& member : status["members"]) {
      if (member["role"] == "serve") return member;
    }
    return {};
  }
  Status Admin(const AdminRequest& request) {
    const auto reply = client_->Call(request, std::chrono::seconds(60));
    if (!reply.ok()) return reply.status();
    return std::get<protocol::AdminReply>(*reply).status;
  }
  // Waits until the job has trained pause_at_ events and does nothing more, and these are followed.
  void ExpectAllEvents() {
    ASSERT_TRUE(WaitFor([&] { return Now()["phase"] == "paused" && Now()["events"] >= pause_at_; }))
        << last_.dump();
    // The last reports of workers may still be on their way.
    float events = 0;
    EXPECT_TRUE(WaitFor([&] {
      events = Now()["events"].get<float>();
      const auto values = values_.values();
      return !values.empty() && std::ranges::count(values, events) == std::ssize(values);
    })) << events
        << ::testing::PrintToString(values_.values());
  }

  TempDir directory_;
  std::shared_ptr<net::TlsIdentity> coordinator_tls_, tls_;
  Duration heartbeat_timeout_ = std::chrono::seconds(5);
  uint64_t pause_at_ = kPauseAt;
  std::string token_ = kFollowToken;
  std::optional<job::Job> job_;
  std::string address_;
  Values values_;
  std::stop_source stop_;
  std::optional<Thread> coordinator_, follower_;
  std::vector<std::unique_ptr<Thread>> roles_;
  std::unique_ptr<control::ControlClient> client_;
  Json last_;
  sigset_t mask_;
};

std::string WithStrategy(const std::string& strategy) {
  return Replaced(job::kSmallJob, "name: small", "name: small\nstrategy: " + strategy);
}

TEST_F(FollowTest, HasWhatTheServersHave) {
  values_.WithoutRoom(3);
  Coordinate(job::kSmallJob);
  Follow();
  StartServersAndWorkers();
  ExpectAllEvents();
  EXPECT_TRUE(values_.connected());
  EXPECT_GT(values_.changes(), 0u);
  // Nothing changes any more.
  const uint64_t changes = values_.changes(), rounds = values_.rounds();
  ASSERT_TRUE(WaitFor([&] { return values_.rounds() > rounds + 3; }));
  EXPECT_EQ(values_.changes(), changes);
  // As of its last heartbeat.
  ASSERT_TRUE(WaitFor([&] { return Serve().value("done", 0) > 0; }));
  const Json serve = Serve();
  EXPECT_EQ(serve["index"], 0);
  EXPECT_GT(serve["bytes_in"], 0);
  EXPECT_GT(serve["interval_s"], 0.0);
  stop_.request_stop();
  EXPECT_EQ(follower_->Wait(), Status());
  EXPECT_TRUE(Serve().is_null());
}

TEST_F(FollowTest, HasWhatTheMembersOfAGroupHave) {
  Coordinate(WithStrategy("allreduce"));
  StartServersAndWorkers();
  Follow();
  ExpectAllEvents();
  EXPECT_TRUE(values_.connected());
}

TEST_F(FollowTest, GoesOnWhenTheJobIsResumed) {
  Coordinate(Replaced(job::kSmallJob, "events: 4000", "events: 100000, rate: 4000"));
  StartServersAndWorkers();
  Follow();
  ExpectAllEvents();
  ASSERT_EQ(Admin({.kind = AdminRequest::Kind::kStop}), Status());
  for (const auto& role : roles_) EXPECT_EQ(role->Wait(), Status());
  roles_.clear();
  EXPECT_EQ(coordinator_->Wait(), Status());
  EXPECT_TRUE(WaitFor([&] { return !values_.connected(); }));
  EXPECT_NE(values_.why(), "");
  const auto before = values_.values();
  EXPECT_THAT(before, Each(before[0]));
  pause_at_ = static_cast<uint64_t>(before[0]) + 4000;
  coordinator_.reset();
  Coordinate("", true);
  StartServersAndWorkers();
  ExpectAllEvents();
  EXPECT_TRUE(values_.connected());
  EXPECT_GE(values_.jobs(), 2u);
}

TEST_F(FollowTest, WaitsForAJobThatItAccepts) {
  values_.Refuse({Code::kFailedPrecondition, "another model"});
  Coordinate(job::kSmallJob);
  StartServersAndWorkers();
  Follow();
  ASSERT_TRUE(WaitFor([&] { return values_.jobs() >= 2; }));
  EXPECT_EQ(values_.why(), "another model");
  EXPECT_EQ(values_.rounds(), 0u);
  values_.Refuse({});
  ExpectAllEvents();
}

TEST_F(FollowTest, StopsAlthoughNobodyIsThere) {
  address_ = "127.0.0.1:1";
  Follow();
  ASSERT_TRUE(WaitFor([&] { return values_.why() != ""; }));
  EXPECT_FALSE(follower_->over());
  stop_.request_stop();
  EXPECT_EQ(follower_->Wait(), Status());
}

TEST_F(FollowTest, LeavesWhenItIsDrained) {
  Coordinate(job::kSmallJob);
  StartServersAndWorkers();
  Follow();
  ExpectAllEvents();
  EXPECT_EQ(Admin({.kind = AdminRequest::Kind::kDrain, .role = protocol::Role::kServe, .index = 0}),
            Status());
  EXPECT_EQ(follower_->Wait(), Status());
}

TEST_F(FollowTest, AWrongTokenIsAnError) {
  Coordinate(job::kSmallJob);
  token_ = "another";
  Follow();
  EXPECT_EQ(follower_->Wait().code(), Code::kPermissionDenied);
}

class FollowTlsTest : public FollowTest, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Strategies, FollowTlsTest, ::testing::Values("async", "allreduce"));

TEST_P(FollowTlsTest, TheRoleOfTheCertificateDecides) {
  net::testing::TestAuthority authority;
  coordinator_tls_ = authority.Identity({"coordinator"});
  tls_ = authority.Identity({"server", "worker", "bots", "admin"});
  Coordinate(WithStrategy(GetParam()));
  StartServersAndWorkers();
  Follow(authority.Identity({"observer"}));
  EXPECT_EQ(follower_->Wait().code(), Code::kPermissionDenied);
  EXPECT_THAT(follower_->Wait().message(), HasSubstr("serve"));
  follower_.reset();
  Follow(authority.Identity({"serve"}));
  ExpectAllEvents();
}

}  // namespace
}  // namespace leat::roles
