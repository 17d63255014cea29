// Whether two processes that talk over a socket may share memory: they run on one host, in one network
// namespace, see each other's processes, and belong to one user. Nobody's word is taken for it: each shows
// where in the other's reach a secret lies, and only who can open it there can say what it is.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "net/same_host/descriptor.h"

namespace leat::net {

using Secret = std::array<std::byte, 16>;

// A secret in memory that this process shares with whoever may open its descriptors. Thread-safe.
class SameHostProof {
 public:
  SameHostProof();  // never throws: without the means for it nobody finds the secret

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
// The process that described its secret, and that; none when it cannot be reached from here, or is no such
// thing. Reads what Describe wrote.
std::optional<SameHostPeer> FindSameHostPeer(ByteReader& description);

}  // namespace leat::net
