// The processes of a virtual job and what lies between them. A part of virtual_job.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "protocol/coordinator.h"
#include "protocol/server.h"
#include "protocol/testing/virtual_disk.h"
#include "protocol/testing/virtual_job.h"
#include "protocol/worker.h"

namespace leat::protocol::testing {

// Things that happen at their time, and at one time in the order in which they were asked for.
class VirtualTime {
 public:
  Time now() const { return now_; }
  void After(Duration delay, std::function<void()> what) {
    queue_.push({now_ + delay, ++last_, std::move(what)});
  }
  // False when nothing is left.
  bool Step() {
    if (queue_.empty()) return false;
    auto what = std::move(const_cast<Happening&>(queue_.top()).what);
    now_ = queue_.top().at;
    queue_.pop();
    what();
    return true;
  }

 private:
  struct Happening {
    Time at;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Happening& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  Time now_{0};
  uint64_t last_ = 0;
  std::priority_queue<Happening> queue_;
};

struct Process {
  virtual ~Process() = default;
  bool alive = true;
  Time paused_until{0};
};

struct CoordinatorProcess : Process {
  std::unique_ptr<Coordinator> machine;
  std::map<uint64_t, std::function<void(ControlReply)>> calls;
  bool ended = false;
};

// A server or a worker: joins, beats, ends.
struct RoleProcess : Process {
  Role role = Role::kWorker;
  std::string address;
  std::unique_ptr<Server> server;
  std::unique_ptr<Worker> worker;
  NodeId node;
  uint64_t life = 0;  // of the machine: grows when the process joins again
  bool joined = false;
  bool beating = false;
  Time last_beat{0};
  std::map<NodeId, uint64_t> connections;  // of a worker: number of the connection to each server
};

class VirtualCluster {
 public:
  explicit VirtualCluster(const VirtualJobOptions& options);
  VirtualJobResult Run();

 private:
  using ProcessPtr = std::shared_ptr<RoleProcess>;

  // ---- time and chance
  bool Faulty() const { return time_.now() < options_.faults.until; }
  bool Chance(double p) { return Faulty() && rng_.Chance(p); }
  Duration Between(double least_ms, double most_ms) {
    return FromSeconds((least_ms + (most_ms - least_ms) * rng_.Uniform()) * 1e-3);
  }
  Duration Latency() { return Chance(options_.faults.slow) ? Between(1, 3000) : Between(0.1, 2); }
  Duration DiskTakes() { return Between(0, 1e3 * Seconds(options_.faults.slow_disk)); }
  // In the process, once it is not paused; not at all once it is dead.
  void In(const std::shared_ptr<Process>& process, Duration delay, std::function<void()> what);

  // ---- the coordinator and the stream
  void StartCoordinator();
  CoordinatorConfig Config();
  void Do(const std::shared_ptr<CoordinatorProcess>& c, CoordinatorActions actions);
  void Act(const std::shared_ptr<CoordinatorProcess>& c, CoordinatorAction& action);
  void Tick(const std::shared_ptr<CoordinatorProcess>& c);
  void Poll(const std::shared_ptr<CoordinatorProcess>& c);
  std::vector<StreamRange> Ranges() const;
  void JobEnds(const Status& status);

  // ---- roles
  void Start(Role role, std::string address = "");
  void Join(const ProcessPtr& p);
  void Beat(const ProcessPtr& p);
  void OnBeatReply(const ProcessPtr& p, const std::optional<ControlReply>& reply);
  void Tick(const ProcessPtr& p);
  void JoinAgain(const ProcessPtr& p);
  void Do(const ProcessPtr& p, std::vector<ServerAction> actions);
  void Do(const ProcessPtr& p, WorkerActions actions);
  void Act(const ProcessPtr& p, const LoadSlices& a);
  void Act(const ProcessPtr& p, const SaveShard& a);
  void Act(const ProcessPtr& p, const StopRole& a);
  void Act(const ProcessPtr& p, const PrepareSplit& a);
  void Act(const ProcessPtr& p, const DropSplit& a);
  void Act(const ProcessPtr& p, const Compute& a);
  void Act(const ProcessPtr& p, const SendPush& a);
  void Act(const ProcessPtr& p, const Disconnect& a);

  // ---- the network
  // Answers exactly once: with the reply, or with nothing when it was lost, late, or nobody was there.
  void Call(const std::shared_ptr<Process>& from, const ControlRequest& request,
            std::function<void(std::optional<ControlReply>)> answer);
  using Answer = std::function<void(std::optional<PushReply>)>;
  void Deliver(const std::string& address, const PushRequest& request, Answer answer);
  ProcessPtr At(const std::string& address) const;

  // ---- disasters
  void Disaster();
  void Kill(const ProcessPtr& p, bool replace);
  void Replace();
  void Pause(Process* process);
  ProcessPtr Any(Role role);
  void ResumeJob();

  // ---- the end
  bool Complete() const;
  std::string Check() const;

  VirtualJobOptions options_;
  Rng rng_;
  VirtualTime time_;
  VirtualDisk disk_;
  SliceTable table_;
  CutRules rules_;
  uint32_t epochs_ = 1;
  uint32_t servers_;  // of the job as it is now
  uint32_t keep_checkpoints_ = 1;
  Duration checkpoint_interval_{};
  std::vector<uint64_t> first_, events_;  // by partition
  std::shared_ptr<CoordinatorProcess> coordinator_;
  std::vector<ProcessPtr> roles_;
  uint64_t last_call_ = 0;
  uint64_t last_address_ = 0;
  bool done_ = false;
  VirtualJobResult result_;
};

}  // namespace leat::protocol::testing
