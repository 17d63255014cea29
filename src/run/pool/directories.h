// The directories of a pool and of its agents (agent.h). That of a pool has its jobs, and a private
// certificate authority for each of them.
//
//   <directory>/
//     lock              held by the pool
//     id                of the pool; an agent's directory has it, too
//     run               number of the pool's last start
//     jobs/7.json       a submitted job with its state and its token; replaced as a whole
//     forgotten/6.json  one that was over for long, without token and keys; nobody reads it
//     authorities/7/    of job 7 (net/security/certificate.h), if the pool has TLS
//     certificates/7/   those that it has issued: HOST.roles, pool, admin
//
// All of it is private to the pool's user. An agent's directory is the agent's alone. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/same_host/same_host_peer.h"
#include "run/pool/messages_json.h"
#include "storage/checkpoint/file.h"

namespace leat::pool {

class JobStore {
 public:
  // Creates the directory and the pool's id if they are missing, and takes the next number of a start.
  // kFailedPrecondition: another pool runs in it.
  static Result<std::unique_ptr<JobStore>> Open(const std::string& directory,
                                                std::chrono::seconds certificate_life);

  const std::string& id() const { return id_; }
  uint64_t run() const { return run_; }
  // All jobs; kDataLoss or kInvalidArgument with the path of a file that is damaged.
  Result<std::vector<StoredJob>> Read() const;
  Status Write(const StoredJob& job);  // durable
  // Moves the file of a job aside, without its secrets, and removes its authority and certificates.
  Status Forget(StoredJob job);
  // A certificate of the job's authority, which is made with the first one. `name`: of its folder; one that
  // exists is used again until half of its life is over.
  Result<Certificate> Issue(JobId job, const std::string& name, const std::vector<std::string>& roles,
                            const std::vector<std::string>& hosts);

 private:
  JobStore(std::string directory, std::chrono::seconds certificate_life)
      : directory_(std::move(directory)), certificate_life_(certificate_life) {}

  const std::string directory_;
  const std::chrono::seconds certificate_life_;
  net::Descriptor lock_;
  std::string id_;
  uint64_t run_ = 0;
};

// ---- the directory of an agent

// Makes the directory, or takes one that an agent has made, and removes what a killed agent has left in
// secrets/. It is the caller's as long as the file is open. kFailedPrecondition, and nothing is changed: it
// has something else, or another agent uses it.
Result<checkpoint::File> OpenAgentDirectory(const std::string& directory);

// The id of the pool whose jobs the directory has; empty: it has no jobs yet. kFailedPrecondition: it has
// some, and nothing says of which pool they are.
Result<std::string> PoolOfAgentDirectory(const std::string& directory);
// From here on it is this pool's.
Status GiveAgentDirectory(const std::string& directory, const std::string& pool);

// Ok if jobs can write there; otherwise why not: the disk is full, read-only, or fails.
Status ProbeAgentDirectory(const std::string& directory);

}  // namespace leat::pool
