#include "net/frames/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/encoding/printable.h"
#include "net/frames/frame.h"

namespace leat::wire {
namespace {

constexpr std::string_view kMagic = "LEATWIRE";
// Labels of the two sides' proofs, at the beginning of the authenticated data. Both have one size.
constexpr std::string_view kConnectsLabel = "leat handshake: connects";
constexpr std::string_view kAcceptsLabel = "leat handshake: accepts ";
static_assert(kConnectsLabel.size() == kAcceptsLabel.size());

// Flag in the port's kind: the port requires TLS.
constexpr uint16_t kTlsRequired = 0x8000;

using Proof = std::array<std::byte, kProofBytes>;

Status WrongToken() {
  return {Code::kPermissionDenied, "the peer has the token of another job"};
}

// By number of the kind; the first: of others.
constexpr std::array kNames = {"an unknown role",
                               "a coordinator",
                               "a parameter server",
                               "a worker of an all-reduce group",
                               "a file transfer service",
                               "a feed",
                               "a pool"};
const char* Name(PortKind port_kind) {
  const auto number = static_cast<size_t>(port_kind);
  return kNames[number < kNames.size() ? number : 0];
}

// Both magic and version stand first in every version, and a hello and a challenge have the same size.
Bytes Begin(Side side, const Port& port, const Nonce& nonce) {
  ByteWriter out;
  out.PutRaw(AsBytes(kMagic));
  out.Put(kVersion);
  out.Put(static_cast<uint16_t>(side));
  out.Put(static_cast<uint16_t>(port.kind));
  out.Put(port.messages);
  out.PutRaw(nonce);
  return out.Take();
}

// `peer`: its version.
Status AnotherBuild(const std::string& peer, const Port& port) {
  return {Code::kFailedPrecondition, "the peer is of another build: it speaks " + peer + ", this program " +
                                         std::to_string(kVersion) + "-" + ToHex(port.messages) +
                                         "; run the same build on both sides"};
}

Result<Nonce> ReadBegin(ByteReader& in, Side side, const Port& port) {
  if (AsText(in.GetRaw(kMagic.size())) != kMagic)
    return Status(Code::kDataLoss, "the peer's first bytes are not a hello of Leat");
  const auto version = in.Get<uint32_t>();
  if (version != kVersion) return AnotherBuild(std::to_string(version), port);
  if (in.Get<uint16_t>() != static_cast<uint16_t>(side))
    return Status(Code::kDataLoss, "the peer's hello names the wrong side (connects, accepts)");
  const bool accepts = side == Side::kAccepts;
  const auto kind = in.Get<uint16_t>();
  if (accepts && (kind & kTlsRequired) != 0)
    return Status(Code::kFailedPrecondition, "the peer requires TLS; start this side with --security");
  if (const auto peer = static_cast<PortKind>(kind); peer != port.kind) {
    return Status(Code::kFailedPrecondition,
                  std::string("the port belongs to ") + Name(accepts ? peer : port.kind) +
                      ", the connection is for " + Name(accepts ? port.kind : peer));
  }
  const auto messages = in.Get<uint64_t>();
  if (messages != port.messages) return AnotherBuild(std::to_string(version) + "-" + ToHex(messages), port);
  Nonce nonce;
  std::ranges::copy(in.GetRaw(nonce.size()), nonce.begin());
  return nonce;
}

Proof MakeProof(Side side, const HandshakeContext& context, std::string_view token) {
  ByteWriter text;
  text.PutRaw(AsBytes(side == Side::kConnects ? kConnectsLabel : kAcceptsLabel));
  text.Put(kVersion);
  text.Put(context.port.kind);
  text.Put(context.port.messages);
  text.PutRaw(context.connects);
  text.PutRaw(context.accepts);
  if (context.session) text.PutRaw(*context.session);
  Proof proof;
  // With proofs that are not computed, all peers would agree.
  LEAT_CHECK(HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                  reinterpret_cast<const unsigned char*>(text.view().data()), text.size(),
                  reinterpret_cast<unsigned char*>(proof.data()), nullptr) != nullptr);
  return proof;
}

bool Same(ByteView bytes, const Proof& proof) {
  return bytes.size() == proof.size() && CRYPTO_memcmp(bytes.data(), proof.data(), proof.size()) == 0;
}

Bytes Challenge(const Port& port, const Nonce& nonce, const Proof& proof) {
  Bytes challenge = Begin(Side::kAccepts, port, nonce);
  challenge.insert(challenge.end(), proof.begin(), proof.end());
  return challenge;
}

}  // namespace

Bytes EncodeHello(const Port& port, const Nonce& nonce) {
  return Begin(Side::kConnects, port, nonce);
}

Result<Nonce> DecodeHello(ByteView hello, const Port& port) {
  if (hello.size() != kHelloBytes) return Status(Code::kDataLoss, "a hello of the wrong size");
  ByteReader in(hello);
  return ReadBegin(in, Side::kConnects, port);
}

Bytes EncodeChallenge(const HandshakeContext& context, std::string_view token) {
  return Challenge(context.port, context.accepts, MakeProof(Side::kAccepts, context, token));
}

Bytes EncodeMismatch(const Port& port) {
  return Challenge(port, Nonce{}, Proof{});
}

Bytes EncodeTlsRequired(const Port& port) {
  return EncodeMismatch(
      {static_cast<PortKind>(static_cast<uint32_t>(port.kind) | kTlsRequired), port.messages});
}

Result<Nonce> CheckChallenge(ByteView challenge, const HandshakeContext& context, std::string_view token) {
  if (challenge.size() != kChallengeBytes) return Status(Code::kDataLoss, "a challenge of the wrong size");
  ByteReader in(challenge);
  HandshakeContext with_peer = context;
  LEAT_ASSIGN_OR_RETURN(with_peer.accepts, ReadBegin(in, Side::kAccepts, context.port));
  if (!Same(in.GetRaw(kProofBytes), MakeProof(Side::kAccepts, with_peer, token))) return WrongToken();
  return with_peer.accepts;
}

Bytes EncodeProof(const HandshakeContext& context, std::string_view token) {
  const Proof proof = MakeProof(Side::kConnects, context, token);
  return {proof.begin(), proof.end()};
}

Status CheckProof(ByteView proof, const HandshakeContext& context, std::string_view token) {
  return Same(proof, MakeProof(Side::kConnects, context, token)) ? Status() : WrongToken();
}

Bytes EncodeVerdict(Verdict verdict) {
  ByteWriter out;
  out.Put(verdict);
  return out.Take();
}

Status DecodeVerdict(ByteView verdict) {
  ByteReader in(verdict);
  const auto given = in.Get<Verdict>();
  if (!in.Done()) return {Code::kDataLoss, "a verdict of the wrong size"};
  switch (given) {
    case Verdict::kAdmitted:
      return {};
    case Verdict::kWrongToken:
      return WrongToken();
    case Verdict::kTooManyConnections:
      return {Code::kResourceExhausted, "the peer has too many connections"};
  }
  return {Code::kDataLoss, "unknown verdict " + std::to_string(static_cast<uint32_t>(given))};
}

}  // namespace leat::wire
