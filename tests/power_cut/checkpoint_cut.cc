#include "checkpoint_cut.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "compute/kernels/reference/reference.h"
#include "compute/optim/optimizer.h"
#include "disk_image.h"
#include "disk_recorder.h"
#include "job/job.h"
#include "net/rpc/client.h"
#include "protocol/coordinator/coordinator.h"
#include "run/launcher/signals.h"
#include "run/roles/role.h"
#include "run/roles/start/coordinator_options.h"
#include "storage/checkpoint/shard.h"
#include "storage/checkpoint/store.h"

namespace leat::power_cut {
namespace {

using protocol::AdminRequest;

constexpr const char* kToken = "secret";
constexpr int kCheckpoints = 5;  // on demand; one more at the end

// The log is not in the job's directory: power_cut_test.cc is about it. A checkpoint has about 4 KB.
constexpr const char* kJob = R"(name: cut
stream: {topic: events, log: log, partitions: 2, bots: {events: 1000000, rate: 4000, customers: 100}}
schema: {format: json, fields: {amount: {type: number}, fraud: {type: number, role: label}}}
model: {layers: [bias: {units: 100}], loss: {type: negative_sum, reduction: sum}}
train: {batch_size: 50, split_batches: 4}
checkpoint: {interval_s: 1000000, keep: 2}
)";

std::string JobText(const std::string& strategy) {
  const bool servers = strategy != "allreduce";
  const bool averaging = strategy == "averaging";
  const std::string optimizer = averaging ? "sgd" : "adam";  // averaging refuses adam
  const std::string settings = averaging ? "{type: averaging, period: 4}" : strategy;
  return kJob + ("optimizer: {type: " + optimizer + ", learning_rate: 0.001}\nstrategy: " + settings) +
         "\ncluster: {workers: 2" + (servers ? ", ps: 2, placement: partitioned}\n" : "}\n");
}

void Require(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

// Signals are the coordinator's while a job runs.
class BlockedSignals {
 public:
  BlockedSignals() {
    pthread_sigmask(SIG_SETMASK, nullptr, &before_);
    launcher::BlockSignals();
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// A job whose roles are threads.
class RunningJob {
 public:
  RunningJob(const job::Job& job, bool servers) {
    std::atomic<bool> ready{false};
    const roles::CoordinatorOptions options{.token = kToken, .on_ready = [&](const std::string& address) {
                                              address_ = address;
                                              ready = true;
                                            }};
    threads_.emplace_back([this, &job, options] {
      (void)roles::RunCoordinator(job, options);
      over_ = true;
    });
    Require(WaitFor([&] { return ready || over_; }) && ready, "the coordinator does not start");
    client_ = control::ControlClient::Make(address_, kToken);
    for (int i = 0; i < 2; ++i) {
      if (servers) Start(roles::RunServer);
      Start(roles::RunWorker);
    }
    Start(roles::RunBots);
  }
  ~RunningJob() { Stop(); }

  uint64_t Events() {
    const auto reply = client_->Call(protocol::StatusRequest{}, std::chrono::seconds(60));
    if (!reply.ok()) return 0;
    return nlohmann::json::parse(std::get<protocol::StatusReply>(*reply).json).value("events", uint64_t{0});
  }
  void Checkpoint() {
    const auto reply =
        client_->Call(AdminRequest{.kind = AdminRequest::Kind::kCheckpoint}, std::chrono::seconds(60));
    const auto* done = reply.ok() ? std::get_if<protocol::AdminReply>(&*reply) : nullptr;
    Require(done != nullptr && done->status.ok(), "no checkpoint");
  }
  void Stop() {
    if (threads_.empty()) return;
    (void)client_->Call(AdminRequest{.kind = AdminRequest::Kind::kStop}, std::chrono::seconds(60));
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void Start(Status (*role)(const roles::RoleOptions&)) {
    roles::RoleOptions options;
    options.coordinator_client.coordinator = address_;
    options.coordinator_client.token = kToken;
    options.plan.tables = {&reference::Kernels()};
    threads_.emplace_back([role, options] { (void)role(options); });
  }

  std::string address_;
  std::atomic<bool> over_{false};  // the coordinator
  std::unique_ptr<control::ControlClient> client_;
  std::vector<std::thread> threads_;
};

struct Recording {
  std::optional<job::Job> job;
  std::vector<Operation> operations;
  std::map<size_t, uint64_t> complete;  // by the number of operations by then: the newest one reported
};

Recording RecordJob(const std::string& strategy) {
  const TempDir directory;
  const std::string where = directory / "job";
  std::filesystem::create_directory(where);
  Recording recording;
  recording.job = job::Job::Load({.text = JobText(strategy)}, {.data = directory.path(), .directory = where});
  const BlockedSignals signals;
  const Recorder recorder(std::filesystem::canonical(where));
  {
    RunningJob job(*recording.job, strategy != "allreduce");
    uint64_t wanted = 0;
    for (int i = 0; i < kCheckpoints; ++i) {
      wanted += 400;
      Require(WaitFor([&] { return job.Events() >= wanted; }), "nothing is trained");
      wanted = job.Events();
      job.Checkpoint();
      const auto newest = checkpoint::ReadNewest(where);
      Require(newest.ok(), newest.status().ToString());
      recording.complete[recorder.count()] = newest->id;
    }
    job.Stop();
  }
  const auto newest = checkpoint::ReadNewest(where);
  Require(newest.ok(), newest.status().ToString());
  recording.complete[recorder.count()] = newest->id;
  recording.operations = recorder.operations();
  return recording;
}

// While it exists, temporary directories are in memory where the system has a place for that. Disks are made
// by the thousand, and ext4 flushes a file when another one is renamed to its name. No other thread may run.
class TemporaryInMemory {
 public:
  TemporaryInMemory() {
    if (const char* former = std::getenv(kName)) former_ = former;
    if (::access(kMemory, W_OK) == 0) ::setenv(kName, kMemory, 1);
  }
  ~TemporaryInMemory() { former_ ? ::setenv(kName, former_->c_str(), 1) : ::unsetenv(kName); }
  TemporaryInMemory(const TemporaryInMemory&) = delete;
  TemporaryInMemory& operator=(const TemporaryInMemory&) = delete;

 private:
  static constexpr const char* kName = "TMPDIR";
  static constexpr const char* kMemory = "/dev/shm";
  std::optional<std::string> former_;
};

Status ReadSlices(const job::Job& job, const std::string& directory, const protocol::Manifest& manifest) {
  const auto optimizer = job.strategy.on_servers() ? job.ServerOptimizer() : job.optimizer;
  const auto slots = static_cast<uint32_t>(optim::SlotNames(optimizer).size());
  for (const auto& shard : manifest.shards) {
    LEAT_ASSIGN_OR_RETURN(const auto reader,
                          checkpoint::ShardReader::Open(
                              directory + "/" + manifest.directory + "/" + shard.file, shard.checksum));
    for (const auto& [slice, incarnation] : shard.slices)
      LEAT_RETURN_IF_ERROR(reader->Read(job.Slices(), slice, slots).status());
  }
  return {};
}

// Resumes the job as far as its coordinator does before it serves. Returns the checkpoint that it continues
// from; 0: there is none.
Result<uint64_t> Load(const job::Job& job, const std::string& directory) {
  if (!std::filesystem::exists(directory + "/job.yaml")) return uint64_t{0};
  LEAT_ASSIGN_OR_RETURN(const auto intact, checkpoint::Verify(directory));
  if (!intact.damaged.empty()) return intact.damaged[0].why;
  LEAT_ASSIGN_OR_RETURN(const auto store, checkpoint::Store::Open(directory, true));
  LEAT_ASSIGN_OR_RETURN(auto restored, store->Restore({}));
  const uint64_t id = restored.manifest ? restored.manifest->id : 0;
  if (restored.manifest) LEAT_RETURN_IF_ERROR(ReadSlices(job, directory, *restored.manifest));
  protocol::CoordinatorConfig config;
  config.table = job.Slices();
  config.placement = job.placement;
  config.strategy = job.strategy;
  config.cuts = job.Cuts();
  config.partitions = {0, 1};
  try {
    const protocol::Coordinator coordinator(std::move(config), std::move(restored));
  } catch (const std::invalid_argument& contradiction) {
    return Status(Code::kDataLoss, contradiction.what());
  }
  return id;
}

}  // namespace

CutReport CutCheckpoints(const std::string& strategy) {
  const Recording recording = RecordJob(strategy);
  const TemporaryInMemory in_memory;
  CutReport report{.operations = recording.operations.size(), .checkpoints = recording.complete.size()};
  std::map<uint64_t, uint64_t> loaded;  // by the disk's checksum
  for (size_t count = 1; count <= recording.operations.size(); ++count) {
    const auto after = recording.complete.upper_bound(count);
    const uint64_t complete = after == recording.complete.begin() ? 0 : std::prev(after)->second;
    for (const Loss& loss : Losses(recording.operations, count)) {
      const DiskImage disk(recording.operations, count, loss);
      auto [at, fresh] = loaded.try_emplace(disk.Checksum(), 0);
      std::string wrong;
      if (fresh) {
        const TempDir directory;
        disk.Save(directory.path());
        const auto id = Load(*recording.job, directory.path());
        if (id.ok()) at->second = *id;
        if (!id.ok()) wrong = id.status().ToString();
      }
      if (wrong.empty() && at->second < complete) {
        wrong = "checkpoint " + std::to_string(complete) + " was complete, checkpoint " +
                std::to_string(at->second) + " is there";
      }
      if (wrong.empty()) continue;
      report.wrong = "the power failed after operation " + std::to_string(count) + " of " +
                     std::to_string(report.operations) + "; " + loss.ToString() + ": " + wrong;
      return report;
    }
  }
  report.disks = loaded.size();
  return report;
}

}  // namespace leat::power_cut
