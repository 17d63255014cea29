// Jobs of real processes that the benchmark starts, kills and stops one by one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frame/program.h"
#include "net/rpc/client.h"

namespace leat::bench {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// The token of all jobs of this benchmark, in the environment of their processes.
inline constexpr const char* kToken = "of this run alone";

// A model that counts: its gradient is -1 for each event, and its learning rate is 1, so each parameter is
// the number of events that counted. It hardly computes anything: a batch takes step_ms.
struct CountingJob {
  std::string strategy = "async";
  int workers = 3;
  int standby = 0;  // for `leat train`
  int servers = 2;
  int max_servers = 8;
  int replicas = 1;
  // Parameters: a bias of this size. With `inputs`, a dense layer of inputs that are 1, and so many more for
  // each.
  int units = 4096;
  int inputs = 0;
  int batch_size = 100;
  int split_batches = 32;
  int step_ms = 50;
  double heartbeat_s = 0.5;
  double checkpoint_s = 5;
  int epochs = 100'000;

  static constexpr int kPartitions = 8;
  // The events of an epoch: whole splits in each partition.
  int rows() const { return kPartitions * batch_size * split_batches * 2; }
  // Writes the stream and the job file, and returns the path of the latter.
  std::string Write(const Scratch& scratch, const std::string& name) const;
};

// A parameter of the newest checkpoint in a job's directory that differs most from `events`: by how much.
double WorstCount(const std::string& directory, double events);

// The status of a job; none if the coordinator does not answer in time.
std::optional<Json> StatusOf(control::ControlClient& client, std::chrono::milliseconds deadline);

// An address on this host that nobody listens on.
std::string FreeAddress();

// A job without a local runner: nothing is replaced by itself. Everything that fails throws
// std::runtime_error, with the output of the process. Main thread only: processes die with the thread that
// started them.
class Cluster {
 public:
  Cluster(const Scratch& scratch, const std::string& name, const CountingJob& job);

  // The process with a new log.
  Running& Start(const std::string& role, bool standby = false);
  // Starts the coordinator again, at the same address.
  void RestartCoordinator();
  // Starts one that stands by, and returns its address.
  std::string StartStandbyCoordinator();
  // kill -9, and forgets the process.
  void Kill(pid_t pid);
  void KillCoordinator();
  // SIGTERM: the process leaves.
  void Terminate(pid_t pid);

  // Sets how many members the job wants, as `leat scale` does. None: as before.
  void Want(std::optional<uint32_t> workers, std::optional<uint32_t> servers);

  // The output of a process so far.
  std::string OutputOf(pid_t pid) const;

  // Polls the status until the condition holds. `seconds`: afterwards it throws.
  void WaitFor(const std::string& what, const std::function<bool(const Json&)>& condition,
               double seconds = 60);
  Json Status();
  // Waits for the end of the coordinator, with status 0, and returns the summary.
  Json WaitForEnd(double seconds);
  // Stops the job after a checkpoint, and returns the summary.
  Json Stop();
  // The most events of the summary that a parameter has missed or counted twice.
  double Miscounted(const Json& summary) const {
    return WorstCount(directory_, summary.at("events").get<double>());
  }
  // The addresses of the coordinator and its standbys, separated by commas.
  std::string addresses() const;
  const std::string& directory() const { return directory_; }

 private:
  void Command(const protocol::AdminRequest& request);
  Running& Launch(const std::string& name, const std::vector<std::string>& arguments);
  void CheckAlive();

  const Scratch& scratch_;
  const std::string name_, directory_;
  std::vector<std::string> addresses_;  // coordinators' addresses; the first is in charge
  std::unique_ptr<Running> coordinator_, standby_coordinator_;
  std::map<pid_t, std::unique_ptr<Running>> roles_;
  std::unique_ptr<control::ControlClient> client_;
  int started_ = 0;
};

// The workers in a status that train, or the standbys, by process id.
std::map<pid_t, Json> WorkersIn(const Json& status, bool standby = false);
std::map<pid_t, Json> ServersIn(const Json& status);
// The batches that workers have trained in all.
double StepsIn(const Json& status);

}  // namespace leat::bench
