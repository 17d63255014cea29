#include "roles/role.h"

#include <unistd.h>

#include "collective/mpi.h"
#include "metrics/process.h"
#include "net/address.h"

namespace leat::roles {

protocol::JoinRequest MakeJoinRequest(protocol::Role role, const std::string& address) {
  protocol::JoinRequest request;
  request.role = role;
  request.version = ProgramVersion();
  request.address = address;
  request.host = net::HostName();
  request.pid = getpid();
  request.network = net::NetworkId();
  if (role == protocol::Role::kWorker) request.mpi = collective::FindMpiRank();
  return request;
}

double OwnCpuSeconds() {
  const auto seconds = metrics::CpuSeconds();
  return seconds.ok() ? *seconds : 0;
}

}  // namespace leat::roles
