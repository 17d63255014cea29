// Helpers for tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/testing.h"
#include "stream/source.h"

namespace leat::stream {

// Records as one batch, padded like a source's.
inline RecordBatch BatchOf(const std::vector<std::string>& records, uint64_t first_offset = 0) {
  RecordBatch batch;
  batch.first_offset = first_offset;
  for (const std::string& record : records) {
    const ByteView bytes = AsBytes(record);
    batch.data.insert(batch.data.end(), bytes.begin(), bytes.end());
    batch.offsets.push_back(batch.data.size());
  }
  batch.data.resize(batch.data.size() + RecordBatch::kPadding);
  return batch;
}

inline std::vector<std::string> TextsOf(const RecordBatch& batch) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < batch.size(); ++i) texts.emplace_back(AsText(batch[i]));
  return texts;
}

}  // namespace leat::stream
