#include "stream/log/log_layout.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>

#include "base/exit_status.h"
#include "base/text.h"
#include "stream/log/log.h"

namespace leat::stream {
namespace {

// A short write to a shared-memory file, say, is a "disk I/O error" to SQLite, and too many open files are a
// file that cannot be opened.
Status SqliteError(sqlite3* db) {
  const int rc = sqlite3_extended_errcode(db);
  int error = sqlite3_system_errno(db);
  // SQLite rolls back before it looks at the errno.
  rlimit limit{};
  if (error == 0 && rc == SQLITE_IOERR_WRITE && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY)
    error = EFBIG;
  const bool full = CodeOfErrno(error) == Code::kResourceExhausted;
  const bool told = (rc & 0xff) == SQLITE_IOERR ? error != 0 : (rc & 0xff) == SQLITE_CANTOPEN && full;
  if (!told) return SqliteStatus(rc, sqlite3_errmsg(db));
  return Status(full ? Code::kResourceExhausted : Code::kUnavailable,
                std::string(sqlite3_errmsg(db)) + ": " + std::strerror(error));
}

}  // namespace

Status SqliteStatus(int rc, std::string_view message) {
  static constexpr std::pair<int, Code> kCodes[] = {
      {SQLITE_BUSY, Code::kUnavailable},       {SQLITE_LOCKED, Code::kUnavailable},
      {SQLITE_FULL, Code::kResourceExhausted}, {SQLITE_CORRUPT, Code::kDataLoss},
      {SQLITE_NOTADB, Code::kDataLoss},        {SQLITE_FORMAT, Code::kDataLoss},
      {SQLITE_TOOBIG, Code::kDataLoss},        {SQLITE_PERM, Code::kPermissionDenied},
      {SQLITE_AUTH, Code::kPermissionDenied},  {SQLITE_READONLY, Code::kPermissionDenied},
      {SQLITE_CANTOPEN, Code::kNotFound},      {SQLITE_IOERR, Code::kUnavailable}};
  const int primary = rc & 0xff;
  if (primary == SQLITE_OK || primary == SQLITE_ROW || primary == SQLITE_DONE) return {};
  std::string text(message);
  if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED) text += ": another process holds the lock";
  const auto* const known = std::ranges::find(kCodes, primary, &std::pair<int, Code>::first);
  if (known != std::end(kCodes)) return {known->second, text};
  return {Code::kInternal, StrCat(text, " (sqlite ", rc, ")")};
}

Result<bool> Statement::Step() {
  const int rc = sqlite3_step(handle_.get());
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  return SqliteError(sqlite3_db_handle(handle_.get()));
}

Status Statement::RunBound() {
  const auto row = Step();
  // The message is read before, because a reset may change it.
  Reset();
  return row.status();
}

Result<Database> Database::Open(const std::string& path, bool create) {
  Database db;
  sqlite3* handle = nullptr;
  if (create) {
    // SQLite would let others read it. Its companion files take the mode of this one.
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return Status(Code::kPermissionDenied, path + ": " + std::strerror(errno));
    ::close(fd);
  }
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
  const int rc = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  db.handle_.reset(handle);
  if (rc != SQLITE_OK)
    return (handle ? SqliteError(handle) : SqliteStatus(rc, sqlite3_errstr(rc))).With(path);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  // The file may be untrusted: its schema must not run code.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return db;
}

Status Database::Run(const char* sql) {
  const int rc = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  return rc == SQLITE_OK ? Status() : Error();
}

Result<Statement> Database::Prepare(std::string_view sql) {
  Statement statement;
  sqlite3_stmt* handle = nullptr;
  const int rc = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                    SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  statement.handle_.reset(handle);
  if (rc != SQLITE_OK) return Error();
  return statement;
}

void Database::Rollback() {
  if (!sqlite3_get_autocommit(handle_.get()))
    sqlite3_exec(handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

Status Database::Error() const {
  return SqliteError(handle_.get());
}

Status CheckTopicName(const std::string& topic) {
  const bool good = IsWord(topic, 200, "._-") && topic[0] != '.';
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
  return StrCat("topic '", topic, "' partition ", partition);
}

Result<Database> OpenPartition(const std::string& path, LogTopic* topic) {
  LEAT_ASSIGN_OR_RETURN(Database db, Database::Open(path, /*create=*/false));
  const auto read = [&]() -> Status {
    const auto pragma = [&](const char* sql, int64_t expected) -> Status {
      LEAT_ASSIGN_OR_RETURN(Statement statement, db.Prepare(sql));
      LEAT_ASSIGN_OR_RETURN(const bool row, statement.Step());
      if (row && statement.Integer(0) == expected) return Status();
      return Status(Code::kDataLoss, StrCat("not an embedded log of version ", kLogVersion));
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
  if (::stat(PartitionPath(path, 0).c_str(), &info) != 0)
    return Status(Code::kNotFound, "no topic '" + topic + "' in " + directory);
  std::vector<Database> partitions;
  uint32_t count = 1;
  for (uint32_t p = 0; p < count; ++p) {
    LogTopic row;
    LEAT_ASSIGN_OR_RETURN(Database db, OpenPartition(PartitionPath(path, p), &row));
    if (p == 0) *made = row;
    count = made->partitions;
    if (row.partition != p || row.partitions != count) {
      return Status(Code::kDataLoss, StrCat(PartitionPath(path, p), " is partition ", row.partition, " of ",
                                            row.partitions, ", not ", p, " of ", count));
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
  const std::string sql = StrCat(
      "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS identity(id INTEGER NOT NULL);"
      "INSERT INTO identity SELECT ",
      static_cast<int64_t>(id), " WHERE NOT EXISTS (SELECT 1 FROM identity); COMMIT;");
  const Status made = db.Run(sql.c_str());
  if (!made.ok()) db.Rollback();
  return made;
}

uint64_t ChunkChecksum(uint64_t base, std::span<const uint32_t> lengths, ByteView data) {
  return Checksum(data, Checksum(std::as_bytes(lengths), base));
}

}  // namespace leat::stream
