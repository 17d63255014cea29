#include "wire/handshake.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/hex.h"
#include "base/rng.h"
#include "wire/frame.h"

namespace leat::wire {
namespace {

constexpr std::array kPortKinds = {PortKind::kControl, PortKind::kServer, PortKind::kMember,
                                   PortKind::kTransfer};

Nonce RandomNonce(Rng& rng) {
  Nonce nonce;
  for (auto& byte : nonce) byte = static_cast<std::byte>(rng());
  return nonce;
}

class HandshakeTest : public ::testing::Test {
 protected:
  Rng rng{1};
  const HandshakeContext context{
      .port_kind = PortKind::kServer, .connects = RandomNonce(rng), .accepts = RandomNonce(rng)};
};

// Computed with Python's hmac.
TEST_F(HandshakeTest, ProofsAreTheDocumentedFunction) {
  HandshakeContext known{.port_kind = PortKind::kControl, .connects = {}, .accepts = {}};
  known.connects.fill(std::byte{1});
  known.accepts.fill(std::byte{2});
  EXPECT_EQ(ToHex(EncodeProof(known, "secret")),
            "47acfadf44e74473fbcec788cbe1ee04ec719c44ccaa2eb282d202cd0ebf09d1");
  EXPECT_EQ(ToHex(ByteView(EncodeChallenge(known, "secret")).subspan(48)),
            "6c874d0cbd5fda698c894ee54459a3229b7fb16efcbd89e89abea150c3975252");
}

TEST_F(HandshakeTest, BothSidesWithTheTokenAgree) {
  for (const PortKind port_kind : kPortKinds) {
    for (const char* token : {"", "secret"}) {
      const Bytes hello = EncodeHello(port_kind, context.connects);
      ASSERT_EQ(hello.size(), kHelloBytes);
      const auto connects = DecodeHello(hello, port_kind);
      ASSERT_TRUE(connects.ok()) << connects.status().ToString();
      EXPECT_EQ(*connects, context.connects);
      const HandshakeContext at_listener{
          .port_kind = port_kind, .connects = *connects, .accepts = context.accepts};
      const Bytes challenge = EncodeChallenge(at_listener, token);
      ASSERT_EQ(challenge.size(), kChallengeBytes);
      HandshakeContext at_caller{.port_kind = port_kind, .connects = context.connects, .accepts = {}};
      const auto accepts = CheckChallenge(challenge, at_caller, token);
      ASSERT_TRUE(accepts.ok()) << accepts.status().ToString();
      at_caller.accepts = *accepts;
      const Bytes proof = EncodeProof(at_caller, token);
      ASSERT_EQ(proof.size(), kProofBytes);
      EXPECT_TRUE(CheckProof(proof, at_listener, token).ok());
    }
  }
}

TEST_F(HandshakeTest, AnotherTokenIsRefused) {
  for (const char* token : {"", "secret2", "SECRET", "s"}) {
    EXPECT_EQ(CheckChallenge(EncodeChallenge(context, token), context, "secret").status().code(),
              Code::kPermissionDenied);
    EXPECT_EQ(CheckProof(EncodeProof(context, token), context, "secret").code(), Code::kPermissionDenied);
  }
}

TEST_F(HandshakeTest, ProofsHoldForTheirTlsSessionOnly) {
  HandshakeContext here = context;
  here.session = RandomNonce(rng);
  HandshakeContext other = context;
  other.session = RandomNonce(rng);
  EXPECT_TRUE(CheckProof(EncodeProof(here, "secret"), here, "secret").ok());
  EXPECT_TRUE(CheckChallenge(EncodeChallenge(here, "secret"), here, "secret").ok());
  for (const HandshakeContext& there : {other, context}) {
    EXPECT_EQ(CheckProof(EncodeProof(here, "secret"), there, "secret").code(), Code::kPermissionDenied);
    EXPECT_EQ(CheckChallenge(EncodeChallenge(here, "secret"), there, "secret").status().code(),
              Code::kPermissionDenied);
  }
}

TEST_F(HandshakeTest, APortThatRequiresTlsSaysSo) {
  for (const PortKind port_kind : kPortKinds) {
    const Bytes answer = EncodeTlsRequired(port_kind);
    ASSERT_EQ(answer.size(), kChallengeBytes);
    const auto status = CheckChallenge(answer, {.port_kind = port_kind}, "secret").status();
    EXPECT_EQ(status.code(), Code::kFailedPrecondition);
    EXPECT_EQ(status.message(), "the peer requires TLS; start this side with --security");
  }
}

TEST_F(HandshakeTest, ProofsHoldForTheirNoncesOnly) {
  for (int which = 0; which < 2; ++which) {
    HandshakeContext other = context;
    (which == 0 ? other.connects : other.accepts) = RandomNonce(rng);
    EXPECT_EQ(CheckProof(EncodeProof(other, "t"), context, "t").code(), Code::kPermissionDenied) << which;
    Bytes challenge = EncodeChallenge(other, "t");
    std::ranges::copy(context.accepts, challenge.begin() + 16);
    EXPECT_EQ(CheckChallenge(challenge, context, "t").status().code(), Code::kPermissionDenied) << which;
  }
}

TEST_F(HandshakeTest, AReturnedProofProvesNothing) {
  const Bytes challenge = EncodeChallenge(context, "t");
  EXPECT_FALSE(CheckProof(ByteView(challenge).subspan(48), context, "t").ok());
  Bytes returned = challenge;
  std::ranges::copy(EncodeProof(context, "t"), returned.begin() + 48);
  EXPECT_EQ(CheckChallenge(returned, context, "t").status().code(), Code::kPermissionDenied);
  // The listener's hello is not a caller's.
  EXPECT_EQ(DecodeHello(ByteView(challenge).first(kHelloBytes), context.port_kind).status().code(),
            Code::kDataLoss);
}

TEST_F(HandshakeTest, AProofForOneKindOfPortIsUselessAtAnother) {
  for (const PortKind from : kPortKinds) {
    for (const PortKind to : kPortKinds) {
      if (from == to) continue;
      HandshakeContext there = context;
      there.port_kind = from;
      HandshakeContext here = context;
      here.port_kind = to;
      // As they are, they are named; with a changed name, the proof does not hold.
      Bytes hello = EncodeHello(from, context.connects);
      EXPECT_EQ(DecodeHello(hello, to).status().code(), Code::kFailedPrecondition);
      Bytes challenge = EncodeChallenge(there, "t");
      EXPECT_EQ(CheckChallenge(challenge, here, "t").status().code(), Code::kFailedPrecondition);
      challenge[14] = static_cast<std::byte>(to);
      EXPECT_EQ(CheckChallenge(challenge, here, "t").status().code(), Code::kPermissionDenied);
      EXPECT_EQ(CheckProof(EncodeProof(there, "t"), here, "t").code(), Code::kPermissionDenied);
    }
  }
}

TEST_F(HandshakeTest, AMismatchIsNamedAndProvesNothing) {
  const Bytes mismatch = EncodeMismatch(PortKind::kControl);
  ASSERT_EQ(mismatch.size(), kChallengeBytes);
  const auto wrong_port = CheckChallenge(mismatch, context, "t").status();
  EXPECT_EQ(wrong_port.code(), Code::kFailedPrecondition);
  EXPECT_EQ(wrong_port.message(),
            "the port belongs to a coordinator, the connection is for a parameter server");
  Bytes old = EncodeMismatch(context.port_kind);
  old[8] = std::byte{2};
  const auto version = CheckChallenge(old, context, "t").status();
  EXPECT_EQ(version.code(), Code::kFailedPrecondition);
  EXPECT_EQ(version.message(),
            "the peer speaks wire version 2, this program speaks " + std::to_string(kVersion));
  EXPECT_EQ(CheckChallenge(EncodeMismatch(context.port_kind), context, "").status().code(),
            Code::kPermissionDenied);
}

TEST_F(HandshakeTest, EveryFlippedBitAndEveryOtherSizeIsRefused) {
  const Bytes hello = EncodeHello(context.port_kind, context.connects);
  const Bytes challenge = EncodeChallenge(context, "t");
  const Bytes proof = EncodeProof(context, "t");
  const auto challenge_holds = [&](ByteView bytes) { return CheckChallenge(bytes, context, "t").ok(); };
  const auto proof_holds = [&](ByteView bytes) { return CheckProof(bytes, context, "t").ok(); };
  const auto flip = [](Bytes bytes, size_t bit) {
    bytes[bit / 8] ^= std::byte(1u << (bit % 8));
    return bytes;
  };
  ASSERT_TRUE(challenge_holds(challenge) && proof_holds(proof));
  for (size_t bit = 0; bit < 8 * kChallengeBytes; ++bit) EXPECT_FALSE(challenge_holds(flip(challenge, bit)));
  for (size_t bit = 0; bit < 8 * kProofBytes; ++bit) EXPECT_FALSE(proof_holds(flip(proof, bit)));
  for (size_t bit = 0; bit < 8 * 16; ++bit)
    EXPECT_FALSE(DecodeHello(flip(hello, bit), context.port_kind).ok());
  for (size_t size = 0; size <= 100; ++size) {
    Bytes bytes(size);
    if (size != kHelloBytes) {
      EXPECT_EQ(DecodeHello(bytes, context.port_kind).status().code(), Code::kDataLoss);
    }
    std::ranges::copy_n(challenge.begin(), static_cast<ptrdiff_t>(std::min(size, kChallengeBytes)),
                        bytes.begin());
    EXPECT_EQ(challenge_holds(bytes), size == kChallengeBytes);
    std::ranges::copy_n(proof.begin(), static_cast<ptrdiff_t>(std::min(size, kProofBytes)), bytes.begin());
    EXPECT_EQ(proof_holds(bytes), size == kProofBytes);
  }
}

TEST_F(HandshakeTest, TheTokenItselfDoesNotTravel) {
  for (const Bytes& message : {EncodeChallenge(context, "0123456789"), EncodeProof(context, "0123456789")}) {
    EXPECT_EQ(AsText(message).find("0123"), std::string_view::npos);
  }
}

TEST_F(HandshakeTest, Verdicts) {
  EXPECT_TRUE(DecodeVerdict(EncodeVerdict(Verdict::kAdmitted)).ok());
  EXPECT_EQ(DecodeVerdict(EncodeVerdict(Verdict::kWrongToken)).code(), Code::kPermissionDenied);
  EXPECT_EQ(DecodeVerdict(EncodeVerdict(Verdict::kTooManyConnections)).code(), Code::kResourceExhausted);
  EXPECT_EQ(DecodeVerdict(EncodeVerdict(static_cast<Verdict>(7))).code(), Code::kDataLoss);
  EXPECT_EQ(DecodeVerdict(Bytes(3)).code(), Code::kDataLoss);
  EXPECT_EQ(DecodeVerdict(Bytes(5)).code(), Code::kDataLoss);
}

}  // namespace
}  // namespace leat::wire
