#include "roles/server_role.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "engine/devices/devices.h"
#include "engine/run/thread_pool.h"
#include "job/job.h"
#include "launcher/signals.h"
#include "ps/server_shell.h"
#include "roles/role.h"
#include "roles/shard_files.h"

namespace leat::train {
namespace {

// Shares the parts of a piece of work out among threads.
class ParallelUpdate final : public engine::ThreadPool::Job {
 public:
  explicit ParallelUpdate(int threads) : helpers_(threads - 1) { pool_.Grow(helpers_); }

  void Run(size_t count, const std::function<void(size_t)>& part) {
    next_ = 0;
    count_ = count;
    part_ = &part;
    pool_.Submit(*this, helpers_);
    Help();
    pool_.CancelAndWait(*this);
  }

  void Help() override {
    for (size_t i = next_++; i < count_; i = next_++) (*part_)(i);
  }

 private:
  const int helpers_;
  std::atomic<size_t> next_{0};
  size_t count_ = 0;
  const std::function<void(size_t)>* part_ = nullptr;
  engine::ThreadPool pool_;
};

// While workers wait for a step their cores are free; what memory brings is shared by all of them.
constexpr int kMaxUpdateThreads = 4;

// The shell around protocol::Server. Everything runs on the loop's thread but files and the calls to the
// coordinator.
class ServerRole {
 public:
  ServerRole(net::Loop& loop, CoordinatorClient& coordinator_client, ps::ServerShell& shell, const Job& job,
             const protocol::JoinReply& joined)
      : loop_(loop),
        coordinator_client_(coordinator_client),
        shell_(shell),
        table_(job.Slices()),
        optimizer_(job.ServerOptimizer()),
        node_(joined.node),
        interval_(joined.heartbeat_interval) {
    shell_.machine().OnJoined(joined.node);
  }

  Status Run(bool* evicted) {
    SendHeartbeat();
    loop_.Run();
    *evicted = evicted_;
    return outcome_;
  }

  void Leave() {
    leaving_ = true;
    SendHeartbeat();
  }

 private:
  void SendHeartbeat() {
    if (over_ || coordinator_client_.busy()) return;
    auto heartbeat = shell_.machine().MakeHeartbeat();
    heartbeat.leaving = leaving_;
    heartbeat.progress.bytes_in = shell_.bytes_in();
    heartbeat.progress.bytes_out = shell_.bytes_out();
    heartbeat.progress.cpu_seconds = OwnCpuSeconds();
    coordinator_client_.Send(std::move(heartbeat), [this](Result<protocol::ControlReply> reply) {
      OnHeartbeatReply(std::move(reply));
    });
  }

  void OnHeartbeatReply(Result<protocol::ControlReply> reply) {
    if (over_) return;
    if (!reply.ok()) {
      spdlog::warn("heartbeat: {}", reply.status().ToString());
      if (coordinator_client_.lost()) return End(reply.status().With("the coordinator is lost"));
    } else if (auto* heartbeat = std::get_if<protocol::ServerHeartbeatReply>(&*reply)) {
      for (auto& action : shell_.OnHeartbeatReply(*heartbeat)) {
        if (over_) return;
        std::visit([this](auto& a) { Act(a); }, action);
      }
    }
    // One timer, however many beats could not wait for theirs.
    loop_.Cancel(timer_);
    timer_ = loop_.After(interval_, [this] { SendHeartbeat(); });
    SendHeartbeatIfUrgent();
  }

  void SendHeartbeatIfUrgent() {
    if (shell_.machine().HeartbeatUrgent()) SendHeartbeat();
  }

  void Act(const protocol::LoadSlices& a) {
    background_.Post([this, orders = a.orders] {
      LoadSlices(orders, table_, optimizer_,
                 [this](const protocol::SliceOrder& order, Result<protocol::Slice> loaded) {
                   const auto slice = std::make_shared<Result<protocol::Slice>>(std::move(loaded));
                   loop_.Post([this, order, slice] {
                     shell_.machine().OnSliceLoaded(order, std::move(*slice));
                     SendHeartbeatIfUrgent();
                   });
                 });
    });
  }

  void Act(const protocol::SaveShard& a) {
    background_.Post([this, a] {
      loop_.Post([this, report = SaveSlices(a, node_, table_, optimizer_)] {
        shell_.machine().OnShardSaved(report);
        SendHeartbeatIfUrgent();
      });
    });
  }

  void Act(const protocol::StopRole& a) {
    evicted_ = a.evicted;
    End(Status());
  }

  void End(Status outcome) {
    over_ = true;
    outcome_ = std::move(outcome);
    loop_.Stop();
  }

  net::Loop& loop_;
  CoordinatorClient& coordinator_client_;
  ps::ServerShell& shell_;
  protocol::SliceTable table_;
  optim::OptimizerConfig optimizer_;
  NodeId node_;
  Duration interval_;
  uint64_t timer_ = 0;  // of the next beat
  bool leaving_ = false;
  bool over_ = false;
  bool evicted_ = false;
  Status outcome_;
  BackgroundThread background_;
};

}  // namespace

Status RunServer(const RoleOptions& options) {
  bool evicted = true;
  uint64_t job_hash = 0;
  while (evicted) {
    evicted = false;
    net::Loop loop;
    CoordinatorClient coordinator_client(loop, options.coordinator_client);
    // The address has to be known before the job is, so the port is taken first and served once the job has
    // come: whoever connects in between waits in the kernel's queue.
    const auto transport = MakeTransport(loop, options);
    std::unique_ptr<ps::ServerShell> shell;
    auto reserved = transport->Listen(options.listen, [&shell](std::unique_ptr<net::Connection> connection) {
      return shell->Adopt(std::move(connection));
    });
    if (!reserved.ok()) return reserved.status();
    auto joined =
        coordinator_client.Join(MakeJoinRequest(protocol::Role::kServer, (*reserved)->address(), job_hash));
    if (!joined.ok()) return JoinError(joined.status());
    spdlog::info("server {} joined as node {}, serving on {}", joined->index, joined->node.value,
                 (*reserved)->address());
    const Job job = Job::FromText(joined->job, "job");
    job_hash = job.Hash();
    transport->TrustNetwork(job.trusted_network);
    auto config = job.ServerConfig();
    config.allocate = net::MakeSharedBuffer;
    const int threads = std::min(engine::UsableCores(), kMaxUpdateThreads);
    std::optional<ParallelUpdate> sharing;
    if (threads > 1) {
      config.run_parts = [&sharing](size_t count, const auto& part) { sharing->Run(count, part); };
      sharing.emplace(threads);
    }
    shell = std::make_unique<ps::ServerShell>(loop, std::move(config));
    ServerRole role(loop, coordinator_client, *shell, job, *joined);
    SignalWatch signals([&](int) { loop.Post([&role] { role.Leave(); }); });
    const Status outcome = role.Run(&evicted);
    reserved->reset();
    if (!outcome.ok()) return outcome;
  }
  return Status();
}

}  // namespace leat::train
