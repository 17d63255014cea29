#include "net/frames/handshake.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/encoding/printable.h"
#include "base/rng.h"
#include "net/frames/frame.h"

namespace leat::wire {
namespace {

constexpr uint64_t kMessages = 0x0123456789abcdef;
constexpr std::array<Port, 4> kPorts = {{{PortKind::kControl, kMessages},
                                         {PortKind::kServer, kMessages},
                                         {PortKind::kMember, kMessages},
                                         {PortKind::kTransfer, kMessages}}};

template <class T = Nonce>
T RandomNonce(Rng& rng) {
  T nonce;
  for (auto& byte : nonce) byte = static_cast<std::byte>(rng());
  return nonce;
}

class HandshakeTest : public ::testing::Test {
 protected:
  Rng rng{1};
  const HandshakeContext context{
      .port = {PortKind::kServer, kMessages}, .connects = RandomNonce(rng), .accepts = RandomNonce(rng)};
};

// Computed with Python's hmac.
TEST_F(HandshakeTest, ProofsAreTheDocumentedFunction) {
  HandshakeContext known{.port = {PortKind::kControl, kMessages}, .connects = {}, .accepts = {}};
  known.connects.fill(std::byte{1});
  known.accepts.fill(std::byte{2});
  EXPECT_EQ(ToHex(EncodeProof(known, "secret")),
            "7bd8722c5c4387b8b7b5b7b538f7b3dd1321a264f195d6f099fdd34168336b29");
  EXPECT_EQ(ToHex(ByteView(EncodeChallenge(known, "secret")).subspan(48)),
            "cd993ba95d3d1436aeff432cd7266d164e4ca50e7941867ae374198124c4d208");
}

TEST_F(HandshakeTest, BothSidesWithTheTokenAgree) {
  for (const Port& port : kPorts) {
    for (const char* token : {"", "secret"}) {
      const Bytes hello = EncodeHello(port, context.connects);
      ASSERT_EQ(hello.size(), kHelloBytes);
      const auto connects = DecodeHello(hello, port);
      ASSERT_TRUE(connects.ok()) << connects.status().ToString();
      EXPECT_EQ(*connects, context.connects);
      const HandshakeContext at_listener{.port = port, .connects = *connects, .accepts = context.accepts};
      const Bytes challenge = EncodeChallenge(at_listener, token);
      ASSERT_EQ(challenge.size(), kChallengeBytes);
      HandshakeContext at_caller{.port = port, .connects = context.connects, .accepts = {}};
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
  here.session = RandomNonce<SessionSecret>(rng);
  HandshakeContext other = context;
  other.session = RandomNonce<SessionSecret>(rng);
  EXPECT_TRUE(CheckProof(EncodeProof(here, "secret"), here, "secret").ok());
  EXPECT_TRUE(CheckChallenge(EncodeChallenge(here, "secret"), here, "secret").ok());
  for (const HandshakeContext& there : {other, context}) {
    EXPECT_EQ(CheckProof(EncodeProof(here, "secret"), there, "secret").code(), Code::kPermissionDenied);
    EXPECT_EQ(CheckChallenge(EncodeChallenge(here, "secret"), there, "secret").status().code(),
              Code::kPermissionDenied);
  }
}

TEST_F(HandshakeTest, APortThatRequiresTlsSaysSo) {
  for (const Port& port : kPorts) {
    const Bytes answer = EncodeTlsRequired(port);
    ASSERT_EQ(answer.size(), kChallengeBytes);
    const auto status = CheckChallenge(answer, {.port = port}, "secret").status();
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
    std::ranges::copy(context.accepts, challenge.begin() + 24);
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
  EXPECT_EQ(DecodeHello(ByteView(challenge).first(kHelloBytes), context.port).status().code(),
            Code::kDataLoss);
}

TEST_F(HandshakeTest, AProofForOneKindOfPortIsUselessAtAnother) {
  for (const Port& from : kPorts) {
    for (const Port& to : kPorts) {
      if (from.kind == to.kind) continue;
      HandshakeContext there = context;
      there.port = from;
      HandshakeContext here = context;
      here.port = to;
      // As they are, they are named; with a changed name, the proof does not hold.
      Bytes hello = EncodeHello(from, context.connects);
      EXPECT_EQ(DecodeHello(hello, to).status().code(), Code::kFailedPrecondition);
      Bytes challenge = EncodeChallenge(there, "t");
      EXPECT_EQ(CheckChallenge(challenge, here, "t").status().code(), Code::kFailedPrecondition);
      challenge[14] = static_cast<std::byte>(to.kind);
      EXPECT_EQ(CheckChallenge(challenge, here, "t").status().code(), Code::kPermissionDenied);
      EXPECT_EQ(CheckProof(EncodeProof(there, "t"), here, "t").code(), Code::kPermissionDenied);
    }
  }
}

TEST_F(HandshakeTest, AMismatchIsNamedAndProvesNothing) {
  const Bytes mismatch = EncodeMismatch({PortKind::kControl, kMessages});
  ASSERT_EQ(mismatch.size(), kChallengeBytes);
  const auto wrong_port = CheckChallenge(mismatch, context, "t").status();
  EXPECT_EQ(wrong_port.code(), Code::kFailedPrecondition);
  EXPECT_EQ(wrong_port.message(),
            "the port belongs to a coordinator, the connection is for a parameter server");
  Bytes old = EncodeMismatch(context.port);
  old[8] = std::byte{2};
  const auto version = CheckChallenge(old, context, "t").status();
  EXPECT_EQ(version.code(), Code::kFailedPrecondition);
  EXPECT_EQ(
      version.message(),
      "the peer is of another build: it speaks 2, this program 6-0123456789abcdef; run the same build on "
      "both sides");
  EXPECT_EQ(CheckChallenge(EncodeMismatch(context.port), context, "").status().code(),
            Code::kPermissionDenied);
}

TEST_F(HandshakeTest, AnotherBuildIsRefusedOnBothSides) {
  HandshakeContext there = context;
  there.port.messages = 0xab;
  const std::string other = "6-00000000000000ab", here = "6-0123456789abcdef",
                    refused = "the peer is of another build: it speaks " + other + ", this program " + here +
                              "; run the same build on both sides";
  const auto hello = DecodeHello(EncodeHello(there.port, there.connects), context.port).status();
  EXPECT_EQ(hello.code(), Code::kFailedPrecondition);
  EXPECT_EQ(hello.message(), refused);
  for (const Bytes& answer : {EncodeMismatch(there.port), EncodeChallenge(there, "t")}) {
    const auto challenge = CheckChallenge(answer, context, "t").status();
    EXPECT_EQ(challenge.code(), Code::kFailedPrecondition);
    EXPECT_EQ(challenge.message(), refused);
  }
  // With a changed hash, the proof does not hold.
  Bytes forged = EncodeChallenge(there, "t");
  std::ranges::copy(ByteView(EncodeMismatch(context.port)).subspan(16, 8), forged.begin() + 16);
  EXPECT_EQ(CheckChallenge(forged, context, "t").status().code(), Code::kPermissionDenied);
  EXPECT_EQ(CheckProof(EncodeProof(there, "t"), context, "t").code(), Code::kPermissionDenied);
}

TEST_F(HandshakeTest, EveryFlippedBitAndEveryOtherSizeIsRefused) {
  const Bytes hello = EncodeHello(context.port, context.connects);
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
  for (size_t bit = 0; bit < 8 * 24; ++bit) EXPECT_FALSE(DecodeHello(flip(hello, bit), context.port).ok());
  for (size_t size = 0; size <= 100; ++size) {
    Bytes bytes(size);
    if (size != kHelloBytes) {
      EXPECT_EQ(DecodeHello(bytes, context.port).status().code(), Code::kDataLoss);
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
