#include "net/rpc/rpc.h"

#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>
#include <grpcpp/support/slice.h>

#include <cstdlib>
#include <mutex>
#include <vector>

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
  switch (code) {
    case grpc::StatusCode::OK:
      return Code::kOk;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return Code::kInvalidArgument;
    case grpc::StatusCode::NOT_FOUND:
      return Code::kNotFound;
    case grpc::StatusCode::PERMISSION_DENIED:
      return Code::kPermissionDenied;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Code::kDeadlineExceeded;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Code::kResourceExhausted;
    // The peer is not a coordinator of this version.
    case grpc::StatusCode::UNIMPLEMENTED:
      return Code::kFailedPrecondition;
    // The connection was lost.
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNKNOWN:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

}  // namespace leat::control
