// An agent's connection to the coordinator of a job: it reads what the job wants, passes the pool's grant on,
// and asks it to end the job.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "net/rpc/client.h"
#include "net/tls/tls_identity.h"
#include "protocol/pool/job_book.h"

namespace leat::pool {

// Works on a thread of its own. All functions are thread-safe and do not block, but the destructor, which
// waits for the thread.
class CoordinatorLink {
 public:
  CoordinatorLink(JobId job, const std::string& address, const std::string& token,
                  std::shared_ptr<net::TlsIdentity> tls);
  ~CoordinatorLink();
  CoordinatorLink(const CoordinatorLink&) = delete;
  CoordinatorLink& operator=(const CoordinatorLink&) = delete;

  // The job's wishes in its last answer; none: it has not answered yet.
  std::optional<JobWant> want() const;
  // The reason for the job's wait in that answer; empty: it does not wait.
  std::string waits() const;
  void Grant(const AgentOrders::Grant& grant);
  void Stop(bool discard);

 private:
  void Run();
  void AskStatus();

  const JobId job_;
  const std::unique_ptr<control::ControlClient> client_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::optional<JobWant> want_;
  std::string waits_;
  std::optional<AgentOrders::Grant> grant_;
  std::optional<bool> stop_;  // discard
  std::thread thread_;
};

}  // namespace leat::pool
