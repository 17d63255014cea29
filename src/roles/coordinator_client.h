// A role's line to the coordinator: joining, then heartbeats from a thread of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "control/control.h"
#include "net/loop.h"
#include "roles/background_thread.h"

namespace leat::train {

// Where a role finds its coordinator, and what it shows there.
struct CoordinatorClientOptions {
  std::string coordinator;  // host:port
  std::string token;
  Duration join_deadline = std::chrono::seconds(10);
  // Without an answer for so long the role gives up: the coordinator is gone.
  Duration silence_limit = std::chrono::seconds(30);
};

// Loop's thread only.
class CoordinatorClient {
 public:
  CoordinatorClient(net::Loop& loop, CoordinatorClientOptions options);
  ~CoordinatorClient();

  // Blocks; tries again until the deadline while nobody answers. The error names the address; kAborted when
  // the job is over.
  Result<protocol::JoinReply> Join(const protocol::JoinRequest& request);
  // `done` runs on the loop. One call at a time: busy() until then, which is a fraction of the silence after
  // which the coordinator evicts: who asks again when a call has failed is heard in time.
  void Send(protocol::ControlRequest request, std::function<void(Result<protocol::ControlReply>)> done);
  bool busy() const { return busy_; }
  // True when no call has been answered for longer than the limit.
  bool lost() const;

 private:
  net::Loop& loop_;
  CoordinatorClientOptions options_;
  std::shared_ptr<control::ControlClient> client_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // what is posted after the end does nothing
  Time last_answer_{0};
  Duration call_deadline_;  // known once joined
  bool busy_ = false;
  BackgroundThread background_;
};

}  // namespace leat::train
