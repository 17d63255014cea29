// A role's connection to a coordinator that is running, not yet started, silent, or lost.
#include "run/roles/coordinator_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "base/testing.h"
#include "net/rpc/server.h"
#include "net/testing.h"

namespace leat::roles {
namespace {

using net::testing::RunUntil;
using protocol::ControlReply;
using protocol::ControlRequest;
using ::testing::HasSubstr;

class CoordinatorClientTest : public ::testing::Test {
 protected:
  using Answer = std::function<void(ControlReply)>;

  // A coordinator that answers each request with what `on_request` says; without it, never.
  void Serve(std::function<std::optional<ControlReply>(const ControlRequest&)> on_request,
             const std::string& address = "127.0.0.1:0") {
    auto server = control::ControlServer::Start(
        address, "secret", [this, on_request = std::move(on_request)](ControlRequest request, Answer answer) {
          ++requests_;
          auto reply = on_request(request);
          if (reply) return answer(std::move(*reply));
          std::lock_guard lock(mutex_);
          unanswered_.push_back(std::move(answer));
        });
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
  }
  void Connect(CoordinatorClientOptions options = {}) {
    if (options.coordinator.empty()) options.coordinator = server_->address();
    if (options.token.empty()) options.token = "secret";
    coordinator_client_.emplace(loop_, std::move(options));
  }
  static protocol::JoinRequest Worker() {
    protocol::JoinRequest request;
    request.role = protocol::Role::kWorker;
    return request;
  }
  static std::optional<ControlReply> Welcome(const ControlRequest&) {
    protocol::JoinReply reply;
    reply.node = NodeId(5);
    reply.job = "name: j";
    return reply;
  }
  // An address that nobody listens on.
  std::string FreeAddress() {
    Serve([](const auto&) { return std::nullopt; });
    const std::string address = server_->address();
    server_.reset();
    return address;
  }
  double Took(const std::function<void()>& work) {
    const Time began = loop_.Now();
    work();
    return Seconds(loop_.Now() - began);
  }

  net::Loop loop_;
  std::atomic<int> requests_{0};
  std::atomic<bool> answers_{true};  // for servers, which outlive a test's own variables
  std::mutex mutex_;
  std::vector<Answer> unanswered_;
  std::unique_ptr<control::ControlServer> server_;
  std::optional<CoordinatorClient> coordinator_client_;
};

TEST_F(CoordinatorClientTest, Joins) {
  Serve(Welcome);
  Connect();
  const auto joined = coordinator_client_->Join(Worker());
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  EXPECT_EQ(joined->node, NodeId(5));
  EXPECT_EQ(joined->job, "name: j");
  EXPECT_FALSE(coordinator_client_->lost());
  EXPECT_FALSE(coordinator_client_->busy());
}

TEST_F(CoordinatorClientTest, AttemptsToJoinMeasureTheRoundTrip) {
  Serve([](const ControlRequest& request) -> std::optional<ControlReply> {
    const auto* join = std::get_if<protocol::JoinRequest>(&request);
    if (join == nullptr) return protocol::KeepAliveReply{};
    protocol::JoinReply reply;
    reply.node = NodeId(5);
    if (join->attempts < 3) reply.status = Status(Code::kUnavailable, "its round trip is not known yet");
    if ((join->attempts == 0) != (join->round_trip == Duration(0)))
      reply.status = Status(Code::kInternal, "an attempt without a round trip");
    return reply;
  });
  Connect();
  const auto joined = coordinator_client_->Join(Worker());
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  EXPECT_GE(requests_.load(), 4);
}

TEST_F(CoordinatorClientTest, KeepAlivesReportTheRoundTrip) {
  std::atomic<int> reports{0};
  Serve([&reports](const ControlRequest& request) -> std::optional<ControlReply> {
    const auto* alive = std::get_if<protocol::KeepAlive>(&request);
    if (alive == nullptr) {
      protocol::JoinReply reply;
      reply.node = NodeId(5);
      reply.heartbeat_timeout = std::chrono::seconds(1);
      return reply;
    }
    if (alive->round_trip > Duration(0)) ++reports;
    return protocol::KeepAliveReply{};
  });
  Connect();
  ASSERT_TRUE(coordinator_client_->Join(Worker()).ok());
  EXPECT_TRUE(RunUntil(loop_, [&] { return reports.load() > 1; }));
  coordinator_client_.reset();
  server_.reset();
}

TEST_F(CoordinatorClientTest, AnAbortEndsAJoinThatConnects) {
  net::testing::BareListener silent;
  Connect({.coordinator = silent.address(), .join_deadline = std::chrono::minutes(10)});
  net::Descriptor peer;
  std::thread other([&] {
    peer = silent.Accept();
    coordinator_client_->AbortJoin();
  });
  const Status told(Code::kAborted, "told to leave before it had joined the job");
  EXPECT_EQ(coordinator_client_->Join(Worker()).status(), told);
  other.join();
  EXPECT_EQ(coordinator_client_->Join(Worker()).status(), told) << "a later one, too";
}

// The coordinator has a member already, which must not go without a word.
TEST_F(CoordinatorClientTest, AnAbortBehindTheRequestLeavesAMember) {
  answers_ = false;
  Serve([this](const ControlRequest& request) { return answers_ ? Welcome(request) : std::nullopt; });
  Connect();
  std::thread other([&] {
    EXPECT_TRUE(WaitFor([&] {
      const std::lock_guard lock(mutex_);
      return !unanswered_.empty();
    }));
    coordinator_client_->AbortJoin();
    answers_ = true;
    const std::lock_guard lock(mutex_);
    unanswered_.front()(*Welcome({}));
  });
  EXPECT_TRUE(coordinator_client_->Join(Worker()).ok());
  other.join();
  coordinator_client_->AbortJoin();
  const int before = requests_;
  coordinator_client_->Send(protocol::WorkerHeartbeat{}, [&](const Result<ControlReply>&) { loop_.Stop(); });
  loop_.Run();
  EXPECT_GT(requests_, before) << "its calls go on";
}

TEST_F(CoordinatorClientTest, WaitsForACoordinatorThatIsNotThereYet) {
  const std::string address = FreeAddress();
  Connect({.coordinator = address});
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Serve(Welcome, address);
  });
  const auto joined = coordinator_client_->Join(Worker());
  later.join();
  EXPECT_TRUE(joined.ok()) << joined.status().ToString();
}

TEST_F(CoordinatorClientTest, GivesUpAtTheDeadlineAndNamesTheAddress) {
  const std::string address = FreeAddress();
  Connect({.coordinator = address, .join_deadline = std::chrono::milliseconds(300)});
  const double took = Took([&] {
    const auto joined = coordinator_client_->Join(Worker());
    ASSERT_FALSE(joined.ok());
    EXPECT_EQ(joined.status().code(), Code::kUnavailable);
    EXPECT_THAT(joined.status().message(), HasSubstr(address));
  });
  EXPECT_GE(took, 0.1);
  EXPECT_LT(took, 30);
}

TEST_F(CoordinatorClientTest, ACoordinatorThatAcceptsAndSaysNothingIsGivenUpToo) {
  Serve([](const auto&) { return std::nullopt; });
  Connect({.join_deadline = std::chrono::milliseconds(200)});
  const auto joined = coordinator_client_->Join(Worker());
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.status().code(), Code::kDeadlineExceeded);
  EXPECT_THAT(joined.status().message(), HasSubstr(server_->address()));
}

TEST_F(CoordinatorClientTest, WhatNoPatienceMendsIsSaidAtOnce) {
  Serve([](const auto&) {
    protocol::JoinReply reply;
    reply.status = Status(Code::kAborted, "the job is over");
    return reply;
  });
  Connect();
  EXPECT_EQ(coordinator_client_->Join(Worker()).status(), Status(Code::kAborted, "the job is over"));
  EXPECT_EQ(requests_, 1);
  Connect({.token = "another job's", .join_deadline = std::chrono::minutes(5)});
  const double took =
      Took([&] { EXPECT_EQ(coordinator_client_->Join(Worker()).status().code(), Code::kPermissionDenied); });
  EXPECT_LT(took, 60);
  Serve([](const auto&) { return protocol::Refusal{Status(Code::kInvalidArgument, "no such role")}; });
  Connect();
  EXPECT_THAT(coordinator_client_->Join(Worker()).status().message(), HasSubstr("no such role"));
  Connect({.coordinator = "not an address"});
  EXPECT_THAT(coordinator_client_->Join(Worker()).status().message(), HasSubstr("not an address"));
}

TEST_F(CoordinatorClientTest, HeartbeatsAreAnsweredOnTheLoop) {
  Serve([](const ControlRequest& request) -> std::optional<ControlReply> {
    if (std::holds_alternative<protocol::JoinRequest>(request)) return Welcome(request);
    protocol::WorkerHeartbeatReply reply;
    reply.revoked = std::get<protocol::WorkerHeartbeat>(request).held;
    return reply;
  });
  Connect();
  ASSERT_TRUE(coordinator_client_->Join(Worker()).ok());
  std::vector<uint64_t> revoked;
  for (uint64_t i = 1; i <= 20; ++i) {
    protocol::WorkerHeartbeat heartbeat;
    heartbeat.held = {i};
    coordinator_client_->Send(heartbeat, [&](Result<ControlReply> reply) {
      ASSERT_TRUE(reply.ok());
      EXPECT_FALSE(coordinator_client_->busy()) << "the next may be sent from here";
      revoked.push_back(std::get<protocol::WorkerHeartbeatReply>(*reply).revoked.at(0));
    });
    EXPECT_TRUE(coordinator_client_->busy());
    ASSERT_TRUE(RunUntil(loop_, [&] { return revoked.size() == i; }));
    EXPECT_EQ(revoked.back(), i);
  }
}

TEST_F(CoordinatorClientTest, ACallWhoseCoordinatorGoesAwayFails) {
  Serve([](const auto&) { return std::nullopt; });
  Connect();
  std::optional<Result<ControlReply>> answer;
  coordinator_client_->Send(protocol::WorkerHeartbeat(),
                            [&](Result<ControlReply> reply) { answer = std::move(reply); });
  ASSERT_TRUE(WaitFor([&] { return requests_ == 1; }));
  server_.reset();
  ASSERT_TRUE(RunUntil(loop_, [&] { return answer.has_value(); }));
  EXPECT_FALSE(answer->ok());
  EXPECT_FALSE(coordinator_client_->busy());
}

// The coordinator evicts silent members, so a single lost reply must not use up the whole heartbeat timeout.
TEST_F(CoordinatorClientTest, AnAnswerThatIsLostLeavesTimeToAskAgain) {
  static constexpr Duration kSilence = std::chrono::seconds(8);
  answers_ = false;
  Serve([this](const ControlRequest& request) -> std::optional<ControlReply> {
    if (!std::holds_alternative<protocol::JoinRequest>(request)) {
      if (answers_) return protocol::WorkerHeartbeatReply();
      return std::nullopt;
    }
    protocol::JoinReply reply;
    reply.node = NodeId(5);
    reply.heartbeat_timeout = kSilence;
    return reply;
  });
  Connect();
  ASSERT_TRUE(coordinator_client_->Join(Worker()).ok());
  std::optional<Result<ControlReply>> lost, found;
  const double took = Took([&] {
    coordinator_client_->Send(protocol::WorkerHeartbeat(), [&](Result<ControlReply> reply) {
      lost = std::move(reply);
      answers_ = true;
      coordinator_client_->Send(protocol::WorkerHeartbeat(),
                                [&](Result<ControlReply> again) { found = std::move(again); });
    });
    ASSERT_TRUE(RunUntil(loop_, [&] { return found.has_value(); }));
  });
  EXPECT_EQ(lost->status().code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(found->ok()) << found->status().ToString();
  EXPECT_LT(took, Seconds(kSilence));
}

TEST_F(CoordinatorClientTest, ACallAfterTheConnectionWasLostGoesOverANewOne) {
  Serve(Welcome);
  const std::string address = server_->address();
  Connect();
  ASSERT_TRUE(coordinator_client_->Join(Worker()).ok());
  server_.reset();
  Serve([](const auto&) { return protocol::WorkerHeartbeatReply(); }, address);
  std::optional<Result<ControlReply>> answer;
  coordinator_client_->Send(protocol::WorkerHeartbeat(),
                            [&](Result<ControlReply> reply) { answer = std::move(reply); });
  ASSERT_TRUE(RunUntil(loop_, [&] { return answer.has_value(); }));
  EXPECT_TRUE(answer->ok()) << answer->status().ToString();
}

TEST(CoordinatorClientOptionsTest, ACutOfHalfAMinuteIsNoLossOfTheCoordinator) {
  EXPECT_GE(CoordinatorClientOptions().silence_limit, std::chrono::seconds(60));
}

// A loop that was busy for longer than the limit has asked for nothing, and has lost nobody.
TEST_F(CoordinatorClientTest, LostAfterRequestsHaveFailedForTheLimitAndFoundByAnAnswer) {
  answers_ = false;
  Serve([this](const ControlRequest& request) -> std::optional<ControlReply> {
    if (std::holds_alternative<protocol::JoinRequest>(request)) return Welcome(request);
    if (!answers_) return protocol::Refusal{Status(Code::kUnavailable, "not now")};
    return protocol::WorkerHeartbeatReply();
  });
  Connect({.silence_limit = std::chrono::milliseconds(200)});
  ASSERT_TRUE(coordinator_client_->Join(Worker()).ok());
  const Time busy = loop_.Now() + std::chrono::milliseconds(300);
  ASSERT_TRUE(RunUntil(loop_, [&] { return loop_.Now() > busy; }));
  EXPECT_FALSE(coordinator_client_->lost());
  bool failed = false;
  coordinator_client_->Send(protocol::WorkerHeartbeat(), [&](const auto& reply) { failed = !reply.ok(); });
  ASSERT_TRUE(RunUntil(loop_, [&] { return failed; }));
  ASSERT_TRUE(RunUntil(loop_, [&] { return coordinator_client_->lost(); }));
  answers_ = true;
  bool answered = false;
  coordinator_client_->Send(protocol::WorkerHeartbeat(), [&](const auto&) {
    answered = true;
    EXPECT_FALSE(coordinator_client_->lost());
  });
  ASSERT_TRUE(RunUntil(loop_, [&] { return answered; }));
}

TEST_F(CoordinatorClientTest, DestroyedInTheMiddleOfACallItEndsSoonAndTellsNothing) {
  constexpr double kCall = 5;  // seconds that it would wait for an answer
  Serve([](const auto&) { return std::nullopt; });
  Connect();
  coordinator_client_->Send(protocol::WorkerHeartbeat(),
                            [&](const auto&) { FAIL() << "whoever asked is gone"; });
  ASSERT_TRUE(WaitFor([&] { return requests_ == 1; }));
  EXPECT_LT(Took([&] { coordinator_client_.reset(); }), kCall);
  for (int i = 0; i < 5; ++i) loop_.RunOnce(std::chrono::milliseconds(1));
  // With nobody there at all.
  const std::string nobody = FreeAddress();
  Connect({.coordinator = nobody});
  coordinator_client_->Send(protocol::WorkerHeartbeat(),
                            [&](const auto&) { FAIL() << "whoever asked is gone"; });
  EXPECT_LT(Took([&] { coordinator_client_.reset(); }), kCall);
  for (int i = 0; i < 5; ++i) loop_.RunOnce(std::chrono::milliseconds(1));
}

TEST_F(CoordinatorClientTest, AnAnswerThatWaitsInTheLoopWhenTheLinkGoesIsDropped) {
  Serve([](const auto&) { return protocol::WorkerHeartbeatReply(); });
  for (int round = 0; round < 10; ++round) {
    Connect();
    const int before = requests_;
    coordinator_client_->Send(protocol::WorkerHeartbeat(),
                              [&](const auto&) { FAIL() << "whoever asked is gone"; });
    ASSERT_TRUE(WaitFor([&] { return requests_ > before; }));
    coordinator_client_.reset();
    for (int i = 0; i < 3; ++i) loop_.RunOnce(Duration(0));
  }
}

}  // namespace
}  // namespace leat::roles
