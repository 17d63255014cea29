#include "observe/tensorboard/records.h"

#include <array>

namespace leat::tensorboard {
namespace {

// By the next byte: of the polynomial 0x1edc6f41, with its bits reversed.
constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t rest = i;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? 0x82f63b78u : 0u);
    table[i] = rest;
  }
  return table;
}();

}  // namespace

uint32_t Crc32c(ByteView bytes) {
  uint32_t crc = ~0u;
  for (const std::byte b : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint32_t>(b)) & 0xff];
  return ~crc;
}

uint32_t MaskedCrc32c(ByteView bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void AppendRecord(ByteView data, std::string* file) {
  ByteWriter length;
  length.Put(uint64_t{data.size()});
  ByteWriter head;
  head.PutRaw(length.view());
  head.Put(MaskedCrc32c(length.view()));
  ByteWriter tail;
  tail.Put(MaskedCrc32c(data));
  file->append(AsText(head.view())).append(AsText(data)).append(AsText(tail.view()));
}

Result<std::vector<ByteView>> ReadRecords(ByteView file, const std::string& path) {
  std::vector<ByteView> records;
  ByteReader in(file);
  while (in.remaining() > 0) {
    const std::string where = path + ": record " + std::to_string(records.size());
    const ByteView length = in.GetRaw(sizeof(uint64_t));
    const auto length_checksum = in.Get<uint32_t>();
    if (!in.ok()) return Status(Code::kDataLoss, where + " is cut off");
    if (length_checksum != MaskedCrc32c(length))
      return Status(Code::kDataLoss, where + ": the checksum of its length is wrong");
    const ByteView data = in.GetRaw(ByteReader(length).Get<uint64_t>());
    const auto data_checksum = in.Get<uint32_t>();
    if (!in.ok()) return Status(Code::kDataLoss, where + " is cut off");
    if (data_checksum != MaskedCrc32c(data))
      return Status(Code::kDataLoss, where + ": the checksum of its data is wrong");
    records.push_back(data);
  }
  return records;
}

}  // namespace leat::tensorboard
