#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <variant>

#include "base/log.h"
#include "compute/engine/devices/devices.h"
#include "compute/engine/run/thread_pool.h"
#include "job/job.h"
#include "net/address.h"
#include "net/frames/frame.h"
#include "net/same_host/shared_memory.h"
#include "run/roles/background_thread.h"
#include "run/roles/membership.h"
#include "run/roles/role.h"
#include "run/roles/shards/saved_slices.h"
#include "run/roles/shards/shard_files.h"
#include "train/ps/server_shell.h"

namespace leat::roles {
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
  ServerRole(net::Loop& loop, Membership& membership, ps::ServerShell& shell, const job::Job& job,
             std::unique_ptr<ShardFiles> files, SavedSlices& saved, PreparedMemory& memory)
      : loop_(loop),
        membership_(membership),
        shell_(shell),
        table_(job.Slices()),
        optimizer_(job.ServerOptimizer()),
        files_(std::move(files)),
        saved_(saved),
        memory_(memory),
        stepped_(job.strategy.stepped()),
        kill_point_(job.debug, std::filesystem::path(membership.joined().probe).parent_path().string()) {
    shell_.machine().OnJoined(membership_.node(), membership_.joined().term);
    shell_.RecordTo(membership.recorder().MakeTrack("apply"));
    if (job.debug.die_at != job::DiePoint::kNone) shell_.AtPoints([this](Point point) { PassPoint(point); });
  }
  ~ServerRole() { files_->Abort(); }

  Status Run() {
    return membership_.Run({.make_heartbeat = [this] { return MakeHeartbeat(); },
                            .on_reply = [this](const protocol::ControlReply& reply) { OnReply(reply); },
                            .on_leave = [this] { Leave(); },
                            .urgent = [this] { return shell_.machine().HeartbeatUrgent(); },
                            .quiet = [this] { return Quiet(); },
                            // Slices that are ready and shards that are saved are rare, and waited for.
                            .urgent_gap = Duration::zero()});
  }

 private:
  using Point = ps::ServerShell::Point;

  void PassPoint(Point point) {
    using job::DiePoint;
    // In the order of Point.
    constexpr DiePoint kDiePoints[] = {DiePoint::kApply,       DiePoint::kMoveOrdered, DiePoint::kMoveFrozen,
                                       DiePoint::kMoveArrived, DiePoint::kForwarded,   DiePoint::kTaken,
                                       DiePoint::kAcknowledged};
    kill_point_.Pass(kDiePoints[static_cast<size_t>(point)]);
  }

  protocol::ServerHeartbeat MakeHeartbeat() {
    auto heartbeat = shell_.machine().MakeHeartbeat();
    reported_news_ = News();
    heartbeat.progress.bytes_in = shell_.bytes_in();
    heartbeat.progress.bytes_out = shell_.bytes_out() + shell_.bytes_forwarded();
    heartbeat.progress.bytes_moved = shell_.bytes_moved();
    heartbeat.progress.cpu_seconds = OwnCpuSeconds();
    return heartbeat;
  }

  // Bytes received that may change what a heartbeat says.
  uint64_t News() const { return shell_.bytes_in() - shell_.bytes_of_pulls(); }
  bool Quiet() const {
    return News() == reported_news_ && !shell_.machine().HeartbeatUrgent() && !shell_.machine().leaving();
  }

  void Leave() {
    if (shell_.machine().leaving()) {
      spdlog::warn("told to leave again: the slices that are still here are not handed over");
      return membership_.Stop(false);
    }
    spdlog::info("leaving: the other servers take over the slices");
    shell_.machine().Leave();
    membership_.RequestHeartbeat();
  }

  void OnReply(const protocol::ControlReply& reply) {
    const auto* heartbeat = std::get_if<protocol::ServerHeartbeatReply>(&reply);
    if (heartbeat == nullptr) return;
    if (const auto told = ShardFiles::Told(*heartbeat)) files_->Redirect(*told, membership_.coordinator());
    if (!MemoryIsReady(heartbeat->checkpoint)) {
      protocol::ServerHeartbeatReply later = *heartbeat;
      later.checkpoint.reset();
      return Take(later);
    }
    Take(*heartbeat);
  }

  // Prepares the memory of the copies that a save makes once its order has come. False: the order is to be
  // ignored until that is done; it is repeated. Stepped strategies save at a certain step, whatever is ready.
  bool MemoryIsReady(const std::optional<protocol::CheckpointOrder>& order) {
    const uint64_t id = order ? order->id : 0;
    if (id != prepared_for_) {
      prepared_for_ = id;
      memory_.Drop();
      preparing_ = id != 0;
      if (preparing_) {
        background_.Post([this, id, sizes = saved_.Copied(shell_.machine().BytesToSave())] {
          memory_.Prepare(sizes);
          loop_.Post([this, id] {
            if (prepared_for_ != id) return;
            preparing_ = false;
            membership_.RequestHeartbeat();
          });
        });
      }
    }
    return !preparing_ || stepped_;
  }

  void Take(const protocol::ServerHeartbeatReply& reply) {
    for (auto& action : shell_.OnHeartbeatReply(reply)) {
      if (membership_.over()) return;
      std::visit([this](auto& one) { Execute(one); }, action);
    }
  }

  void Execute(const protocol::LoadSlices& a) {
    background_.Post([this, orders = a.orders] {
      files_->Load(orders, table_, optimizer_,
                   [this](const protocol::SliceOrder& order, Result<protocol::Slice> loaded) {
                     const auto slice = std::make_shared<Result<protocol::Slice>>(std::move(loaded));
                     loop_.Post([this, order, slice] {
                       shell_.machine().OnSliceLoaded(order, std::move(*slice));
                       membership_.Update();
                     });
                   });
    });
  }

  void Execute(const protocol::SaveShard& a) {
    kill_point_.Pass(job::DiePoint::kShard);
    std::set<SliceId> slices;
    uint64_t bytes = 0;
    for (const auto& slice : a.slices) {
      slices.insert(slice->id);
      bytes += slice->memory.size();
    }
    saved_.Begin(std::move(slices), bytes);
    background_.Post([this, a]() mutable {
      const auto read = [this, id = a.order.id] {
        saved_.End();
        memory_.Drop();
        loop_.Post([this, id] { shell_.machine().OnSlicesRead(id); });
      };
      const checkpoint::ShardProgress progress{.urgent = [this] { return saved_.Urgent(); },
                                               .written = [this](SliceId slice) { saved_.Written(slice); }};
      timeline::Scope scope(files_track_, timeline::Kind::kCheckpoint);
      scope.span().number = a.order.id;
      const auto done = [this](protocol::ShardReport report) {
        loop_.Post([this, report = std::move(report)] {
          shell_.machine().OnShardSaved(report);
          membership_.Update();
        });
      };
      files_->Save(std::move(a), membership_.node(), table_, optimizer_, read, done, progress);
    });
  }

  void Execute(const protocol::StopRole& a) { membership_.Stop(a.evicted && !shell_.machine().leaving()); }

  net::Loop& loop_;
  Membership& membership_;
  timeline::Track* const files_track_ = membership_.recorder().MakeTrack("files");
  ps::ServerShell& shell_;
  protocol::SliceTable table_;
  optim::OptimizerConfig optimizer_;
  const std::unique_ptr<ShardFiles> files_;  // read and written on the background thread
  SavedSlices& saved_;
  PreparedMemory& memory_;
  const bool stepped_;
  uint64_t prepared_for_ = 0;  // the order of a checkpoint; 0: none
  bool preparing_ = false;
  KillPoint kill_point_;
  uint64_t reported_news_ = 0;  // as of the last heartbeat
  BackgroundThread background_{kNiceWithFiles};
};

// From joining to the end of the job, or until this node is evicted.
Status RunServerOnce(net::Loop& loop, Membership& membership, const RoleOptions& options) {
  // The address has to be known before the job is, so the port is taken first and served once the job has
  // come: whoever connects in between waits in the kernel's queue.
  const auto transport = MakeTransport(loop, options, wire::ServerPort());
  std::unique_ptr<ps::ServerShell> shell;
  LEAT_ASSIGN_OR_RETURN(
      auto reserved, transport->Listen(options.listen, [&shell](std::unique_ptr<net::Connection> connection) {
        return shell->Adopt(std::move(connection));
      }));
  LEAT_ASSIGN_OR_RETURN(const std::string address,
                        net::AdvertisedAddress(options.advertise, reserved->address()));
  const auto job = membership.Join(address);
  if (!job.ok()) return Membership::JoinError(job.status());
  spdlog::info("serving on {}, known to others as {}", reserved->address(), address);
  transport->TrustNetwork(job->trusted_network);
  LEAT_ASSIGN_OR_RETURN(auto files, MakeShardFiles(membership, *job, options));
  if (job->debug.init > Duration{0}) std::this_thread::sleep_for(job->debug.init);
  auto config = job->ServerConfig();
  PreparedMemory memory(net::MakeSharedBuffer);
  config.allocate = [&memory](size_t bytes) { return memory.Take(bytes); };
  SavedSlices saved({.whole = job->checkpoint_copy_bytes});
  config.saved = [&saved](const protocol::Slice& slice) {
    return saved.BeforeUpdate(slice.id, slice.memory);
  };
  const int threads = std::min(engine::UsableCores(), kMaxUpdateThreads);
  std::optional<ParallelUpdate> sharing;
  if (threads > 1) {
    config.run_parts = [&sharing](size_t count, const auto& part) { sharing->Run(count, part); };
    sharing.emplace(threads);
  }
  shell = std::make_unique<ps::ServerShell>(loop, std::move(config));
  shell->SendMovesBy(*transport, [&membership] { membership.Update(); });
  const Status outcome = ServerRole(loop, membership, *shell, *job, std::move(files), saved, memory).Run();
  reserved.reset();
  shell.reset();
  net::Linger(loop, *transport, kLinger);
  return outcome;
}

}  // namespace

Status RunServer(const RoleOptions& options) {
  return RejoinWhileEvicted(options, protocol::Role::kServer, RunServerOnce);
}

}  // namespace leat::roles
