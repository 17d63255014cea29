// The handshake that begins a connection: both sides prove that they know the job's token, by HMAC-SHA-256
// over a fresh nonce of each side. The accepting side proves itself first. docs/formats/frame.md has the
// grammar.
//
//   connecting side                       accepting side
//     hello      nonce              -->
//                                   <--     challenge  nonce, proof
//     proof                         -->
//                                   <--     verdict
//
// A recorded message is useless on another connection, because its nonces differ. A proof names its side and
// the kind of port, so it cannot be returned to its sender, or used at a port of another kind. With TLS
// below, it covers a secret of that session, so it proves nothing to the other side of someone who forwards
// it. Without TLS, someone who forwards the messages of both sides is not detected.
//
// All messages have a fixed size, so no length from an unauthenticated peer is used. The functions are pure
// and thread-safe. Proofs are compared in constant time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::wire {

// Kinds of ports by their service: the control plane of a coordinator, a server's tensor plane, that of a
// member of an all-reduce group, file transfers, that of a feed, or a pool.
enum class PortKind : uint32_t {
  kControl = 1,
  kServer = 2,
  kMember = 3,
  kTransfer = 4,
  kFeed = 5,
  kPool = 6
};

// A port: what it serves, and a hash of the messages that this program speaks there (fields::HashOf). A peer
// with another hash is of another build, and is refused.
struct Port {
  PortKind kind = PortKind::kServer;
  uint64_t messages = 0;
};

enum class Side : uint8_t { kConnects = 1, kAccepts = 2 };

using Nonce = std::array<std::byte, 24>;
using SessionSecret = std::array<std::byte, 32>;

// Values that both sides know before they prove the token.
struct HandshakeContext {
  Port port;
  Nonce connects{};  // the nonce of the connecting side
  Nonce accepts{};
  std::optional<SessionSecret> session{};  // secret of the TLS session below; none: no TLS
};

constexpr size_t kHelloBytes = 48;
constexpr size_t kChallengeBytes = 80;
constexpr size_t kProofBytes = 32;
constexpr size_t kVerdictBytes = 4;

enum class Verdict : uint32_t { kAdmitted = 0, kWrongToken = 1, kTooManyConnections = 2 };

Bytes EncodeHello(const Port& port, const Nonce& nonce);
// Returns the peer's nonce. Returns kFailedPrecondition for a hello of another build or kind of port,
// kDataLoss for anything else that is not a hello.
Result<Nonce> DecodeHello(ByteView hello, const Port& port);

Bytes EncodeChallenge(const HandshakeContext& context, std::string_view token);
// The answer to a hello that DecodeHello returns kFailedPrecondition for: a challenge of zeros, which tells
// the peer the version, kind and messages of this port and proves nothing.
Bytes EncodeMismatch(const Port& port);
// The same for a peer without TLS at a port that requires it.
Bytes EncodeTlsRequired(const Port& port);
// Returns the peer's nonce after its proof has been verified. `context->accepts` is not used. Returns
// kPermissionDenied for a peer with another token, otherwise as DecodeHello.
Result<Nonce> CheckChallenge(ByteView challenge, const HandshakeContext& context, std::string_view token);

// The proof of the connecting side.
Bytes EncodeProof(const HandshakeContext& context, std::string_view token);
// Returns kPermissionDenied for a peer with another token.
Status CheckProof(ByteView proof, const HandshakeContext& context, std::string_view token);

Bytes EncodeVerdict(Verdict verdict);
// Returns ok if the peer admits this side, otherwise kPermissionDenied, kResourceExhausted (too many
// connections) or kDataLoss.
Status DecodeVerdict(ByteView verdict);

}  // namespace leat::wire
