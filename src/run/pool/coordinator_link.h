// An agent's connection to the coordinator of a job: it reads what the job wants, passes the pool's grant on,
// and asks it to end the job.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/threads/thread.h"
#include "net/rpc/client.h"
#include "net/tls/tls_identity.h"
#include "protocol/pool/job_book.h"
#include "run/launcher/admin.h"

namespace leat::pool {

// Works on a thread of its own. All functions are thread-safe and do not block, but the destructor, which
// waits for the thread.
class CoordinatorLink {
 public:
  CoordinatorLink(JobId job, const std::string& address, const std::string& token,
                  std::shared_ptr<net::TlsIdentity> tls)
      : job_(job),
        client_(control::ControlClient::Make(address, token, std::move(tls))),
        thread_(StartThread([this] { Run(); })) {}
  ~CoordinatorLink() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    client_->Abort();
    thread_.join();
  }

  // The job's wishes in its last answer; none: it has not answered yet.
  std::optional<JobWant> want() const {
    std::lock_guard lock(mutex_);
    return want_;
  }
  // The reason for the job's wait in that answer; empty: it does not wait.
  std::string waits() const {
    std::lock_guard lock(mutex_);
    return waits_;
  }
  void Grant(const AgentOrders::Grant& grant) {
    std::lock_guard lock(mutex_);
    if (grant_ == grant) return;
    grant_ = grant;
    changed_.notify_all();
  }
  void Stop(bool discard) {
    std::lock_guard lock(mutex_);
    if (stop_ && (*stop_ || !discard)) return;
    stop_ = discard;
    changed_.notify_all();
  }

 private:
  using AdminKind = protocol::AdminRequest::Kind;

  static constexpr Duration kLinkInterval = std::chrono::milliseconds(400);  // between two questions
  static constexpr Duration kLinkDeadline = std::chrono::seconds(2);
  static constexpr Duration kStopDeadline = std::chrono::minutes(10);

  void AskStatus() {
    const auto status = launcher::AskStatus(*client_, kLinkDeadline);
    std::lock_guard lock(mutex_);
    if (status.ok() && status->wanted) {
      constexpr uint32_t kMost = 100'000;
      want_ = JobWant{.job = job_};
      want_->servers = std::min(status->wanted->ps.value_or(0), kMost);
      want_->workers = std::min(status->wanted->workers.value_or(0), kMost);
      want_->events = status->events;
      waits_ = status->waiting_for.substr(0, 1000);
    } else if (want_) {
      want_->lost = true;
    }
  }

  void Run() {
    std::unique_lock lock(mutex_);
    std::string failure;
    while (!over_) {
      const auto stop = stop_;
      const auto grant = grant_;
      lock.unlock();
      Result<protocol::AdminReply> reply = protocol::AdminReply{};
      const auto ask = [&](const protocol::AdminRequest& request, Duration deadline) {
        reply = control::CallFor<protocol::AdminReply>(*client_, request, deadline);
      };
      if (stop) {
        ask({.kind = *stop ? AdminKind::kDiscard : AdminKind::kStop}, kStopDeadline);
      } else {
        AskStatus();
        if (grant)
          ask({.kind = AdminKind::kGrant,
               .workers = protocol::WorkerRange{grant->workers, grant->workers},
               .servers = grant->servers},
              kLinkDeadline);
      }
      const Status said = reply.ok() ? reply->status : reply.status();
      lock.lock();
      if (!said.ok() && said.message() != failure && !over_)
        spdlog::warn("job {}: its coordinator says: {}", job_, said.message());
      failure = said.ok() ? "" : said.message();
      changed_.wait_for(lock, kLinkInterval, [&] { return over_ || grant_ != grant || stop_ != stop; });
    }
  }

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
