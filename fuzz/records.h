// Splits a fuzzer's input into lines, as a batch of records.
#pragma once

#include <string_view>

#include "stream/source.h"

namespace leat::fuzz {

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
  batch.data.resize(batch.data.size() + stream::RecordBatch::kPadding);
  batch.data.shrink_to_fit();  // ASan then detects reads past the padding
  return batch;
}

}  // namespace leat::fuzz
