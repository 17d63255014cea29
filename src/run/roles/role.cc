#include "run/roles/role.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/metrics/metrics.h"
#include "net/address.h"
#include "net/frames/messages.h"
#include "net/security/private_file.h"
#include "net/transports.h"
#include "run/roles/membership.h"
#include "run/roles/shards/shard_files.h"
#include "storage/checkpoint/file.h"
#include "train/collective/mpi.h"

namespace leat::roles {

engine::PlanOptions MakePlanOptions(const job::Job& job, const RoleOptions& options,
                                    const Membership& membership) {
  engine::PlanOptions plan = job.Plan(job::WithPrecision(job, options.plan));
  plan.progress = membership.progress();
  return plan;
}

net::TransportOptions TransportOf(const RoleOptions& options, const wire::Port& port) {
  net::TransportOptions transport = options.transport;
  transport.token = options.coordinator_client.token;
  transport.tls = options.coordinator_client.tls;
  transport.port = port;
  if (const auto& metrics = options.coordinator_client.metrics; metrics != nullptr)
    transport.metrics = &metrics->registry();
  return transport;
}

std::unique_ptr<net::Transport> MakeTransport(net::Loop& loop, const RoleOptions& options,
                                              const wire::Port& port) {
  return net::MakeUcxTransport(loop, TransportOf(options, port));
}

Result<std::unique_ptr<ShardFiles>> MakeShardFiles(const Membership& membership, const job::Job& job,
                                                   const RoleOptions& options) {
  const auto make_transport = [transport = TransportOf(options, wire::TransferPort())](net::Loop& loop) {
    return net::MakeTcpTransport(loop, transport);
  };
  object_store::StoreOptions store;
  store.retries.deadline = std::max(store.retries.deadline, job.checkpoint_timeout);
  if (const auto& metrics = options.coordinator_client.metrics; metrics != nullptr)
    store.metrics = &metrics->registry();
  return ShardFiles::Make(membership.joined(), {.coordinator = membership.coordinator(),
                                                .scratch = options.coordinator_client.scratch,
                                                .make_transport = make_transport,
                                                .bucket = job.checkpoint_to,
                                                .store = std::move(store)});
}

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

std::string AddressOf(const std::string& service, const std::string& reached) {
  return service.starts_with(':') ? std::string(net::HostOf(reached)) + service : service;
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

Result<std::unique_ptr<Scratch>> Scratch::Make(const std::string& parent) {
  constexpr const char* kPrefix = "leat-scratch-";
  if (mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST)
    return checkpoint::SystemError(parent, "make directory", errno);
  net::RemoveLeftFolders(parent, kPrefix);
  constexpr int kAttempts = 100;
  for (int i = 0; i < kAttempts; ++i) {
    const std::string path = parent + "/" + kPrefix + net::RandomHex(8);
    if (mkdir(path.c_str(), 0700) != 0) return checkpoint::SystemError(path, "make directory", errno);
    if (auto lock = net::LockFolder(path); lock.ok())
      return std::unique_ptr<Scratch>(new Scratch(path, std::move(lock)));
  }
  return Status(Code::kInternal, parent + ": a directory made in it cannot be locked");
}

Result<std::string> ScratchParent(const std::string& given, const std::string& why) {
  if (!given.empty()) return given;
  const char* temporary = std::getenv("TMPDIR");
  if (temporary != nullptr && *temporary != '\0') return std::string(temporary);
  return Status(Code::kInvalidArgument, why + ": set --scratch DIR or TMPDIR");
}

void KillPoint::Die() const {
  const std::string path = directory_ + "/died";
  const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) return;
  close(fd);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

}  // namespace leat::roles
