// Whether a process may join: its identity, and whether all members can reach each other.
#include <string>
#include <string_view>
#include <vector>

#include "protocol/coordinator/coordinator_state.h"

namespace leat::protocol {
namespace {

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
std::string MemberText(const Member& member, const std::string& host, int64_t pid) {
  return Name(member) + " (node " + ToString(member.node) + ", host " + host + ", pid " +
         std::to_string(pid) + ")";
}

}  // namespace

bool Coordinator::State::Listens(Role role) const {
  return role == Role::kServer || role == Role::kFeed || role == Role::kCoordinator ||
         (role == Role::kWorker && AllReduce() && !config.strategy.mpi);
}

Status Coordinator::State::CheckReachable(const JoinRequest& request) const {
  const auto elsewhere = [&request](uint64_t network) {
    return network != 0 && request.network != 0 && network != request.network;
  };
  const auto refuse = [](Code code, const std::string& role, const std::string& address,
                         const std::string& host, const std::string& better) {
    return Status(code, role + " has the address " + address + ", which " + host +
                            " cannot reach; start it with " + better);
  };
  const std::string role(Name(request.role));
  if (Listens(request.role) && IsLocalAddress(request.address)) {
    const std::string port = PortOf(request.address);
    const bool known = !request.local_host.empty() && !IsLocalAddress(request.local_host + ":" + port);
    const std::string host = known ? request.local_host : "HOST";
    const std::string better = "--listen " + host + ":" + port + ", or with --advertise " + host + ":" +
                               port + (known ? "" : " (an address of its host that other hosts reach)");
    if (elsewhere(config.network))
      return refuse(Code::kInvalidArgument, "this " + role, request.address, "the coordinator's host",
                    better);
    for (const auto& [node, member] : members) {
      if (member.member.role != Role::kBots && elsewhere(member.network)) {
        return refuse(Code::kInvalidArgument, "this " + role, request.address,
                      Name(member.member) + " on host " + member.host, better);
      }
    }
  }
  if (request.role == Role::kBots) return {};
  for (const auto& [node, member] : members) {
    if (Listens(member.member.role) && IsLocalAddress(member.member.address) && elsewhere(member.network)) {
      return refuse(Code::kUnavailable, MemberText(member.member, member.host, member.pid),
                    member.member.address, "this " + role + " on host " + request.host,
                    "--listen or --advertise and an address of its host that other hosts reach");
    }
  }
  return {};
}

Status Coordinator::State::ReplaceFormerSelf(Time now, const JoinRequest& request) {
  std::vector<NodeId> former;
  for (const auto& [node, member] : members) {
    if (member.member.role != request.role) continue;
    const bool same_address = Listens(request.role) && member.member.address == request.address;
    if (member.process == request.process && (request.process != 0 || same_address)) {
      former.push_back(node);
    } else if (same_address) {
      return {Code::kUnavailable, "this " + std::string(Name(request.role)) + " (host " + request.host +
                                      ", pid " + std::to_string(request.pid) + ") has the address " +
                                      request.address + " of " +
                                      MemberText(member.member, member.host, member.pid) +
                                      ", which is not lost; give each its own --advertise address"};
    }
  }
  for (NodeId node : former) Remove(now, node, Gone::kLost);
  std::erase_if(evicted, [&](const auto& entry) {
    return request.process != 0 && entry.second.process == request.process;
  });
  return {};
}

}  // namespace leat::protocol
