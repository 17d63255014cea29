#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "stream/log/log.h"
#include "stream/log/log_layout.h"

namespace leat::stream {
namespace {

// Pages of 16 KiB: a chunk of 1 MiB is a chain of 64, an append of one record writes two or three.
constexpr const char* kTables = R"(
PRAGMA page_size = 16384;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE topic(partition INTEGER NOT NULL, partitions INTEGER NOT NULL, retention_bytes INTEGER NOT NULL,
                   retention_ms INTEGER NOT NULL, take_unpinned INTEGER NOT NULL);
CREATE TABLE state(id INTEGER PRIMARY KEY, "begin" INTEGER NOT NULL, "end" INTEGER NOT NULL,
                   bytes INTEGER NOT NULL, sealed INTEGER NOT NULL);
INSERT INTO state VALUES(0, 0, 0, 0, 0);
CREATE TABLE chunks(base INTEGER PRIMARY KEY, count INTEGER NOT NULL, time_ms INTEGER NOT NULL,
                    bytes INTEGER NOT NULL, checksum INTEGER NOT NULL, records BLOB NOT NULL);
CREATE TABLE pins(owner TEXT PRIMARY KEY, "offset" INTEGER NOT NULL) WITHOUT ROWID;
)";

Status MakePartition(const std::string& path, uint32_t partition, const TopicOptions& options) {
  LEAT_ASSIGN_OR_RETURN(Database db, Database::Open(path, /*create=*/true));
  LEAT_RETURN_IF_ERROR(db.Run(kTables));
  {
    LEAT_ASSIGN_OR_RETURN(Statement insert, db.Prepare("INSERT INTO topic VALUES(?, ?, ?, ?, ?)"));
    insert.Bind(1, int64_t{partition});
    insert.Bind(2, int64_t{options.partitions});
    insert.Bind(3, static_cast<int64_t>(options.retention_bytes));
    insert.Bind(4, int64_t{std::chrono::ceil<std::chrono::milliseconds>(options.retention_time).count()});
    insert.Bind(5, int64_t{options.take_unpinned});
    LEAT_RETURN_IF_ERROR(insert.Run());
  }
  const std::string pragmas = "PRAGMA application_id = " + std::to_string(kLogApplicationId) +
                              "; PRAGMA user_version = " + std::to_string(kLogVersion) + "; COMMIT;";
  return db.Run(pragmas.c_str());
}

int64_t SystemNowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// An append must leave this much free: a full disk takes the whole machine down with it.
Status CheckDisk(const std::string& path, uint64_t appended, uint64_t least_free) {
  struct statvfs disk;
  if (::statvfs(path.c_str(), &disk) != 0) return Status();  // no answer, no guard
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (least_free == 0) {
    least_free = std::min<uint64_t>(uint64_t{disk.f_blocks} * disk.f_frsize / 20, uint64_t{1} << 30);
  }
  if (free >= appended && free - appended >= least_free) return Status();
  return Status(Code::kResourceExhausted, path + ": the disk has " + std::to_string(free >> 20) +
                                              " MiB free; " + std::to_string(least_free >> 20) +
                                              " MiB must stay so");
}

struct Partition {
  Database db;
  Statement state, insert, update, lowest_pin, oldest, take, seal;
  int wal_frames = 0;    // pages in the WAL after the last commit
  int checkpointed = 0;  // of these, how many were there when CheckpointIfDue last ran

  Status Prepare() {
    LEAT_ASSIGN_OR_RETURN(state, db.Prepare(R"(SELECT "begin", "end", bytes, sealed FROM state)"));
    LEAT_ASSIGN_OR_RETURN(insert, db.Prepare("INSERT INTO chunks VALUES(?, ?, ?, ?, ?, ?)"));
    LEAT_ASSIGN_OR_RETURN(update, db.Prepare(R"(UPDATE state SET "begin" = ?, "end" = ?, bytes = ?)"));
    LEAT_ASSIGN_OR_RETURN(lowest_pin, db.Prepare(R"(SELECT count(*), min("offset") FROM pins)"));
    LEAT_ASSIGN_OR_RETURN(oldest,
                          db.Prepare("SELECT base, count, time_ms, bytes FROM chunks ORDER BY base LIMIT 1"));
    LEAT_ASSIGN_OR_RETURN(take, db.Prepare("DELETE FROM chunks WHERE base = ?"));
    LEAT_ASSIGN_OR_RETURN(seal, db.Prepare("UPDATE state SET sealed = 1 WHERE sealed = 0"));
    return Status();
  }
};

int NoteFrames(void* frames, sqlite3*, const char*, int count) {
  *static_cast<int*>(frames) = count;
  return SQLITE_OK;
}

// Copies the WAL into the database each time that it has grown by 16 MiB, and has the next append start it
// anew. SQLite's own checkpoints never get to the latter while readers are busy: some reader always still
// looks at the WAL. This one waits for them, but not long: a reader that is stopped must not stop the writer.
// What it could not do stays for the next time, and an error shows in the next append.
void CheckpointIfDue(Partition* p) {
  constexpr int kFrames = 1024, kWaitMs = 100;
  if (p->wal_frames < p->checkpointed) p->checkpointed = 0;  // started anew
  if (p->wal_frames - p->checkpointed < kFrames) return;
  sqlite3* db = p->db.handle();
  sqlite3_busy_timeout(db, kWaitMs);
  sqlite3_wal_checkpoint_v2(db, "main", SQLITE_CHECKPOINT_RESTART, nullptr, nullptr);
  sqlite3_busy_timeout(db, Database::kBusyTimeoutMs);
  p->checkpointed = p->wal_frames;
}

// The row of the table `state`, as it will be when the transaction commits.
struct State {
  int64_t begin = 0, end = 0, bytes = 0;
};

class EmbeddedLogWriter final : public LogWriter {
 public:
  EmbeddedLogWriter(std::string path, std::string topic, const LogTopic& made,
                    const LogWriterOptions& options)
      : path_(std::move(path)), topic_(std::move(topic)), made_(made), options_(options) {
    if (!options_.now_ms) options_.now_ms = SystemNowMs;
  }

  Status Open(std::vector<Database> databases) {
    for (Database& db : databases) {
      Partition p;
      p.db = std::move(db);
      LEAT_RETURN_IF_ERROR(
          p.db.Run(options_.sync_each_append ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL"));
      LEAT_RETURN_IF_ERROR(p.db.Run("PRAGMA journal_size_limit = 16777216"));
      LEAT_RETURN_IF_ERROR(p.Prepare());
      partitions_.push_back(std::move(p));
    }
    for (Partition& p : partitions_) sqlite3_wal_hook(p.db.handle(), NoteFrames, &p.wal_frames);
    return Status();
  }

  uint32_t partitions() const override { return made_.partitions; }

  Result<uint64_t> Append(uint32_t partition, std::span<const std::string_view> records) override {
    if (partition >= partitions_.size()) {
      return Status(Code::kInvalidArgument, Place(partition) + " is not there; the topic has " +
                                                std::to_string(partitions_.size()) + " partitions");
    }
    uint64_t bytes = 0;
    for (std::string_view record : records) {
      if (record.size() > kMaxRecordBytes) {
        return Status(Code::kInvalidArgument, Place(partition) + ": a record of " +
                                                  std::to_string(record.size()) + " bytes; at most " +
                                                  std::to_string(kMaxRecordBytes));
      }
      bytes += record.size();
    }
    LEAT_RETURN_IF_ERROR(CheckDisk(path_, bytes, options_.min_free_bytes));
    Partition& p = partitions_[partition];
    auto first = AppendTransaction(p, records);
    if (first.ok()) {
      CheckpointIfDue(&p);
      return first;
    }
    p.db.Rollback();
    return first.status().With(Place(partition));
  }

  Status Seal() override {
    for (Partition& p : partitions_) LEAT_RETURN_IF_ERROR(p.seal.Run().With(path_));
    return Status();
  }

 private:
  std::string Place(uint32_t partition) const {
    return "topic '" + topic_ + "' partition " + std::to_string(partition);
  }

  Result<uint64_t> AppendTransaction(Partition& p, std::span<const std::string_view> records) {
    LEAT_RETURN_IF_ERROR(p.db.Run("BEGIN IMMEDIATE"));
    LEAT_ASSIGN_OR_RETURN(const bool row, p.state.Step());
    if (!row) return Status(Code::kDataLoss, "the table 'state' is empty");
    State state{p.state.Integer(0), p.state.Integer(1), p.state.Integer(2)};
    const bool sealed = p.state.Integer(3) != 0;
    p.state.Reset();
    if (sealed) return Status(Code::kFailedPrecondition, "is sealed, nothing can be appended");
    const int64_t first = state.end;
    const int64_t now = options_.now_ms();
    while (!records.empty()) {
      const size_t count = FillChunk(records);
      LEAT_RETURN_IF_ERROR(InsertChunk(p, now, &state));
      records = records.subspan(count);
    }
    LEAT_RETURN_IF_ERROR(Retain(p, now, &state));
    p.update.Bind(1, state.begin);
    p.update.Bind(2, state.end);
    p.update.Bind(3, state.bytes);
    LEAT_RETURN_IF_ERROR(p.update.Run());
    LEAT_RETURN_IF_ERROR(p.db.Run("COMMIT"));
    return static_cast<uint64_t>(first);
  }

  // Lays out the next chunk in lengths_ and chunk_, returns how many records it took.
  size_t FillChunk(std::span<const std::string_view> records) {
    lengths_.clear();
    size_t bytes = 0;
    for (std::string_view record : records) {
      const bool full = lengths_.size() == kChunkRecords || bytes + record.size() > kChunkBytes;
      if (full && !lengths_.empty()) break;
      lengths_.push_back(static_cast<uint32_t>(record.size()));
      bytes += record.size();
    }
    const size_t table = lengths_.size() * sizeof(uint32_t);
    chunk_.resize(table + bytes);
    std::memcpy(chunk_.data(), lengths_.data(), table);
    std::byte* out = chunk_.data() + table;
    for (std::string_view record : records.first(lengths_.size())) {
      if (!record.empty()) std::memcpy(out, record.data(), record.size());
      out += record.size();
    }
    return lengths_.size();
  }

  Status InsertChunk(Partition& p, int64_t now, State* state) {
    const ByteView data = ByteView(chunk_).subspan(lengths_.size() * sizeof(uint32_t));
    p.insert.Bind(1, state->end);
    p.insert.Bind(2, static_cast<int64_t>(lengths_.size()));
    p.insert.Bind(3, now);
    p.insert.Bind(4, static_cast<int64_t>(data.size()));
    p.insert.Bind(5, static_cast<int64_t>(ChunkChecksum(static_cast<uint64_t>(state->end), lengths_, data)));
    p.insert.Bind(6, ByteView(chunk_));
    LEAT_RETURN_IF_ERROR(p.insert.Run());
    state->end += static_cast<int64_t>(lengths_.size());
    state->bytes += static_cast<int64_t>(data.size());
    return Status();
  }

  // Takes the oldest chunks while they are too old or too many, none that holds a record at or above the
  // lowest pin.
  Status Retain(Partition& p, int64_t now, State* state) {
    const auto limit = static_cast<int64_t>(made_.retention_bytes);
    if (limit == 0 && made_.retention_ms == 0) return Status();
    LEAT_ASSIGN_OR_RETURN(const bool pins, p.lowest_pin.Step());
    const bool pinned = pins && p.lowest_pin.Integer(0) > 0;
    const int64_t keep_from =
        pinned ? p.lowest_pin.Integer(1) : (made_.take_unpinned ? state->end : state->begin);
    p.lowest_pin.Reset();
    // A bound on the work of one append: what an append adds, and as much again.
    for (int taken = 0; taken < 64; ++taken) {
      LEAT_ASSIGN_OR_RETURN(const bool there, p.oldest.Step());
      if (!there) break;
      const int64_t base = p.oldest.Integer(0), end = base + p.oldest.Integer(1), bytes = p.oldest.Integer(3);
      const bool large = limit > 0 && state->bytes > limit;
      const bool old = made_.retention_ms > 0 && p.oldest.Integer(2) < now - made_.retention_ms;
      p.oldest.Reset();
      if (!(large || old) || end > keep_from) break;
      p.take.Bind(1, base);
      LEAT_RETURN_IF_ERROR(p.take.Run());
      state->begin = end;
      state->bytes -= bytes;
    }
    p.oldest.Reset();
    return Status();
  }

  std::string path_, topic_;
  LogTopic made_;
  LogWriterOptions options_;
  std::vector<Partition> partitions_;
  std::vector<uint32_t> lengths_;
  std::vector<std::byte> chunk_;
};

Status CheckOptions(const std::string& topic, const TopicOptions& options) {
  LEAT_RETURN_IF_ERROR(CheckTopicName(topic));
  if (options.partitions < 1 || options.partitions > EmbeddedLog::kMaxPartitions) {
    return Status(Code::kInvalidArgument, "topic '" + topic + "': " + std::to_string(options.partitions) +
                                              " partitions; must be between 1 and " +
                                              std::to_string(EmbeddedLog::kMaxPartitions));
  }
  if (options.retention_time < Duration{0} || options.retention_bytes > uint64_t{1} << 62) {
    return Status(Code::kInvalidArgument, "topic '" + topic + "': retention out of range");
  }
  return Status();
}

}  // namespace

// Made under another name and renamed: whoever sees the topic sees all of its partitions.
Status EmbeddedLog::Create(const std::string& directory, const std::string& topic,
                           const TopicOptions& options) {
  LEAT_RETURN_IF_ERROR(CheckOptions(topic, options));
  const std::string path = TopicPath(directory, topic);
  struct stat info;
  if (::stat(PartitionPath(path, 0).c_str(), &info) != 0) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    std::string temporary = directory + "/." + topic + ".XXXXXX";
    if (!::mkdtemp(temporary.data())) {
      return Status(Code::kPermissionDenied,
                    "cannot make a topic in " + directory + ": " + std::strerror(errno));
    }
    Status status;
    for (uint32_t p = 0; p < options.partitions && status.ok(); ++p) {
      status = MakePartition(PartitionPath(temporary, p), p, options);
    }
    if (status.ok() && ::chmod(temporary.c_str(), 0755) == 0 &&
        ::rename(temporary.c_str(), path.c_str()) == 0) {
      return Status();
    }
    const int why = errno;
    std::filesystem::remove_all(temporary, error);
    if (!status.ok()) return status.With(path);
    // Somebody else was first: theirs is as good.
    if (why != ENOTEMPTY && why != EEXIST) {
      return Status(Code::kPermissionDenied, path + ": " + std::strerror(why));
    }
  }
  LogTopic made;
  LEAT_RETURN_IF_ERROR(OpenPartitions(directory, topic, &made).status());
  if (made.partitions != options.partitions) {
    return Status(Code::kFailedPrecondition, "topic '" + topic + "' in " + directory + " has " +
                                                 std::to_string(made.partitions) + " partitions, not " +
                                                 std::to_string(options.partitions));
  }
  return Status();
}

Result<std::unique_ptr<LogWriter>> LogWriter::Open(const std::string& directory, const std::string& topic,
                                                   const LogWriterOptions& options) {
  LogTopic made;
  LEAT_ASSIGN_OR_RETURN(std::vector<Database> databases, OpenPartitions(directory, topic, &made));
  auto writer = std::make_unique<EmbeddedLogWriter>(TopicPath(directory, topic), topic, made, options);
  LEAT_RETURN_IF_ERROR(writer->Open(std::move(databases)));
  return std::unique_ptr<LogWriter>(std::move(writer));
}

}  // namespace leat::stream
