// A standby with a directory of its own, against a coordinator and members that each test plays.
#include "run/roles/standby/standby.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/testing.h"
#include "job/testing.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"
#include "protocol/succession/election.h"
#include "protocol/succession/replication.h"
#include "run/launcher/signals.h"
#include "storage/checkpoint/journal.h"
#include "storage/checkpoint/standby/standby_directory.h"
#include "storage/checkpoint/store.h"

namespace leat::roles {
namespace {

using protocol::ControlReply;
using protocol::ControlRequest;
using protocol::JournalRecord;
using protocol::MakeTerm;
using ::testing::HasSubstr;

constexpr uint32_t kRunNumber = 9;
const uint64_t kTerm = MakeTerm(kRunNumber, 1);

struct TakesOver : std::runtime_error {
  TakesOver() : std::runtime_error("takes over") {}
};

class NetworkStandbyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
    launcher::BlockSignals();
    job_ = job::Job::Load({.text = job::kFullJob}, {.data = "/somewhere", .directory = directory_ / "theirs"})
               .config.ToYaml();
    for (uint64_t node = 1; node <= 3; ++node) {
      protocol::MemberJoined joined;
      joined.member = {NodeId(node), protocol::Role::kServer, 0, "127.0.0.1:1"};
      records_.push_back(joined);
    }
    records_.push_back(protocol::JournalAgreed{{NodeId(1), NodeId(2), NodeId(3)}});
    for (const JournalRecord& record : records_)
      protocol::JournalReplication::AppendFrame(checkpoint::EncodePayload(record), &frames_);
    auto server = control::ControlServer::Start(
        "127.0.0.1:0", "secret",
        [this](const ControlRequest& request, const std::function<void(ControlReply)>& answer) {
          std::lock_guard lock(mutex_);
          answer(Answer(request));
        });
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
  }
  void TearDown() override {
    server_.reset();
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

  // As the coordinator.
  ControlReply Answer(const ControlRequest& request) {
    if (const auto* join = std::get_if<protocol::JoinRequest>(&request)) {
      standby_ = join->address;
      protocol::JoinReply reply;
      reply.node = NodeId(7);
      reply.term = kTerm;
      reply.job = job_;
      return reply;
    }
    if (std::holds_alternative<protocol::KeepAlive>(request)) {
      heard_ = std::exchange(told_, stop_);  // it has got the answer to the one before
      return protocol::KeepAliveReply{.stop = stop_};
    }
    const auto* follow = std::get_if<protocol::FollowRequest>(&request);
    if (follow == nullptr) return protocol::Refusal{Status(Code::kInvalidArgument, "what?")};
    synced_ = follow->stream == 1 ? follow->synced : 0;
    protocol::FollowReply reply{.term = kTerm, .stream = 1, .snapshot = frames_.size()};
    reply.offset = follow->stream == 1 ? follow->received : 0;
    reply.bytes.assign(frames_.begin() + static_cast<std::ptrdiff_t>(reply.offset), frames_.end());
    reply.agreed = synced_;
    reply.in_set = synced_ > 0;
    return reply;
  }

  StandbyOptions Options() {
    StandbyOptions options{.leader = server_->address(),
                           .directory = directory_ / "own",
                           .own_directory = true,
                           .load = []() -> job::Job { throw TakesOver(); },
                           .coordinator = {}};
    options.coordinator.token = "secret";
    options.coordinator.metrics = metrics_;
    return options;
  }
  bool Synced() {
    return WaitFor([this] {
      std::lock_guard lock(mutex_);
      return synced_ == frames_.size();
    });
  }

  TempDir directory_;
  sigset_t mask_;
  std::shared_ptr<observe::RoleMetrics> metrics_ =
      std::make_shared<observe::RoleMetrics>(observe::RoleMetrics::Options{.role = "coordinator"});
  std::string job_;
  std::vector<JournalRecord> records_;
  Bytes frames_;
  std::mutex mutex_;
  std::string standby_;  // its address
  uint64_t synced_ = 0;
  bool stop_ = false;
  bool told_ = false, heard_ = false;  // the standby, that the job is over
  std::unique_ptr<control::ControlServer> server_;
};

TEST_F(NetworkStandbyTest, HasTheJournalOnItsOwnDisk) {
  std::thread ends([this] {
    EXPECT_TRUE(Synced());
    EXPECT_FALSE(
        metrics_->Alive(MonotonicClock().Now() + observe::Liveness::kStalled + std::chrono::seconds(1)))
        << "it would hang";
    EXPECT_TRUE(metrics_->Alive(MonotonicClock().Now() + observe::Liveness::kStalled / 2));
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    EXPECT_TRUE(WaitFor([this] {
      std::lock_guard lock(mutex_);
      return heard_;
    }));
    const auto highest = checkpoint::FindHighestTerm(directory_ / "own");
    EXPECT_TRUE(highest.ok() && highest->copy && highest->number == 1);
    // It follows to the end, and the coordinator then is gone.
    server_.reset();
  });
  const Status outcome = RunStandby(Options());
  ends.join();
  EXPECT_TRUE(outcome.ok()) << outcome.ToString();
  EXPECT_TRUE(metrics_->Alive(MonotonicClock().Now() + std::chrono::hours(1))) << "it has ended";
  const auto own = checkpoint::StandbyDirectory::Open(directory_ / "own");
  ASSERT_TRUE(own.ok()) << own.status().ToString();
  EXPECT_EQ((*own)->term(), kTerm);
  EXPECT_EQ(*(*own)->Job(), job_);
  EXPECT_EQ((*own)->Records()->size(), records_.size());
}

TEST_F(NetworkStandbyTest, TakesOverOnceAMajorityElectsIt) {
  std::atomic<bool> over = false;
  std::thread members([&] {
    EXPECT_TRUE(Synced());
    const std::string address = standby_;
    server_.reset();
    const auto client = control::ControlClient::Make(address, "secret");
    std::vector<protocol::Promises> machines(2);
    for (uint64_t node = 1; node <= 2; ++node) {
      machines[node - 1].OnJoined(NodeId(node), kTerm);
      const uint64_t number = *checkpoint::CoordinatorNumber(directory_ / "own");
      protocol::ServerHeartbeatReply told;
      told.term = kTerm;
      told.coordinators = protocol::CoordinatorSet{kTerm, 1, {number}};
      EXPECT_TRUE(machines[node - 1].OnReply(told));
    }
    while (!over) {
      for (uint64_t node = 1; node <= 2 && !over; ++node) {
        protocol::ServerHeartbeat heartbeat;
        heartbeat.node = NodeId(node);
        heartbeat.term = kTerm;
        heartbeat.elector = machines[node - 1].state();
        const auto reply = client->Call(heartbeat, std::chrono::milliseconds(200));
        const auto* asked = reply.ok() ? std::get_if<protocol::Candidacy>(&*reply) : nullptr;
        if (asked == nullptr) continue;
        const protocol::Promise promise = machines[node - 1].OnCandidacy(*asked);
        EXPECT_TRUE(promise.granted);
        (void)client->Call(promise, std::chrono::milliseconds(200));
      }
    }
  });
  EXPECT_THROW((void)RunStandby(Options()), TakesOver);
  over = true;
  members.join();
}

TEST_F(NetworkStandbyTest, TheDirectoryOfAnotherJobIsRefused) {
  {
    const auto own = checkpoint::StandbyDirectory::Open(directory_ / "own");
    ASSERT_TRUE(own.ok());
    const std::string other =
        job::Job::Load({.text = job::kSmallJob}, {.data = "/somewhere", .directory = directory_ / "x"})
            .config.ToYaml();
    ASSERT_TRUE((*own)->Begin(kTerm, other, records_).ok());
  }
  const Status outcome = RunStandby(Options());
  EXPECT_EQ(outcome.code(), Code::kFailedPrecondition);
  EXPECT_THAT(outcome.message(), HasSubstr("holds another job"));
}

TEST_F(NetworkStandbyTest, TheDirectoryOfAnotherRunIsRefused) {
  {
    const auto own = checkpoint::StandbyDirectory::Open(directory_ / "own");
    ASSERT_TRUE(own.ok());
    ASSERT_TRUE((*own)->Begin(MakeTerm(kRunNumber + 1, 1), job_, records_).ok());
  }
  const Status outcome = RunStandby(Options());
  EXPECT_EQ(outcome.code(), Code::kFailedPrecondition);
  EXPECT_THAT(outcome.message(), HasSubstr("another run"));
}

TEST_F(NetworkStandbyTest, AStreamInTheCoordinatorsDirectoryIsRefused) {
  job_ = job::Job::Load({.text = job::kSmallJob}, {.data = "/somewhere", .directory = directory_ / "theirs"})
             .config.ToYaml();
  const Status outcome = RunStandby(Options());
  EXPECT_EQ(outcome.code(), Code::kFailedPrecondition);
  EXPECT_THAT(outcome.message(), HasSubstr("the job's stream is in the coordinator's directory"));
}

}  // namespace
}  // namespace leat::roles
