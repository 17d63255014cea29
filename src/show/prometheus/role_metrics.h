// Metrics and health of a role, for Prometheus and for probes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "base/status.h"
#include "protocol/messages_control.h"
#include "show/http/listener.h"
#include "show/prometheus/families.h"
#include "show/report/job_status.h"

namespace leat::observe {

// Whether a role's process is alive or hangs, for the probes of Kubernetes and containers. It hangs when its
// loop has not turned and no kernel has finished for kStalled. Before Watch and after Unwatch it is alive: it
// starts, reads files, initializes parameters, or ends. Time is an argument. Thread-safe.
class Liveness {
 public:
  static constexpr Duration kStalled = std::chrono::minutes(1);
  // How often a loop should call Turned.
  static constexpr Duration kInterval = std::chrono::seconds(1);

  // `kernels`: the number of kernels that have finished; thread-safe.
  void Watch(Time now, std::function<uint64_t()> kernels);
  void Unwatch();
  // By the role's loop.
  void Turned(Time now);
  bool Alive(Time now);

 private:
  std::mutex mutex_;
  std::function<uint64_t()> kernels_;  // null: nothing is watched
  Time last_{0};                       // the last sign of life that is known
  uint64_t finished_ = 0;              // kernels, as of then
};

// Watches a loop without kernels for as long as it exists. `liveness` may be null, and outlives it. The
// loop's thread only.
class WatchedLoop {
 public:
  explicit WatchedLoop(Liveness* liveness) : liveness_(liveness) {
    if (liveness_ != nullptr) liveness_->Watch(clock_.Now(), [] { return uint64_t{0}; });
  }
  ~WatchedLoop() {
    if (liveness_ != nullptr) liveness_->Unwatch();
  }
  WatchedLoop(const WatchedLoop&) = delete;
  WatchedLoop& operator=(const WatchedLoop&) = delete;
  void Turned() {
    if (liveness_ != nullptr) liveness_->Turned(clock_.Now());
  }

 private:
  Liveness* const liveness_;
  const MonotonicClock clock_;
};

// How threads of listeners get the status of a job from the loop of its coordinator. Thread-safe.
class StatusSource {
 public:
  // Requests within this time after another get the same answer, so that the coordinator's work does not grow
  // with the number of viewers.
  static constexpr Duration kFresh = std::chrono::milliseconds(250);
  // For a loop that is busy.
  static constexpr Duration kDeadline = std::chrono::seconds(2);

  // Calls `done` with the status, from any thread, or drops it. It must not block.
  using Ask = std::function<void(std::function<void(report::JobStatus status)> done)>;
  // Null, as before the first call: there is no coordinator. The former one is not called any more once this
  // returns.
  void Set(Ask ask);

  // Blocks for kDeadline at most, and as long for an attempt of another thread. kNotFound: there is
  // no coordinator here. kUnavailable: it does not answer.
  Result<std::shared_ptr<const report::JobStatus>> Get();

 private:
  Result<std::shared_ptr<const report::JobStatus>> AskNow();

  const MonotonicClock clock_;
  std::mutex ask_mutex_;
  Ask ask_;
  std::atomic<uint64_t> coordinators_{1};  // grows with each call of Set
  std::mutex get_mutex_;                   // guards the members below
  Time asked_{0};
  uint64_t answered_by_ = 0;  // value of coordinators_
  Result<std::shared_ptr<const report::JobStatus>> last_ = Status(Code::kNotFound, "no coordinator");
};

// Written by the role, read by the threads of its listener. Thread-safe.
class RoleMetrics {
 public:
  struct Options {
    std::string role;     // "worker"
    std::string version;  // version of the program
    bool tls = false;     // the listener uses TLS, as those of all members do
  };
  explicit RoleMetrics(Options options) : options_(std::move(options)) {}

  // For counters of the role's transports.
  metrics::Registry& registry() { return registry_; }

  // ---- Role
  // The address of the listener that others are told.
  void SetAddress(std::string address);
  std::string address() const;
  // Why the role cannot work yet; it is shown to everyone.
  void NotReady(std::string why);
  void OnHeartbeat(const protocol::ControlRequest& heartbeat);  // the role is ready from now on
  // A coordinator's status, which decides whether the role is ready.
  StatusSource& status() { return status_; }
  // False, set by a coordinator: the job may go without workers for now, so it is ready without one.
  void NeedsWorkers(bool needs) { needs_workers_ = needs; }
  // /healthz fails once one of these hangs. A part that is not watched counts as alive.
  enum class Part {
    kLoop,         // the loop of the role, or of a standby until it takes over
    kRequests,     // the threads of `leat serve` that read requests
    kPredictions,  // its thread that computes
  };
  Liveness& liveness(Part part = Part::kLoop) { return liveness_.at(static_cast<size_t>(part)); }

  // ---- Listener
  std::string Text();
  bool Alive(Time now);
  std::string WhyNotReady();  // empty: it is ready
  std::string Targets();      // targets of a coordinator; empty: not known now

 private:
  const Options options_;
  metrics::Registry registry_;
  StatusSource status_;
  std::array<Liveness, 3> liveness_;  // by Part
  std::atomic<bool> needs_workers_{true};
  mutable std::mutex mutex_;  // guards the members below
  std::string address_;
  std::string not_ready_ = "it has not joined the job";
  std::string member_text_;  // metrics of the last heartbeat
  StatusFamilies job_;
};

// /metrics, /healthz, /readyz; of a coordinator also /targets.
std::vector<HttpRoute> MetricsRoutes(const std::shared_ptr<RoleMetrics>& metrics);

// The listeners of a job's members, in the format of Prometheus' HTTP discovery.
// `status`: of the job. `own`: the coordinator's own listener, which is listed, too. `host`: the name of this
// host; listeners on the loopback of other hosts are left out. Pure.
std::string TargetsJson(const report::JobStatus& status, const std::string& own, const std::string& host,
                        bool tls);

}  // namespace leat::observe
