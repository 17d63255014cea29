#include "protocol/members/admission.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/encoding/printable.h"

namespace leat::protocol {
namespace {

// Attempts to join after which the round trip of a role is known: the first one also makes the connection.
constexpr uint32_t kRoundTripAttempts = 3;

std::string NameOfThis(const JoinRequest& request) {
  return "this " + std::string(Name(request.role));
}

// Whether a "host:port" address means the host of whoever uses it: a loopback address, or a wildcard that a
// listener binds.
bool IsLocalAddress(std::string_view address) {
  std::string_view host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  constexpr std::string_view kMapped = "::ffff:";  // an IPv4 address in an IPv6 socket
  if (host.starts_with(kMapped)) host.remove_prefix(kMapped.size());
  return host == "localhost" || host == "::1" || host == "::" || host == "0.0.0.0" ||
         host.starts_with("127.");
}

std::string PortOf(std::string_view address) {
  return std::string(address.substr(address.rfind(':') + 1));
}

// "ps 0 (node 3, host a, pid 17)"
std::string MemberText(const MemberState& member) {
  return Name(member.member) + " (node " + ToString(member.member.node) + ", host " + member.host + ", pid " +
         std::to_string(member.pid) + ")";
}

// Whether other members connect to the address of a member of this role.
bool Listens(const MemberSettings& settings, Role role) {
  return role == Role::kServer || role == Role::kFeed || role == Role::kCoordinator ||
         (role == Role::kWorker && settings.all_reduce() && !settings.strategy.mpi);
}

// `who`: "this worker".
Status CheckVersion(const MemberSettings& settings, const std::string& who, const std::string& version) {
  if (settings.version.empty() || version == settings.version) return {};
  return {Code::kFailedPrecondition,
          who + " is version \"" + version + "\", the coordinator is version \"" + settings.version + "\""};
}

Status CheckProgram(const MemberSettings& settings, const JoinRequest& request) {
  const std::string who = NameOfThis(request);
  LEAT_RETURN_IF_ERROR(CheckVersion(settings, who, request.version));
  if (settings.job_hash != 0 && request.job_hash != 0 && request.job_hash != settings.job_hash) {
    return {Code::kFailedPrecondition, who + " was started for job " + ToHex(request.job_hash) +
                                           ", the coordinator has job " + ToHex(settings.job_hash)};
  }
  return {};
}

Status CheckRole(const MemberSettings& settings, const JoinRequest& request) {
  const std::string a_role = "a " + std::string(Name(request.role));
  if (request.role > Role::kServe) return {Code::kInvalidArgument, a_role + " cannot join"};
  if (request.role == Role::kServer && settings.all_reduce()) {
    return {Code::kFailedPrecondition, "the job has no servers: with strategy " +
                                           std::string(Name(settings.strategy.kind)) +
                                           " every worker has all parameters"};
  }
  const bool called = request.role != Role::kWorker && Listens(settings, request.role);
  if (called && request.address.empty()) return {Code::kInvalidArgument, a_role + " needs an address"};
  if (request.role == Role::kWorker && settings.all_reduce() && request.address.empty())
    return {Code::kInvalidArgument, "a worker without servers needs an address"};
  if (request.standby && (request.role != Role::kWorker || settings.strategy.mpi)) {
    return {Code::kFailedPrecondition, settings.strategy.mpi
                                           ? "no worker can stand by: with MPI all take part from the start"
                                           : a_role + " cannot stand by"};
  }
  return {};
}

// Returns why a worker cannot have the MPI rank that it joins with.
Status CheckMpiRank(const Roster& roster, const JoinRequest& request) {
  const std::string workers = std::to_string(roster.settings().workers);
  const std::string mpirun = "mpirun -np " + workers + " leat worker …";
  if (!request.mpi) {
    return {Code::kFailedPrecondition,
            "the workers of this job reduce by MPI, and this one was not started by " + mpirun};
  }
  const auto [rank, all] = *request.mpi;
  if (all != roster.settings().workers || rank >= all) {
    return {Code::kFailedPrecondition, "this worker is rank " + std::to_string(rank) + " of " +
                                           std::to_string(all) + " of MPI, the job has " + workers +
                                           " workers: " + mpirun};
  }
  for (const auto& [node, member] : roster.members()) {
    if (member.Is(Role::kWorker) && member.member.index == rank) {
      return {Code::kFailedPrecondition,
              "worker " + std::to_string(rank) + " has already joined, at " + member.member.address};
    }
  }
  return {};
}

// Returns why the members could not all reach each other if this one joined: kInvalidArgument if its own
// address is the reason, kUnavailable while there is a member with such an address.
Status CheckReachable(const Roster& roster, const JoinRequest& request) {
  const MemberSettings& settings = roster.settings();
  const auto elsewhere = [&request](uint64_t network) {
    return network != 0 && request.network != 0 && network != request.network;
  };
  const auto refuse = [](Code code, const std::string& role, const std::string& address,
                         const std::string& host, const std::string& better) {
    return Status(code, role + " has the address " + address + ", which " + host +
                            " cannot reach; start it with " + better);
  };
  const std::string who = NameOfThis(request);
  if (Listens(settings, request.role) && IsLocalAddress(request.address)) {
    const std::string port = PortOf(request.address);
    const bool known = !request.local_host.empty() && !IsLocalAddress(request.local_host + ":" + port);
    const std::string host = known ? request.local_host : "HOST";
    const std::string better = "--listen " + host + ":" + port + ", or with --advertise " + host + ":" +
                               port + (known ? "" : " (an address of its host that other hosts reach)");
    if (elsewhere(settings.network))
      return refuse(Code::kInvalidArgument, who, request.address, "the coordinator's host", better);
    for (const auto& [node, member] : roster.members()) {
      if (!member.Is(Role::kBots) && elsewhere(member.network)) {
        return refuse(Code::kInvalidArgument, who, request.address,
                      Name(member.member) + " on host " + member.host, better);
      }
    }
  }
  if (request.role == Role::kBots) return {};
  for (const auto& [node, member] : roster.members()) {
    if (Listens(settings, member.member.role) && IsLocalAddress(member.member.address) &&
        elsewhere(member.network)) {
      return refuse(Code::kUnavailable, MemberText(member), member.member.address,
                    who + " on host " + request.host,
                    "--listen or --advertise and an address of its host that other hosts reach");
    }
  }
  return {};
}

// Why a role must not join because of where it is, or its place.
Result<topology::HostPlace> CheckPlace(const MemberSettings& settings, const JoinRequest& request) {
  LEAT_ASSIGN_OR_RETURN(topology::HostPlace place,
                        topology::PlaceOf(settings.topology, request.host, request.place));
  // A standby is far from the coordinator on purpose.
  if (!settings.topology.refuse_far || request.role == Role::kCoordinator) return place;
  if (request.attempts < kRoundTripAttempts)
    return Status(Code::kUnavailable, "the round trip of the role is not known yet");
  const std::string who = NameOfThis(request) + " on host " + request.host;
  LEAT_RETURN_IF_ERROR(topology::CheckDistance(settings.topology, who, request.round_trip));
  return place;
}

// The members that are the process itself, which joins again. kUnavailable while another process has its
// address.
Result<std::vector<NodeId>> FindFormerSelves(const Roster& roster, const JoinRequest& request) {
  std::vector<NodeId> former;
  for (const auto& [node, member] : roster.members()) {
    if (!member.Is(request.role)) continue;
    const bool same_address =
        Listens(roster.settings(), request.role) && member.member.address == request.address;
    if (member.process == request.process && (request.process != 0 || same_address)) {
      former.push_back(node);
    } else if (same_address) {
      return Status(Code::kUnavailable, NameOfThis(request) + " (host " + request.host + ", pid " +
                                            std::to_string(request.pid) + ") has the address " +
                                            request.address + " of " + MemberText(member) +
                                            ", which is not lost; give each its own --advertise address");
    }
  }
  return former;
}

bool StandsBy(const MemberSettings& settings, const JoinRequest& request, const topology::HostPlace& place) {
  if (request.role != Role::kWorker || settings.strategy.mpi) return false;
  const std::string& wanted = settings.topology.worker_class;
  return request.standby || (!wanted.empty() && place.host_class != wanted);
}

}  // namespace

Result<Admission> Admit(const Roster& roster, const JoinRequest& request) {
  const MemberSettings& settings = roster.settings();
  LEAT_RETURN_IF_ERROR(CheckProgram(settings, request));
  LEAT_RETURN_IF_ERROR(CheckRole(settings, request));
  const bool by_mpi = request.role == Role::kWorker && settings.strategy.mpi;
  if (by_mpi) LEAT_RETURN_IF_ERROR(CheckMpiRank(roster, request));
  LEAT_RETURN_IF_ERROR(CheckReachable(roster, request));
  LEAT_ASSIGN_OR_RETURN(topology::HostPlace place, CheckPlace(settings, request));
  Admission admitted;
  LEAT_ASSIGN_OR_RETURN(admitted.former, FindFormerSelves(roster, request));
  MemberState& member = admitted.member;
  member.member.role = request.role;
  member.member.address = request.address;
  if (StandsBy(settings, request, place)) member.member.state = Member::State::kStandby;
  if (by_mpi) admitted.index = request.mpi->rank;
  member.host = request.host;
  member.pid = request.pid;
  member.process = request.process;
  member.network = request.network;
  member.place = std::move(place);
  member.round_trip = request.round_trip;
  return admitted;
}

JoinReply Welcome(const MemberSettings& job, const Member& member) {
  JoinReply reply;
  reply.term = job.term;
  reply.node = member.node;
  reply.index = member.index;
  reply.job = job.job;
  reply.heartbeat_interval = job.heartbeat_interval;
  reply.heartbeat_timeout = job.heartbeat_timeout;
  return reply;
}

JobReply DescribeJob(const Roster& roster, const JobRequest& request) {
  JobReply reply;
  reply.status = CheckVersion(roster.settings(), "this program", request.version);
  if (!reply.status.ok()) return reply;
  reply.job = roster.settings().job;
  reply.feeds = roster.settings().feeds;
  for (const auto& [node, member] : roster.members()) {
    if (member.Is(Role::kFeed)) reply.feeds.push_back(member.member.address);
  }
  return reply;
}

}  // namespace leat::protocol
