// Requests to a feed and its replies: headers of frames on the tensor plane (docs/formats/feed.md).
//
// All functions are pure and thread-safe. Decoders of payloads treat input as untrusted and return kDataLoss
// on a violation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/fields/fields.h"
#include "base/status.h"
#include "net/frames/handshake.h"
#include "protocol/predictions/publisher.h"
#include "stream/source.h"

namespace leat::feed {

enum class FrameType : uint8_t { kRequest = 1, kReply = 2 };

enum class RequestKind : uint8_t {
  kRanges = 1,        // all partitions
  kRecords = 2,       // [begin, end) of a partition; the reply may have fewer, but at least one
  kSync = 3,          // a partition, before `end`
  kAdvance = 4,       // a partition, to `end`
  kPin = 5,           // a partition, at `begin`, by the owner `name`
  kUnpin = 6,         // the owner `name`
  kAsset = 7,         // bytes [begin, end) of the file with the identity `name`
  kDescribe = 8,      // the description of the contents
  kCommit = 9,        // offsets of all partitions, for the group `name`
  kFingerprint = 10,  // a partition, of the last record before `end`
  kScores = 11,       // the payload has scores for the predictions that the feed publishes
};
LEAT_ENUM(RequestKind, (kRanges, "ranges"), (kRecords, "records"), (kSync, "sync"), (kAdvance, "advance"),
          (kPin, "pin"), (kUnpin, "unpin"), (kAsset, "asset"), (kDescribe, "describe"), (kCommit, "commit"),
          (kFingerprint, "fingerprint"), (kScores, "scores"));

// Which marks of a partition the sender wants (stream::Source::WantMarks).
struct KnownMarks {
  stream::LabelMark last;
  uint64_t room = 0;
};
LEAT_FIELDS(KnownMarks, (last), (room));

struct Request {
  uint64_t sequence = 0;  // the reply has the same
  uint64_t content = 0;   // the contents to read: a feed with others refuses. 0: anything
  RequestKind kind = RequestKind::kRanges;
  uint32_t partition = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string name;
  std::vector<stream::Attribute> wanted;  // kRecords
  std::vector<uint64_t> offsets;          // kCommit
  uint64_t labels_begin = 0;              // kRecords: as of RecordBatch
  uint64_t labels_end = 0;
  std::vector<KnownMarks> marks;  // kRanges: by partition, from 0; empty: the sender wants no marks
  uint64_t checksum = 0;          // checksum of the payload; only kScores has one
};
LEAT_FIELDS(Request, (sequence), (content, Fixed), (kind), (partition), (begin), (end), (name, AtMost(4096)),
            (wanted, AtMost(256)), (offsets, AtMost(1 << 20)), (labels_begin),
            (labels_end, AtLeast(self.labels_begin)), (marks, AtMost(1 << 20)), (checksum, Fixed));

struct Reply {
  uint64_t sequence = 0;
  Status status;
  uint64_t checksum = 0;                       // checksum of the payload
  std::vector<stream::PartitionRange> ranges;  // kRanges
  uint64_t fingerprint = 0;                    // kFingerprint
  // kRecords: their number, and those that are lost or absent, relative to the first. The payload is the u32
  // length of each record, then their bytes; then for each attribute a u32 for each record, 0 if it has none
  // and else the value's length + 1, then the values.
  uint32_t records = 0;
  std::vector<stream::RecordBatch::Lost> lost;
  std::vector<stream::RecordBatch::Absent> absent;
  uint64_t expired = 0;  // absent records that retention removed
};
LEAT_FIELDS(Reply, (sequence), (status, CutTo(4096)), (checksum, Fixed), (ranges, AtMost(1 << 20)),
            (fingerprint, Fixed), (records), (lost, AtMost(1 << 20)), (absent, AtMost(1 << 20)), (expired));
Status Check(const Reply& reply);

// The payload of kScores.
struct Scores {
  std::vector<protocol::RunScores> runs;
};
LEAT_FIELDS(Scores, (runs, AtMost(1 << 20)));

// The payload of a reply with these records.
Bytes EncodeRecords(const stream::RecordBatch& records);
// Appends a payload's `count` records to `out`, which has no padding. The payload has the attributes that
// `out` wants.
Status DecodeRecords(ByteView payload, uint32_t count, stream::RecordBatch* out);

// The port of a feed.
wire::Port FeedPort();

}  // namespace leat::feed
