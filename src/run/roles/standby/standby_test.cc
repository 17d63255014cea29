// A standby against a coordinator whose answers each test scripts.
#include "run/roles/standby/standby.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/testing.h"
#include "net/rpc/server.h"
#include "run/launcher/signals.h"
#include "storage/checkpoint/store.h"

namespace leat::roles {
namespace {

using protocol::ControlReply;
using protocol::ControlRequest;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::SizeIs;

struct StandbyTakesOver : std::runtime_error {
  StandbyTakesOver() : std::runtime_error("takes over") {}
};

class StandbyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
    launcher::BlockSignals();
    auto store = checkpoint::Store::Open(directory_ / "job", false);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = std::move(*store);
    ASSERT_TRUE(store_->WriteJob("job: 1\n").ok());
    auto server = control::ControlServer::Start(
        "127.0.0.1:0", "secret",
        [this](const ControlRequest& request, std::function<void(ControlReply)> answer) {
          std::lock_guard lock(mutex_);
          if (const auto* join = std::get_if<protocol::JoinRequest>(&request)) {
            joins_.push_back(*join);
            protocol::JoinReply reply;
            reply.node = NodeId(joins_.size());
            reply.term = 1;
            reply.job = job_;
            return answer(std::move(reply));
          }
          const auto* alive = std::get_if<protocol::KeepAlive>(&request);
          if (alive == nullptr) return answer(protocol::Refusal{Status(Code::kInvalidArgument, "what?")});
          ++answered_;
          if (const auto reply = on_keep_alive_(alive->node)) return answer(*reply);
          unanswered_.push_back(std::move(answer));
        });
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
  }
  void TearDown() override {
    server_.reset();
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  Status Run() {
    StandbyOptions options{.leader = server_->address(),
                           .directory = directory_ / "job",
                           .load = []() -> job::Job { throw StandbyTakesOver(); },
                           .coordinator = {}};
    options.coordinator.token = "secret";
    options.coordinator.metrics = metrics_;
    return RunStandby(std::move(options));
  }
  std::vector<protocol::JoinRequest> Joins() {
    std::lock_guard lock(mutex_);
    return joins_;
  }
  // The first `count` keep-alives are answered, then `then` is called with each.
  void AnswerThen(int count, std::function<std::optional<protocol::KeepAliveReply>()> then) {
    on_keep_alive_ = [this, count, then = std::move(then)](NodeId) {
      return answered_ <= count ? protocol::KeepAliveReply() : then();
    };
  }

  TempDir directory_;
  sigset_t mask_;
  std::shared_ptr<observe::RoleMetrics> metrics_;
  std::unique_ptr<checkpoint::Store> store_;
  std::mutex mutex_;
  std::string job_ = "job: 1\n";
  std::vector<protocol::JoinRequest> joins_;
  int answered_ = 0;
  // None: it is never answered.
  std::function<std::optional<protocol::KeepAliveReply>(NodeId)> on_keep_alive_;
  std::vector<std::function<void(ControlReply)>> unanswered_;
  std::unique_ptr<control::ControlServer> server_;
};

TEST_F(StandbyTest, EndsWithTheJob) {
  AnswerThen(2, [] { return protocol::KeepAliveReply{.stop = true}; });
  EXPECT_TRUE(Run().ok());
  const auto joins = Joins();
  ASSERT_THAT(joins, SizeIs(1));
  EXPECT_EQ(joins[0].role, protocol::Role::kCoordinator);
  EXPECT_THAT(joins[0].address, HasSubstr("127.0.0.1:"));
}

TEST_F(StandbyTest, IsAliveAsLongAsItAsks) {
  metrics_ = std::make_shared<observe::RoleMetrics>(observe::RoleMetrics::Options{.role = "coordinator"});
  const MonotonicClock clock;
  const Time began = clock.Now();
  EXPECT_TRUE(metrics_->Alive(began + std::chrono::hours(1))) << "it is not watched yet";
  AnswerThen(2, [this, &clock, began, calls = 0]() mutable {
    const Time hangs = clock.Now() + observe::Liveness::kStalled;
    EXPECT_FALSE(metrics_->Alive(hangs + seconds(1))) << "it would hang";
    const bool turned = metrics_->Alive(began + observe::Liveness::kStalled + std::chrono::milliseconds(200));
    EXPECT_TRUE(turned) << "two intervals after the start";
    return protocol::KeepAliveReply{.stop = ++calls > 2};
  });
  EXPECT_TRUE(Run().ok());
  EXPECT_TRUE(metrics_->Alive(clock.Now() + std::chrono::hours(1)));
}

TEST_F(StandbyTest, JoinsAgainAfterAnEviction) {
  on_keep_alive_ = [](NodeId node) {
    return protocol::KeepAliveReply{.evicted = node == NodeId(1), .stop = node == NodeId(2)};
  };
  EXPECT_TRUE(Run().ok());
  const auto joins = Joins();
  ASSERT_THAT(joins, SizeIs(2));
  EXPECT_EQ(joins[0].address, joins[1].address);
  EXPECT_EQ(joins[0].process, joins[1].process);
}

TEST_F(StandbyTest, TakesOverFromACoordinatorThatDoesNotAnswer) {
  AnswerThen(2, [] { return std::nullopt; });
  const MonotonicClock clock;
  const Time began = clock.Now();
  EXPECT_THROW((void)Run(), StandbyTakesOver);
  EXPECT_GE(clock.Now() - began, seconds(2));
}

TEST_F(StandbyTest, WaitsForAnotherOneThatTakesOver) {
  std::unique_ptr<checkpoint::Store> other;
  AnswerThen(2, [&, calls = 0]() mutable -> std::optional<protocol::KeepAliveReply> {
    if (calls++ > 0) return protocol::KeepAliveReply{.stop = true};
    other = std::move(*checkpoint::Store::Open(directory_ / "job", true, true));
    return std::nullopt;
  });
  EXPECT_TRUE(Run().ok());
}

TEST_F(StandbyTest, DoesNotTakeOverAJobThatHasEnded) {
  AnswerThen(1, [this]() -> std::optional<protocol::KeepAliveReply> {
    EXPECT_TRUE(store_->End().ok());
    return std::nullopt;
  });
  EXPECT_TRUE(Run().ok());
}

TEST_F(StandbyTest, NeedsTheDirectoryOfTheCoordinator) {
  job_ = "job: 2\n";
  const Status status = Run();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("holds another job"));
}

}  // namespace
}  // namespace leat::roles
