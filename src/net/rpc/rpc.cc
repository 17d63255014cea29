#include "net/rpc/rpc.h"

#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/threads/thread.h"
#include "net/address.h"
#include "net/tls/tls_pump.h"

namespace leat::control {

void QuietGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Some distributions build Abseil with its search for deadlocks, at each lock.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  });
}

grpc::ByteBuffer ToBuffer(ByteView bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return grpc::ByteBuffer(&slice, 1);
}

bool FromBuffer(const grpc::ByteBuffer& buffer, Bytes* bytes) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return false;
  bytes->clear();
  bytes->reserve(buffer.Length());
  for (const auto& slice : slices) {
    const ByteView part(reinterpret_cast<const std::byte*>(slice.begin()), slice.size());
    bytes->insert(bytes->end(), part.begin(), part.end());
  }
  return true;
}

gpr_timespec After(Duration duration) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(duration.count(), GPR_TIMESPAN));
}

Code FromGrpc(grpc::StatusCode code) {
  using grpc::StatusCode;
  constexpr std::pair<StatusCode, Code> kCodes[] = {
      {StatusCode::OK, Code::kOk},
      {StatusCode::INVALID_ARGUMENT, Code::kInvalidArgument},
      {StatusCode::NOT_FOUND, Code::kNotFound},
      {StatusCode::PERMISSION_DENIED, Code::kPermissionDenied},
      {StatusCode::DEADLINE_EXCEEDED, Code::kDeadlineExceeded},
      {StatusCode::RESOURCE_EXHAUSTED, Code::kResourceExhausted},
      // The peer is not a coordinator of this version.
      {StatusCode::UNIMPLEMENTED, Code::kFailedPrecondition},
      // The connection was lost.
      {StatusCode::UNAVAILABLE, Code::kUnavailable},
      {StatusCode::CANCELLED, Code::kUnavailable},
      {StatusCode::UNKNOWN, Code::kUnavailable}};
  const auto* const found = std::ranges::find(kCodes, code, &std::pair<StatusCode, Code>::first);
  return found == std::end(kCodes) ? Code::kInternal : found->second;
}

void Configure(const ServerLimits& limits, grpc::ServerBuilder* builder) {
  constexpr int kMaxMetadataBytes = 8 << 10;
  constexpr int kKeepaliveTimeMs = 10'000;  // detects failed hosts
  constexpr int kKeepaliveTimeoutMs = 5000;
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, limits.idle_ms);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.calls_per_connection);
  // Disabled so that a small message cannot inflate to gigabytes.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->SetMaxReceiveMessageSize(limits.message_bytes);
  builder->SetResourceQuota(grpc::ResourceQuota(limits.name).Resize(limits.memory));
}

ServerSockets::~ServerSockets() {
  loop_.Stop();
  if (thread_.joinable()) thread_.join();
}

void ServerSockets::Start(std::unique_ptr<net::Listener> listener) {
  listener_ = std::move(listener);
  thread_ = StartThread([this] { loop_.Run(); });
}

Result<net::Descriptor> ServerSockets::Adopt(net::AuthenticatedSocket admitted) {
  const uint64_t number = ++last_connection_;
  const std::string host(net::HostOf(admitted.peer));
  const auto on_end = [this, number, host] {
    connections_.erase(number);
    shared_->Ended(host);
  };
  net::TlsPump connection;
  if (admitted.tls != nullptr) {
    LEAT_ASSIGN_OR_RETURN(connection, net::MakeTlsPump(loop_, std::move(admitted), on_end));
  } else {
    connection = {net::WatchForShutdown(loop_, admitted.socket.get(), on_end), std::move(admitted.socket)};
  }
  shared_->Accepted(host);
  connections_[number] = std::move(connection.pump);
  return std::move(connection.inside);
}

bool ServerSockets::StopListening() {
  if (!thread_.joinable()) return false;
  std::promise<void> closed;
  loop_.Post([this, &closed] {
    listener_.reset();
    closed.set_value();
  });
  closed.get_future().wait();
  return true;
}

}  // namespace leat::control
