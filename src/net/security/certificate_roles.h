// Roles that a certificate allows its owner to have.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/frames/handshake.h"

namespace leat::net {

// kAdmin: commands that change a job. kObserver: status and metrics only. kPool: a pool, which grants a job
// its workers and servers. kAgent: starts processes for a pool.
enum class CertificateRole : uint8_t {
  kCoordinator,
  kServer,
  kWorker,
  kFeed,
  kBots,
  kServe,
  kAdmin,
  kObserver,
  kPool,
  kAgent,
};

inline constexpr std::array<std::string_view, 10> kCertificateRoleNames = {
    "coordinator", "server", "worker", "feed", "bots", "serve", "admin", "observer", "pool", "agent"};

// A set of roles.
class CertificateRoles {
 public:
  constexpr CertificateRoles() = default;
  constexpr CertificateRoles(std::initializer_list<CertificateRole> roles) {
    for (const CertificateRole role : roles) Add(role);
  }
  // Roles of a peer without a certificate, on a trusted network.
  static constexpr CertificateRoles All() {
    CertificateRoles all;
    all.bits_ = (1u << kCertificateRoleNames.size()) - 1;
    return all;
  }

  constexpr void Add(CertificateRole role) { bits_ |= 1u << static_cast<uint32_t>(role); }
  constexpr bool Has(CertificateRole role) const { return (bits_ >> static_cast<uint32_t>(role) & 1) != 0; }
  constexpr bool Overlaps(CertificateRoles other) const { return (bits_ & other.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  // "server, worker"
  std::string ToString() const {
    std::string names;
    for (size_t i = 0; i < kCertificateRoleNames.size(); ++i) {
      if ((bits_ >> i & 1) != 0) names += (names.empty() ? "" : ", ") + std::string(kCertificateRoleNames[i]);
    }
    return names;
  }
  friend constexpr bool operator==(CertificateRoles, CertificateRoles) = default;
  friend constexpr auto operator<=>(CertificateRoles, CertificateRoles) = default;

 private:
  uint32_t bits_ = 0;
};

// None for a name that is no role's.
constexpr std::optional<CertificateRole> FindCertificateRole(std::string_view name) {
  for (size_t i = 0; i < kCertificateRoleNames.size(); ++i) {
    if (kCertificateRoleNames[i] == name) return static_cast<CertificateRole>(i);
  }
  return std::nullopt;
}

// The roles that may listen on a kind of port, and those that may connect to it. The requests that each of
// them may make are limited further by the control port (net/rpc/codec.h), by servers
// (train/ps/server_shell.cc), by members of a group (train/collective/port.h) and by feeds
// (run/feed/server.h).
struct PortRoles {
  CertificateRoles listen, connect;
};
inline PortRoles RolesAt(wire::PortKind port_kind) {
  using enum CertificateRole;
  switch (port_kind) {
    case wire::PortKind::kControl:
      return {{kCoordinator}, CertificateRoles::All()};
    case wire::PortKind::kServer:
      return {{kServer}, {kWorker, kServer, kServe}};
    case wire::PortKind::kMember:
      return {{kWorker}, {kWorker, kServe}};
    case wire::PortKind::kTransfer:
      return {{kCoordinator}, {kServer, kWorker, kCoordinator}};
    case wire::PortKind::kFeed:
      return {{kFeed, kCoordinator}, {kWorker, kServer, kBots, kServe, kCoordinator}};
    case wire::PortKind::kPool:
      return {{kPool}, {kAgent, kAdmin, kObserver}};
  }
  return {};
}

}  // namespace leat::net
