// A thin wrapper for SQLite: handles that close themselves, errors as Status, no exceptions. Not thread-safe.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::stream {

class Database;

// A prepared statement. As in SQLite, parameters count from 1 and columns from 0.
class Statement {
 public:
  Statement() = default;

  void Bind(int at, int64_t value) { sqlite3_bind_int64(handle_.get(), at, value); }
  void Bind(int at, std::string_view text) {
    sqlite3_bind_text64(handle_.get(), at, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  // `bytes` must stay valid until the statement is reset.
  void Bind(int at, ByteView bytes) {
    sqlite3_bind_blob64(handle_.get(), at, bytes.data(), bytes.size(), SQLITE_STATIC);
  }
  // True if there is a row, false after the last one.
  Result<bool> Step();
  // Executes a statement without rows and resets it.
  Status Run();
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

}  // namespace leat::stream
