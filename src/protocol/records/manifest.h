// The content of a complete checkpoint, as checkpoint/ writes it to disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields/fields.h"
#include "base/status.h"
#include "protocol/cut.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

// The limit of each list in a manifest: far above what a file of its size has.
inline constexpr uint64_t kMaxManifestEntries = 1 << 24;

struct ManifestShard {
  std::string file;
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // as ShardReport::checksum
  std::vector<SliceIncarnation> slices;
};
LEAT_FIELDS(ManifestShard, (file, AtMost(255)), (bytes), (checksum, Fixed),
            (slices, AtMost(kMaxManifestEntries)));
Status Check(const ManifestShard& shard);

// A hash of the last record before an offset of a partition (stream::Source::Fingerprint).
struct Fingerprint {
  uint64_t offset = 0;
  uint64_t hash = 0;  // 0: unknown
};
LEAT_FIELDS(Fingerprint, (offset), (hash, Fixed));

// A complete checkpoint: exactly one copy of each slice.
struct Manifest {
  uint64_t id = 0;
  std::string directory;  // "checkpoint-000007", below the job's directory
  // recorded before the first slice was saved: every slice contains all events before it
  std::vector<Position> watermark;
  std::vector<Cut> open;                  // cuts made by then that the watermark does not cover
  std::vector<Fingerprint> fingerprints;  // by partition, at or before the watermark; empty: none are known
  std::vector<ManifestShard> shards;
  uint64_t step = 0;    // stepped strategies: the version of all saved slices
  uint64_t events = 0;  // the minimum over all slices
  uint64_t next_incarnation = 1;
};
LEAT_FIELDS(Manifest, (id), (directory, AtMost(255)), (step), (events), (next_incarnation),
            (watermark, AtMost(kMaxManifestEntries)), (open, AtMost(kMaxManifestEntries)),
            (shards, AtMost(kMaxManifestEntries)), (fingerprints, AtMost(kMaxManifestEntries), Since(4)));
Status Check(const Manifest& manifest);

}  // namespace leat::protocol
