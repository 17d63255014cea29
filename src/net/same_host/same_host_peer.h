// Decides whether two processes connected by a socket may share memory. They must run on one host, in one
// network namespace, under one user, and see each other's processes. Each process proves this by reading a
// secret from the other's open file.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/files/descriptor.h"

namespace leat::net {

using leat::Descriptor;

// A file that another process has open.
struct PeerFile {
  Descriptor descriptor;  // read-only
  uint64_t bytes = 0;
};
// Opens the file that process `pid` claims to have open as descriptor `number`. Returns none unless it is a
// regular file of this user with the given device and inode.
std::optional<PeerFile> OpenPeerFile(pid_t pid, int32_t number, uint64_t device, uint64_t inode);

using Secret = std::array<std::byte, 16>;

// A random secret in a file that processes of the same user can open. Thread-safe.
class SameHostProof {
 public:
  SameHostProof();  // never throws; without system support nobody can read the secret

  void Describe(ByteWriter& out) const;
  bool Is(const Secret& secret) const { return file_.ok() && secret == secret_; }

 private:
  Descriptor file_;
  Secret secret_{};
};

struct SameHostPeer {
  pid_t pid = 0;
  Secret secret{};
};
// Reads the output of Describe and opens the secret of that process. Returns none if the process cannot be
// reached from here or the description is invalid.
std::optional<SameHostPeer> FindSameHostPeer(ByteReader& description);

}  // namespace leat::net
