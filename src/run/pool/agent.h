// `leat agent`: offers a host to a pool, and starts and ends processes there.
//
//   <directory>/        its alone: new or empty at first
//     agent.lock        flock'ed while the agent runs
//     pool              id of the pool whose jobs it has; no other pool can use it
//     jobs/7/run/       the directory of job 7, if its coordinator runs here
//     logs/7/           of its processes; root's or the agent's own
//     secrets/7/        its job file and its certificates, while it has processes here
//
// Where the agent is root, each job has a user of its own, which owns jobs/7 and may read secrets/7; no other
// job can read them. The agent's processes end with it.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "net/tls/tls_identity.h"
#include "protocol/pool/scheduler.h"

namespace leat::pool {

struct AgentOptions {
  std::string pool;  // address
  std::string token;
  std::shared_ptr<net::TlsIdentity> tls = nullptr;
  bool trusted_network = false;    // jobs run without TLS on all addresses
  std::string name;                // unique in the pool
  std::string host = "127.0.0.1";  // address that its processes listen on, and others reach them at
  Resources offer;
  std::string host_class;  // empty: none
  std::string directory;
  std::string data;                     // default of the jobs' input files
  uint32_t first_user = 2'000'000'000;  // user of job n: first_user + n, where the agent is root
};

// Runs the agent in the calling thread until SIGINT or SIGTERM, which BlockSignals has blocked; then its
// processes end. While the pool does not answer, they go on. kFailedPrecondition: another agent has this
// name; the directory belongs to another pool; errors of the directory.
Status RunAgent(const AgentOptions& options);

}  // namespace leat::pool
