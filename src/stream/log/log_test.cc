#include "stream/log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "base/rng.h"
#include "stream/log/log_layout.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string_view> Views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

std::vector<std::string> Numbered(size_t from, size_t count, size_t bytes = 0) {
  std::vector<std::string> texts;
  for (size_t i = from; i < from + count; ++i)
    texts.push_back(std::to_string(i) + "/" + std::string(bytes, 'x'));
  return texts;
}

class LogTest : public ::testing::Test {
 protected:
  void Make(const TopicOptions& options) { ASSERT_TRUE(EmbeddedLog::Create(dir_.path(), "t", options).ok()); }
  std::unique_ptr<LogWriter> Writer(const LogWriterOptions& options = {}) {
    auto writer = LogWriter::Open(dir_.path(), "t", options);
    EXPECT_TRUE(writer.ok()) << writer.status().ToString();
    return std::move(writer).value();
  }
  std::unique_ptr<Source> Reader() {
    auto source = EmbeddedLog::OpenSource(dir_.path(), "t");
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    return std::move(source).value();
  }
  static uint64_t Append(LogWriter& writer, uint32_t partition, const std::vector<std::string>& texts) {
    auto first = writer.Append(partition, Views(texts));
    EXPECT_TRUE(first.ok()) << first.status().ToString();
    return first.ok() ? *first : 0;
  }
  // Runs SQL on a partition to simulate damage.
  void Tamper(uint32_t partition, const char* sql) {
    auto db = Database::Open(PartitionPath(TopicPath(dir_.path(), "t"), partition), false);
    ASSERT_TRUE(db.ok());
    const Status status = db->Run(sql);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  TempDir dir_;
};

TEST_F(LogTest, GivesBackWhatWasAppendedWithDenseOffsets) {
  Make({.partitions = 2});
  auto writer = Writer();
  auto reader = Reader();
  EXPECT_EQ(Append(*writer, 0, {"a", "", "ccc"}), 0u);
  EXPECT_EQ(Append(*writer, 1, {"other"}), 0u);
  EXPECT_EQ(Append(*writer, 0, {}), 3u);
  EXPECT_EQ(Append(*writer, 0, {"d"}), 3u);
  EXPECT_THAT(*reader->Ranges(), ElementsAre(PartitionRange{0, 0, 4, false}, PartitionRange{1, 0, 1, false}));
  RecordBatch batch;
  ASSERT_TRUE(reader->Read(0, 0, 4, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("a", "", "ccc", "d"));
  ASSERT_TRUE(reader->Read(0, 1, 3, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("", "ccc"));
  EXPECT_EQ(batch.first_offset, 1u);
  ASSERT_GE(batch.data.size(), batch.offsets.back() + RecordBatch::kPadding);
  ASSERT_TRUE(reader->Read(0, 2, 2, &batch).ok());
  EXPECT_EQ(batch.size(), 0u);
}

// Every range, over chunks limited by count and by bytes, equals that of a plain list of the records.
TEST_F(LogTest, ReadsAnyRangeOverChunkBoundaries) {
  Make({.partitions = 1});
  auto writer = Writer();
  auto reader = Reader();
  std::vector<std::string> all;
  Rng rng(7);
  for (int i = 0; i < 30; ++i) {
    auto texts = Numbered(all.size(), 1 + rng.Below(40), rng.Below(3000));
    if (i == 10) texts.assign(1, std::string(3 * kChunkBytes, 'y'));
    if (i == 20) texts = Numbered(all.size(), kChunkRecords + 5);
    Append(*writer, 0, texts);
    all.insert(all.end(), texts.begin(), texts.end());
  }
  RecordBatch batch;
  for (int i = 0; i < 300; ++i) {
    const uint64_t begin = rng.Below(all.size() + 1);
    const uint64_t end =
        begin + rng.Below(std::min<uint64_t>(all.size() - begin, i % 2 ? 100 : all.size()) + 1);
    const Status status = reader->Read(0, begin, end, &batch);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(batch.size(), end - begin);
    for (uint64_t o = begin; o < end; ++o) ASSERT_EQ(AsText(batch[o - begin]), all[o]);
  }
}

TEST_F(LogTest, ErrorsNameWhatIsMissing) {
  EXPECT_EQ(EmbeddedLog::OpenSource(dir_.path(), "t").status(),
            Status(Code::kNotFound, "no topic 't' in " + dir_.path()));
  EXPECT_EQ(LogWriter::Open(dir_.path(), "t").status().code(), Code::kNotFound);
  EXPECT_EQ(EmbeddedLog::Create(dir_.path(), "../t", {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(EmbeddedLog::Create(dir_.path(), "", {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(EmbeddedLog::Create(dir_.path(), "t", {.partitions = 0}).code(), Code::kInvalidArgument);
  Make({.partitions = 2});
  Make({.partitions = 2});
  const Status other = EmbeddedLog::Create(dir_.path(), "t", {.partitions = 3});
  EXPECT_EQ(other.code(), Code::kFailedPrecondition);
  EXPECT_THAT(other.message(), HasSubstr("has 2 partitions, not 3"));

  auto writer = Writer();
  auto reader = Reader();
  Append(*writer, 0, {"a"});
  RecordBatch batch;
  const Status ahead = reader->Read(0, 0, 2, &batch);
  EXPECT_EQ(ahead.code(), Code::kFailedPrecondition);
  EXPECT_THAT(ahead.message(), HasSubstr("topic 't' partition 0 offsets 0 to 2"));
  EXPECT_EQ(reader->Read(2, 0, 1, &batch).code(), Code::kInvalidArgument);
  EXPECT_EQ(batch.size(), 0u);
  const std::string_view record = "x";
  EXPECT_EQ(writer->Append(2, {&record, 1}).status().code(), Code::kInvalidArgument);
  const std::string huge(LogWriter::kMaxRecordBytes + 1, 'x');
  const std::string_view too_large = huge;
  EXPECT_EQ(writer->Append(0, {&too_large, 1}).status().code(), Code::kInvalidArgument);
}

TEST_F(LogTest, SealEndsATopicForAllWriters) {
  Make({.partitions = 2});
  auto one = Writer(), other = Writer();
  auto reader = Reader();
  Append(*one, 0, {"a"});
  ASSERT_TRUE(one->Seal().ok());
  ASSERT_TRUE(one->Seal().ok());
  EXPECT_THAT(*reader->Ranges(), ElementsAre(PartitionRange{0, 0, 1, true}, PartitionRange{1, 0, 0, true}));
  const std::string_view record = "x";
  EXPECT_EQ(other->Append(0, {&record, 1}).status().code(), Code::kFailedPrecondition);
}

TEST_F(LogTest, SyncTakesOnlyRecordsThatExist) {
  Make({.partitions = 2});
  auto writer = Writer();
  auto reader = Reader();
  Append(*writer, 1, {"a", "b"});
  EXPECT_TRUE(reader->Sync(1, 2).ok());
  EXPECT_TRUE(reader->Sync(0, 0).ok());
  const Status ahead = reader->Sync(1, 3);
  EXPECT_EQ(ahead.code(), Code::kFailedPrecondition);
  EXPECT_THAT(ahead.message(), HasSubstr("topic 't' partition 1: ends at 2"));
  EXPECT_EQ(reader->Sync(2, 0).code(), Code::kInvalidArgument);
}

TEST_F(LogTest, AdvanceFillsLostOffsetsWithEmptyRecords) {
  Make({.partitions = 2});
  auto writer = Writer();
  auto reader = Reader();
  Append(*writer, 0, {"a"});
  const uint64_t end = 2 * kChunkRecords + 7;
  ASSERT_TRUE(reader->Advance(0, end).ok());
  ASSERT_TRUE(reader->Advance(0, 5).ok()) << "never goes back";
  EXPECT_THAT(*reader->Ranges(),
              ElementsAre(PartitionRange{0, 0, end, false}, PartitionRange{1, 0, 0, false}));
  EXPECT_EQ(Append(*writer, 0, {"b"}), end);
  RecordBatch batch;
  ASSERT_TRUE(reader->Read(0, 0, 3, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("a", "", ""));
  ASSERT_TRUE(writer->Seal().ok());
  EXPECT_EQ(reader->Advance(0, end + 9).code(), Code::kFailedPrecondition);
}

TEST_F(LogTest, RetentionNeverPassesTheLowestPin) {
  Make({.partitions = 1, .retention_bytes = 1000, .retention_time = Duration{0}});
  auto writer = Writer();
  auto reader = Reader();
  const auto begin = [&] { return (*reader->Ranges())[0].begin; };
  // Without pins everything is kept.
  for (int i = 0; i < 20; ++i) Append(*writer, 0, Numbered(0, 1, 98));
  EXPECT_EQ(begin(), 0u);
  ASSERT_TRUE(reader->Pin("late", 0, 5).ok());
  ASSERT_TRUE(reader->Pin("early", 0, 12).ok());
  Append(*writer, 0, Numbered(0, 1, 98));
  EXPECT_EQ(begin(), 5u);
  ASSERT_TRUE(reader->Pin("late", 0, 21).ok());
  Append(*writer, 0, Numbered(0, 1, 98));
  EXPECT_EQ(begin(), 12u);  // 10 records fit into the limit
  ASSERT_TRUE(reader->Unpin("early").ok());
  Append(*writer, 0, Numbered(0, 10, 98));
  EXPECT_EQ(begin(), 21u);
  RecordBatch batch;
  const Status gone = reader->Read(0, 3, 30, &batch);
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_THAT(gone.message(), HasSubstr("retention has taken all below 21"));
  EXPECT_EQ(reader->Pin("resumed", 0, 20).code(), Code::kNotFound);
  EXPECT_TRUE(reader->Read(0, 21, 32, &batch).ok());
}

int64_t now_ms = 0;

TEST_F(LogTest, RetentionByTimeTakesUnpinnedRecordsOnlyWhenAllowed) {
  Make({.partitions = 1, .retention_time = std::chrono::seconds(10), .take_unpinned = true});
  now_ms = 1'000'000;
  auto writer = Writer({.now_ms = [] { return now_ms; }});
  auto reader = Reader();
  Append(*writer, 0, {"a", "b"});
  now_ms += 6'000;
  Append(*writer, 0, {"c"});
  EXPECT_EQ((*reader->Ranges())[0], (PartitionRange{0, 0, 3, false}));
  now_ms += 6'000;
  Append(*writer, 0, {"d"});
  EXPECT_EQ((*reader->Ranges())[0], (PartitionRange{0, 2, 4, false}));
  now_ms += 60'000;
  Append(*writer, 0, {"e"});
  EXPECT_EQ((*reader->Ranges())[0], (PartitionRange{0, 4, 5, false}));
}

TEST_F(LogTest, StopsBeforeTheDiskIsFull) {
  Make({.partitions = 1});
  auto writer = Writer({.min_free_bytes = uint64_t{1} << 60});
  const std::string_view record = "x";
  const Status full = writer->Append(0, {&record, 1}).status();
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("MiB free"));
  EXPECT_EQ((*Reader()->Ranges())[0].end, 0u);
}

TEST_F(LogTest, DetectsAndLocatesDamage) {
  Make({.partitions = 2});
  auto writer = Writer();
  for (int i = 0; i < 4; ++i) Append(*writer, 1, Numbered(10 * i, 10, 50));
  const auto read = [&](uint64_t begin, uint64_t end) {
    RecordBatch batch;
    const Status status = Reader()->Read(1, begin, end, &batch);
    EXPECT_EQ(batch.size(), status.ok() ? end - begin : 0);
    return status;
  };
  // Changes a byte of a record.
  Tamper(1,
         "UPDATE chunks SET records = CAST(substr(records, 1, 100) || x'00' || substr(records, 102) AS BLOB) "
         "WHERE base = 10");
  const Status flipped = read(0, 40);
  EXPECT_EQ(flipped.code(), Code::kDataLoss);
  EXPECT_THAT(flipped.message(), HasSubstr("topic 't' partition 1 offsets 0 to 40: chunk at offset 10"));
  EXPECT_EQ(read(12, 13).code(), Code::kDataLoss);
  EXPECT_TRUE(read(0, 10).ok());
  EXPECT_TRUE(read(20, 40).ok());
  Tamper(1, "UPDATE chunks SET records = substr(records, 1, 90) WHERE base = 20");
  EXPECT_EQ(read(20, 40).code(), Code::kDataLoss);
  Tamper(1, "UPDATE chunks SET count = 1000000000000 WHERE base = 20");
  EXPECT_EQ(read(20, 40).code(), Code::kDataLoss);
  Tamper(1, "DELETE FROM chunks WHERE base = 20");
  EXPECT_EQ(read(10, 40).code(), Code::kDataLoss);
  EXPECT_EQ(read(25, 40).code(), Code::kDataLoss);
  EXPECT_TRUE(read(30, 40).ok());
  // A chunk at another chunk's offset.
  Tamper(1, "UPDATE chunks SET base = 20 WHERE base = 30");
  EXPECT_EQ(read(20, 30).code(), Code::kDataLoss);
  Tamper(1, "PRAGMA user_version = 7");
  EXPECT_EQ(EmbeddedLog::OpenSource(dir_.path(), "t").status().code(), Code::kDataLoss);
}

// Random bytes of the file are overwritten: records that can still be read are unchanged.
TEST_F(LogTest, ADamagedFileGivesErrorsNotOtherRecords) {
  for (int round = 0; round < 12; ++round) {
    const TempDir dir;
    ASSERT_TRUE(EmbeddedLog::Create(dir.path(), "t", {.partitions = 1}).ok());
    const auto texts = Numbered(0, 200, 300);
    {
      auto writer = LogWriter::Open(dir.path(), "t");
      const auto views = Views(texts);
      for (int i = 0; i < 4; ++i)
        ASSERT_TRUE((*writer)->Append(0, std::span(views).subspan(50 * i, 50)).ok());
    }
    const std::string path = PartitionPath(TopicPath(dir.path(), "t"), 0);
    Rng rng(round);
    {
      FILE* file = std::fopen(path.c_str(), "r+b");
      ASSERT_TRUE(file);
      const auto size = std::filesystem::file_size(path);
      for (int i = 0; i < 20; ++i) {
        std::fseek(file, static_cast<long>(rng.Below(size)), SEEK_SET);
        std::fputc(static_cast<int>(rng.Below(256)), file);
      }
      std::fclose(file);
    }
    auto source = EmbeddedLog::OpenSource(dir.path(), "t");
    if (!source.ok()) continue;
    RecordBatch batch;
    for (uint64_t at = 0; at < 200; at += 10) {
      if (!(*source)->Read(0, at, at + 10, &batch).ok()) continue;
      ASSERT_THAT(TextsOf(batch), ::testing::ElementsAreArray(texts.begin() + at, texts.begin() + at + 10));
    }
  }
}

// Two writers and two readers at a time, each with its own handles, like separate processes.
TEST_F(LogTest, ReadersSeeOnlyWholeAppendsWhileOthersWrite) {
  Make({.partitions = 1});
  std::atomic<int> writing = 2;
  std::vector<std::thread> threads;
  for (int w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      auto writer = Writer();
      for (int i = 0; i < 100; ++i) {
        const std::string text = std::to_string(w) + ":" + std::to_string(i);
        Append(*writer, 0, {text, text, text});
      }
      --writing;
    });
  }
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&] {
      auto reader = Reader();
      RecordBatch batch;
      uint64_t at = 0;
      int next[2] = {0, 0};
      for (bool last = false; !last;) {
        last = writing == 0;
        const uint64_t end = (*reader->Ranges())[0].end;
        ASSERT_EQ(end % 3, 0u);
        ASSERT_TRUE(reader->Read(0, at, end, &batch).ok());
        for (size_t i = 0; i < batch.size(); i += 3) {
          const std::string text(AsText(batch[i]));
          ASSERT_EQ(AsText(batch[i + 1]), text);
          ASSERT_EQ(AsText(batch[i + 2]), text);
          ASSERT_EQ(text.substr(2), std::to_string(next[text[0] - '0']++));
        }
        at = end;
      }
      EXPECT_EQ(at, 600u);
    });
  }
  for (auto& thread : threads) thread.join();
}

// Retention during a read is not reported as damage.
TEST_F(LogTest, ReadersThatAreTooLateAreToldSo) {
  Make({.partitions = 1, .retention_bytes = 2000, .retention_time = Duration{0}, .take_unpinned = true});
  std::atomic<bool> over = false;
  int found = 0;
  std::thread thread([&] {
    auto reader = Reader();
    RecordBatch batch;
    for (bool last = false; !last;) {
      last = over;
      const PartitionRange range = (*reader->Ranges())[0];
      const Status status = reader->Read(0, range.begin, range.end, &batch);
      ASSERT_TRUE(status.ok() || status.code() == Code::kNotFound) << status.ToString();
      found += status.ok();
      for (uint64_t i = 0; i < batch.size(); ++i) {
        ASSERT_EQ(AsText(batch[i]).substr(0, AsText(batch[i]).find('/')), std::to_string(range.begin + i));
      }
    }
  });
  auto writer = Writer();
  for (size_t i = 0; i < 3000; i += 5) Append(*writer, 0, Numbered(i, 5, 90));
  over = true;
  thread.join();
  EXPECT_GT(found, 0);
}

// SQLite alone lets the WAL grow while any reader is busy.
TEST_F(LogTest, TheWalStaysSmallWhileReadersAreBusy) {
  Make({.partitions = 1});
  auto writer = Writer();
  std::atomic<bool> over = false;
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      auto reader = Reader();
      RecordBatch batch;
      while (!over) {
        const uint64_t end = (*reader->Ranges())[0].end;
        ASSERT_TRUE(reader->Read(0, end - std::min<uint64_t>(end, 4), end, &batch).ok());
      }
    });
  }
  const std::vector<std::string> records(4, std::string(1 << 18, 'x'));
  uint64_t appended = 0, wal = 0;
  for (int mib = 0; mib < 400 && wal + (40 << 20) > appended; ++mib) {
    Append(*writer, 0, records);
    appended += 1 << 20;
    wal = std::filesystem::file_size(dir_ / "t/0000.log-wal");
  }
  EXPECT_LT(wal + (40 << 20), appended + 1);
  over = true;
  for (auto& reader : readers) reader.join();
}

TEST_F(LogTest, AStoppedReaderDoesNotLetTheWalGrowWithoutBound) {
  Make({.partitions = 1});
  auto writer = Writer({.min_free_bytes = 1, .max_wal_bytes = 4 << 20});
  Append(*writer, 0, {"a"});
  auto reader = Database::Open(PartitionPath(TopicPath(dir_.path(), "t"), 0), false);
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(reader->Run("BEGIN; SELECT * FROM state").ok());
  const std::string record(1 << 19, 'x');
  const std::string_view view = record;
  Status refused;
  for (int i = 0; i < 40 && refused.ok(); ++i) refused = writer->Append(0, {&view, 1}).status();
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("topic 't' partition 0: the WAL has 4 MiB, and a reader"));
  EXPECT_LT(std::filesystem::file_size(dir_ / "t/0000.log-wal"), size_t{6} << 20);
  reader->Rollback();
  EXPECT_TRUE(writer->Append(0, {&view, 1}).ok());
}

TEST_F(LogTest, OthersCannotReadIt) {
  const auto mode = [](const std::string& path) {
    return static_cast<unsigned>(std::filesystem::status(path).permissions()) & 0777;
  };
  ASSERT_TRUE(EmbeddedLog::Create(dir_ / "log", "t", {.partitions = 1}).ok());
  auto writer = LogWriter::Open(dir_ / "log", "t", {.min_free_bytes = 1});
  Append(**writer, 0, {"a"});
  EXPECT_EQ(mode(dir_ / "log"), 0700u);
  EXPECT_EQ(mode(dir_ / "log/t"), 0700u);
  for (const char* suffix : {"", "-wal", "-shm"}) EXPECT_EQ(mode(dir_ / "log/t/0000.log" + suffix), 0600u);
}

TEST_F(LogTest, ADamagedChunkIsQuarantinedIfTheReaderAllowsIt) {
  Make({.partitions = 1});
  auto writer = Writer();
  for (int i = 0; i < 4; ++i) Append(*writer, 0, Numbered(10 * i, 10, 50));
  Tamper(0,
         "UPDATE chunks SET records = CAST(substr(records, 1, 100) || x'00' || substr(records, 102) AS BLOB) "
         "WHERE base = 10");
  auto source = EmbeddedLog::OpenSource(dir_.path(), "t", {.quarantine = true});
  ASSERT_TRUE(source.ok());
  RecordBatch batch;
  for (const auto& [begin, end] : {std::pair<uint64_t, uint64_t>{5, 35}, {0, 40}, {12, 14}, {5, 35}}) {
    ASSERT_TRUE((*source)->Read(0, begin, end, &batch).ok());
    ASSERT_EQ(batch.size(), end - begin);
    ASSERT_EQ(batch.lost.size(), 1u);
    EXPECT_EQ(begin + batch.lost[0].begin, std::max<uint64_t>(begin, 10));
    EXPECT_EQ(begin + batch.lost[0].end, std::min<uint64_t>(end, 20));
    EXPECT_EQ(batch.lost[0].reason, "chunk at offset 10: is damaged: wrong checksum");
    for (uint64_t o = begin; o < end; ++o) {
      EXPECT_EQ(AsText(batch[o - begin]), 10 <= o && o < 20 ? "" : Numbered(o, 1, 50)[0]);
    }
  }
  ASSERT_TRUE((*source)->Read(0, 20, 40, &batch).ok());
  EXPECT_TRUE(batch.lost.empty());
  Tamper(0, "DELETE FROM chunks WHERE base = 20");
  EXPECT_EQ((*source)->Read(0, 0, 40, &batch).code(), Code::kDataLoss)
      << "what is not there cannot be skipped";
}

TEST_F(LogTest, IsListed) {
  EXPECT_EQ(EmbeddedLog::List(dir_ / "none").status().code(), Code::kNotFound);
  EXPECT_TRUE(EmbeddedLog::List(dir_.path())->empty());
  Make({.partitions = 2});
  ASSERT_TRUE(EmbeddedLog::Create(dir_.path(), "a.b", {.partitions = 1}).ok());
  auto writer = Writer();
  auto reader = Reader();
  Append(*writer, 0, {"12345", "1"});
  Append(*writer, 1, {"123"});
  ASSERT_TRUE(reader->Pin("one@/job", 0, 1).ok());
  ASSERT_TRUE(reader->Pin("one@/job", 1, 0).ok());
  ASSERT_TRUE(reader->Pin("two@/job", 1, 1).ok());
  ASSERT_TRUE(writer->Seal().ok());
  const auto topics = EmbeddedLog::List(dir_.path());
  ASSERT_TRUE(topics.ok()) << topics.status().ToString();
  ASSERT_EQ(topics->size(), 2u);
  EXPECT_EQ((*topics)[0].topic, "a.b");
  EXPECT_FALSE((*topics)[0].sealed);
  const TopicInfo& t = (*topics)[1];
  EXPECT_EQ(t.topic, "t");
  EXPECT_EQ(t.partitions, 2u);
  EXPECT_EQ(t.records, 3u);
  EXPECT_EQ(t.bytes, 9u);
  EXPECT_GT(t.disk_bytes, 2 * kPageBytes);
  EXPECT_TRUE(t.sealed);
  ASSERT_EQ(t.pins.size(), 2u);
  EXPECT_EQ(t.pins[0].owner, "one@/job");
  EXPECT_EQ(t.pins[0].retained, 2u);
  EXPECT_EQ(t.pins[1].retained, 0u);
}

// A child that appends batches until it is killed; each record has the writer, the batch, its size and the
// index in it.
[[noreturn]] void AppendForEver(const std::string& directory, int id, uint64_t seed) {
  auto writer = LogWriter::Open(directory, "t");
  if (!writer.ok()) _exit(1);
  Rng rng(seed);
  for (int batch = 0;; ++batch) {
    const size_t count = 1 + rng.Below(50);
    std::vector<std::string> texts;
    for (size_t i = 0; i < count; ++i) {
      texts.push_back(std::to_string(id) + " " + std::to_string(batch) + " " + std::to_string(count) + " " +
                      std::to_string(i) + " " + std::string(rng.Below(600), 'x'));
    }
    std::vector<std::string_view> views(texts.begin(), texts.end());
    if (!(*writer)->Append(static_cast<uint32_t>(rng.Below(2)), views).ok()) _exit(2);
  }
}

// Reads [from, end) and checks that it consists of whole batches.
void CheckWholeBatches(Source& source, uint32_t partition, uint64_t from, uint64_t end,
                       std::set<std::array<int, 2>>* seen) {
  RecordBatch batch;
  const Status status = source.Read(partition, from, end, &batch);
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (size_t i = 0; i < batch.size();) {
    int id, number, count, place;
    ASSERT_EQ(
        std::sscanf(std::string(AsText(batch[i])).c_str(), "%d %d %d %d ", &id, &number, &count, &place), 4);
    ASSERT_LE(i + count, batch.size());
    for (int k = 0; k < count; ++k, ++i) {
      const std::string head = std::to_string(id) + " " + std::to_string(number) + " " +
                               std::to_string(count) + " " + std::to_string(k) + " ";
      ASSERT_EQ(AsText(batch[i]).substr(0, head.size()), head);
    }
    ASSERT_TRUE(seen->insert({id, number}).second) << "batch appended twice";
  }
}

TEST_F(LogTest, KilledWritersLeaveWholeBatchesAndDenseOffsets) {
  Make({.partitions = 2});
  Rng rng(11);
  std::set<std::array<int, 2>> seen;
  uint64_t at[2] = {0, 0};
  std::map<int, pid_t> children;
  const auto spawn = [&](int id) {
    const pid_t pid = ::fork();
    if (pid == 0) AppendForEver(dir_.path(), id, id);
    children[id] = pid;
  };
  for (int id = 0; id < 3; ++id) spawn(id);
  for (int id = 3; id < 28; ++id) {
    std::this_thread::sleep_for(std::chrono::microseconds(rng.Below(20'000)));
    auto victim = children.begin();
    std::advance(victim, rng.Below(children.size()));
    ::kill(victim->second, SIGKILL);
    int how = 0;
    ASSERT_EQ(::waitpid(victim->second, &how, 0), victim->second);
    EXPECT_TRUE(WIFSIGNALED(how)) << "writer ended by itself with " << WEXITSTATUS(how);
    children.erase(victim);
    spawn(id);
    // Opened anew: this process never has a database open across the fork above.
    auto source = Reader();
    for (uint32_t p = 0; p < 2; ++p) {
      const uint64_t end = (*source->Ranges())[p].end;
      ASSERT_GE(end, at[p]);
      CheckWholeBatches(*source, p, at[p], end, &seen);
      at[p] = end;
    }
  }
  for (const auto& [id, pid] : children) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  EXPECT_GT(seen.size(), 25u);
  auto writer = Writer();
  EXPECT_GE(Append(*writer, 0, {"after"}), at[0]);
}

TEST_F(LogTest, ATopicHasAnIdOfItsOwn) {
  Make({});
  const auto id = EmbeddedLog::ReadId(dir_.path(), "t");
  ASSERT_TRUE(id.ok()) << id.status().ToString();
  EXPECT_NE(*id, 0u);
  Writer();
  Make({});
  EXPECT_EQ(*EmbeddedLog::ReadId(dir_.path(), "t"), *id) << "it stays";
  ASSERT_TRUE(EmbeddedLog::Create(dir_.path(), "other", {}).ok());
  EXPECT_NE(*EmbeddedLog::ReadId(dir_.path(), "other"), *id);
}

TEST_F(LogTest, ATopicOfAnEarlierVersionGetsAnIdFromItsWriter) {
  Make({});
  Tamper(0, "DROP TABLE identity");
  EXPECT_EQ(*EmbeddedLog::ReadId(dir_.path(), "t"), 0u);
  EXPECT_TRUE(Reader()->Ranges().ok());
  EXPECT_EQ(*EmbeddedLog::ReadId(dir_.path(), "t"), 0u) << "a reader does not write";
  Writer();
  const uint64_t id = *EmbeddedLog::ReadId(dir_.path(), "t");
  EXPECT_NE(id, 0u);
  Writer();
  EXPECT_EQ(*EmbeddedLog::ReadId(dir_.path(), "t"), id);
}

}  // namespace
}  // namespace leat::stream
