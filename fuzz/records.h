// A fuzzer's input as a batch of records.
#pragma once

#include <string_view>

#include "stream/source.h"

namespace leat::fuzz {

inline void Pad(stream::RecordBatch* batch) {
  batch->data.resize(batch->data.size() + stream::RecordBatch::kPadding);
  batch->data.shrink_to_fit();  // ASan then detects reads past the padding
}

// A batch of a single record.
inline stream::RecordBatch RecordOf(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  stream::RecordBatch batch;
  batch.data.assign(bytes, bytes + size);
  batch.offsets.push_back(size);
  Pad(&batch);
  return batch;
}

// A batch with a record for each line.
inline stream::RecordBatch RecordsOf(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  stream::RecordBatch batch;
  for (;;) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const ByteView bytes = AsBytes(line);
    batch.data.insert(batch.data.end(), bytes.begin(), bytes.end());
    batch.offsets.push_back(batch.data.size());
    if (line.size() == text.size()) break;
    text.remove_prefix(line.size() + 1);
  }
  Pad(&batch);
  return batch;
}

}  // namespace leat::fuzz
