#include "run/pool/coordinator_link.h"

#include <algorithm>
#include <variant>

#include "base/log.h"
#include "base/threads/thread.h"
#include "run/launcher/admin.h"

namespace leat::pool {
namespace {

using AdminKind = protocol::AdminRequest::Kind;

constexpr Duration kLinkInterval = std::chrono::milliseconds(400);  // between two questions
constexpr Duration kLinkDeadline = std::chrono::seconds(2);
constexpr Duration kStopDeadline = std::chrono::minutes(10);

}  // namespace

CoordinatorLink::CoordinatorLink(JobId job, const std::string& address, const std::string& token,
                                 std::shared_ptr<net::TlsIdentity> tls)
    : job_(job),
      client_(control::ControlClient::Make(address, token, std::move(tls))),
      thread_(StartThread([this] { Run(); })) {}

CoordinatorLink::~CoordinatorLink() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  client_->Abort();
  thread_.join();
}

std::optional<JobWant> CoordinatorLink::want() const {
  std::lock_guard lock(mutex_);
  return want_;
}

std::string CoordinatorLink::waits() const {
  std::lock_guard lock(mutex_);
  return waits_;
}

void CoordinatorLink::Grant(const AgentOrders::Grant& grant) {
  std::lock_guard lock(mutex_);
  if (grant_ == grant) return;
  grant_ = grant;
  changed_.notify_all();
}

void CoordinatorLink::Stop(bool discard) {
  std::lock_guard lock(mutex_);
  if (stop_ && (*stop_ || !discard)) return;
  stop_ = discard;
  changed_.notify_all();
}

void CoordinatorLink::AskStatus() {
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

void CoordinatorLink::Run() {
  std::unique_lock lock(mutex_);
  std::string failure;
  while (!over_) {
    const auto stop = stop_;
    const auto grant = grant_;
    lock.unlock();
    Result<protocol::ControlReply> reply = protocol::ControlReply(protocol::AdminReply{});
    if (stop) {
      reply = client_->Call(protocol::AdminRequest{.kind = *stop ? AdminKind::kDiscard : AdminKind::kStop},
                            kStopDeadline);
    } else {
      AskStatus();
      if (grant) {
        reply = client_->Call(
            protocol::AdminRequest{.kind = AdminKind::kGrant,
                                   .workers = protocol::WorkerRange{grant->workers, grant->workers},
                                   .servers = grant->servers},
            kLinkDeadline);
      }
    }
    const auto* admin = reply.ok() ? std::get_if<protocol::AdminReply>(&*reply) : nullptr;
    const Status said = admin != nullptr ? admin->status : reply.status();
    lock.lock();
    if (!said.ok() && said.message() != failure && !over_)
      spdlog::warn("job {}: its coordinator says: {}", job_, said.message());
    failure = said.ok() ? "" : said.message();
    changed_.wait_for(lock, kLinkInterval, [&] { return over_ || grant_ != grant || stop_ != stop; });
  }
}

}  // namespace leat::pool
