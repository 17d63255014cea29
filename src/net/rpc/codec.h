// Requests and replies of the control plane: their bytes, and who may make them.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "net/frames/handshake.h"
#include "net/security/certificate_roles.h"
#include "protocol/messages_control.h"

namespace leat::control {

// The bytes of control messages: their fields, as src/protocol/messages_control.h lists them
// (base/fields/codec.h, docs/formats/control.md). Pure functions.
//
// Input is untrusted. The first violation makes the whole message kInvalidArgument, with the field and its
// value.

inline constexpr size_t kMaxMessageBytes = 4 << 20;

Bytes Serialize(const protocol::ControlRequest& request);
Bytes Serialize(const protocol::ControlReply& reply);

Result<protocol::ControlRequest> ParseRequest(ByteView bytes);
Result<protocol::ControlReply> ParseReply(ByteView bytes);

// The port of a coordinator.
wire::Port ControlPort();

// Permissions at the coordinator: the requests that each certificate allows.

// Returns kPermissionDenied with both roles if a peer with a certificate for `roles` may not ask this: a role
// joins and reports as itself only, admin changes the job, and everyone may read the status.
Status CheckPermission(net::CertificateRoles roles, const protocol::ControlRequest& request);

// "admin request", "join as a worker"
std::string Describe(const protocol::ControlRequest& request);

}  // namespace leat::control
