// What writer, source and maker of an embedded log share: names of files, tables, and the layout of a chunk
// (docs/formats/log.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "stream/log/sqlite.h"

namespace leat::stream {

inline constexpr int64_t kLogApplicationId = 0x4c656174;  // "Leat"
inline constexpr int64_t kLogVersion = 1;
// A chunk is closed before it has more records or bytes than this; one larger record is a chunk by itself.
inline constexpr size_t kChunkRecords = 16384;
inline constexpr size_t kChunkBytes = 1 << 20;

Status CheckTopicName(const std::string& topic);
std::string TopicPath(const std::string& directory, const std::string& topic);
std::string PartitionPath(const std::string& topic_path, uint32_t partition);

// How a topic was made: the single row of the table `topic`.
struct LogTopic {
  uint32_t partition = 0;
  uint32_t partitions = 0;
  uint64_t retention_bytes = 0;
  int64_t retention_ms = 0;
  bool take_unpinned = false;
};

// Opens a partition of a topic that is there, checks that it is a log of this version.
Result<Database> OpenPartition(const std::string& path, LogTopic* topic);
// Opens all; kNotFound naming directory and topic when the first is missing.
Result<std::vector<Database>> OpenPartitions(const std::string& directory, const std::string& topic,
                                             LogTopic* made);

// A chunk's records: the length of each as u32, then their bytes one after the other. The checksum covers
// both and the place, so that a chunk that slipped to another offset is noticed.
uint64_t ChunkChecksum(uint64_t base, std::span<const uint32_t> lengths, ByteView data);

}  // namespace leat::stream
