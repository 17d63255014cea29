#include "net/same_host/same_host_peer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

namespace leat::net {

namespace {

constexpr uint32_t kMaxBootId = 64;

// Identifies this boot of this kernel.
std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.substr(0, kMaxBootId);
}

// Processes of one host wake each other through abstract sockets, whose names are valid within one network
// namespace. In two namespaces each would see the other's writes but never be woken.
bool OnOneNetwork(pid_t other) {
  struct stat ours {};
  struct stat theirs {};
  return stat("/proc/self/ns/net", &ours) == 0 &&
         stat(("/proc/" + std::to_string(other) + "/ns/net").c_str(), &theirs) == 0 &&
         ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

}  // namespace

SameHostProof::SameHostProof() {
  if (getrandom(secret_.data(), secret_.size(), 0) != static_cast<ssize_t>(secret_.size())) return;
  Descriptor file(memfd_create("leat", MFD_CLOEXEC));
  if (!file.ok()) return;
  if (write(file.get(), secret_.data(), secret_.size()) == static_cast<ssize_t>(secret_.size())) {
    file_ = std::move(file);
  }
}

void SameHostProof::Describe(ByteWriter& out) const {
  struct stat at {};
  if (file_.ok()) fstat(file_.get(), &at);
  out.PutString(BootId());
  out.Put(static_cast<int32_t>(getpid()));
  out.Put(static_cast<int32_t>(file_.get()));
  out.Put(static_cast<uint64_t>(at.st_dev));
  out.Put(static_cast<uint64_t>(at.st_ino));
}

std::optional<SameHostPeer> FindSameHostPeer(ByteReader& description) {
  const std::string boot = description.GetString(kMaxBootId);
  const auto pid = description.Get<int32_t>();
  const auto number = description.Get<int32_t>();
  const auto device = description.Get<uint64_t>();
  const auto inode = description.Get<uint64_t>();
  if (!description.ok() || boot.empty() || boot != BootId()) return std::nullopt;
  if (!OnOneNetwork(pid)) return std::nullopt;
  const auto file = OpenPeerFile(pid, number, device, inode);
  if (!file || file->bytes != sizeof(Secret)) return std::nullopt;
  SameHostPeer found{.pid = pid};
  auto& secret = found.secret;
  const ssize_t read = pread(file->descriptor.get(), secret.data(), secret.size(), 0);
  return read == static_cast<ssize_t>(secret.size()) ? std::optional(found) : std::nullopt;
}

std::optional<PeerFile> OpenPeerFile(pid_t pid, int32_t number, uint64_t device, uint64_t inode) {
  // O_PATH first: it has no side effects, whatever the file is.
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  const Descriptor found(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat at {};
  if (!found.ok() || fstat(found.get(), &at) != 0 || !S_ISREG(at.st_mode) || at.st_uid != geteuid() ||
      at.st_dev != device || at.st_ino != inode) {
    return std::nullopt;
  }
  Descriptor file(open(("/proc/self/fd/" + std::to_string(found.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return std::nullopt;
  return PeerFile{std::move(file), static_cast<uint64_t>(at.st_size)};
}

}  // namespace leat::net
