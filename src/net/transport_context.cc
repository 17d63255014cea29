#include "net/transport_context.h"

#include <utility>

namespace leat::net {

TransportContext::TransportContext(Loop& its_loop, TransportOptions its_options)
    : loop(its_loop),
      options(std::move(its_options)),
      bytes_sent(metrics().counter("leat_net_bytes_sent_total", "Bytes sent on the tensor plane.")),
      bytes_received(
          metrics().counter("leat_net_bytes_received_total", "Bytes received on the tensor plane.")),
      refused(metrics().counter("leat_net_connections_refused_total",
                                "Connections closed before authentication.")),
      stalled(metrics().counter("leat_net_connections_stalled_total",
                                "Connections closed because they made no progress.")) {}

Status TransportContext::CheckSend(bool open, const std::string& peer, uint64_t header_bytes,
                                   uint64_t payload_bytes) const {
  if (!open) return {Code::kUnavailable, "connection to " + peer + " is closed"};
  if (header_bytes > options.max_header_bytes || payload_bytes > options.max_payload_bytes) {
    return {Code::kInvalidArgument, "a message to " + peer + " with " + std::to_string(header_bytes) +
                                        " bytes of header and " + std::to_string(payload_bytes) +
                                        " of payload is too large to send"};
  }
  return {};
}

Status TransportContext::OnStall(const std::string& peer, bool receiving) {
  stalled.Add();
  return {Code::kDeadlineExceeded, "peer " + peer + (receiving ? " stopped sending" : " stopped receiving") +
                                       " in the middle of a message"};
}

const char* TransportContext::CheckRoom(std::string_view host) const {
  if (accepted_ >= options.max_connections) return "too many connections";
  const auto at = accepted_by_host_.find(host);
  return at != accepted_by_host_.end() && at->second >= options.max_connections_of_host
             ? "too many connections of its host"
             : nullptr;
}

void TransportContext::Accepted(std::string_view host) {
  ++accepted_;
  ++accepted_by_host_[std::string(host)];
}

void TransportContext::Ended(std::string_view host) {
  --accepted_;
  const auto at = accepted_by_host_.find(host);
  if (--at->second == 0) accepted_by_host_.erase(at);
}

bool Linger(Loop& loop, const Transport& transport, Duration deadline) {
  loop.RunUntil([&transport] { return transport.lingering() == 0; }, loop.Now() + deadline);
  return transport.lingering() == 0;
}

}  // namespace leat::net
