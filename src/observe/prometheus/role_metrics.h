// What one role shows to Prometheus and to probes.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "metrics/metrics.h"
#include "observe/http/http.h"
#include "observe/prometheus/liveness.h"
#include "observe/prometheus/status_families.h"
#include "observe/prometheus/status_source.h"
#include "protocol/messages_control.h"

namespace leat::observe {

// Written by the role, read by the threads of its listener. Thread-safe.
class RoleMetrics {
 public:
  struct Options {
    std::string role;     // "worker"
    std::string version;  // of the program
    bool tls = false;     // the listener uses TLS, as those of all members do
  };
  explicit RoleMetrics(Options options) : options_(std::move(options)) {}

  // For counters of the role's transports.
  metrics::Registry& registry() { return registry_; }

  // ---- by the role
  // The address of the listener that others are told.
  void SetAddress(std::string address);
  std::string address() const;
  // Why the role cannot work yet; it is shown to everyone.
  void NotReady(std::string why);
  void OnHeartbeat(const protocol::ControlRequest& heartbeat);  // the role is ready from now on
  // Of a coordinator. It decides whether the role is ready.
  StatusSource& status() { return status_; }
  // Of a coordinator: false while the job may go without workers, so that it is ready without one.
  void NeedsWorkers(bool needs) { needs_workers_ = needs; }
  // /healthz fails once one of these hangs. A part that is not watched counts as alive.
  enum class Part {
    kLoop,         // of the role, or of a standby until it takes over
    kRequests,     // the threads of `leat serve` that read requests
    kPredictions,  // its thread that computes
  };
  Liveness& liveness(Part part = Part::kLoop) { return liveness_.at(static_cast<size_t>(part)); }

  // ---- by the listener
  std::string Text();
  bool Alive(Time now);
  std::string WhyNotReady();  // empty: it is ready
  std::string Targets();      // of a coordinator; empty: not known now

 private:
  const Options options_;
  metrics::Registry registry_;
  StatusSource status_;
  std::array<Liveness, 3> liveness_;  // by Part
  std::atomic<bool> needs_workers_{true};
  mutable std::mutex mutex_;  // of what follows
  std::string address_;
  std::string not_ready_ = "it has not joined the job";
  std::string member_text_;  // of the last heartbeat
  StatusFamilies job_;
};

// /metrics, /healthz, /readyz; of a coordinator also /targets.
std::vector<HttpRoute> MetricsRoutes(const std::shared_ptr<RoleMetrics>& metrics);

}  // namespace leat::observe
