#include "train/role.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>

#include "collective/mpi.h"
#include "metrics/process.h"

namespace leat::train {

std::string ProgramVersion() {
  return "0.1.0";
}

protocol::JoinRequest MakeJoinRequest(protocol::Role role, const std::string& address, uint64_t job_hash) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  protocol::JoinRequest request;
  request.role = role;
  request.version = ProgramVersion();
  request.address = address;
  request.host = host.data();
  request.pid = getpid();
  request.job_hash = job_hash;
  if (role == protocol::Role::kWorker) request.mpi = collective::FindMpiPlace();
  return request;
}

Status WhyNotJoined(const Status& status) {
  if (status.code() != Code::kAborted) return status;
  spdlog::info("{}", status.message());
  return Status();
}

double OwnCpuSeconds() {
  const auto seconds = metrics::CpuSeconds();
  return seconds.ok() ? *seconds : 0;
}

}  // namespace leat::train
