#include "net/frames/frame.h"

#include <cstring>
#include <string>

namespace leat::wire {
namespace {

constexpr uint16_t kFrameMagic = 0x464c;  // "LF"
constexpr size_t kPrefixChecked = FramePrefix::kBytes - sizeof(uint32_t);

uint32_t Checksum32(ByteView bytes) {
  return static_cast<uint32_t>(Checksum(bytes));
}

Status MalformedFrame(std::string what) {
  return {Code::kDataLoss, std::move(what)};
}

}  // namespace

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
    return MalformedFrame("a frame's prefix of " + std::to_string(bytes.size()) + " bytes, expected " +
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
    return MalformedFrame("damaged frame prefix (wrong magic, type or checksum)");
  }
  if (prefix.header_bytes > max_header_bytes) {
    return MalformedFrame("a header of " + std::to_string(prefix.header_bytes) + " bytes, at most " +
                          std::to_string(max_header_bytes) + " are allowed");
  }
  if (prefix.payload_bytes > max_payload_bytes) {
    return MalformedFrame("a payload of " + std::to_string(prefix.payload_bytes) + " bytes, at most " +
                          std::to_string(max_payload_bytes) + " are allowed");
  }
  return prefix;
}

Status CheckHeader(const FramePrefix& prefix, ByteView header) {
  if (header.size() != prefix.header_bytes || Checksum32(header) != prefix.header_checksum) {
    return MalformedFrame("a frame's header does not match its checksum");
  }
  return {};
}

}  // namespace leat::wire
