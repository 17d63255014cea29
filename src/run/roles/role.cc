#include "run/roles/role.h"

#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "base/metrics/process.h"
#include "net/address.h"
#include "train/collective/mpi.h"

namespace leat::roles {

uint64_t NewProcess() {
  std::random_device random;
  return uint64_t{random()} << 32 | random() | 1;
}

protocol::JoinRequest MakeJoinRequest(protocol::Role role, const std::string& address,
                                      const topology::HostPlace& place, uint64_t process,
                                      const std::string& coordinator) {
  protocol::JoinRequest request;
  request.role = role;
  request.version = ProgramVersion();
  request.address = address;
  request.host = net::HostName();
  request.pid = getpid();
  request.process = process;
  request.network = net::NetworkId();
  request.local_host = net::LocalHostTowards(coordinator);
  request.place = place;
  if (role == protocol::Role::kWorker) request.mpi = collective::FindMpiRank();
  return request;
}

bool NoAnswer(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kDeadlineExceeded;
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
