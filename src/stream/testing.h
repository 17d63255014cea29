// Helpers of this folder's tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "stream/source.h"

namespace leat::stream {

class TempDir {
 public:
  TempDir() {
    std::string path = (std::filesystem::temp_directory_path() / "leat-stream-XXXXXX").string();
    if (::mkdtemp(path.data())) path_ = path;
  }
  ~TempDir() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// Records as one batch, padded as a source would.
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
