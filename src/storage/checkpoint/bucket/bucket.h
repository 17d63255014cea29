// Checkpoints in object storage (docs/formats/checkpoint.md). The job's directory is a cache of them.
//
//   s3://bucket/prefix/
//     terms/5                         claimed by the coordinator of term 5
//     checkpoint-000007/
//       shard-<node>-<run>.safetensors  put by the server or member that has the slices
//       manifest.json                 last, by a put that replaces nothing: without it there is no checkpoint
//
// A manifest in a bucket has all that a resume needs: that of the directory, the job, and the coordinator's
// decisions that the checkpoint's ledgers may name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/records/manifest.h"
#include "storage/checkpoint/manifest.h"
#include "storage/object_store/object_store.h"

namespace leat::checkpoint {

// The name of a shard in a job with a bucket: no other process of any run has the same.
std::string BucketShardName(uint64_t node, uint64_t term);
// The key of a shard in the checkpoint of this directory.
std::string ShardKey(std::string_view checkpoint_directory, const std::string& file);

struct BucketContents {
  uint64_t highest_term = 0;       // 0: none is claimed
  std::vector<uint64_t> complete;  // ids of the checkpoints with a manifest, ascending
};
// Two requests: it also shows that the store, the bucket and the credentials are usable.
Result<BucketContents> LookAtBucket(object_store::ObjectStore& store);

// A coordinator's side. All calls block; one at a time. They return kFailedPrecondition, and change nothing,
// once a coordinator of a higher term has claimed the prefix.
class Bucket {
 public:
  // `term`: NumberOf(this coordinator's). `owner`: one line that no other process has.
  Bucket(std::shared_ptr<object_store::ObjectStore> store, uint64_t term, std::string owner)
      : store_(std::move(store)), term_(term), owner_(std::move(owner)) {}

  object_store::ObjectStore& store() { return *store_; }
  // Whether no coordinator of a higher term has claimed the prefix. It is asked before shards are ordered,
  // too.
  Status CheckTerm();
  // Puts terms/<term>, unless this has been done. Removes the unfinished work of former coordinators.
  Status Claim();
  // Reads the shards that are not in the checkpoint's directory into it, and verifies them.
  Status FetchMissing(const protocol::Manifest& manifest, const std::string& directory);
  // Claims the term if need be, and puts the manifest. kFailedPrecondition if the bucket has another one of
  // this id.
  Status Commit(const BucketManifest& manifest);
  // Removes all checkpoints before `oldest_kept`, and incomplete ones before `newest`.
  Status Drop(uint64_t oldest_kept, uint64_t newest);

 private:
  Status GiveUpUploads(uint64_t before);

  const std::shared_ptr<object_store::ObjectStore> store_;
  const uint64_t term_;
  const std::string owner_;
  bool claimed_ = false;
};

// Makes a directory that a coordinator can resume from (Store::Open), out of the bucket's newest intact
// checkpoint: that of the highest term and, within the term, of the highest id. The next term of the
// directory is the next free one of the bucket. kNotFound if the bucket has no checkpoint;
// kFailedPrecondition if the directory has a job or any other content than the remains of an interrupted
// call, which alone are removed; kDataLoss if no checkpoint is intact. A failure leaves no job in the
// directory.
Status FetchJob(object_store::ObjectStore& store, const std::string& directory);

}  // namespace leat::checkpoint
