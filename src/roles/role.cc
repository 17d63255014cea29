#include "roles/role.h"

#include <unistd.h>

#include <chrono>
#include <thread>

#include "collective/mpi.h"
#include "metrics/process.h"
#include "net/address.h"

namespace leat::roles {

protocol::JoinRequest MakeJoinRequest(protocol::Role role, const std::string& address,
                                      const topology::HostPlace& place) {
  protocol::JoinRequest request;
  request.role = role;
  request.version = ProgramVersion();
  request.address = address;
  request.host = net::HostName();
  request.pid = getpid();
  request.network = net::NetworkId();
  request.place = place;
  if (role == protocol::Role::kWorker) request.mpi = collective::FindMpiRank();
  return request;
}

std::string ZoneOf(const job::Job& job, const topology::HostPlace& own) {
  const auto place = topology::PlaceOf(job.topology, net::HostName(), own);
  return place.ok() ? place->zone : "";
}

void DelayBatch(const job::DebugSpec& debug, uint64_t batches) {
  const bool hangs = debug.hang_after > 0 && batches == debug.hang_after;
  std::this_thread::sleep_for(debug.step + (hangs ? std::chrono::hours(1) : Duration(0)));
}

double OwnCpuSeconds() {
  const auto seconds = metrics::CpuSeconds();
  return seconds.ok() ? *seconds : 0;
}

}  // namespace leat::roles
