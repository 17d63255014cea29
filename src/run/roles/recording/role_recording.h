// Records a role's spans while the coordinator asks for them (show/timeline/), and sends them there.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/recorder/recorder.h"
#include "base/threads/thread.h"
#include "net/rpc/client.h"
#include "protocol/messages_control.h"
#include "run/roles/coordinator_client.h"

namespace leat::roles {

// Everything but the spans themselves is the work of a thread that exists while something is recorded. Loop's
// thread only.
class RoleRecording {
 public:
  explicit RoleRecording(CoordinatorClientOptions options) : options_(std::move(options)) {}
  // Gives up unsent spans.
  ~RoleRecording() { Stop(); }

  // Where the role's threads add spans.
  timeline::Recorder& recorder() { return recorder_; }
  // An order is obeyed once, and replaces an earlier one. `coordinator`: the address of the one that has sent
  // it.
  void OnReply(NodeId node, const protocol::ControlReply& reply, const std::string& coordinator);

 private:
  void Stop();
  // ---- the thread
  void Run(const protocol::RecordOrder& order, NodeId node);
  // Asks for the coordinator's time, or hands a chunk over. False if nobody wants any more.
  bool Send(const protocol::SpansRequest& request, bool* taken);
  void AskForTime(protocol::SpansRequest request, size_t times);

  const CoordinatorClientOptions options_;
  timeline::Recorder recorder_;
  uint64_t recording_ = 0;  // the last one that was ordered
  std::thread thread_;
  std::shared_ptr<control::ControlClient> client_;  // used by the thread
  std::vector<protocol::ClockSample> clock_;        // used by the thread
  StopEvent stop_;
};

}  // namespace leat::roles
