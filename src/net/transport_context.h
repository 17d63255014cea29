// What all connections of one transport share; it lives as long as the last of them. Loop's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "metrics/metrics.h"
#include "net/transport.h"

namespace leat::net {

struct TransportContext {
  TransportContext(Loop& its_loop, TransportOptions its_options);
  // Why a message cannot be sent; ok when it can.
  Status CheckSend(bool open, const std::string& peer, uint64_t header_bytes, uint64_t payload_bytes) const;

  Loop& loop;
  const TransportOptions options;
  std::vector<std::byte> staging;  // of streams: what is read ahead
  uint32_t accepted = 0;           // connections of listeners that are open

  metrics::Registry& metrics() { return options.metrics != nullptr ? *options.metrics : *own_metrics; }
  std::unique_ptr<metrics::Registry> own_metrics;  // when none was given
  metrics::Counter& bytes_sent;
  metrics::Counter& bytes_received;
  metrics::Counter& refused;  // connections that were ended before they had shown the token
  metrics::Counter& stalled;  // connections that were ended by the stall timeout
};

}  // namespace leat::net
