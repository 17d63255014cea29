// The event file of a running job: which events it has, and the thread that writes them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "protocol/records/manifest.h"
#include "show/report/job_status.h"
#include "show/tensorboard/events.h"
#include "show/tensorboard/job_graph.h"

namespace leat::tensorboard {

// Turns one status after the other into summaries. docs/tensorboard.md lists the tags. Not thread-safe.
class StatusSummary {
 public:
  // At most so many members of a role have scalars of their own: those with the lowest indexes.
  static constexpr size_t kMaxMembers = 16;

  // Figures that are not known are left out. The histogram of staleness covers what was applied since the
  // last status. Descriptions come once.
  Summary Take(const report::JobStatus& status);

 private:
  std::vector<uint64_t> staleness_;  // as of the last status
  std::set<std::string> described_;  // tags
};

// The time from one point to the next: a thousandth of the run so far, so that a long run has few thousand
// points, but at least kLeastPause and at most kMostPause.
inline constexpr Duration kLeastPause = std::chrono::seconds(1);
inline constexpr Duration kMostPause = std::chrono::seconds(30);
Duration PauseAfter(Duration run);

// Decides which events a run has: a pure function of the statuses that it is shown, in their order. Not
// thread-safe.
class RunEvents {
 public:
  // A graph is written when the placement has not changed between two statuses, or after this time.
  static constexpr Duration kGraphPause = std::chrono::seconds(10);

  using MakeGraph = std::function<Graph(const Placement&)>;
  explicit RunEvents(MakeGraph make_graph) : make_graph_(std::move(make_graph)) {}

  // The events of a status. `now`: any clock that does not go back. `last`: no other status follows. A job
  // that waits for its servers has none: it does not know how far it is. When a job falls back, because a
  // server's slices return from a checkpoint, what was written from there on is declared obsolete.
  std::vector<Event> OnStatus(Time now, double wall_time, const report::JobStatus& status, bool last = false);
  // The events of the last status could not be written: the next ones have what must not be missing.
  void OnLost();
  // Histograms of the variables in a checkpoint, as events at step `events`.
  // None before the first point: the run has not started.
  std::vector<Event> OnWeights(double wall_time, uint64_t events, Histograms weights) const;
  // Histograms of gradients, as events at the step of the last point.
  std::vector<Event> OnGradients(double wall_time, Histograms gradients) const;
  // Whether there was a point. Events before the first point are left out.
  bool started() const { return events_.has_value(); }

 private:
  bool WantsGraph(Time now, const Placement& placement, bool last);

  const MakeGraph make_graph_;
  StatusSummary summary_;
  std::optional<uint64_t> events_;    // progress at the last point; none: there was none yet
  std::optional<Placement> written_;  // placement in the last graph
  std::optional<Placement> seen_;     // placement in the last status
  Time changed_{0};                   // when it first differed from the last graph
};

// Writes the event file of a running job, on a thread of its own: a disk that is slow or full holds up
// nothing else. Calls return at once, or after their limit. A single thread makes them.
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
  // Gradients that a worker has sent (EncodeGradients). A receiver need not check them.
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
