// Definitions shared by writer, source and creation of an embedded log: file names, tables, the layout of a
// chunk (docs/formats/log.md), and a thin wrapper for SQLite: handles that close themselves, errors as
// Status, no exceptions. Not thread-safe.
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::stream {

class Database;

// A prepared statement. As in SQLite, parameters count from 1 and columns from 0.
class Statement {
 public:
  Statement() = default;

  void Bind(int at, std::integral auto value) {
    sqlite3_bind_int64(handle_.get(), at, static_cast<int64_t>(value));
  }
  void Bind(int at, std::string_view text) {
    sqlite3_bind_text64(handle_.get(), at, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  // `bytes` must stay valid until the statement is reset.
  void Bind(int at, ByteView bytes) {
    sqlite3_bind_blob64(handle_.get(), at, bytes.data(), bytes.size(), SQLITE_STATIC);
  }
  // True if there is a row, false after the last one.
  Result<bool> Step();
  // Executes a statement without rows, with these values for its first parameters, and resets it.
  Status Run(const auto&... values) {
    int at = 0;
    (Bind(++at, values), ...);
    return RunBound();
  }
  // Ends reading rows, so that the statement can be bound and stepped again.
  void Reset() { sqlite3_reset(handle_.get()); }
  int64_t Integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
  std::string Text(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handle_.get(), column));
    return text == nullptr
               ? std::string()
               : std::string(text, static_cast<size_t>(sqlite3_column_bytes(handle_.get(), column)));
  }

 private:
  friend class Database;
  Status RunBound();
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
};

class Database {
 public:
  // How long a call waits for another writing process before it returns kUnavailable.
  static constexpr int kBusyTimeoutMs = 10'000;

  Database() = default;
  // `create`: the file must not exist, and is private to its owner; otherwise it must exist (kNotFound).
  static Result<Database> Open(const std::string& path, bool create);

  Status Run(const char* sql);
  Result<Statement> Prepare(std::string_view sql);
  // Rolls back an open transaction, if there is one, after an error.
  void Rollback();
  // The error of the last failed call on this database.
  Status Error() const;
  sqlite3* handle() const { return handle_.get(); }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
};

Status SqliteStatus(int rc, std::string_view message);

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
