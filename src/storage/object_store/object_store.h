// Objects in a bucket of an S3-compatible store. Keys are below the prefix of the settings.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/metrics/metrics.h"
#include "base/status.h"
#include "net/http_client/http_client.h"
#include "storage/object_store/replies.h"
#include "storage/object_store/settings.h"

namespace leat::object_store {

// Thread-safe. Every call blocks until it is done, its retries have reached their deadline, or Abort is
// called. An error's message is one line that begins with "s3://bucket/prefix/key: ". kUnavailable and
// kDeadlineExceeded: the store was not reached, or could not do it for now; kPermissionDenied: the
// credentials, or their lack; kFailedPrecondition: there is no such bucket.
class ObjectStore {
 public:
  struct Counts {
    uint64_t requests = 0;  // with those that were tried again
    uint64_t retries = 0;
    uint64_t bytes_up = 0;  // size of the bodies that arrived
    uint64_t bytes_down = 0;
  };
  // Reads a piece of the upload; called by several threads at a time.
  using ReadPiece = std::function<Status(uint64_t offset, std::span<std::byte> out)>;

  virtual ~ObjectStore() = default;
  virtual const Settings& settings() const = 0;

  // The whole object becomes visible at once, or not at all. A store that verifies checksums refuses one that
  // was damaged on the way.
  virtual Status Put(const std::string& key, ByteView body) = 0;
  // As Put, unless there is an object with this key and other content: kStale.
  virtual Status PutNew(const std::string& key, ByteView body) = 0;
  // As Put, for an object of any size, in parts by several connections. A failure leaves no parts, unless the
  // store cannot be reached.
  virtual Status Upload(const std::string& key, uint64_t size, const ReadPiece& read) = 0;
  // kNotFound; kResourceExhausted if it is larger than `limit`.
  virtual Result<Bytes> Get(const std::string& key, uint64_t limit) = 0;
  // Fills all of `out`.
  virtual Status Read(const std::string& key, uint64_t offset, std::span<std::byte> out) = 0;
  virtual Result<uint64_t> Size(const std::string& key) = 0;
  // All objects whose keys begin with `prefix`.
  virtual Result<std::vector<ObjectInfo>> List(const std::string& prefix) = 0;
  // Ok if there is none.
  virtual Status Remove(const std::string& key) = 0;
  // Uploads that were begun and neither completed nor given up.
  virtual Result<std::vector<OpenUpload>> OpenUploads(const std::string& prefix) = 0;
  virtual Status GiveUp(const OpenUpload& upload) = 0;

  // Calls return kAborted from now on, the current ones at once.
  virtual void Abort() = 0;
  virtual Counts counts() const = 0;
};

struct StoreOptions {
  Environment environment = ProcessEnvironment();
  RetryPolicy retries;
  int nice = 0;  // nice value of an upload's threads: how much less of the processors they get
  // Gets leat_object_store_…_total: the counts of all stores that have it. It outlives them. Null: nobody
  // wants them.
  metrics::Registry* metrics = nullptr;
  // Makes the connections; null: MakeHttpClient.
  std::function<std::unique_ptr<net::HttpClient>(const net::HttpClient::Options&)> make_http = nullptr;
};

// `settings` are completed by the environment (Resolve). Makes no request. kInvalidArgument for settings that
// cannot be used.
Result<std::unique_ptr<ObjectStore>> OpenS3(const Settings& settings, const StoreOptions& options = {});

}  // namespace leat::object_store
