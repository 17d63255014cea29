#include "wire/frame.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <cstring>
#include <string>

namespace leat::wire {
namespace {

constexpr std::string_view kMagic = "LEATWIRE";
constexpr uint16_t kFrameMagic = 0x464c;  // "LF"
constexpr size_t kPrefixChecked = FramePrefix::kBytes - sizeof(uint32_t);

uint32_t Checksum32(ByteView bytes) {
  return static_cast<uint32_t>(Checksum(bytes));
}

Bytes Hello(Side side, ByteView digest) {
  ByteWriter out;
  out.PutRaw(AsBytes(kMagic));
  out.Put(kVersion);
  out.Put(static_cast<uint32_t>(side));
  out.PutRaw(digest);
  return out.Take();
}

Status Malformed(std::string what) {
  return {Code::kDataLoss, std::move(what)};
}

}  // namespace

Bytes EncodeHello(std::string_view token, Side side) {
  std::string secret(1, static_cast<char>(side));
  secret += token;
  std::byte digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
         reinterpret_cast<unsigned char*>(digest));
  return Hello(side, digest);
}

Bytes EncodeRefusal() {
  return Hello(Side::kAccepts, Bytes(SHA256_DIGEST_LENGTH));
}

Status CheckHello(ByteView hello, std::string_view token, Side side) {
  ByteReader in(hello);
  if (hello.size() != kHelloBytes || AsText(in.GetRaw(kMagic.size())) != kMagic) {
    return Malformed("the peer's first bytes are not a hello of Leat");
  }
  if (const auto version = in.Get<uint32_t>(); version != kVersion) {
    return Malformed("wire version " + std::to_string(version) + ", this program speaks " +
                     std::to_string(kVersion));
  }
  if (in.Get<uint32_t>() != static_cast<uint32_t>(side))
    return Malformed("the peer's hello names the wrong side (connects, accepts)");
  const Bytes expected = EncodeHello(token, side);
  if (CRYPTO_memcmp(hello.data(), expected.data(), kHelloBytes) != 0) {
    return {Code::kPermissionDenied, "the peer has the token of another job"};
  }
  return {};
}

FramePrefix MakePrefix(uint8_t type, ByteView header, uint64_t payload_bytes) {
  return {.type = type,
          .header_bytes = static_cast<uint32_t>(header.size()),
          .header_checksum = Checksum32(header),
          .payload_bytes = payload_bytes};
}

void EncodePrefix(const FramePrefix& prefix, std::byte* out) {
  const uint16_t type = prefix.type;
  std::memcpy(out, &kFrameMagic, 2);
  std::memcpy(out + 2, &type, 2);
  std::memcpy(out + 4, &prefix.header_bytes, 4);
  std::memcpy(out + 8, &prefix.payload_bytes, 8);
  std::memcpy(out + 16, &prefix.header_checksum, 4);
  const uint32_t checksum = Checksum32({out, kPrefixChecked});
  std::memcpy(out + kPrefixChecked, &checksum, 4);
}

Result<FramePrefix> DecodePrefix(ByteView bytes, uint32_t max_header_bytes, uint64_t max_payload_bytes) {
  if (bytes.size() != FramePrefix::kBytes)
    return Malformed("a frame's prefix of " + std::to_string(bytes.size()) + " bytes, expected " +
                     std::to_string(FramePrefix::kBytes));
  ByteReader in(bytes);
  const auto magic = in.Get<uint16_t>();
  const auto type = in.Get<uint16_t>();
  FramePrefix prefix;
  prefix.type = static_cast<uint8_t>(type);
  prefix.header_bytes = in.Get<uint32_t>();
  prefix.payload_bytes = in.Get<uint64_t>();
  prefix.header_checksum = in.Get<uint32_t>();
  if (magic != kFrameMagic || in.Get<uint32_t>() != Checksum32(bytes.first(kPrefixChecked)) || type > 0xff) {
    return Malformed("damaged frame prefix (wrong magic, type or checksum)");
  }
  if (prefix.header_bytes > max_header_bytes) {
    return Malformed("a header of " + std::to_string(prefix.header_bytes) + " bytes, at most " +
                     std::to_string(max_header_bytes) + " are allowed");
  }
  if (prefix.payload_bytes > max_payload_bytes) {
    return Malformed("a payload of " + std::to_string(prefix.payload_bytes) + " bytes, at most " +
                     std::to_string(max_payload_bytes) + " are allowed");
  }
  return prefix;
}

Status CheckHeader(const FramePrefix& prefix, ByteView header) {
  if (header.size() != prefix.header_bytes || Checksum32(header) != prefix.header_checksum) {
    return Malformed("a frame's header does not match its checksum");
  }
  return {};
}

}  // namespace leat::wire
