// Writes the event file of a running job, on a thread of its own: a disk that is slow or full holds up
// nothing else.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "protocol/records/manifest.h"
#include "show/tensorboard/events.h"
#include "show/tensorboard/run_events.h"

namespace leat::tensorboard {

// Calls return at once, or after their limit. A single thread makes them.
class RunWriter {
 public:
  struct Options {
    RunEvents::MakeGraph make_graph;
    protocol::SliceTable table;
  };
  // Takes the events; may block.
  using Append = std::function<Status(const std::vector<Event>& events)>;
  // Points that wait for the disk; more are dropped.
  static constexpr size_t kMostWaiting = 8;
  // Checkpoints are left out for so many times as long as the last one took to read.
  static constexpr int kPauseOfWeights = 50;

  RunWriter(Options options, Append append);
  // Drops what waits, and leaves a thread alone that is stuck in a write.
  ~RunWriter();

  // Whether the next point is due. It then wants a status.
  bool Due(Time now) const { return now >= due_; }
  void OnStatus(Time now, report::JobStatus status);
  // A checkpoint is complete. `directory`: the checkpoint's.
  void OnCheckpoint(std::string directory, protocol::Manifest manifest);
  // Gradients that a worker has sent (gradients.h). A receiver need not check them.
  void OnGradients(Bytes gradients);
  // The last status. Waits at most `limit` until all is written; the rest is dropped.
  void Finish(Time now, report::JobStatus status, Duration limit);

 private:
  class State;

  const std::shared_ptr<State> state_;  // shared with the thread
  std::thread thread_;
  std::optional<Time> start_;
  Time due_{0};
};

}  // namespace leat::tensorboard
