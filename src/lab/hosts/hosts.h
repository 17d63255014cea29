// Emulated hosts: network, mount and UTS namespaces, joined by veth pairs to one switch.
//
// Processes of different hosts share nothing but the network, and what they see of the file system. All is in
// namespaces of this process, so nothing is left of it, however the process ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace leat::hosts {

// Moves this process into namespaces of its own, in which hosts can be made, by root or by any user who may
// create user namespaces. Call it before the first thread starts. Otherwise the reason in one line:
// kFailedPrecondition.
Status EnterNamespaces();

class Hosts {
 public:
  Hosts() = default;
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // After EnterNamespaces. They have the mounts that this process has by now, and the congestion control that
  // most machines have (cubic), if the kernel allows it: others divide a link differently.
  Status Make(uint32_t count);

  // "10.213.7.1" for the first. This process is in the same network.
  std::string Address(uint32_t host) const { return "10.213.7." + std::to_string(host + 1); }
  // The namespaces that a child enters to be on the host.
  const std::vector<int>& Namespaces(uint32_t host) const { return hosts_[host].namespaces; }

  // The network loses everything to and from a host, until Mend.
  Status Cut(uint32_t host);
  Status Mend(uint32_t host);
  // Limits a host's traffic to this rate in each direction, by a token bucket (tc-tbf(8)) at each end of its
  // cable. `burst`: bytes that pass at once after a pause. Once for each host.
  Status Shape(uint32_t host, double bits_per_s, uint64_t burst);
  // An empty folder in place of this one, on one host.
  Status Hide(uint32_t host, const std::string& folder);

 private:
  struct Host {
    pid_t holder = 0;  // a process that keeps the namespaces
    std::vector<int> namespaces;
  };
  Status Start(uint32_t host);
  std::string Cable(uint32_t host) const { return "cable" + std::to_string(host); }

  std::vector<Host> hosts_;
  bool switched_ = false;
};

// Mounts an empty disk of this many bytes at a folder, for this process and the hosts that are made later.
Status MountDisk(const std::string& folder, uint64_t bytes);
void UnmountDisk(const std::string& folder);

}  // namespace leat::hosts
