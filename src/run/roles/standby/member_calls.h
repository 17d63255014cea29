// A standby's calls as a member: the coordinator may answer them only once this standby has more of the
// journal, so that they are made on a thread of their own while it follows. One at a time.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/status.h"
#include "net/rpc/client.h"
#include "run/roles/background_thread.h"

namespace leat::roles {

class MemberCalls {
 public:
  explicit MemberCalls(std::unique_ptr<control::ControlClient> client) : client_(std::move(client)) {}
  ~MemberCalls() { client_->Abort(); }
  MemberCalls(const MemberCalls&) = delete;
  MemberCalls& operator=(const MemberCalls&) = delete;

  control::ControlClient& client() { return *client_; }
  bool busy() const { return busy_; }  // since Start, until Take returns the outcome
  void Start(protocol::ControlRequest request, Duration deadline) {
    busy_ = true;
    thread_.Post([this, request = std::move(request), deadline] {
      auto reply = client_->Call(request, deadline);
      std::lock_guard lock(mutex_);
      reply_ = std::move(reply);
    });
  }
  // None: there is no call, or it goes on.
  std::optional<Result<protocol::ControlReply>> Take() {
    std::lock_guard lock(mutex_);
    if (reply_) busy_ = false;
    return std::exchange(reply_, std::nullopt);
  }

 private:
  const std::unique_ptr<control::ControlClient> client_;
  bool busy_ = false;
  std::mutex mutex_;
  std::optional<Result<protocol::ControlReply>> reply_;  // guarded by mutex_
  BackgroundThread thread_;
};

}  // namespace leat::roles
