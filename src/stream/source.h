// Sources of events: topics divided into partitions, each an ordered sequence of records with dense offsets.
//
// A common interface for the embedded log, files and Kafka. Readers request offsets and have no position of
// their own: the coordinator decides which worker reads which range. Dense means that record `o` exists for
// every begin ≤ o < end; offsets that a Kafka topic lacks are marked (RecordBatch::absent).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fields/fields.h"
#include "base/status.h"
#include "base/text.h"

namespace leat::stream {

// For events whose labels come later, in a topic of their own (join/join_source.h): the events of a partition
// from the mark before it to before `events` are ready. They are joined with the labels [labels_begin,
// labels_end) of the label topic's partition of the same number.
struct LabelMark {
  uint64_t events = 0;
  uint64_t labels_begin = 0;
  uint64_t labels_end = 0;
};
LEAT_FIELDS(LabelMark, (events), (labels_begin), (labels_end, AtLeast(self.labels_begin)));
// Whether a mark may come after another one (PartitionRange::marks).
bool Follows(const LabelMark& mark, const LabelMark& last);

// The current contents of a partition. `begin` grows with retention, `end` with every append.
struct PartitionRange {
  uint32_t partition = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  // Nothing will be appended any more: a file, or a topic whose writers are done. Where there are marks, the
  // last one is reported, too.
  bool sealed = false;
  // The marks since those that have been reported, in order: `events` ascends strictly, and neither begin nor
  // end of the labels ever descends. See Source::WantMarks.
  std::vector<LabelMark> marks = {};
  // Why the partition cannot be asked at present: the rest is as last known. Empty: it has been asked.
  std::string unasked = {};
};
LEAT_FIELDS(PartitionRange, (partition), (begin), (end, AtLeast(self.begin)), (sealed),
            (marks, AtMost(1 << 20)), (unasked, CutTo(4096)));
Status Check(const PartitionRange& range);

// A key, a timestamp or a header of a Kafka record, or the label that was joined with it.
struct Attribute {
  // A timestamp is an int64, the milliseconds since 1970: the producer's or the broker's, as the topic says.
  // A label is the u64 offset of its record, then the record's bytes.
  enum class Kind : uint8_t { kKey = 1, kTimestamp = 2, kHeader = 3, kLabel = 4 } kind = Kind::kKey;
  std::string header;  // kHeader: its name; of several with that name the last counts
};
LEAT_ENUM(Attribute::Kind, (kKey, "key"), (kTimestamp, "timestamp"), (kHeader, "header"), (kLabel, "label"));
LEAT_FIELDS(Attribute, (kind), (header, AtMost(4096)));

// The index of the first of this kind; their number if there is none.
size_t IndexOf(std::span<const Attribute> attributes, Attribute::Kind kind);

// Values of an attribute of consecutive records, some of which may lack it.
class AttributeValues {
 public:
  void Append(std::optional<ByteView> value);
  // Appends values of records that do not have the attribute until there are so many.
  void FillTo(size_t records) { ends_.resize(std::max(ends_.size(), records), data_.size() | kNone); }
  size_t size() const { return ends_.size(); }
  std::optional<ByteView> operator[](size_t record) const;

 private:
  static constexpr uint64_t kNone = uint64_t{1} << 63;  // in `ends_`
  std::vector<uint64_t> ends_;
  std::vector<std::byte> data_;
};

// Consecutive records in one block of memory: record i is the bytes [offsets[i], offsets[i + 1]) of `data`.
// Reuse batches, so that steady reading needs no allocations.
struct RecordBatch {
  // Number of readable bytes after the last record, because JSON parsers read past the end.
  static constexpr size_t kPadding = 64;

  uint32_t partition = 0;
  uint64_t first_offset = 0;
  std::vector<uint64_t> offsets{0};  // size() + 1 entries
  std::vector<std::byte> data;       // ends in kPadding zeros
  // Records [begin, end) are empty because they could not be read: dead letters, whatever the schema.
  struct Lost {
    size_t begin = 0;
    size_t end = 0;
    std::string reason;
  };
  std::vector<Lost> lost;
  // Records [begin, end) do not exist: offsets of Kafka's transaction markers, and of aborted transactions.
  // They are empty, and no dead letters. In ascending order.
  struct Absent {
    size_t begin = 0;
    size_t end = 0;
  };
  std::vector<Absent> absent;
  bool IsAbsent(size_t record) const;
  // Number of the absent records that existed until retention removed them; transactions' offsets among them
  // count, too.
  uint64_t expired = 0;
  // The attributes that the reader wants: set before a read, which leaves them as they are. `attributes[i]`
  // has the values of wanted[i], or is missing if the source's records have none.
  std::vector<Attribute> wanted;
  std::vector<AttributeValues> attributes;
  std::optional<ByteView> Value(size_t attribute, size_t record) const;
  // The labels that the records are joined with, if a label is wanted: set before a read, too.
  uint64_t labels_begin = 0;
  uint64_t labels_end = 0;

  // Empty, and without padding. Keeps what is set before a read.
  void Restart(uint32_t of_partition, uint64_t begin);
  // Appends a record to a batch without padding.
  void Add(ByteView record);
  size_t size() const { return offsets.size() - 1; }
  ByteView operator[](size_t i) const {
    return ByteView(data).subspan(offsets[i], offsets[i + 1] - offsets[i]);
  }
};
LEAT_FIELDS(RecordBatch::Lost, (begin), (end), (reason, CutTo(4096)));
LEAT_FIELDS(RecordBatch::Absent, (begin), (end));

// Not thread-safe: use one Source per thread. A topic can have any number of Sources, in any number of
// processes.
class Source {
 public:
  virtual ~Source() = default;
  // A partition that cannot be asked for a moment, such as one of Kafka without a leader, holds up no other
  // one once something is known of it (PartitionRange::unasked).
  virtual Result<std::vector<PartitionRange>> Ranges() = 0;
  // Replaces the contents of `out` by the records [begin, end) of a partition. kNotFound with the offsets if
  // retention has removed some; kFailedPrecondition if some do not exist yet; kDataLoss if bytes are damaged;
  // kUnavailable if they cannot be had at present.
  virtual Status Read(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) = 0;
  // Declares that the job `owner` no longer needs records below `offset` (the watermark of its oldest
  // checkpoint): retention may remove them and must keep the others. Sources without retention ignore it.
  // kNotFound if retention has already removed some needed records; the rest is kept all the same.
  virtual Status Pin(const std::string& /*owner*/, uint32_t /*partition*/, uint64_t /*offset*/) {
    return Status();
  }
  // Returns once the records of a partition before `end` are on disk: they survive a power failure.
  // kFailedPrecondition if some do not exist. Sources of records that exist before the job ignore it.
  virtual Status Sync(uint32_t /*partition*/, uint64_t /*end*/) { return Status(); }
  // Appends empty records until the partition ends at `end`, so that no other record gets an offset below it.
  // On disk when it returns ok. kFailedPrecondition if nothing can be appended.
  virtual Status Advance(uint32_t partition, uint64_t /*end*/) {
    return Status(Code::kFailedPrecondition,
                  StrCat("partition ", partition, ": nothing can be appended to files"));
  }
  // Tells the stream's own tools how far a job is: before `offsets`, one for each partition from 0,
  // everything is in a complete checkpoint. Does not wait for an answer; nothing depends on it. Sources
  // without such tools ignore it.
  virtual Status CommitOffsets(const std::string& /*group*/, std::span<const uint64_t> /*offsets*/) {
    return Status();
  }
  // Late labels: the next reports have the marks of a partition after `last`, the last one that the caller
  // has got (LabelMark(): from the first event on), and at most `room` of them until the next call. Before
  // the first call there are none. Sources without such labels ignore it.
  virtual void WantMarks(uint32_t /*partition*/, const LabelMark& /*last*/, uint64_t /*room*/) {}
  // A hash of the last record before `offset` with its offset and attributes, by which a job finds out that a
  // topic was deleted and made again. 0: there is none, or the source has nothing of the kind.
  virtual Result<uint64_t> Fingerprint(uint32_t /*partition*/, uint64_t /*offset*/) { return uint64_t{0}; }
  // Removes the job's pins after its end. Idempotent.
  virtual Status Unpin(const std::string& /*owner*/) { return Status(); }
};

// The time of a record that is absent, or has none, is empty.
using RecordTimes = std::vector<std::optional<int64_t>>;

// A source whose records have a time, in milliseconds since 1970, as those of Kafka have.
class TimedSource : public Source {
 public:
  // The first offset of a partition whose record has this time or a later one: every record before it is
  // earlier. The partition's end if there is none.
  virtual Result<uint64_t> FirstSince(uint32_t partition, int64_t time_ms) = 0;
  // Replaces `times` by those of the records [begin, end). The errors are those of Read. Sources that can do
  // without the records' bytes override it.
  virtual Status ReadTimes(uint32_t partition, uint64_t begin, uint64_t end, RecordTimes* times);
};

// The value of a timestamp (Attribute::Kind::kTimestamp).
std::optional<int64_t> TimeOf(std::optional<ByteView> timestamp);
// The timestamps of a batch, which are the attribute with this index.
RecordTimes TimesOf(const RecordBatch& batch, size_t attribute);

// Records in memory as a sealed topic, for files and tests.
//
// Records are numbered consecutively; a partition is a contiguous share of them. Records that are added later
// belong to the last one.

// The base of such sources; derived classes provide the records.
class NumberedSource : public Source {
 public:
  // Divides `records` into `partitions` (> 0) shares whose sizes differ by at most one.
  NumberedSource(uint64_t records, uint32_t partitions) : NumberedSource(records, partitions, records) {}
  // Divides the first `shared` records so; the others belong to the last partition.
  NumberedSource(uint64_t records, uint32_t partitions, uint64_t shared);
  Result<std::vector<PartitionRange>> Ranges() override;
  Status Read(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) override;

 protected:
  // Appends the existing records [begin, end) to an empty batch. The caller adds the padding.
  virtual void Append(uint64_t begin, uint64_t end, RecordBatch* out) const = 0;

 private:
  // Number of the partition's first record.
  uint64_t First(uint32_t partition) const;

  const uint64_t records_, shared_;
  const uint32_t partitions_;
};

// As a NumberedSource; `shared`: none: all are.
std::unique_ptr<Source> MakeMemorySource(RecordBatch records, uint32_t partitions,
                                         std::optional<uint64_t> shared = std::nullopt);
// As above, from texts.
std::unique_ptr<Source> MakeMemorySource(const std::vector<std::string>& records, uint32_t partitions);

}  // namespace leat::stream
