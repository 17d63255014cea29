#include <arpa/inet.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <ctime>
#include <iterator>
#include <mutex>
#include <random>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/encoding/printable.h"
#include "base/text.h"
#include "base/threads/thread.h"
#include "storage/object_store/credentials.h"
#include "storage/object_store/object_store.h"

namespace leat::object_store {
namespace {

constexpr uint64_t kMostParts = 10'000;
constexpr Duration kAttempt = std::chrono::seconds(60);  // limit per attempt, besides the time for its bytes
constexpr uint64_t kSlowestBytes = 256 << 10;            // a second

struct Call {
  std::string method;
  std::string key;  // below the prefix; empty: the bucket
  Fields query;
  Fields headers;
  ByteView body;
  std::span<std::byte> into = {};
  bool sign_body = true;
  bool completes = false;  // an upload: a reply that accepts it has a body that may be an error
};

struct Count {
  std::atomic<uint64_t> own = 0;    // count of this store
  metrics::Counter* all = nullptr;  // count of the process; null: nobody wants it
  void Add(uint64_t n) {
    own += n;
    if (all != nullptr) all->Add(n);
  }
};

class S3 final : public ObjectStore {
 public:
  S3(Settings settings, StoreOptions options)
      : settings_(std::move(settings)),
        options_(std::move(options)),
        address_(AddressOf(settings_)),
        credentials_(options_.environment, MakeConnection("")) {
    if (options_.metrics == nullptr) return;
    const auto counter = [&](const char* what, const char* help) {
      return &options_.metrics->counter(std::string("leat_object_store_") + what + "_total", help);
    };
    requests_.all = counter("requests", "Requests to the object store.");
    retries_.all = counter("retries", "Requests to the object store that were made again.");
    bytes_up_.all = counter("sent_bytes", "Bytes that the object store has received.");
    bytes_down_.all = counter("received_bytes", "Bytes that the object store has sent.");
  }

  const Settings& settings() const override { return settings_; }

  Status Put(const std::string& key, ByteView body) override {
    return Do({.method = "PUT", .key = key, .headers = Checked(body), .body = body}).status();
  }
  Status PutNew(const std::string& key, ByteView body) override;
  Status Upload(const std::string& key, uint64_t size, const ReadPiece& read) override;
  Result<Bytes> Get(const std::string& key, uint64_t limit) override {
    LEAT_ASSIGN_OR_RETURN(const uint64_t size, Size(key));
    if (size > limit)
      return Status(Code::kResourceExhausted, Name(key) + ": has " + std::to_string(size) + " bytes");
    Bytes bytes(size);
    LEAT_RETURN_IF_ERROR(Read(key, 0, bytes));
    return bytes;
  }
  Status Read(const std::string& key, uint64_t offset, std::span<std::byte> out) override;
  Result<uint64_t> Size(const std::string& key) override;
  Result<std::vector<ObjectInfo>> List(const std::string& prefix) override;
  Status Remove(const std::string& key) override { return Delete(key, {}); }
  Result<std::vector<OpenUpload>> OpenUploads(const std::string& prefix) override;
  Status GiveUp(const OpenUpload& upload) override { return Delete(upload.key, {{"uploadId", upload.id}}); }

  void Abort() override { stop_.Set(); }
  Counts counts() const override { return {requests_.own, retries_.own, bytes_up_.own, bytes_down_.own}; }

 private:
  // A connection for one call at a time; GiveBack keeps it for the next call.
  std::unique_ptr<HttpClient> TakeConnection() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return MakeConnection(settings_.ca);
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }
  void GiveBack(std::unique_ptr<HttpClient> connection) {
    std::lock_guard lock(mutex_);
    if (idle_.size() < settings_.connections) idle_.push_back(std::move(connection));
  }
  std::unique_ptr<HttpClient> MakeConnection(const std::string& ca) {
    const HttpClient::Options http{.ca = ca, .background = true, .max_body = kMaxReply, .stop = &stop_};
    return options_.make_http ? options_.make_http(http) : net::MakeHttpClient(http);
  }

  static Fields Checked(ByteView body) {
    const uint32_t crc = htonl(Crc32c(body));
    return {{"x-amz-checksum-crc32c", ToBase64(AsText(std::as_bytes(std::span(&crc, 1))))}};
  }
  std::string WholeKey(const std::string& key) const {
    return settings_.prefix.empty() ? key : settings_.prefix + "/" + key;
  }
  std::string Name(const std::string& key) const {
    return Location(settings_) + (key.empty() ? "" : "/" + key);
  }
  // Takes the prefix off a key in a reply.
  Result<std::string> BelowPrefix(const std::string& whole) const {
    const std::string prefix = WholeKey("");
    if (whole.starts_with(prefix)) return whole.substr(prefix.size());
    return Status(Code::kDataLoss, Location(settings_) + ": the store names an object outside the prefix");
  }

  // Ok if there is none.
  Status Delete(const std::string& key, Fields query) {
    const auto reply = Do({.method = "DELETE", .key = key, .query = std::move(query)});
    return reply.status().code() == Code::kNotFound ? Status() : reply.status();
  }
  template <class Item>
  Result<std::vector<Item>> AllPages(const Fields& query, Result<Page<Item>> (*parse)(ByteView)) {
    std::vector<Item> all;
    Fields next;
    do {
      next.insert(next.end(), query.begin(), query.end());
      LEAT_ASSIGN_OR_RETURN(const HttpClient::Reply reply,
                            Do({.method = "GET", .key = "", .query = std::move(next)}));
      auto page = parse(reply.body);
      if (!page.ok()) return page.status().With(Location(settings_));
      std::ranges::move(page->items, std::back_inserter(all));
      next = std::move(page->next);
    } while (!next.empty());
    return all;
  }
  Result<HttpClient::Reply> Attempt(HttpClient& http, const Call& call, Duration left, Credentials* used);
  Result<HttpClient::Reply> Do(const Call& call);
  Status UploadParts(const std::string& key, const std::string& id, uint64_t size, uint64_t part_bytes,
                     const ReadPiece& read, std::vector<PartInfo>* parts);
  Status Complete(const std::string& key, const std::string& id, const std::vector<PartInfo>& parts,
                  uint64_t size);

  static Time Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

  const Settings settings_;
  const StoreOptions options_;
  const BucketAddress address_;
  StopEvent stop_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<HttpClient>> idle_;
  CredentialSource credentials_;
  Count requests_, retries_, bytes_up_, bytes_down_;
};

Result<HttpClient::Reply> S3::Attempt(HttpClient& http, const Call& call, Duration left, Credentials* used) {
  const int64_t now = std::time(nullptr);
  LEAT_ASSIGN_OR_RETURN(*used, credentials_.Get(now, settings_.region));
  const Credentials& credentials = *used;
  RequestToSign sign;
  sign.method = call.method;
  sign.path = address_.path + "/" + UriEncode(call.key.empty() ? "" : WholeKey(call.key), true);
  sign.query = call.query;
  sign.headers = call.headers;
  sign.payload_hash = call.sign_body ? Sha256Hex(AsText(call.body)) : kUnsignedPayload;
  const std::string date = AmzDate(now);
  sign.headers.emplace_back("host", address_.host);
  sign.headers.emplace_back("x-amz-content-sha256", sign.payload_hash);
  sign.headers.emplace_back("x-amz-date", date);
  if (!credentials.session_token.empty())
    sign.headers.emplace_back("x-amz-security-token", credentials.session_token);
  HttpClient::Request request{
      .method = call.method, .headers = sign.headers, .body = call.body, .into = call.into};
  request.url = address_.scheme + "://" + address_.host + sign.path;
  if (!call.query.empty()) request.url += "?" + CanonicalQuery(call.query);
  request.headers.emplace_back("authorization",
                               Authorization(sign, credentials, {settings_.region, "s3"}, date));
  const uint64_t bytes = call.body.size() + call.into.size();
  request.timeout = std::min(left, kAttempt + std::chrono::seconds(bytes / kSlowestBytes));
  requests_.Add(1);
  return http.Do(request);
}

Result<HttpClient::Reply> S3::Do(const Call& call) {
  const Retries retries(options_.retries, Now());
  std::minstd_rand random(std::random_device{}());
  auto http = TakeConnection();
  bool renewed = false;
  for (uint32_t attempt = 1;; ++attempt) {
    if (stop_.is_set()) return Status(Code::kAborted, Name(call.key) + ": given up");
    Credentials used;
    auto reply = Attempt(*http, call, retries.Left(Now()), &used);
    Outcome outcome;
    if (reply.ok()) {
      const bool accepted = reply->status / 100 == 2;
      const Result<ErrorReply> error = accepted && call.completes ? ParseCompleted(reply->body)
                                       : accepted                 ? ErrorReply()
                                                                  : ParseError(reply->body);
      if (!error.ok()) return error.status().With(Name(call.key));
      outcome = Judge(Status(), reply->status, error->code, error->message);
      const std::string region = reply->Header("x-amz-bucket-region");
      if (!outcome.status.ok() && !region.empty() && region != settings_.region) {
        outcome.status =
            Status(outcome.status.code(), "the bucket is in the region '" + region + "', not '" +
                                              settings_.region + "' " + outcome.status.message());
      }
      // A range that is not whole.
      if (outcome.status.ok() && !call.into.empty() && reply->written != call.into.size()) {
        outcome = {{Code::kUnavailable, "the reply has " + std::to_string(reply->written) + " bytes of " +
                                            std::to_string(call.into.size())},
                   true};
      }
    } else {
      outcome = Judge(reply.status(), 0, "", "");
    }
    if (outcome.status.ok()) {
      bytes_up_.Add(call.body.size());
      bytes_down_.Add(reply->written + reply->body.size());
      GiveBack(std::move(http));
      return reply;
    }
    bool again = outcome.again;
    if (outcome.new_credentials && !std::exchange(renewed, true)) {
      credentials_.Forget();
      again = true;
    } else if (outcome.refused && !std::exchange(renewed, true)) {
      again = credentials_.Replace(used, settings_.region);
    }
    const Duration pause = again ? retries.Pause(Now(), attempt, random()) : Duration(-1);
    if (pause < Duration(0)) {
      const std::string tried = attempt > 1 ? " (tried " + std::to_string(attempt) + " times)" : "";
      return Status(outcome.status.code(), Name(call.key) + ": " + outcome.status.message() + tried);
    }
    retries_.Add(1);
    stop_.Await(pause);
  }
}

Status S3::PutNew(const std::string& key, ByteView body) {
  Fields headers = Checked(body);
  headers.emplace_back("if-none-match", "*");
  const Status put = Do({.method = "PUT", .key = key, .headers = std::move(headers), .body = body}).status();
  if (put.code() != Code::kFailedPrecondition) return put;
  // An earlier attempt may have put it, and its reply was lost.
  const auto there = Get(key, std::max<uint64_t>(body.size(), 1));
  if (there.ok() && std::ranges::equal(*there, body)) return {};
  if (!there.ok() && there.status().code() != Code::kResourceExhausted) return put;
  return {Code::kStale, Name(key) + ": there is one already"};
}

Status S3::Read(const std::string& key, uint64_t offset, std::span<std::byte> out) {
  if (out.empty()) return {};
  const std::string range = "bytes=" + std::to_string(offset) + "-" + std::to_string(offset + out.size() - 1);
  return Do({.method = "GET", .key = key, .headers = {{"range", range}}, .into = out}).status();
}

Result<uint64_t> S3::Size(const std::string& key) {
  LEAT_ASSIGN_OR_RETURN(const HttpClient::Reply reply, Do({.method = "HEAD", .key = key}));
  const auto size = ToNumber<uint64_t>(reply.Header("content-length"));
  if (!size) return Status(Code::kDataLoss, Name(key) + ": the reply has no size");
  return *size;
}

Result<std::vector<ObjectInfo>> S3::List(const std::string& prefix) {
  LEAT_ASSIGN_OR_RETURN(auto all, AllPages({{"list-type", "2"}, {"prefix", WholeKey(prefix)}}, ParseList));
  for (ObjectInfo& object : all) {
    LEAT_ASSIGN_OR_RETURN(object.key, BelowPrefix(object.key));
  }
  return all;
}

Result<std::vector<OpenUpload>> S3::OpenUploads(const std::string& prefix) {
  LEAT_ASSIGN_OR_RETURN(auto all, AllPages({{"uploads", ""}, {"prefix", WholeKey(prefix)}}, ParseUploads));
  // Some stores list them all.
  std::erase_if(
      all, [whole = WholeKey(prefix)](const OpenUpload& upload) { return !upload.key.starts_with(whole); });
  for (OpenUpload& upload : all) upload.key.erase(0, WholeKey("").size());
  return all;
}

Status S3::Upload(const std::string& key, uint64_t size, const ReadPiece& read) {
  const uint64_t part_bytes = std::max(settings_.part_bytes, size / kMostParts + 1);
  if (size <= part_bytes) {
    Bytes whole(size);
    LEAT_RETURN_IF_ERROR(read(0, whole));
    return Do({.method = "PUT", .key = key, .headers = Checked(whole), .body = whole, .sign_body = false})
        .status();
  }
  LEAT_ASSIGN_OR_RETURN(const HttpClient::Reply begun,
                        Do({.method = "POST",
                            .key = key,
                            .query = {{"uploads", ""}},
                            .headers = {{"x-amz-checksum-algorithm", "CRC32C"}}}));
  const auto id = ParseBegun(begun.body);
  if (!id.ok()) return id.status().With(Name(key));
  std::vector<PartInfo> parts((size + part_bytes - 1) / part_bytes);
  Status status = UploadParts(key, *id, size, part_bytes, read, &parts);
  if (status.ok()) status = Complete(key, *id, parts, size);
  if (!status.ok()) (void)GiveUp({key, *id});  // the coordinator removes remaining parts
  return status;
}

Status S3::UploadParts(const std::string& key, const std::string& id, uint64_t size, uint64_t part_bytes,
                       const ReadPiece& read, std::vector<PartInfo>* parts) {
  std::atomic<size_t> next = 0;
  const size_t threads = std::min<size_t>(std::max(settings_.connections, 1u), parts->size());
  return RunOnThreads(threads, [&]() -> Status {
    // Linux has a nice value for each thread.
    if (options_.nice > 0) (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), options_.nice);
    Bytes memory(part_bytes);
    while (true) {
      const size_t i = next++;
      if (i >= parts->size()) return {};
      const uint64_t offset = i * part_bytes;
      const std::span<std::byte> part(memory.data(), std::min(part_bytes, size - offset));
      Status status = read(offset, part);
      if (status.ok()) {
        Fields headers = Checked(part);
        PartInfo& info = (*parts)[i];
        info = {static_cast<uint32_t>(i + 1), "", headers.front().second};
        const auto reply = Do({.method = "PUT",
                               .key = key,
                               .query = {{"partNumber", std::to_string(i + 1)}, {"uploadId", id}},
                               .headers = std::move(headers),
                               .body = part,
                               .sign_body = false});
        status = reply.status();
        if (reply.ok()) {
          info.etag = reply->Header("etag");
          // A store that does not know the checksum does not want it when the parts are put together.
          if (reply->Header("x-amz-checksum-crc32c").empty()) info.crc32c.clear();
        }
      }
      if (status.ok()) continue;
      next = parts->size();
      return status;
    }
  });
}

Status S3::Complete(const std::string& key, const std::string& id, const std::vector<PartInfo>& parts,
                    uint64_t size) {
  const std::string body = WriteComplete(parts);
  const Status done = Do({.method = "POST",
                          .key = key,
                          .query = {{"uploadId", id}},
                          .body = AsBytes(body),
                          .completes = true})
                          .status();
  if (done.code() != Code::kNotFound) return done;
  // An earlier attempt may have completed it, and its reply was lost.
  const auto there = Size(key);
  return there.ok() && *there == size ? Status() : done;
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> OpenS3(const Settings& settings, const StoreOptions& options) {
  LEAT_ASSIGN_OR_RETURN(Settings resolved, Resolve(settings, options.environment));
  return std::unique_ptr<ObjectStore>(new S3(std::move(resolved), options));
}

}  // namespace leat::object_store
