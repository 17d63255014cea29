// gRPC definitions shared by server and client. Only the gRPC adapters include this.
#pragma once

#include <grpc/support/time.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"

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

}  // namespace leat::control
