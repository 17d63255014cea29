#include "control/permission.h"

#include <string>
#include <variant>

namespace leat::control {
namespace {

using net::CertificateRole;
using net::CertificateRoles;

constexpr CertificateRoles kMembers = {CertificateRole::kWorker, CertificateRole::kServer,
                                       CertificateRole::kBots, CertificateRole::kFeed};

// The roles that may make each request.
struct Allowed {
  CertificateRoles operator()(const protocol::JoinRequest& join) const {
    switch (join.role) {
      case protocol::Role::kServer:
        return {CertificateRole::kServer};
      case protocol::Role::kWorker:
        return {CertificateRole::kWorker};
      case protocol::Role::kBots:
        return {CertificateRole::kBots};
      case protocol::Role::kFeed:
        return {CertificateRole::kFeed};
      case protocol::Role::kCoordinator:
        break;
    }
    return {};
  }
  CertificateRoles operator()(const protocol::WorkerHeartbeat&) const { return {CertificateRole::kWorker}; }
  CertificateRoles operator()(const protocol::ServerHeartbeat&) const { return {CertificateRole::kServer}; }
  CertificateRoles operator()(const protocol::BotsHeartbeat&) const { return {CertificateRole::kBots}; }
  CertificateRoles operator()(const protocol::FeedHeartbeat&) const { return {CertificateRole::kFeed}; }
  CertificateRoles operator()(const protocol::KeepAlive&) const { return kMembers; }
  CertificateRoles operator()(const protocol::JobRequest&) const { return kMembers; }
  CertificateRoles operator()(const protocol::StatusRequest&) const { return CertificateRoles::All(); }
  CertificateRoles operator()(const protocol::AdminRequest&) const { return {CertificateRole::kAdmin}; }
};

}  // namespace

Status CheckPermission(CertificateRoles roles, const protocol::ControlRequest& request) {
  const CertificateRoles allowed = std::visit(Allowed(), request);
  if (roles.Overlaps(allowed)) return {};
  return {Code::kPermissionDenied, "the certificate is for the role " + roles.ToString() +
                                       ", this needs one for " + allowed.ToString()};
}

}  // namespace leat::control
