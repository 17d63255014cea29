#include "lab/hosts/hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/files/descriptor.h"

namespace leat::hosts {
namespace {

constexpr int kFamilies = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS;

Status Failed(const std::string& what) {
  return Status(Code::kFailedPrecondition, what + ": " + std::strerror(errno));
}

Status WriteTo(const char* path, const std::string& text) {
  const Descriptor fd(open(path, O_WRONLY | O_CLOEXEC));
  return fd.ok() && WriteAll(fd.get(), AsBytes(text)) ? Status() : Failed(path);
}

bool Enter(const std::vector<int>& namespaces) {
  for (const int one : namespaces) {
    if (setns(one, 0) != 0) return false;
  }
  return true;
}

// The status with which a child has ended.
int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

// The path of a program of iproute2; empty if it is not there.
std::string Find(const std::string& name) {
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"}) {
    if (access((folder + name).c_str(), X_OK) == 0) return folder + name;
  }
  return "";
}

// `name ARGUMENTS`, on a host or, without namespaces, in this process's network.
Status Call(const std::string& name, const std::vector<std::string>& arguments,
            const std::vector<int>& namespaces) {
  const std::string program = Find(name);
  std::string line = name;
  std::vector<char*> argv{const_cast<char*>(name.c_str())};
  for (const std::string& one : arguments) {
    argv.push_back(const_cast<char*>(one.c_str()));
    line += " " + one;
  }
  argv.push_back(nullptr);
  std::array<int, 2> said{};
  if (pipe2(said.data(), O_CLOEXEC) != 0) return Failed("pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(said[1], STDERR_FILENO);
    if (Enter(namespaces)) execv(program.c_str(), argv.data());
    _exit(127);
  }
  close(said[1]);
  std::string error;
  std::array<char, 256> part{};
  for (ssize_t n; (n = read(said[0], part.data(), part.size())) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) error.append(part.data(), static_cast<size_t>(n));
  }
  close(said[0]);
  if (const int status = child > 0 ? WaitFor(child) : -1; WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return Status();
  return Status(Code::kFailedPrecondition, line + ": " + error.substr(0, error.find('\n')));
}

Status Ip(const std::vector<std::string>& arguments, const std::vector<int>& namespaces = {}) {
  return Call("ip", arguments, namespaces);
}

}  // namespace

Status EnterNamespaces() {
  if (Find("ip").empty()) return Status(Code::kFailedPrecondition, "ip is missing (package iproute2)");
  const uid_t user = geteuid();
  const gid_t group = getegid();
  const int users = user == 0 ? 0 : CLONE_NEWUSER;
  if (unshare(users | CLONE_NEWNET | CLONE_NEWNS) != 0) return Failed("unshare");
  if (users != 0) {
    LEAT_RETURN_IF_ERROR(WriteTo("/proc/self/setgroups", "deny"));
    LEAT_RETURN_IF_ERROR(WriteTo("/proc/self/uid_map", "0 " + std::to_string(user) + " 1"));
    LEAT_RETURN_IF_ERROR(WriteTo("/proc/self/gid_map", "0 " + std::to_string(group) + " 1"));
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return Failed("mount --make-rprivate /");
  return Ip({"link", "set", "lo", "up"});
}

Hosts::~Hosts() {
  for (Host& host : hosts_) {
    for (const int one : host.namespaces) close(one);
    if (host.holder <= 0) continue;
    kill(host.holder, SIGKILL);
    WaitFor(host.holder);
  }
  // The cables end with the hosts' namespaces, but later.
  for (uint32_t host = 0; host < hosts_.size(); ++host)
    static_cast<void>(Ip({"link", "delete", Cable(host)}));
  if (switched_) static_cast<void>(Ip({"link", "delete", "switch"}));
}

Status Hosts::Make(uint32_t count) {
  LEAT_RETURN_IF_ERROR(Ip({"link", "add", "switch", "type", "bridge"}));
  switched_ = true;
  LEAT_RETURN_IF_ERROR(Ip({"address", "add", "10.213.7.254/24", "dev", "switch"}));
  LEAT_RETURN_IF_ERROR(Ip({"link", "set", "switch", "up"}));
  hosts_.resize(count);
  for (uint32_t host = 0; host < count; ++host) LEAT_RETURN_IF_ERROR(Start(host));
  return Status();
}

Status Hosts::Start(uint32_t host) {
  std::array<int, 2> ready{};
  if (pipe2(ready.data(), O_CLOEXEC) != 0) return Failed("pipe");
  const std::string name = "leat-" + std::string(1, static_cast<char>('a' + host % 26));
  const pid_t parent = getpid();
  Host& made = hosts_[host];
  made.holder = fork();
  if (made.holder < 0) return Failed("fork");
  if (made.holder == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    int failed = unshare(kFamilies) != 0 ? errno : 0;
    if (failed == 0 && sethostname(name.data(), name.size()) != 0) failed = errno;
    if (failed == 0 && mount("none", "/dev/shm", "tmpfs", 0, nullptr) != 0) failed = errno;
    static_cast<void>(WriteTo("/proc/sys/net/ipv4/tcp_congestion_control", "cubic"));
    if (write(ready[1], &failed, sizeof failed) != sizeof failed) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  int failed = 0;
  ssize_t n = 0;
  while ((n = read(ready[0], &failed, sizeof failed)) < 0 && errno == EINTR) continue;
  close(ready[0]);
  if (n != sizeof failed || failed != 0) {
    errno = n == sizeof failed ? failed : EPIPE;
    return Failed("a host cannot be made");
  }
  const std::string holder = std::to_string(made.holder);
  for (const char* family : {"uts", "net", "mnt"}) {
    const int one = open(("/proc/" + holder + "/ns/" + family).c_str(), O_RDONLY | O_CLOEXEC);
    if (one < 0) return Failed("/proc/" + holder + "/ns/" + family);
    made.namespaces.push_back(one);
  }
  const std::string cable = Cable(host);
  LEAT_RETURN_IF_ERROR(Ip({"link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", holder}));
  LEAT_RETURN_IF_ERROR(Ip({"link", "set", cable, "master", "switch", "up"}));
  LEAT_RETURN_IF_ERROR(Ip({"address", "add", Address(host) + "/24", "dev", "eth0"}, made.namespaces));
  LEAT_RETURN_IF_ERROR(Ip({"link", "set", "eth0", "up"}, made.namespaces));
  return Ip({"link", "set", "lo", "up"}, made.namespaces);
}

// A cable that is pulled out of the switch: neither end notices.
Status Hosts::Cut(uint32_t host) {
  return Ip({"link", "set", Cable(host), "nomaster"});
}

Status Hosts::Mend(uint32_t host) {
  return Ip({"link", "set", Cable(host), "master", "switch"});
}

Status Hosts::Shape(uint32_t host, double bits_per_s, uint64_t burst) {
  // The queue holds as much as a window of tcp: lost packets would be sent twice.
  const std::string rate = std::to_string(static_cast<uint64_t>(bits_per_s)) + "bit",
                    bytes = std::to_string(burst) + "b";
  for (const bool at_host : {true, false}) {
    const std::string device = at_host ? "eth0" : Cable(host);
    LEAT_RETURN_IF_ERROR(Call(
        "tc", {"qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", bytes, "latency", "1s"},
        at_host ? hosts_[host].namespaces : std::vector<int>()));
  }
  return Status();
}

Status Hosts::Hide(uint32_t host, const std::string& folder) {
  const pid_t child = fork();
  if (child < 0) return Failed("fork");
  if (child == 0) {
    const bool done =
        Enter(hosts_[host].namespaces) && mount("none", folder.c_str(), "tmpfs", 0, nullptr) == 0;
    _exit(done ? 0 : errno);
  }
  const int status = WaitFor(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status();
  errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
  return Failed("cannot hide " + folder);
}

Status MountDisk(const std::string& folder, uint64_t bytes) {
  const std::string size = "size=" + std::to_string(bytes);
  return mount("none", folder.c_str(), "tmpfs", 0, size.c_str()) == 0 ? Status() : Failed("mount " + folder);
}

void UnmountDisk(const std::string& folder) {
  umount2(folder.c_str(), MNT_DETACH);
}

}  // namespace leat::hosts
