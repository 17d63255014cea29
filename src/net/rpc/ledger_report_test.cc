// A server with more open splits than one control message can name, and its coordinator, over gRPC.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "net/rpc/client.h"
#include "net/rpc/codec.h"
#include "net/rpc/server.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/server/server.h"

namespace leat::control {
namespace {

using namespace protocol;

constexpr uint32_t kPartitions = 12;
constexpr uint32_t kSplits = Ledger::kMaxOpen;
constexpr uint32_t kBatch = 10;
constexpr uint64_t kEnd = uint64_t{kSplits} * 2 * kBatch;  // end of each partition

class LedgerReportTest : public ::testing::Test {
 protected:
  LedgerReportTest() {
    CoordinatorConfig config;
    config.table = MakeSlices({{"v", Shape{1}, {}}}, 1, 1);
    config.cuts = {.hash = ~uint64_t{0}, .batch_size = kBatch, .split_batches = 2, .shuffle_seed = 1};
    for (uint32_t p = 0; p < kPartitions; ++p) config.partitions.push_back(p);
    coordinator_ = std::make_unique<Coordinator>(config, RecoveredState{});
    std::vector<StreamRange> ranges;
    for (uint32_t p = 0; p < kPartitions; ++p) ranges.push_back({p, 0, kEnd, false});
    coordinator_->OnStream(now_, ranges);
    auto started = ControlServer::Start(
        "127.0.0.1:0", "token",
        [this](const ControlRequest& request, const std::function<void(ControlReply)>& reply) {
          std::lock_guard lock(mutex_);
          const auto actions = coordinator_->OnRequest(now_, 7, request);
          for (const CoordinatorAction& action : actions) {
            if (const auto* answer = std::get_if<protocol::Reply>(&action)) reply(answer->reply);
          }
        });
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    control_ = std::move(*started);
    client_ = ControlClient::Make(control_->address(), "token");
    server_ = std::make_unique<Server>(ServerConfig{.table = config.table, .modelled = true});
    JoinRequest join;
    join.role = Role::kServer;
    join.address = "here";
    server_->OnJoined(std::get<JoinReply>(*client_->Call(join, std::chrono::minutes(1))).node);
    while (server_->Find(SliceId(0)) == nullptr && !HasFailure()) SendHeartbeat();
  }

  void SendHeartbeat() {
    const ServerHeartbeat heartbeat = server_->MakeHeartbeat();
    bytes_ = Serialize(heartbeat).size();
    const auto reply = client_->Call(heartbeat, std::chrono::minutes(1));
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    const auto& answer = std::get<ServerHeartbeatReply>(*reply);
    ASSERT_FALSE(answer.evicted);
    server_->OnHeartbeatReply(answer);
  }

  // Every worker pushes this batch of each of its splits.
  void Push(uint32_t batch) {
    const Incarnation incarnation = server_->Find(SliceId(0))->incarnation;
    for (uint32_t p = 0; p < kPartitions; ++p) {
      for (uint32_t split = 0; split < kSplits; ++split) {
        PushRequest push;
        push.disposition = Disposition::kEmpty;
        const uint64_t begin = uint64_t{split} * 2 * kBatch;
        push.cut = {p, {0, begin}, {0, begin}, begin + 2 * kBatch, ~uint64_t{0}, kBatch, ~uint64_t{0}};
        push.run = batch;
        push.generation = Generation(1 << 20);
        push.slices = {{SliceId(0), incarnation, 0}};
        ASSERT_TRUE(server_->Begin(push).ok());
        ASSERT_EQ(server_->Apply(push, 0, {}).outcome, SliceOutcome::kApplied) << p << " " << split;
      }
    }
  }

  const Time now_{std::chrono::seconds(1)};
  std::mutex mutex_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<ControlClient> client_;
  std::unique_ptr<Server> server_;
  size_t bytes_ = 0;  // size of the last heartbeat
};

TEST_F(LedgerReportTest, AServerWithManyOpenSplitsStaysInTheJob) {
  const auto report = [this] {
    int heartbeats = 0;
    do {
      SendHeartbeat();
      ++heartbeats;
      EXPECT_LT(bytes_, 1100u << 10);
    } while (server_->HeartbeatUrgent() && !HasFailure());
    return heartbeats;
  };
  const auto watermark = [this] {
    std::lock_guard lock(mutex_);
    return coordinator_->status().watermark;
  };
  Push(1);
  EXPECT_GT(report(), 4) << "else a report is no longer larger than one message";
  EXPECT_EQ(report(), 1);
  EXPECT_LT(bytes_, 1000u) << "the coordinator knows it all";
  EXPECT_EQ(watermark(), std::vector<Position>(kPartitions));
  Push(0);
  EXPECT_EQ(report(), 1);
  EXPECT_EQ(watermark(), std::vector<Position>(kPartitions, {0, kEnd}));
}

}  // namespace
}  // namespace leat::control
