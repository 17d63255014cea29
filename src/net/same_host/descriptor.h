// Files that other processes have open.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "base/files/descriptor.h"

namespace leat::net {

using leat::Descriptor;

struct PeerFile {
  Descriptor descriptor;  // read-only
  uint64_t bytes = 0;
};
// Opens the file that process `pid` claims to have open as descriptor `number`. Returns none unless it is a
// regular file of this user with the given device and inode.
std::optional<PeerFile> OpenPeerFile(pid_t pid, int32_t number, uint64_t device, uint64_t inode);

}  // namespace leat::net
