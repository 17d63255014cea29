// The schedule in virtual time; the membership against a coordinator whose answers each test scripts.
#include "run/roles/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/testing.h"
#include "job/testing.h"
#include "net/rpc/server.h"
#include "run/launcher/signals.h"

namespace leat::roles {
namespace {

using protocol::ControlReply;
using protocol::ControlRequest;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(MembershipScheduleTest, HeartbeatsAreAnIntervalApart) {
  MembershipSchedule schedule(milliseconds(100), milliseconds(10));
  EXPECT_LE(schedule.HeartbeatDue(false), seconds(1000)) << "the first is due at once";
  schedule.OnSent(seconds(1000));
  schedule.OnAnswered();
  EXPECT_EQ(schedule.HeartbeatDue(false), seconds(1000) + milliseconds(100));
  EXPECT_EQ(schedule.HeartbeatDue(true), seconds(1000) + milliseconds(10));
}

TEST(MembershipScheduleTest, OneHeartbeatIsInFlight) {
  MembershipSchedule schedule(milliseconds(100), milliseconds(10));
  schedule.OnSent(seconds(1));
  EXPECT_EQ(schedule.HeartbeatDue(false), Time::max());
  EXPECT_EQ(schedule.HeartbeatDue(true), Time::max());
  // An answer that took longer than the interval: the next one is due at once.
  schedule.OnAnswered();
  EXPECT_EQ(schedule.HeartbeatDue(false), seconds(1) + milliseconds(100));
}

TEST(MembershipScheduleTest, AnUrgentHeartbeatIsNeverLaterThanAnotherOne) {
  MembershipSchedule schedule(milliseconds(5), milliseconds(10));
  schedule.OnSent(seconds(1));
  schedule.OnAnswered();
  EXPECT_EQ(schedule.HeartbeatDue(true), schedule.HeartbeatDue(false));
}

TEST(MembershipScheduleTest, AQuietRoleSendsFewerHeartbeats) {
  MembershipSchedule schedule(milliseconds(500), milliseconds(10));
  const auto send = [&](Time at, bool quiet) {
    schedule.OnSent(at, quiet);
    schedule.OnAnswered();
  };
  const Time began = seconds(10);
  send(began, true);
  EXPECT_EQ(schedule.HeartbeatDue(false, true), began + milliseconds(100)) << "it may be quiet for a moment";
  EXPECT_EQ(schedule.HeartbeatDue(true, true), began + milliseconds(10));
  const Time later = began + MembershipSchedule::kQuietAfter;
  send(later, true);
  EXPECT_EQ(schedule.HeartbeatDue(false, true), later + milliseconds(500));
  EXPECT_EQ(schedule.HeartbeatDue(true, true), later + milliseconds(100));
  // Work has arrived since.
  EXPECT_EQ(schedule.HeartbeatDue(false, false), later + milliseconds(100));
  EXPECT_EQ(schedule.HeartbeatDue(true, false), later + milliseconds(10));
  send(later + milliseconds(100), false);
  EXPECT_EQ(schedule.HeartbeatDue(false, true), later + milliseconds(200)) << "quiet from now on only";
}

TEST(MembershipScheduleTest, ABusyRoleSendsAHeartbeatEveryFifthOfTheInterval) {
  for (const auto& [interval, busy] : {std::pair(milliseconds(500), milliseconds(100)),
                                       {milliseconds(200), milliseconds(100)},
                                       {milliseconds(50), milliseconds(50)},
                                       {milliseconds(5000), milliseconds(1000)}}) {
    MembershipSchedule schedule(interval, milliseconds(10));
    schedule.OnSent(seconds(1));
    schedule.OnAnswered();
    EXPECT_EQ(schedule.HeartbeatDue(false), seconds(1) + busy) << interval.count();
  }
}

TEST(MembershipScheduleTest, ASteadyRoleSendsOneEveryInterval) {
  MembershipSchedule schedule(milliseconds(500), milliseconds(10));
  EXPECT_LE(schedule.HeartbeatDue(false, false, true), seconds(5)) << "the first is due at once";
  schedule.OnSent(seconds(5));
  schedule.OnAnswered();
  EXPECT_EQ(schedule.HeartbeatDue(false, false, true), seconds(5) + milliseconds(500));
  EXPECT_EQ(schedule.HeartbeatDue(true, false, true), seconds(5) + milliseconds(10));
  EXPECT_EQ(schedule.HeartbeatDue(false, false, false), seconds(5) + milliseconds(100));
}

TEST(MembershipScheduleTest, AMachineThatAlwaysWantsItsTimerDoesNotSpin) {
  MembershipSchedule schedule(milliseconds(100), milliseconds(10));
  EXPECT_EQ(schedule.TimerDue(Time::max()), Time::max());
  EXPECT_EQ(schedule.TimerDue(seconds(3)), seconds(3));
  schedule.OnTimer(seconds(3));
  EXPECT_EQ(schedule.TimerDue(seconds(2)), seconds(3) + MembershipSchedule::kTimerGap);
  EXPECT_EQ(schedule.TimerDue(seconds(4)), seconds(4));
  EXPECT_EQ(schedule.TimerDue(Time::max()), Time::max());
}

class MembershipTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
    launcher::BlockSignals();
    job_text_ =
        job::Job::Load({.text = job::kSmallJob}, {.data = directory_.path(), .directory = directory_ / "j"})
            .config.ToYaml();
  }
  void TearDown() override {
    server_.reset();
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

  // A coordinator that accepts every join and answers heartbeats with what `on_heartbeat` returns; nullopt:
  // never.
  void Serve(std::function<std::optional<ControlReply>()> on_heartbeat) {
    auto server = control::ControlServer::Start(
        "127.0.0.1:0", "secret",
        [this, on_heartbeat = std::move(on_heartbeat)](const ControlRequest& request,
                                                       std::function<void(ControlReply)> answer) {
          std::lock_guard lock(mutex_);
          if (const auto* join = std::get_if<protocol::JoinRequest>(&request)) {
            joins_.push_back(*join);
            protocol::JoinReply reply;
            reply.node = NodeId(joins_.size());
            reply.job = job_text_;
            reply.heartbeat_interval = interval_;
            reply.heartbeat_timeout = timeout_;
            if (over_) reply.status = Status(Code::kAborted, "the job is over");
            return answer(std::move(reply));
          }
          if (const auto* alive = std::get_if<protocol::KeepAlive>(&request)) {
            keep_alives_.push_back(*alive);
            return answer(protocol::KeepAliveReply{});
          }
          if (const auto* promise = std::get_if<protocol::Promise>(&request)) {
            promises_.push_back(*promise);
            return answer(protocol::PromiseReply{promise->term});
          }
          ++heartbeats_;
          last_node_ = protocol::NodeOf(request);
          metrics_of_last_ = protocol::MetricsIn(request);
          if (auto reply = on_heartbeat()) return answer(std::move(*reply));
          unanswered_.push_back(std::move(answer));
        });
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
    options_.coordinator = server_->address();
    options_.token = "secret";
  }
  // Joins; a role that hangs fails after half a minute.
  void Join() {
    membership_.emplace(loop_, options_, protocol::Role::kWorker);
    loop_.After(seconds(30), [this] { membership_->Fail(Status(Code::kDeadlineExceeded, "it hangs")); });
    const auto job = membership_->Join("127.0.0.1:7");
    ASSERT_TRUE(job.ok()) << job.status().ToString();
    ASSERT_EQ(membership_->node(), NodeId(1));
  }
  // A role that stops after so many replies.
  Membership::Callbacks StopAfter(int replies) {
    return {.make_heartbeat = [] { return protocol::WorkerHeartbeat(); },
            .on_reply =
                [this, replies](const auto&) {
                  if (++replies_ == replies) membership_->Stop(false);
                },
            .on_leave = [] {}};
  }
  // The requests to join, which the server's thread notes.
  std::vector<protocol::JoinRequest> Joins() {
    std::lock_guard lock(mutex_);
    return joins_;
  }
  std::vector<protocol::KeepAlive> KeepAlives() {
    std::lock_guard lock(mutex_);
    return keep_alives_;
  }
  static std::optional<ControlReply> Ok() { return protocol::WorkerHeartbeatReply(); }
  static std::optional<ControlReply> Refused() {
    return protocol::Refusal{Status(Code::kInvalidArgument, "not now")};
  }

  TempDir directory_;
  sigset_t mask_;
  std::string job_text_;
  Duration interval_ = milliseconds(20);
  Duration timeout_ = seconds(20);
  bool over_ = false;
  std::mutex mutex_;
  std::vector<protocol::JoinRequest> joins_;
  std::vector<protocol::KeepAlive> keep_alives_;
  std::vector<protocol::Promise> promises_;
  NodeId last_node_;  // sender of the last heartbeat
  std::vector<std::function<void(ControlReply)>> unanswered_;
  std::string metrics_of_last_;  // heartbeat
  std::atomic<int> heartbeats_{0};
  int replies_ = 0;
  CoordinatorClientOptions options_;
  std::unique_ptr<control::ControlServer> server_;
  net::Loop loop_;
  std::optional<Membership> membership_;
};

TEST_F(MembershipTest, ReportsAtItsInterval) {
  Serve(Ok);
  Join();
  EXPECT_EQ(membership_->heartbeat_interval(), interval_);
  const Time began = loop_.Now();
  EXPECT_EQ(membership_->Run(StopAfter(4)), Status());
  EXPECT_GE(loop_.Now() - began, 3 * interval_) << "the first is sent at once";
  EXPECT_EQ(heartbeats_, 4);
  EXPECT_FALSE(membership_->evicted());
}

TEST_F(MembershipTest, MetricsShowTheLastHeartbeat) {
  Serve(Ok);
  options_.metrics = std::make_shared<observe::RoleMetrics>(observe::RoleMetrics::Options{.role = "worker"});
  options_.metrics->SetAddress("127.0.0.1:9464");
  Join();
  EXPECT_EQ(options_.metrics->WhyNotReady(), "it has not joined the job");
  auto callbacks = StopAfter(2);
  callbacks.make_heartbeat = [] {
    protocol::WorkerHeartbeat heartbeat;
    heartbeat.progress.steps = 12;
    return heartbeat;
  };
  EXPECT_EQ(membership_->Run(callbacks), Status());
  EXPECT_EQ(options_.metrics->WhyNotReady(), "");
  EXPECT_THAT(options_.metrics->Text(), ::testing::HasSubstr("leat_worker_steps_total 12\n"));
  {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(metrics_of_last_, "127.0.0.1:9464");
  }
  // As a node that has been evicted.
  membership_.emplace(loop_, options_, protocol::Role::kWorker);
  EXPECT_EQ(options_.metrics->WhyNotReady(), "it has not joined the job");
}

// The loop does not run, as if it opened files or computed.
TEST_F(MembershipTest, AKeepAliveIsSentWhileTheLoopIsBusyAndTellsTheKernelsThatHaveFinished) {
  timeout_ = seconds(1);
  Serve(Ok);
  Join();
  ASSERT_TRUE(WaitFor([&] { return KeepAlives().size() >= 2; }));
  EXPECT_EQ(KeepAlives().front().node, membership_->node());
  EXPECT_EQ(KeepAlives().front().progress, 0u);
  membership_->progress()->OnKernel();
  const size_t before = KeepAlives().size();
  ASSERT_TRUE(WaitFor([&] { return KeepAlives().size() >= before + 2; }));
  EXPECT_EQ(KeepAlives().back().progress, 1u);
  EXPECT_EQ(heartbeats_, 0);
}

TEST_F(MembershipTest, AnsweredHeartbeatsNeedNoKeepAlive) {
  Serve(Ok);
  Join();
  EXPECT_EQ(membership_->Run(StopAfter(20)), Status());
  EXPECT_THAT(KeepAlives(), SizeIs(0));
}

TEST_F(MembershipTest, AnUrgentHeartbeatDoesNotWaitForTheInterval) {
  interval_ = hours(1);
  Serve(Ok);
  Join();
  auto callbacks = StopAfter(4);
  callbacks.urgent = [] { return true; };
  const Time began = loop_.Now();
  EXPECT_EQ(membership_->Run(std::move(callbacks)), Status());
  EXPECT_GE(loop_.Now() - began, 3 * Membership::kUrgentGap);
}

// A role asks every ten milliseconds until it has been quiet for a while; then it waits for its interval,
// which is an hour.
TEST_F(MembershipTest, WorkEndsTheWaitOfAQuietRole) {
  interval_ = hours(1);
  Serve(Ok);
  Join();
  bool quiet = true;
  Time last_reply = loop_.Now();
  int replies_to_work = 0;
  auto callbacks = StopAfter(0);
  callbacks.urgent = [] { return true; };
  callbacks.quiet = [&] { return quiet; };
  callbacks.on_reply = [&](const auto&) {
    last_reply = loop_.Now();
    if (!quiet && ++replies_to_work == 2) membership_->Stop(false);
  };
  const std::function<void()> watch = [&] {
    if (loop_.Now() - last_reply < milliseconds(500)) {
      loop_.After(milliseconds(50), watch);
      return;
    }
    quiet = false;
    membership_->Update();
  };
  watch();
  EXPECT_EQ(membership_->Run(std::move(callbacks)), Status());
}

TEST_F(MembershipTest, ARequestedHeartbeatIsSentOnce) {
  interval_ = hours(1);
  Serve(Ok);
  Join();
  auto callbacks = StopAfter(0);
  callbacks.on_reply = [this](const auto&) {
    if (++replies_ == 1) membership_->RequestHeartbeat();
    if (replies_ == 2) loop_.After(5 * Membership::kUrgentGap, [this] { membership_->Stop(false); });
  };
  EXPECT_EQ(membership_->Run(std::move(callbacks)), Status());
  EXPECT_EQ(heartbeats_, 2);
}

TEST_F(MembershipTest, AnotherRequestIsAnsweredToo) {
  interval_ = hours(1);
  Serve(Ok);
  Join();
  auto callbacks = StopAfter(0);
  bool answered = false;
  callbacks.on_reply = [&](const auto&) {
    membership_->Send(protocol::KeepAlive{.progress = 7}, [&](const Result<ControlReply>& reply) {
      answered = reply.ok() && std::holds_alternative<protocol::KeepAliveReply>(*reply);
      membership_->Stop(false);
    });
    membership_->RequestHeartbeat();
  };
  EXPECT_EQ(membership_->Run(std::move(callbacks)), Status());
  EXPECT_TRUE(answered);
  EXPECT_EQ(std::ranges::count(KeepAlives(), 7u, &protocol::KeepAlive::progress), 1);
}

TEST_F(MembershipTest, AFailedHeartbeatIsRepeated) {
  Serve([this] { return heartbeats_ < 3 ? Refused() : Ok(); });
  Join();
  EXPECT_EQ(membership_->Run(StopAfter(1)), Status());
  EXPECT_EQ(heartbeats_, 3);
}

TEST_F(MembershipTest, ALostCoordinatorEndsTheRole) {
  options_.silence_limit = milliseconds(200);
  Serve(Refused);
  Join();
  const Status status = membership_->Run(StopAfter(1));
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("the coordinator is lost"));
  EXPECT_EQ(replies_, 0);
}

// The machine's timer runs ten times while the first heartbeat has no answer.
TEST_F(MembershipTest, NeitherUrgencyNorTimersSendASecondHeartbeatWhileOneIsInFlight) {
  Serve([] { return std::nullopt; });
  Join();
  int sent = 0, timers = 0;
  Time begin{0}, end{0};
  auto callbacks = StopAfter(1);
  callbacks.make_heartbeat = [&] {
    ++sent;
    return protocol::WorkerHeartbeat();
  };
  callbacks.urgent = [] { return true; };
  callbacks.next_timer = [] { return Time(0); };
  callbacks.on_timer = [&](Time now) {
    if (++timers == 1) begin = now;
    if (timers == 11) {
      end = now;
      membership_->Stop(false);
    }
    membership_->Update();
  };
  EXPECT_EQ(membership_->Run(std::move(callbacks)), Status());
  EXPECT_GE(end - begin, 10 * MembershipSchedule::kTimerGap) << "it does not spin";
  EXPECT_EQ(sent, 1);
}

// A single timer is set: between the answer and the machine's deadline nothing wakes the role.
TEST_F(MembershipTest, NothingRunsBeforeItIsDue) {
  interval_ = hours(1);
  Serve(Ok);
  Join();
  int looks = 0;
  std::optional<Time> due;
  auto callbacks = StopAfter(0);
  callbacks.on_reply = [&](const auto&) {
    due = loop_.Now() + milliseconds(300);
    looks = 0;
  };
  callbacks.next_timer = [&] {
    ++looks;
    return due.value_or(Time::max());
  };
  callbacks.on_timer = [&](Time now) {
    EXPECT_GE(now, *due);
    membership_->Stop(false);
  };
  EXPECT_EQ(membership_->Run(std::move(callbacks)), Status());
  EXPECT_LE(looks, 2) << "once after the answer, once at the deadline";
  EXPECT_EQ(heartbeats_, 1);
}

TEST_F(MembershipTest, ATimerThatIsBroughtForwardRunsThen) {
  interval_ = hours(1);
  Serve(Ok);
  Join();
  Time due = Time::max();
  auto callbacks = StopAfter(0);
  callbacks.on_reply = [&](const auto&) {
    loop_.After(milliseconds(1), [&] {
      due = loop_.Now();
      membership_->Update();
    });
  };
  callbacks.next_timer = [&] { return due; };
  callbacks.on_timer = [&](Time) { membership_->Stop(false); };
  EXPECT_EQ(membership_->Run(std::move(callbacks)), Status());
}

TEST_F(MembershipTest, AFailureOfTheRoleIsItsOutcome) {
  Serve(Ok);
  Join();
  auto callbacks = StopAfter(0);
  callbacks.on_reply = [this](const auto&) { membership_->Fail(Status(Code::kDataLoss, "a bad record")); };
  EXPECT_EQ(membership_->Run(std::move(callbacks)), Status(Code::kDataLoss, "a bad record"));
  EXPECT_FALSE(membership_->evicted());
}

TEST_F(MembershipTest, ARoleThatIsAskedToLeaveDoesSoOnce) {
  Serve([]() -> std::optional<ControlReply> { return protocol::FeedHeartbeatReply{.drain = true}; });
  Join();
  int leaves = 0;
  auto callbacks = StopAfter(3);
  callbacks.make_heartbeat = [] { return protocol::FeedHeartbeat(); };
  callbacks.on_leave = [&] { ++leaves; };
  EXPECT_EQ(membership_->Run(std::move(callbacks)), Status());
  EXPECT_EQ(leaves, 1);
}

TEST_F(MembershipTest, AnEvictedNodeJoinsAgainWithTheHashOfItsJob) {
  Serve(Ok);
  std::vector<NodeId> nodes;
  const Status outcome =
      RejoinWhileEvicted(options_, protocol::Role::kServer, [&](net::Loop&, Membership& membership) {
        const auto job = membership.Join("127.0.0.1:7");
        EXPECT_TRUE(job.ok());
        nodes.push_back(membership.node());
        return membership.Run(
            {.make_heartbeat = [] { return protocol::WorkerHeartbeat(); },
             .on_reply = [&](const auto&) { membership.Stop(/*evicted=*/nodes.size() < 3); },
             .on_leave = [] {}});
      });
  EXPECT_EQ(outcome, Status());
  EXPECT_THAT(nodes, ElementsAre(NodeId(1), NodeId(2), NodeId(3)));
  const auto joins = Joins();
  ASSERT_THAT(joins, SizeIs(3));
  const uint64_t hash = job::Job::FromResolved(job_text_, "job").Hash();
  for (size_t i = 0; i < joins.size(); ++i) {
    EXPECT_EQ(joins[i].role, protocol::Role::kServer);
    EXPECT_EQ(joins[i].address, "127.0.0.1:7");
    EXPECT_EQ(joins[i].job_hash, i == 0 ? 0 : hash);
  }
}

// Coordinators: at first none is active, and then one wants to be elected.
TEST_F(MembershipTest, AnEvictedServerVotesAsItsFormerNodeUntilACoordinatorAnswers) {
  Serve([this]() -> std::optional<ControlReply> {
    if (heartbeats_ == 2) return protocol::Refusal{Status(Code::kUnavailable, "this is a standby")};
    if (heartbeats_ == 3 || heartbeats_ == 4) return protocol::Candidacy{.term = 2, .candidate = 9};
    protocol::ServerHeartbeatReply reply;
    reply.term = heartbeats_ < 3 ? 1 : 2;
    return reply;
  });
  std::vector<NodeId> voters;
  const Status outcome =
      RejoinWhileEvicted(options_, protocol::Role::kServer, [&](net::Loop&, Membership& membership) {
        EXPECT_TRUE(membership.Join("127.0.0.1:7").ok());
        voters.push_back(last_node_);
        return membership.Run({.make_heartbeat = [] { return protocol::ServerHeartbeat(); },
                               .on_reply = [&](const auto&) { membership.Stop(voters.size() == 1); },
                               .on_leave = [] {}});
      });
  EXPECT_EQ(outcome, Status());
  EXPECT_THAT(voters, ElementsAre(NodeId(), NodeId(1)));
  EXPECT_THAT(Joins(), SizeIs(2)) << "it joins where a coordinator has answered";
  std::lock_guard lock(mutex_);
  ASSERT_THAT(promises_, SizeIs(2)) << "also again, should the first be lost";
  for (const protocol::Promise& promise : promises_) {
    EXPECT_EQ(promise.node, NodeId(1));
    EXPECT_EQ(promise.term, 2u);
    EXPECT_TRUE(promise.granted);
  }
}

TEST_F(MembershipTest, AFailedNodeDoesNotJoinAgain) {
  Serve(Ok);
  int lives = 0;
  const Status outcome =
      RejoinWhileEvicted(options_, protocol::Role::kWorker, [&](net::Loop&, Membership& membership) {
        membership.Stop(/*evicted=*/++lives < 3);
        return Status(Code::kInternal, "broken");
      });
  EXPECT_EQ(outcome, Status(Code::kInternal, "broken"));
  EXPECT_EQ(lives, 1);
}

TEST_F(MembershipTest, ASignalEndsAJoin) {
  options_ = {.coordinator = "127.0.0.1:1", .token = "secret", .join_deadline = std::chrono::minutes(10)};
  membership_.emplace(loop_, options_, protocol::Role::kWorker);
  ASSERT_EQ(kill(getpid(), SIGTERM), 0);
  const auto job = membership_->Join("127.0.0.1:7");
  EXPECT_EQ(job.status().code(), Code::kAborted) << job.status().ToString();
  EXPECT_EQ(Membership::JoinError(job.status()), Status());
}

TEST_F(MembershipTest, ASignalBetweenJoinAndRunIsNotLost) {
  Serve(Ok);
  Join();
  ASSERT_EQ(kill(getpid(), SIGTERM), 0);
  // The role runs its loop, as for files that it fetches.
  loop_.After(milliseconds(50), [this] { loop_.Stop(); });
  loop_.Run();
  auto callbacks = StopAfter(1'000'000);
  callbacks.on_leave = [this] { membership_->Stop(false); };
  EXPECT_EQ(membership_->Run(callbacks), Status());
}

TEST_F(MembershipTest, JoiningAfterTheEndOfTheJobIsNoError) {
  over_ = true;
  Serve(Ok);
  const Status outcome =
      RejoinWhileEvicted(options_, protocol::Role::kWorker, [](net::Loop&, Membership& membership) {
        const auto job = membership.Join("");
        EXPECT_EQ(job.status(), Status(Code::kAborted, "the job is over"));
        return Membership::JoinError(job.status());
      });
  EXPECT_EQ(outcome, Status());
  EXPECT_EQ(Membership::JoinError(Status(Code::kUnavailable, "nobody")).code(), Code::kUnavailable);
}

}  // namespace
}  // namespace leat::roles
