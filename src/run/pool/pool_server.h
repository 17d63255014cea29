// `leat pool`: the process of a pool.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "job/job.h"
#include "net/tls/tls_identity.h"
#include "protocol/pool/pool.h"

namespace leat::pool {

struct PoolOptions {
  std::string directory;
  std::string listen = "127.0.0.1:0";
  std::string token;
  std::shared_ptr<net::TlsIdentity> tls = nullptr;
  std::chrono::seconds certificate_life = std::chrono::hours(24 * 365);  // lifetime of its certificates
  PoolConfig config;                                                     // `run` comes from the directory
  std::function<void(const std::string& address)> on_ready;              // may be empty
};

// Runs the pool in the calling thread until SIGINT or SIGTERM, which BlockSignals has blocked. The jobs go on
// without it. kUnavailable: the address cannot be listened on; kFailedPrecondition: another pool runs in the
// directory; kDataLoss: a file in it is damaged.
Status RunPool(const PoolOptions& options);

// Whether a pool can run a job, which has one executor that starts and ends its processes: the local runner,
// a command of the user, or a pool. kInvalidArgument: it has another one, or workers that cannot come and go.
Status CheckJob(const job::Job& job);

}  // namespace leat::pool
