// --metrics of a role: where Prometheus, probes and people read what it does.
#pragma once

#include <memory>
#include <string>

#include "launcher/security.h"
#include "observe/http/listener.h"
#include "observe/prometheus/role_metrics.h"

namespace leat {

struct MetricsListener {
  std::shared_ptr<observe::RoleMetrics> metrics;              // null: nobody is to look
  std::unique_ptr<observe::HttpListener> listener = nullptr;  // ends before the metrics
};

struct MetricsOptions {
  std::string address;  // HOST:PORT; empty: no listener
  std::string role;
  std::string token;
  launcher::Security security;
  std::string advertise;    // of the role; its host is also that of the metrics
  std::string coordinator;  // of a member
};

// Throws as ListenForObservers does.
MetricsListener ListenForMetrics(const MetricsOptions& options);

}  // namespace leat
