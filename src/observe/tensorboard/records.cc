#include "observe/tensorboard/records.h"

#include "base/encoding/crc32c.h"

namespace leat::tensorboard {

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
