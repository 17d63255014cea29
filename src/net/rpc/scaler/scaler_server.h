// How many workers a job wants, for KEDA: the job's autoscaler decides, and Kubernetes carries it out. KEDA's
// operator cannot speak Leat's handshake, so this is a listener of its own, which changes nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "net/tls/tls_identity.h"

namespace leat::control {

// Serves KEDA's externalscaler.ExternalScaler on threads of its own. Its one metric is the number of wanted
// workers, with a target of 1 for each. With TLS, peers need an observer's certificate; without, `address`
// must be loopback or in a trusted network. Thread-safe.
class ScalerServer {
 public:
  static constexpr const char* kMetric = "leat_wanted_workers";

  struct Wanted {
    uint32_t workers = 0;  // 0: not known yet, so that questions for metrics fail with UNAVAILABLE
    bool active = true;    // the job needs a worker; false: it may go without any
    friend bool operator==(const Wanted&, const Wanted&) = default;
  };

  // `address` is "host:port"; port 0 selects a free port. Errors name the address, as ControlServer's do.
  static Result<std::unique_ptr<ScalerServer>> Start(const std::string& address,
                                                     std::shared_ptr<net::TlsIdentity> tls = nullptr);
  // Ends all calls, within a second.
  virtual ~ScalerServer() = default;

  // Until the first call, all questions fail with UNAVAILABLE.
  virtual void Set(const Wanted& wanted) = 0;
  // With the chosen port.
  virtual const std::string& address() const = 0;
};

}  // namespace leat::control
