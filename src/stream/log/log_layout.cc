#include "stream/log/log_layout.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <random>

#include "base/text.h"
#include "stream/log/log.h"

namespace leat::stream {

Status CheckTopicName(const std::string& topic) {
  const bool good = !topic.empty() && topic.size() <= 200 && topic[0] != '.' &&
                    std::all_of(topic.begin(), topic.end(), [](unsigned char c) {
                      return c < 128 && (std::isalnum(c) || c == '.' || c == '_' || c == '-');
                    });
  if (good) return Status();
  return Status(
      Code::kInvalidArgument,
      "topic '" + topic + "': a name is 1 to 200 of A-Z a-z 0-9 . _ - and does not begin with a dot");
}

std::string TopicPath(const std::string& directory, const std::string& topic) {
  return directory + "/" + topic;
}

std::string PartitionPath(const std::string& topic_path, uint32_t partition) {
  return topic_path + Formatted("/%04u.log", partition);
}

std::string PartitionName(const std::string& topic, uint32_t partition) {
  return "topic '" + topic + "' partition " + std::to_string(partition);
}

Result<Database> OpenPartition(const std::string& path, LogTopic* topic) {
  LEAT_ASSIGN_OR_RETURN(Database db, Database::Open(path, /*create=*/false));
  const auto read = [&]() -> Status {
    const auto pragma = [&](const char* sql, int64_t expected) -> Status {
      LEAT_ASSIGN_OR_RETURN(Statement statement, db.Prepare(sql));
      LEAT_ASSIGN_OR_RETURN(const bool row, statement.Step());
      if (row && statement.Integer(0) == expected) return Status();
      return Status(Code::kDataLoss, "not an embedded log of version " + std::to_string(kLogVersion));
    };
    LEAT_RETURN_IF_ERROR(pragma("PRAGMA application_id", kLogApplicationId));
    LEAT_RETURN_IF_ERROR(pragma("PRAGMA user_version", kLogVersion));
    LEAT_ASSIGN_OR_RETURN(
        Statement row,
        db.Prepare("SELECT partition, partitions, retention_bytes, retention_ms, take_unpinned FROM topic"));
    LEAT_ASSIGN_OR_RETURN(const bool there, row.Step());
    const int64_t partitions = there ? row.Integer(1) : 0;
    if (partitions < 1 || partitions > EmbeddedLog::kMaxPartitions || row.Integer(0) < 0 ||
        row.Integer(0) >= partitions || row.Integer(2) < 0 || row.Integer(3) < 0) {
      return Status(Code::kDataLoss, "the table 'topic' is damaged");
    }
    *topic = {.partition = static_cast<uint32_t>(row.Integer(0)),
              .partitions = static_cast<uint32_t>(partitions),
              .retention_bytes = static_cast<uint64_t>(row.Integer(2)),
              .retention_ms = row.Integer(3),
              .take_unpinned = row.Integer(4) != 0};
    return Status();
  };
  LEAT_RETURN_IF_ERROR(read().With(path));
  return db;
}

Result<std::vector<Database>> OpenPartitions(const std::string& directory, const std::string& topic,
                                             LogTopic* made) {
  LEAT_RETURN_IF_ERROR(CheckTopicName(topic));
  const std::string path = TopicPath(directory, topic);
  struct stat info;
  if (::stat(PartitionPath(path, 0).c_str(), &info) != 0) {
    return Status(Code::kNotFound, "no topic '" + topic + "' in " + directory);
  }
  std::vector<Database> partitions;
  uint32_t count = 1;
  for (uint32_t p = 0; p < count; ++p) {
    LogTopic row;
    LEAT_ASSIGN_OR_RETURN(Database db, OpenPartition(PartitionPath(path, p), &row));
    if (p == 0) *made = row;
    count = made->partitions;
    if (row.partition != p || row.partitions != count) {
      return Status(Code::kDataLoss, PartitionPath(path, p) + " is partition " +
                                         std::to_string(row.partition) + " of " +
                                         std::to_string(row.partitions) + ", not " + std::to_string(p) +
                                         " of " + std::to_string(count));
    }
    partitions.push_back(std::move(db));
  }
  return partitions;
}

Result<uint64_t> ReadTopicId(Database& db) {
  LEAT_ASSIGN_OR_RETURN(
      Statement table,
      db.Prepare("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'identity'"));
  LEAT_ASSIGN_OR_RETURN(const bool counted, table.Step());
  if (!counted || table.Integer(0) == 0) return uint64_t{0};
  LEAT_ASSIGN_OR_RETURN(Statement id, db.Prepare("SELECT id FROM identity"));
  LEAT_ASSIGN_OR_RETURN(const bool there, id.Step());
  return there ? static_cast<uint64_t>(id.Integer(0)) : uint64_t{0};
}

Status EnsureTopicId(Database& db) {
  LEAT_ASSIGN_OR_RETURN(const uint64_t known, ReadTopicId(db));
  if (known != 0) return Status();
  std::random_device random;
  const uint64_t id = uint64_t{random()} << 32 | random() | 1;
  // If several processes do this at once, the first succeeds.
  const std::string sql =
      "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS identity(id INTEGER NOT NULL);"
      "INSERT INTO identity SELECT " +
      std::to_string(static_cast<int64_t>(id)) + " WHERE NOT EXISTS (SELECT 1 FROM identity); COMMIT;";
  const Status made = db.Run(sql.c_str());
  if (!made.ok()) db.Rollback();
  return made;
}

uint64_t ChunkChecksum(uint64_t base, std::span<const uint32_t> lengths, ByteView data) {
  return Checksum(data, Checksum(std::as_bytes(lengths), base));
}

}  // namespace leat::stream
