// What server and client agree on below the messages. Only the gRPC adapters include this.
#pragma once

#include <grpc/support/time.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace leat::control {

inline constexpr const char* kMethod = "/leat.control.v1.Control/Exchange";

// gRPC reports to stderr what is also in a Status; silences it unless GRPC_VERBOSITY asks for it.
void QuietGrpc();

grpc::ByteBuffer ToBuffer(std::string_view bytes);
// False when the buffer cannot be read.
bool FromBuffer(const grpc::ByteBuffer& buffer, std::string* bytes);

// So long from now, whatever happens to the wall clock.
gpr_timespec After(Duration duration);

Code FromGrpc(grpc::StatusCode code);

}  // namespace leat::control
