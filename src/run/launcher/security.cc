#include "run/launcher/security.h"

#include <netinet/in.h>

#include <cstdlib>

#include "net/address.h"

namespace leat::launcher {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool IsLoopback(const net::SocketAddress& address) {
  if (address.family() == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr.s_addr) >> 24 == 127;
  if (address.family() != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

}  // namespace

Result<Security> UserSecurity(const std::string& folder, bool trusted_network) {
  Security security{.folder = folder, .trusted_network = trusted_network};
  if (folder.empty() && !trusted_network) {
    security.folder = Variable("LEAT_SECURITY");
    const std::string trusted = Variable("LEAT_TRUSTED_NETWORK");
    if (!trusted.empty() && trusted != "0" && trusted != "1")
      return Status(Code::kInvalidArgument, "LEAT_TRUSTED_NETWORK is '" + trusted + "', it may be 0 or 1");
    security.trusted_network = trusted == "1";
  }
  if (!security.folder.empty() && security.trusted_network) {
    return Status(Code::kInvalidArgument,
                  "--security (or LEAT_SECURITY) and --trusted-network (or LEAT_TRUSTED_NETWORK) contradict "
                  "each other");
  }
  if (security.folder.empty()) return security;
  LEAT_ASSIGN_OR_RETURN(security.tls, net::TlsIdentity::Load(security.folder));
  return security;
}

Status CheckListen(const Security& security, const std::string& address) {
  if (security.tls != nullptr || security.trusted_network) return {};
  const auto addresses = net::Resolve(address);
  if (!addresses.ok()) return {};  // to be reported where it is used
  for (const net::SocketAddress& one : *addresses) {
    if (IsLoopback(one)) continue;
    return {Code::kInvalidArgument, "to listen beyond this host, on " + address +
                                        ", use --security DIR (TLS), or --trusted-network if every host on "
                                        "the network is trusted"};
  }
  return {};
}

Status CheckJob(const Security& security, const job::Job& job) {
  const std::string prefix = "job '" + job.name + "' ";
  if (job.tls && security.tls == nullptr)
    return {Code::kInvalidArgument, prefix + "requires TLS (security: tls); start with --security DIR"};
  if (security.tls == nullptr) return {};
  if (job.trusted_network) {
    return {Code::kInvalidArgument,
            prefix + "is for a trusted network (cluster: trusted_network); start without --security"};
  }
  if (job.strategy.mpi)
    return {Code::kInvalidArgument,
            prefix + "reduces by MPI, which does not encrypt; start without --security"};
  return {};
}

}  // namespace leat::launcher
