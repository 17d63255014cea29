// Definitions shared by writer, source and creation of an embedded log: file names, tables, and the layout of
// a chunk (docs/formats/log.md).
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
inline constexpr uint64_t kPageBytes = 16384;
// Limits of a chunk; a larger record has a chunk of its own.
inline constexpr size_t kChunkRecords = 16384;
inline constexpr size_t kChunkBytes = 1 << 20;

Status CheckTopicName(const std::string& topic);
std::string TopicPath(const std::string& directory, const std::string& topic);
std::string PartitionPath(const std::string& topic_path, uint32_t partition);
// "topic 'clicks' partition 3"
std::string PartitionName(const std::string& topic, uint32_t partition);

// The options of a topic: the single row of the table `topic`.
struct LogTopic {
  uint32_t partition = 0;
  uint32_t partitions = 0;
  uint64_t retention_bytes = 0;
  int64_t retention_ms = 0;
  bool take_unpinned = false;
};

// Opens a partition of an existing topic and checks that it is a log of this version.
Result<Database> OpenPartition(const std::string& path, LogTopic* topic);
// Opens all partitions; kNotFound with directory and topic if the first is missing.
Result<std::vector<Database>> OpenPartitions(const std::string& directory, const std::string& topic,
                                             LogTopic* made);

// The topic's random id, in the database of its partition 0. 0: the topic was made before topics had one.
Result<uint64_t> ReadTopicId(Database& db);
// Gives the topic an id if it has none.
Status EnsureTopicId(Database& db);

// Checksum of a chunk: the u32 length of each record, then their bytes. It also covers the offset, so that a
// chunk moved to another offset is detected.
uint64_t ChunkChecksum(uint64_t base, std::span<const uint32_t> lengths, ByteView data);

}  // namespace leat::stream
