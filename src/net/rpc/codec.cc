#include "net/rpc/codec.h"

#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "base/fields/codec.h"
#include "base/fields/description.h"
#include "protocol/records/journal.h"

namespace leat::control {
namespace {

template <class Message>
Result<Message> Parse(ByteView bytes, const std::string& what) {
  if (bytes.empty() || bytes.size() > kMaxMessageBytes)
    return Status(Code::kInvalidArgument, "not a " + what + ": " + std::to_string(bytes.size()) + " bytes");
  return fields::Decode<Message>(bytes, what, Code::kInvalidArgument);
}

}  // namespace

Bytes Serialize(const protocol::ControlRequest& request) {
  return fields::Encode(request);
}

Bytes Serialize(const protocol::ControlReply& reply) {
  return fields::Encode(reply);
}

Result<protocol::ControlRequest> ParseRequest(ByteView bytes) {
  return Parse<protocol::ControlRequest>(bytes, "control request");
}

Result<protocol::ControlReply> ParseReply(ByteView bytes) {
  return Parse<protocol::ControlReply>(bytes, "control reply");
}

wire::Port ControlPort() {
  return {wire::PortKind::kControl,
          fields::HashOf<protocol::ControlRequest, protocol::ControlReply, protocol::JournalRecord>()};
}

// ---- permissions

namespace {

using net::CertificateRole;
using net::CertificateRoles;

// A wrong name does not compile.
consteval CertificateRoles RolesNamed(std::string_view names) {
  if (names == "all") return CertificateRoles::All();
  CertificateRoles roles;
  while (true) {
    const size_t end = names.find(", ");
    roles.Add(net::FindCertificateRole(names.substr(0, end)).value());
    if (end == names.npos) return roles;
    names.remove_prefix(end + 2);
  }
}

// The roles that may make each request.
template <class Request>
CertificateRoles Allowed(const Request&) {
  return RolesNamed(Request::kPermission.roles);
}
CertificateRoles Allowed(const protocol::JoinRequest& join) {
  using enum CertificateRole;
  constexpr std::array kByRole = {kCoordinator, kServer, kWorker, kBots, kFeed, kServe};
  const auto role = static_cast<size_t>(join.role);
  return role < kByRole.size() ? CertificateRoles{kByRole[role]} : CertificateRoles();
}
CertificateRoles Allowed(const protocol::AdminRequest& admin) {
  using Kind = protocol::AdminRequest::Kind;
  if (admin.kind == Kind::kGrant) return {CertificateRole::kPool};
  CertificateRoles roles = RolesNamed(protocol::AdminRequest::kPermission.roles);
  if (admin.kind == Kind::kStop || admin.kind == Kind::kDiscard) roles.Add(CertificateRole::kPool);
  return roles;
}
CertificateRoles Allowed(const protocol::PoolRequest& pool) {
  using Kind = protocol::PoolRequest::Kind;
  if (pool.kind == Kind::kReport) return {CertificateRole::kAgent};
  return pool.kind == Kind::kList ? CertificateRoles::All()
                                  : RolesNamed(protocol::PoolRequest::kPermission.roles);
}

template <class Request>
std::string Name(const Request&) {
  return std::string(Request::kPermission.name);
}
std::string Name(const protocol::JoinRequest& join) {
  return "join as a " + std::string(protocol::Name(join.role));
}
std::string Name(const protocol::PoolRequest& pool) {
  if (pool.kind == protocol::PoolRequest::Kind::kReport) return "agent's report";
  return std::string(protocol::PoolRequest::kPermission.name);
}

}  // namespace

std::string Describe(const protocol::ControlRequest& request) {
  return std::visit([](const auto& one) { return Name(one); }, request);
}

Status CheckPermission(CertificateRoles roles, const protocol::ControlRequest& request) {
  const CertificateRoles allowed = std::visit([](const auto& one) { return Allowed(one); }, request);
  if (roles.Overlaps(allowed)) return {};
  return {Code::kPermissionDenied, "the certificate is for the role " + roles.ToString() +
                                       ", this needs one for " + allowed.ToString()};
}

}  // namespace leat::control
