#include "stream/log/log.h"

#include <dirent.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "stream/log/log_layout.h"

namespace leat::stream {
namespace {

// An append must leave this much free: a full disk affects the whole machine.
Status CheckDisk(const std::string& path, uint64_t appended, uint64_t least_free) {
  struct statvfs disk;
  if (::statvfs(path.c_str(), &disk) != 0) return Status();  // unknown: no check
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (least_free == 0)
    least_free = std::min<uint64_t>(uint64_t{disk.f_blocks} * disk.f_frsize / 20, uint64_t{1} << 30);
  if (free >= appended && free - appended >= least_free) return Status();
  return Status(Code::kResourceExhausted, StrCat(path, ": the disk has ", free >> 20, " MiB free; ",
                                                 least_free >> 20, " MiB must stay so"));
}

struct WriterPartition {
  Database db;
  Statement state, insert, update, lowest_pin, oldest, take, seal;
  int wal_frames = 0;    // pages in the WAL after the last commit
  int checkpointed = 0;  // their number when CheckpointIfDue last ran

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

// Copies the WAL into the database and lets the next append restart it. False if readers still use it.
bool RestartWal(WriterPartition* p) {
  constexpr int kWaitMs = 100;
  sqlite3* db = p->db.handle();
  sqlite3_busy_timeout(db, kWaitMs);
  const int rc = sqlite3_wal_checkpoint_v2(db, "main", SQLITE_CHECKPOINT_RESTART, nullptr, nullptr);
  sqlite3_busy_timeout(db, Database::kBusyTimeoutMs);
  return rc == SQLITE_OK;
}

// Copies the WAL into the database each time it has grown by 16 MiB, and lets the next append restart it.
// SQLite's own checkpoints never restart it while readers are busy, because there is always a reader using
// the WAL. This one waits for readers, but only briefly, because a stopped reader must not stop the writer.
// The rest is left for the next time, and errors appear in the next append.
void CheckpointIfDue(WriterPartition* p) {
  constexpr int kFrames = 1024;
  if (p->wal_frames < p->checkpointed) p->checkpointed = 0;  // restarted
  if (p->wal_frames - p->checkpointed < kFrames) return;
  (void)RestartWal(p);
  p->checkpointed = p->wal_frames;
}

// A reader that has stopped inside a read keeps the WAL from being restarted. Returns why nothing is appended
// while it is too large.
Status CheckWal(WriterPartition* p, uint64_t max_bytes) {
  if (static_cast<uint64_t>(p->wal_frames) * kPageBytes < max_bytes) return Status();
  if (RestartWal(p)) {
    p->wal_frames = p->checkpointed = 0;
    return Status();
  }
  return Status(Code::kUnavailable,
                StrCat("the WAL has ", static_cast<uint64_t>(p->wal_frames) * kPageBytes >> 20,
                       " MiB, and a reader that has stopped keeps it from shrinking"));
}

// The row of the table `state` when the transaction commits.
struct State {
  int64_t begin = 0, end = 0, bytes = 0;
};

class EmbeddedLogWriter final : public LogWriter {
 public:
  EmbeddedLogWriter(std::string path, std::string topic, const LogTopic& made,
                    const LogWriterOptions& options)
      : path_(std::move(path)), topic_(std::move(topic)), made_(made), options_(options) {
    if (!options_.now_ms) options_.now_ms = UnixMs;
  }

  Status Open(std::vector<Database> databases) {
    for (Database& db : databases) {
      WriterPartition p;
      p.db = std::move(db);
      LEAT_RETURN_IF_ERROR(
          p.db.Run(options_.sync_each_append ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL"));
      LEAT_RETURN_IF_ERROR(p.db.Run("PRAGMA journal_size_limit = 16777216"));
      LEAT_RETURN_IF_ERROR(p.Prepare());
      partitions_.push_back(std::move(p));
    }
    for (WriterPartition& p : partitions_) sqlite3_wal_hook(p.db.handle(), NoteFrames, &p.wal_frames);
    return Status();
  }

  uint32_t partitions() const override { return made_.partitions; }

  Result<uint64_t> Append(uint32_t partition, std::span<const std::string_view> records) override {
    if (partition >= partitions_.size()) {
      return Status(Code::kInvalidArgument, StrCat(Place(partition), " does not exist; the topic has ",
                                                   partitions_.size(), " partitions"));
    }
    uint64_t bytes = 0;
    for (std::string_view record : records) {
      if (record.size() > kMaxRecordBytes) {
        return Status(Code::kInvalidArgument, StrCat(Place(partition), ": a record of ", record.size(),
                                                     " bytes; at most ", kMaxRecordBytes));
      }
      bytes += record.size();
    }
    LEAT_RETURN_IF_ERROR(CheckDisk(path_, bytes, options_.min_free_bytes));
    WriterPartition& p = partitions_[partition];
    LEAT_RETURN_IF_ERROR(CheckWal(&p, options_.max_wal_bytes).With(Place(partition)));
    auto first = AppendTransaction(p, records);
    if (first.ok()) {
      CheckpointIfDue(&p);
      return first;
    }
    p.db.Rollback();
    return first.status().With(Place(partition));
  }

  Status Seal() override {
    for (WriterPartition& p : partitions_) LEAT_RETURN_IF_ERROR(p.seal.Run().With(path_));
    return Status();
  }

 private:
  std::string Place(uint32_t partition) const { return PartitionName(topic_, partition); }

  Result<uint64_t> AppendTransaction(WriterPartition& p, std::span<const std::string_view> records) {
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
    LEAT_RETURN_IF_ERROR(p.update.Run(state.begin, state.end, state.bytes));
    LEAT_RETURN_IF_ERROR(p.db.Run("COMMIT"));
    return static_cast<uint64_t>(first);
  }

  // Lays out the next chunk in lengths_ and chunk_; returns its number of records.
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

  Status InsertChunk(WriterPartition& p, int64_t now, State* state) {
    const ByteView data = ByteView(chunk_).subspan(lengths_.size() * sizeof(uint32_t));
    const uint64_t checksum = ChunkChecksum(static_cast<uint64_t>(state->end), lengths_, data);
    LEAT_RETURN_IF_ERROR(
        p.insert.Run(state->end, lengths_.size(), now, data.size(), checksum, ByteView(chunk_)));
    state->end += static_cast<int64_t>(lengths_.size());
    state->bytes += static_cast<int64_t>(data.size());
    return Status();
  }

  // Removes the oldest chunks while they are too old or too large in total, but none with a record at or
  // above the lowest pin.
  Status Retain(WriterPartition& p, int64_t now, State* state) {
    const auto limit = static_cast<int64_t>(made_.retention_bytes);
    if (limit == 0 && made_.retention_ms == 0) return Status();
    LEAT_ASSIGN_OR_RETURN(const bool pins, p.lowest_pin.Step());
    const bool pinned = pins && p.lowest_pin.Integer(0) > 0;
    const int64_t keep_from =
        pinned ? p.lowest_pin.Integer(1) : (made_.take_unpinned ? state->end : state->begin);
    p.lowest_pin.Reset();
    // Limits the work per append: at most twice what an append adds.
    for (int taken = 0; taken < 64; ++taken) {
      LEAT_ASSIGN_OR_RETURN(const bool there, p.oldest.Step());
      if (!there) break;
      const int64_t base = p.oldest.Integer(0), end = base + p.oldest.Integer(1), bytes = p.oldest.Integer(3);
      const bool large = limit > 0 && state->bytes > limit;
      const bool old = made_.retention_ms > 0 && p.oldest.Integer(2) < now - made_.retention_ms;
      p.oldest.Reset();
      if (!(large || old) || end > keep_from) break;
      LEAT_RETURN_IF_ERROR(p.take.Run(base));
      state->begin = end;
      state->bytes -= bytes;
    }
    p.oldest.Reset();
    return Status();
  }

  std::string path_, topic_;
  LogTopic made_;
  LogWriterOptions options_;
  std::vector<WriterPartition> partitions_;
  std::vector<uint32_t> lengths_;
  std::vector<std::byte> chunk_;
};

}  // namespace

Result<std::unique_ptr<LogWriter>> LogWriter::Open(const std::string& directory, const std::string& topic,
                                                   const LogWriterOptions& options) {
  LogTopic made;
  LEAT_ASSIGN_OR_RETURN(std::vector<Database> databases, OpenPartitions(directory, topic, &made));
  LEAT_RETURN_IF_ERROR(EnsureTopicId(databases.front()).With(PartitionPath(TopicPath(directory, topic), 0)));
  auto writer = std::make_unique<EmbeddedLogWriter>(TopicPath(directory, topic), topic, made, options);
  LEAT_RETURN_IF_ERROR(writer->Open(std::move(databases)));
  return std::unique_ptr<LogWriter>(std::move(writer));
}

}  // namespace leat::stream
