#include "stream/log/sqlite.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/exit_status.h"

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
  const std::string text(message);
  switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
      return Status();
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Status(Code::kUnavailable, text + ": another process holds the lock");
    case SQLITE_FULL:
      return Status(Code::kResourceExhausted, text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_TOOBIG:
      return Status(Code::kDataLoss, text);
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
      return Status(Code::kPermissionDenied, text);
    case SQLITE_CANTOPEN:
      return Status(Code::kNotFound, text);
    case SQLITE_IOERR:
      return Status(Code::kUnavailable, text);
    default:
      return Status(Code::kInternal, text + " (sqlite " + std::to_string(rc) + ")");
  }
}

Result<bool> Statement::Step() {
  const int rc = sqlite3_step(handle_.get());
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  return SqliteError(sqlite3_db_handle(handle_.get()));
}

Status Statement::Run() {
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
  if (rc != SQLITE_OK) {
    return (handle ? SqliteError(handle) : SqliteStatus(rc, sqlite3_errstr(rc))).With(path);
  }
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
  if (!sqlite3_get_autocommit(handle_.get())) {
    sqlite3_exec(handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

Status Database::Error() const {
  return SqliteError(handle_.get());
}

}  // namespace leat::stream
