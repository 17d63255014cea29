// Metrics and health of a role, for Prometheus and for probes.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/metrics/metrics.h"
#include "protocol/messages_control.h"
#include "show/http/access.h"
#include "show/prometheus/liveness.h"
#include "show/prometheus/status_families.h"
#include "show/prometheus/status_source.h"

namespace leat::observe {

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

}  // namespace leat::observe
