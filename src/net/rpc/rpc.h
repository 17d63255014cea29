// gRPC definitions shared by servers and client. Only the gRPC adapters include this.
#pragma once

#include <grpc/support/time.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_map>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "net/handshake/handshake.h"
#include "net/loop.h"
#include "net/transport_context.h"

namespace leat::control {

inline constexpr const char* kMethod = "/leat.control.v1.Control/Exchange";

// Silences gRPC's messages on stderr, which repeat what statuses report, unless GRPC_VERBOSITY is set.
void QuietGrpc();

grpc::ByteBuffer ToBuffer(ByteView bytes);
// Returns false if the buffer cannot be read.
bool FromBuffer(const grpc::ByteBuffer& buffer, Bytes* bytes);

// A time this long from now, independent of changes of the wall clock.
gpr_timespec After(Duration duration);

Code FromGrpc(grpc::StatusCode code);

struct ServerLimits {
  const char* name = "";
  int idle_ms = 0;  // connections without a call are closed
  int calls_per_connection = 0;
  int message_bytes = 0;
  size_t memory = 0;  // for received data that is not read yet
};
void Configure(const ServerLimits& limits, grpc::ServerBuilder* builder);

// The connections of a gRPC server. A thread accepts them, and runs their handshakes and TLS; gRPC gets the
// inside. gRPC serves new connections before existing ones and closes connections when memory runs short, so
// a flood of unauthenticated peers could cost members their connections.
class ServerSockets {
 public:
  explicit ServerSockets(net::TransportOptions options)
      : shared_(std::make_shared<net::TransportContext>(loop_, std::move(options))) {}
  ~ServerSockets();
  ServerSockets(const ServerSockets&) = delete;
  ServerSockets& operator=(const ServerSockets&) = delete;

  const std::shared_ptr<net::TransportContext>& shared() const { return shared_; }
  // Takes a listener of shared(), and starts the thread.
  void Start(std::unique_ptr<net::Listener> listener);
  const std::string& address() const { return listener_->address(); }
  // Returns the socket for gRPC. The connection counts until gRPC or the peer ends it. On the thread.
  Result<net::Descriptor> Adopt(net::AuthenticatedSocket admitted);
  // Accepts no more; false if nothing has been started. The thread still moves gRPC's last messages.
  bool StopListening();

 private:
  net::Loop loop_;
  const std::shared_ptr<net::TransportContext> shared_;
  std::unique_ptr<net::Listener> listener_;
  uint64_t last_connection_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<void>> connections_;  // watches for their ends, and pumps
  std::thread thread_;                                               // runs loop_
};

}  // namespace leat::control
