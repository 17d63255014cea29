#include "stream/log/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>

#include "base/files/descriptor.h"
#include "base/text.h"
#include "stream/log/log_layout.h"

namespace leat::stream {
namespace {

// Pages of 16 KiB: a chunk of 1 MiB is a chain of 64; an append of one record writes two or three.
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

struct CloseBlob {
  void operator()(sqlite3_blob* blob) const { sqlite3_blob_close(blob); }
};

// The last chunk read, so that small reads inside one chunk access the disk once.
struct CachedChunk {
  uint64_t base = 0;
  RecordBatch records;  // without padding
  bool Holds(uint64_t offset) const { return offset >= base && offset - base < records.size(); }
};

struct LogPartition {
  Database db;
  Statement state, chunks, pin, unpin;
  CachedChunk cache;
  uint64_t synced = 0;       // records before it are on disk
  bool sync_failed = false;  // the WAL's pages are no longer trusted

  Status Prepare() {
    LEAT_ASSIGN_OR_RETURN(state, db.Prepare(R"(SELECT "begin", "end", sealed FROM state)"));
    // Starts with the chunk that contains the first offset. `records` is not selected, so its pages are not
    // read.
    LEAT_ASSIGN_OR_RETURN(chunks, db.Prepare("SELECT base, count, bytes, checksum FROM chunks WHERE base >= "
                                             "(SELECT max(base) FROM chunks WHERE base <= ?1) AND base < ?2 "
                                             "ORDER BY base"));
    LEAT_ASSIGN_OR_RETURN(
        pin, db.Prepare("INSERT INTO pins VALUES(?1, ?2) ON CONFLICT DO UPDATE SET \"offset\" = ?2"));
    LEAT_ASSIGN_OR_RETURN(unpin, db.Prepare("DELETE FROM pins WHERE owner = ?1"));
    return Status();
  }
};

class EmbeddedLogSource final : public Source {
 public:
  EmbeddedLogSource(std::string directory, std::string topic, const LogSourceOptions& options)
      : directory_(std::move(directory)), topic_(std::move(topic)), options_(options) {}

  Status Open(std::vector<Database> databases) {
    for (Database& db : databases) {
      LogPartition p;
      p.db = std::move(db);
      LEAT_RETURN_IF_ERROR(p.Prepare());
      partitions_.push_back(std::move(p));
    }
    return Status();
  }

  Result<std::vector<PartitionRange>> Ranges() override {
    std::vector<PartitionRange> ranges;
    for (uint32_t i = 0; i < partitions_.size(); ++i) {
      LEAT_ASSIGN_OR_RETURN(const PartitionRange range, RangeOf(i));
      ranges.push_back(range);
    }
    return ranges;
  }

  Status Read(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) override {
    out->partition = partition;
    out->first_offset = begin;
    out->offsets.assign(1, 0);
    out->lost.clear();
    Status status = partition < partitions_.size() && begin <= end
                        ? ReadRange(partition, begin, end, out)
                        : Status(Code::kInvalidArgument, "no such range");
    if (!status.ok()) {
      out->offsets.assign(1, 0);
      status = status.With(StrCat(Place(partition), " offsets ", begin, " to ", end));
    }
    out->data.resize(out->offsets.back() + RecordBatch::kPadding);
    std::fill_n(out->data.end() - RecordBatch::kPadding, RecordBatch::kPadding, std::byte{0});
    return status;
  }

  Status Pin(const std::string& owner, uint32_t partition, uint64_t offset) override {
    if (partition >= partitions_.size() || offset > INT64_MAX) {
      return Status(Code::kInvalidArgument,
                    StrCat(Place(partition), ": cannot pin offset ", offset, ", out of range"));
    }
    LogPartition& p = partitions_[partition];
    LEAT_RETURN_IF_ERROR(p.pin.Run(owner, offset).With(Place(partition)));
    // Read after the pin is in force: `begin` cannot pass it from now on.
    LEAT_ASSIGN_OR_RETURN(const PartitionRange range, RangeOf(partition));
    if (offset >= range.begin) return Status();
    return Status(Code::kNotFound, StrCat(Place(partition), ": pinned at ", offset,
                                          ", but retention has taken all below ", range.begin));
  }

  Status Sync(uint32_t partition, uint64_t end) override {
    if (partition >= partitions_.size()) return Status(Code::kInvalidArgument, Place(partition) + " is none");
    LogPartition& p = partitions_[partition];
    if (end <= p.synced) return Status();
    LEAT_ASSIGN_OR_RETURN(const PartitionRange range, RangeOf(partition));
    if (end > range.end) {
      return Status(Code::kFailedPrecondition, StrCat(Place(partition), ": ends at ", range.end,
                                                      ", records before ", end, " are to be synced"));
    }
    LEAT_RETURN_IF_ERROR((p.sync_failed ? CopyWal(&p) : SyncWal(&p)).With(Place(partition)));
    p.synced = range.end;
    return Status();
  }

  Status Advance(uint32_t partition, uint64_t end) override {
    LEAT_ASSIGN_OR_RETURN(const auto writer, LogWriter::Open(directory_, topic_, {.sync_each_append = true}));
    while (true) {
      LEAT_ASSIGN_OR_RETURN(const PartitionRange range, RangeOf(partition));
      if (range.end >= end) return Status();
      const std::vector<std::string_view> lost(std::min<uint64_t>(end - range.end, kChunkRecords));
      LEAT_RETURN_IF_ERROR(writer->Append(partition, lost).status());
    }
  }

  Status Unpin(const std::string& owner) override {
    for (uint32_t i = 0; i < partitions_.size(); ++i)
      LEAT_RETURN_IF_ERROR(partitions_[i].unpin.Run(owner).With(Place(i)));
    return Status();
  }

 private:
  std::string Place(uint32_t partition) const { return PartitionName(topic_, partition); }

  // Syncs the WAL through SQLite's own handle. A committed transaction is in the WAL, or in the database,
  // which SQLite syncs before it restarts the WAL.
  static Status SyncWal(LogPartition* p) {
    sqlite3_file* wal = nullptr;
    if (sqlite3_file_control(p->db.handle(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal) != SQLITE_OK ||
        wal == nullptr || wal->pMethods == nullptr) {
      return CopyWal(p);
    }
    const int rc = wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
    if (rc == SQLITE_OK) return Status();
    p->sync_failed = true;
    return SqliteStatus(rc, "the log's WAL cannot be synced");
  }

  // Copies the WAL into the database and syncs that. After a failed sync, the system may have dropped pages
  // of the WAL that it will not write again, so another sync of the same file proves nothing.
  static Status CopyWal(LogPartition* p) {
    int frames = 0, copied = 0;
    const int rc =
        sqlite3_wal_checkpoint_v2(p->db.handle(), "main", SQLITE_CHECKPOINT_FULL, &frames, &copied);
    if (rc != SQLITE_OK) return p->db.Error();
    if (copied < frames) return Status(Code::kUnavailable, "the log's WAL is in use and cannot be copied");
    p->sync_failed = false;
    return Status();
  }

  Result<PartitionRange> RangeOf(uint32_t partition) { return ReadState(partition).With(Place(partition)); }

  Result<PartitionRange> ReadState(uint32_t partition) {
    LogPartition& p = partitions_[partition];
    LEAT_ASSIGN_OR_RETURN(const bool row, p.state.Step());
    const PartitionRange range{partition, static_cast<uint64_t>(p.state.Integer(0)),
                               static_cast<uint64_t>(p.state.Integer(1)), p.state.Integer(2) != 0};
    p.state.Reset();
    if (!row || range.begin > range.end) return Status(Code::kDataLoss, "the table 'state' is damaged");
    return range;
  }

  Status ReadRange(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) {
    if (begin == end) return Status();
    LogPartition& p = partitions_[partition];
    if (p.cache.Holds(begin) && p.cache.Holds(end - 1)) {
      CopyFromCache(p.cache, begin, end, out);
      return Status();
    }
    // A single snapshot for range and chunks, so that concurrent retention has no effect.
    LEAT_RETURN_IF_ERROR(p.db.Run("BEGIN"));
    Status status = ReadChunks(partition, begin, end, out);
    p.chunks.Reset();
    p.db.Rollback();
    return status;
  }

  Status ReadChunks(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) {
    LogPartition& p = partitions_[partition];
    LEAT_ASSIGN_OR_RETURN(const PartitionRange range, ReadState(partition));
    if (begin < range.begin)
      return Status(Code::kNotFound, StrCat("retention has taken all below ", range.begin));
    if (end > range.end)
      return Status(Code::kFailedPrecondition, StrCat("the partition ends at ", range.end));
    p.chunks.Bind(1, begin);
    p.chunks.Bind(2, end);
    std::unique_ptr<sqlite3_blob, CloseBlob> blob;
    for (uint64_t at = begin; at < end;) {
      LEAT_ASSIGN_OR_RETURN(const bool row, p.chunks.Step());
      const Chunk chunk{static_cast<uint64_t>(p.chunks.Integer(0)), p.chunks.Integer(1), p.chunks.Integer(2),
                        static_cast<uint64_t>(p.chunks.Integer(3))};
      const bool joins = row && chunk.count > 0 && chunk.count <= int64_t{kChunkRecords} &&
                         chunk.bytes >= 0 && (at == begin ? chunk.base <= at : chunk.base == at) &&
                         at - chunk.base < static_cast<uint64_t>(chunk.count);
      if (!joins) return Status(Code::kDataLoss, StrCat("the chunk with offset ", at, " is missing"));
      const uint64_t stop = std::min(end, chunk.base + static_cast<uint64_t>(chunk.count));
      const bool whole = at == chunk.base && stop == chunk.base + static_cast<uint64_t>(chunk.count);
      Status read = OpenBlob(p.db, chunk, &blob);
      if (read.ok())
        read = whole ? ReadWhole(p.db, chunk, blob.get(), out) : ReadIntoCache(p, chunk, blob.get());
      read = read.With(StrCat("chunk at offset ", chunk.base));
      if (options_.quarantine && read.code() == Code::kDataLoss) {
        blob.reset();  // a handle that has failed is of no use
        out->lost.push_back({at - begin, stop - begin, read.message()});
        out->offsets.resize(out->offsets.size() + (stop - at), out->offsets.back());
      } else if (!read.ok()) {
        return read;
      } else if (!whole) {
        CopyFromCache(p.cache, at, stop, out);
      }
      at = stop;
    }
    return Status();
  }

  struct Chunk {
    uint64_t base;
    int64_t count, bytes;
    uint64_t checksum;
  };

  static Status OpenBlob(Database& db, const Chunk& chunk, std::unique_ptr<sqlite3_blob, CloseBlob>* blob) {
    int rc;
    if (*blob) {
      rc = sqlite3_blob_reopen(blob->get(), static_cast<int64_t>(chunk.base));
    } else {
      sqlite3_blob* opened = nullptr;
      rc = sqlite3_blob_open(db.handle(), "main", "chunks", "records", static_cast<int64_t>(chunk.base), 0,
                             &opened);
      blob->reset(opened);
    }
    if (rc != SQLITE_OK) return db.Error();
    if (sqlite3_blob_bytes(blob->get()) != chunk.count * int64_t{sizeof(uint32_t)} + chunk.bytes) {
      return Status(Code::kDataLoss, StrCat("holds ", sqlite3_blob_bytes(blob->get()), " bytes, not ",
                                            chunk.bytes, " and the lengths of ", chunk.count, " records"));
    }
    return Status();
  }

  static Status ReadBlob(Database& db, sqlite3_blob* blob, void* to, size_t bytes, size_t from) {
    if (bytes == 0) return Status();
    const int rc = sqlite3_blob_read(blob, to, static_cast<int>(bytes), static_cast<int>(from));
    return rc == SQLITE_OK ? Status() : db.Error();
  }

  // Appends the chunk's records, and checks them; nothing after an error.
  Status ReadWhole(Database& db, const Chunk& chunk, sqlite3_blob* blob, RecordBatch* out) {
    lengths_.resize(static_cast<size_t>(chunk.count));
    const size_t table = lengths_.size() * sizeof(uint32_t), bytes = static_cast<size_t>(chunk.bytes);
    uint64_t end = out->offsets.back();
    if (out->data.size() < end + bytes) out->data.resize(end + bytes);
    std::byte* const data = out->data.data() + end;
    LEAT_RETURN_IF_ERROR(ReadBlob(db, blob, lengths_.data(), table, 0));
    LEAT_RETURN_IF_ERROR(ReadBlob(db, blob, data, bytes, table));
    const uint64_t sum = std::accumulate(lengths_.begin(), lengths_.end(), uint64_t{0});
    if (sum != bytes || ChunkChecksum(chunk.base, lengths_, {data, bytes}) != chunk.checksum)
      return Status(Code::kDataLoss, "is damaged: wrong checksum");
    const size_t first = out->offsets.size();
    out->offsets.resize(first + lengths_.size());
    for (size_t i = 0; i < lengths_.size(); ++i) out->offsets[first + i] = end += lengths_[i];
    return Status();
  }

  Status ReadIntoCache(LogPartition& p, const Chunk& chunk, sqlite3_blob* blob) {
    if (p.cache.base == chunk.base && p.cache.Holds(chunk.base)) return Status();
    p.cache.base = chunk.base;
    p.cache.records.offsets.assign(1, 0);
    return ReadWhole(p.db, chunk, blob, &p.cache.records);
  }

  static void CopyFromCache(const CachedChunk& cache, uint64_t begin, uint64_t end, RecordBatch* out) {
    const uint64_t* from = cache.records.offsets.data() + (begin - cache.base);
    const size_t count = static_cast<size_t>(end - begin), bytes = from[count] - from[0];
    const uint64_t to = out->offsets.back();
    if (out->data.size() < to + bytes) out->data.resize(to + bytes);
    std::copy_n(cache.records.data.data() + from[0], bytes, out->data.data() + to);
    for (size_t i = 1; i <= count; ++i) out->offsets.push_back(to + from[i] - from[0]);
  }

  std::string directory_, topic_;
  LogSourceOptions options_;
  std::vector<LogPartition> partitions_;
  std::vector<uint32_t> lengths_;
};

Status SyncDirectory(const std::string& path) {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.ok() && ::fsync(directory.get()) == 0) return Status();
  return Status(Code::kPermissionDenied, path + ": sync: " + std::strerror(errno));
}

Status MakePartition(const std::string& path, uint32_t partition, const TopicOptions& options) {
  LEAT_ASSIGN_OR_RETURN(Database db, Database::Open(path, /*create=*/true));
  LEAT_RETURN_IF_ERROR(db.Run(kTables));
  {
    LEAT_ASSIGN_OR_RETURN(Statement insert, db.Prepare("INSERT INTO topic VALUES(?, ?, ?, ?, ?)"));
    const auto retention_ms = std::chrono::ceil<std::chrono::milliseconds>(options.retention_time).count();
    LEAT_RETURN_IF_ERROR(insert.Run(partition, options.partitions, options.retention_bytes, retention_ms,
                                    options.take_unpinned));
  }
  const std::string pragmas = StrCat("PRAGMA application_id = ", kLogApplicationId,
                                     "; PRAGMA user_version = ", kLogVersion, "; COMMIT;");
  return db.Run(pragmas.c_str());
}

Status MakeTopic(const std::string& path, const TopicOptions& options) {
  for (uint32_t p = 0; p < options.partitions; ++p)
    LEAT_RETURN_IF_ERROR(MakePartition(PartitionPath(path, p), p, options));
  LEAT_ASSIGN_OR_RETURN(Database first, Database::Open(PartitionPath(path, 0), /*create=*/false));
  return EnsureTopicId(first);
}

Status CheckOptions(const std::string& topic, const TopicOptions& options) {
  LEAT_RETURN_IF_ERROR(CheckTopicName(topic));
  if (options.partitions < 1 || options.partitions > EmbeddedLog::kMaxPartitions) {
    return Status(Code::kInvalidArgument,
                  StrCat("topic '", topic, "': ", options.partitions, " partitions; must be between 1 and ",
                         EmbeddedLog::kMaxPartitions));
  }
  if (options.retention_time < Duration{0} || options.retention_bytes > uint64_t{1} << 62)
    return Status(Code::kInvalidArgument, "topic '" + topic + "': retention out of range");
  return Status();
}

// Adds what one partition holds.
Status AddPartition(Database& db, TopicInfo* info, std::map<std::string, uint64_t>* retained) {
  LEAT_ASSIGN_OR_RETURN(Statement state, db.Prepare(R"(SELECT "begin", "end", bytes, sealed FROM state)"));
  LEAT_ASSIGN_OR_RETURN(const bool row, state.Step());
  if (!row) return Status(Code::kDataLoss, "the table 'state' is empty");
  const int64_t begin = state.Integer(0), end = state.Integer(1);
  info->records += static_cast<uint64_t>(end - begin);
  info->bytes += static_cast<uint64_t>(state.Integer(2));
  info->sealed = info->sealed && state.Integer(3) != 0;
  LEAT_ASSIGN_OR_RETURN(Statement pins, db.Prepare(R"(SELECT "offset", owner FROM pins)"));
  while (true) {
    LEAT_ASSIGN_OR_RETURN(const bool pin, pins.Step());
    if (!pin) return Status();
    const int64_t from = std::clamp(pins.Integer(0), begin, end);
    (*retained)[pins.Text(1)] += static_cast<uint64_t>(end - from);
  }
}

Result<TopicInfo> DescribeTopic(const std::string& directory, const std::string& topic) {
  LogTopic made;
  LEAT_ASSIGN_OR_RETURN(std::vector<Database> databases, OpenPartitions(directory, topic, &made));
  TopicInfo info{.topic = topic, .partitions = made.partitions, .sealed = true, .pins = {}};
  std::map<std::string, uint64_t> retained;
  for (uint32_t p = 0; p < databases.size(); ++p) {
    const std::string path = PartitionPath(TopicPath(directory, topic), p);
    LEAT_RETURN_IF_ERROR(AddPartition(databases[p], &info, &retained).With(path));
    for (const char* suffix : {"", "-wal"}) {
      std::error_code none;
      const uint64_t bytes = std::filesystem::file_size(path + suffix, none);
      if (!none) info.disk_bytes += bytes;
    }
  }
  for (const auto& [owner, records] : retained) info.pins.push_back({owner, records});
  return info;
}

}  // namespace

// Created under another name and renamed, so that a visible topic always has all its partitions.
Status EmbeddedLog::Create(const std::string& directory, const std::string& topic,
                           const TopicOptions& options) {
  LEAT_RETURN_IF_ERROR(CheckOptions(topic, options));
  const std::string path = TopicPath(directory, topic);
  struct stat info;
  if (::stat(PartitionPath(path, 0).c_str(), &info) != 0) {
    std::error_code error;
    if (std::filesystem::create_directories(directory, error))
      std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
    std::string temporary = directory + "/." + topic + ".XXXXXX";
    if (!::mkdtemp(temporary.data())) {
      return Status(Code::kPermissionDenied,
                    "cannot make a topic in " + directory + ": " + std::strerror(errno));
    }
    Status status = MakeTopic(temporary, options);
    if (status.ok()) status = SyncDirectory(temporary);
    // Private to its owner, as mkdtemp has made it.
    if (status.ok() && ::rename(temporary.c_str(), path.c_str()) == 0) return SyncDirectory(directory);
    const int why = errno;
    std::filesystem::remove_all(temporary, error);
    if (!status.ok()) return status.With(path);
    // Another process was first; its topic is equivalent.
    if (why != ENOTEMPTY && why != EEXIST)
      return Status(Code::kPermissionDenied, path + ": " + std::strerror(why));
  }
  LogTopic made;
  LEAT_RETURN_IF_ERROR(OpenPartitions(directory, topic, &made).status());
  if (made.partitions != options.partitions) {
    return Status(Code::kFailedPrecondition,
                  StrCat("topic '", topic, "' in ", directory, " has ", made.partitions, " partitions, not ",
                         options.partitions));
  }
  return Status();
}

Result<std::unique_ptr<Source>> EmbeddedLog::OpenSource(const std::string& directory,
                                                        const std::string& topic,
                                                        const LogSourceOptions& options) {
  LogTopic made;
  LEAT_ASSIGN_OR_RETURN(std::vector<Database> databases, OpenPartitions(directory, topic, &made));
  auto source = std::make_unique<EmbeddedLogSource>(directory, topic, options);
  LEAT_RETURN_IF_ERROR(source->Open(std::move(databases)));
  return std::unique_ptr<Source>(std::move(source));
}

Result<uint64_t> EmbeddedLog::ReadId(const std::string& directory, const std::string& topic) {
  LogTopic made;
  LEAT_ASSIGN_OR_RETURN(std::vector<Database> databases, OpenPartitions(directory, topic, &made));
  return ReadTopicId(databases.front());
}

Result<std::vector<TopicInfo>> EmbeddedLog::List(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> topics;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (CheckTopicName(name).ok() && std::filesystem::exists(PartitionPath(it->path(), 0)))
      topics.push_back(name);
  }
  if (error) return Status(Code::kNotFound, directory + ": " + error.message());
  std::ranges::sort(topics);
  std::vector<TopicInfo> infos;
  for (const std::string& topic : topics) {
    LEAT_ASSIGN_OR_RETURN(TopicInfo info, DescribeTopic(directory, topic));
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace leat::stream
