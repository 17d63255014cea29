// The role processes: their options, what each of them does, and the helpers that they share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "compute/engine/plan.h"
#include "job/job.h"
#include "net/same_host/same_host_peer.h"
#include "net/transport.h"
#include "protocol/messages_control.h"
#include "run/roles/coordinator_client.h"

namespace leat::roles {

class Membership;
class ShardFiles;

struct RoleOptions {
  CoordinatorClientOptions coordinator_client;
  std::string listen = "127.0.0.1:0";  // address of the data plane
  std::string advertise;               // the address that other members are told; net::AdvertisedAddress
  // Transport of the data plane. Token and TLS are those of coordinator_client; the job decides whether
  // networks are trusted.
  net::TransportOptions transport;
  engine::PlanOptions plan;  // the kernels that workers compute with
  // How long a worker retries a stream whose events are missing or damaged before it fails. It waits longer
  // for other errors (InputErrors).
  Duration read_timeout = std::chrono::seconds(5);
  bool standby = false;             // worker: it gets no work until it takes the place of another
  std::optional<double> rate = {};  // bots: events per second; none: the job's
};

// ---- the roles. Each blocks, in the calling thread.
// `leat worker`: computes gradients of leased splits, and stores nothing durable. Joins and trains until the
// job is over or a signal asks it to leave: both return ok. Returns kUnavailable if the coordinator cannot be
// reached or is lost.
Status RunWorker(const RoleOptions& options);
// `leat ps`: a parameter server, which holds slices with their optimizer slots and ledgers. Joins and serves
// until the job is over or a signal asks it to leave. Returns kUnavailable if the coordinator cannot be
// reached or is lost, or if the address cannot be bound.
Status RunServer(const RoleOptions& options);
// `leat bots`: publishes the job's simulated payments to its topic at a set rate. Joins and publishes until
// all events are published (and the topic is sealed), the job is over, or a signal asks it to leave. A
// restarted bots process continues at the end of the topic.
Status RunBots(const RoleOptions& options);
// `leat feed`: serves this host's copies of the job's input to workers on hosts that do not have it, until
// the job is over or a signal asks it to leave: both return ok. Returns kNotFound or kFailedPrecondition,
// with the path or topic and the values, if a copy is missing or is not the job's; kUnavailable if the
// coordinator cannot be reached or is lost.
Status RunFeed(const RoleOptions& options);

// ---- helpers of the roles
// The options of a worker's plans: the role's kernels with the job's precision, threads and devices.
engine::PlanOptions MakePlanOptions(const job::Job& job, const RoleOptions& options,
                                    const Membership& membership);

// How long a role that ends waits for its peers to finish what they read in its memory.
constexpr Duration kLinger = std::chrono::seconds(5);

// The options of a transport of a role, with its token and its certificate.
net::TransportOptions TransportOf(const RoleOptions& options, const wire::Port& port);

// Makes the transport of a role's data plane. The job sets later whether networks are trusted.
std::unique_ptr<net::Transport> MakeTransport(net::Loop& loop, const RoleOptions& options,
                                              const wire::Port& port);

// The checkpoint files of a role that has joined. Its errors are the user's.
Result<std::unique_ptr<ShardFiles>> MakeShardFiles(const Membership& membership, const job::Job& job,
                                                   const RoleOptions& options);

// The version of the program, with the git commit that it was built from: "0.1.0+1a2b3c4d5e6f", or
// "0.1.0+no-git-commit", and the program's extensions. All processes of a job must have the same.
std::string ProgramVersion();
// A random number by which a process is known, not 0.
uint64_t NewProcess();
// A join request with this process's host, network and pid, and a worker's MPI rank. `coordinator`: where it
// is called.
protocol::JoinRequest MakeJoinRequest(protocol::Role role, const std::string& address,
                                      const topology::HostPlace& place, uint64_t process,
                                      const std::string& coordinator);

// The address of a service in a process that was reached at `reached`; one that is a port only, ":7000", is
// on its host.
std::string AddressOf(const std::string& service, const std::string& reached);
// A call was not answered, and another attempt may succeed.
bool NoAnswer(const Status& status);

// The zone of a process with this place of its own, also by the job's zone map; empty: it is not known.
std::string ZoneOf(const job::Job& job, const topology::HostPlace& own);

// Before a batch of a worker, after `batches` others: what the job's settings for tests say.
void DelayBatch(const job::DebugSpec& debug, uint64_t batches);

// CPU time that this process has used so far.
double OwnCpuSeconds();

// A private directory for temporary files of one process, removed with everything in it by the destructor;
// after a crash, by the next process of this user that makes one in the same place.
class Scratch {
 public:
  // Makes `<parent>/leat-scratch-<random>`, which only its owner can read (0700), and `parent` if it does not
  // exist. Errors name the directory.
  static Result<std::unique_ptr<Scratch>> Make(const std::string& parent);
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  Scratch(std::string path, net::Descriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  const std::string path_;
  const net::Descriptor lock_;
};

// The parent of a role's scratch directory: `given`, or $TMPDIR. Otherwise kInvalidArgument: `why` there has
// to be one, and what to set.
Result<std::string> ScratchParent(const std::string& given, const std::string& why);

// Kills this process at a point that its job names (debug: die_at), for tests. Not thread-safe.
class KillPoint {
 public:
  // `directory`: of the job. The process that dies leaves a file there, so that no other one does. Where it
  // cannot be written, nothing happens.
  KillPoint(const job::DebugSpec& debug, std::string directory)
      : debug_(debug), directory_(std::move(directory)) {}

  // Does not return if this process is the one.
  void Pass(job::DiePoint point) {
    if (point == debug_.die_at && ++passed_ >= debug_.die_after) Die();
  }

 private:
  void Die() const;

  const job::DebugSpec debug_;
  const std::string directory_;
  uint32_t passed_ = 0;
};

}  // namespace leat::roles
