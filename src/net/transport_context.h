// State shared by all connections of one transport; the last one destroys it. Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics/metrics.h"
#include "net/transport.h"

namespace leat::net {

struct TransportContext {
  TransportContext(Loop& its_loop, TransportOptions its_options);
  // Returns why a message cannot be sent, or ok.
  Status CheckSend(bool open, const std::string& peer, uint64_t header_bytes, uint64_t payload_bytes) const;
  // Counts a peer that has stopped in the middle of a message. Returns why its connection ends.
  Status OnStall(const std::string& peer, bool receiving);

  Loop& loop;
  const TransportOptions options;
  std::vector<std::byte> staging;  // read buffer of all streams
  const std::shared_ptr<TlsBuffers> tls_buffers = std::make_shared<TlsBuffers>();

  // Open connections from listeners. `host` is the peer's, without a port.
  const char* CheckRoom(std::string_view host) const;  // why there is no room for another; null: there is
  void Accepted(std::string_view host);
  void Ended(std::string_view host);
  uint32_t accepted() const { return accepted_; }

  const std::unique_ptr<metrics::Registry> own_metrics =  // if options has none
      options.metrics == nullptr ? std::make_unique<metrics::Registry>() : nullptr;
  metrics::Registry& metrics() { return options.metrics != nullptr ? *options.metrics : *own_metrics; }
  metrics::Counter& bytes_sent;
  metrics::Counter& bytes_received;
  metrics::Counter& refused;  // connections closed before authentication
  metrics::Counter& stalled;  // connections closed by the stall timeout

 private:
  uint32_t accepted_ = 0;
  std::map<std::string, uint32_t, std::less<>> accepted_by_host_;
};

}  // namespace leat::net
