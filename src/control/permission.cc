#include "control/permission.h"

#include <string>
#include <variant>

namespace leat::control {
namespace {

using net::CertificateRole;
using net::CertificateRoles;

constexpr CertificateRoles kMembers = {CertificateRole::kWorker, CertificateRole::kServer,
                                       CertificateRole::kBots, CertificateRole::kFeed,
                                       CertificateRole::kServe};

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
      case protocol::Role::kServe:
        return {CertificateRole::kServe};
      case protocol::Role::kCoordinator:
        return {CertificateRole::kCoordinator};
    }
    return {};
  }
  CertificateRoles operator()(const protocol::WorkerHeartbeat&) const { return {CertificateRole::kWorker}; }
  CertificateRoles operator()(const protocol::ServerHeartbeat&) const { return {CertificateRole::kServer}; }
  CertificateRoles operator()(const protocol::BotsHeartbeat&) const { return {CertificateRole::kBots}; }
  CertificateRoles operator()(const protocol::FeedHeartbeat&) const { return {CertificateRole::kFeed}; }
  CertificateRoles operator()(const protocol::ServeHeartbeat&) const { return {CertificateRole::kServe}; }
  CertificateRoles operator()(const protocol::KeepAlive&) const {
    CertificateRoles roles = kMembers;
    roles.Add(CertificateRole::kCoordinator);
    return roles;
  }
  CertificateRoles operator()(const protocol::JobRequest&) const { return kMembers; }
  CertificateRoles operator()(const protocol::Promise&) const {
    return {CertificateRole::kServer, CertificateRole::kWorker};
  }
  CertificateRoles operator()(const protocol::FollowRequest&) const {
    return {CertificateRole::kCoordinator};
  }
  CertificateRoles operator()(const protocol::SpansRequest&) const {
    return {CertificateRole::kServer, CertificateRole::kWorker};
  }
  // Recording takes time of all processes.
  CertificateRoles operator()(const protocol::TimelineRequest&) const { return {CertificateRole::kAdmin}; }
  CertificateRoles operator()(const protocol::StatusRequest&) const { return CertificateRoles::All(); }
  CertificateRoles operator()(const protocol::AdminRequest& admin) const {
    using Kind = protocol::AdminRequest::Kind;
    if (admin.kind == Kind::kGrant) return {CertificateRole::kPool};
    const bool ends = admin.kind == Kind::kStop || admin.kind == Kind::kDiscard;
    if (ends) return {CertificateRole::kAdmin, CertificateRole::kPool};
    return {CertificateRole::kAdmin};
  }
  CertificateRoles operator()(const protocol::PoolRequest& pool) const {
    switch (pool.kind) {
      case protocol::PoolRequest::Kind::kReport:
        return {CertificateRole::kAgent};
      case protocol::PoolRequest::Kind::kList:
        return CertificateRoles::All();
      case protocol::PoolRequest::Kind::kSubmit:
      case protocol::PoolRequest::Kind::kCancel:
      case protocol::PoolRequest::Kind::kAccess:
        break;
    }
    return {CertificateRole::kAdmin};
  }
};

struct Description {
  std::string operator()(const protocol::JoinRequest& join) const {
    return "join as a " + std::string(protocol::Name(join.role));
  }
  std::string operator()(const protocol::WorkerHeartbeat&) const { return "worker's heartbeat"; }
  std::string operator()(const protocol::ServerHeartbeat&) const { return "server's heartbeat"; }
  std::string operator()(const protocol::BotsHeartbeat&) const { return "bots' heartbeat"; }
  std::string operator()(const protocol::FeedHeartbeat&) const { return "feed's heartbeat"; }
  std::string operator()(const protocol::ServeHeartbeat&) const { return "heartbeat of a serve member"; }
  std::string operator()(const protocol::KeepAlive&) const { return "keep-alive"; }
  std::string operator()(const protocol::JobRequest&) const { return "request for the job"; }
  std::string operator()(const protocol::Promise&) const { return "promise to a standby"; }
  std::string operator()(const protocol::FollowRequest&) const { return "request to follow the journal"; }
  std::string operator()(const protocol::SpansRequest&) const { return "spans of a recording"; }
  std::string operator()(const protocol::TimelineRequest&) const { return "timeline request"; }
  std::string operator()(const protocol::StatusRequest&) const { return "status request"; }
  std::string operator()(const protocol::AdminRequest&) const { return "admin request"; }
  std::string operator()(const protocol::PoolRequest& pool) const {
    return pool.kind == protocol::PoolRequest::Kind::kReport ? "agent's report" : "request to a pool";
  }
};

}  // namespace

std::string Describe(const protocol::ControlRequest& request) {
  return std::visit(Description(), request);
}

Status CheckPermission(CertificateRoles roles, const protocol::ControlRequest& request) {
  const CertificateRoles allowed = std::visit(Allowed(), request);
  if (roles.Overlaps(allowed)) return {};
  return {Code::kPermissionDenied, "the certificate is for the role " + roles.ToString() +
                                       ", this needs one for " + allowed.ToString()};
}

}  // namespace leat::control
