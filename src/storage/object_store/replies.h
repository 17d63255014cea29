// Replies of an S3-compatible store, which are untrusted, and when a request that failed is tried again.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "net/http_client/http_client.h"

namespace leat::object_store {

inline constexpr size_t kMaxReply = 16 << 20;

// An element with its text, without attributes and namespaces.
struct Element {
  std::string name;
  std::string text;
  std::vector<Element> children;
  // The text of the first child with this name; empty: there is none.
  std::string Text(const std::string& child) const;
};

// kDataLoss, with the line, for text that is not well-formed, has a document type, is deeper than 16 elements
// or larger than kMaxReply.
Result<Element> ParseXml(ByteView text);

struct ErrorReply {
  std::string code;     // "NoSuchBucket"; empty: the reply names none
  std::string message;  // a single line
};
ErrorReply ParseError(ByteView body);

template <class Item>
struct Page {
  std::vector<Item> items;
  net::HttpClient::Fields next;  // more fields of the next page's query; empty: this is the last one
};
struct ObjectInfo {
  std::string key;
  uint64_t size = 0;
  friend bool operator==(const ObjectInfo&, const ObjectInfo&) = default;
};
Result<Page<ObjectInfo>> ParseList(ByteView body);

struct OpenUpload {
  std::string key;
  std::string id;
  friend bool operator==(const OpenUpload&, const OpenUpload&) = default;
};
Result<Page<OpenUpload>> ParseUploads(ByteView body);

// The id of an upload that was begun.
Result<std::string> ParseBegun(ByteView body);
// An upload may fail after the store has answered 200: then the error's code is not empty.
Result<ErrorReply> ParseCompleted(ByteView body);

struct PartInfo {
  uint32_t number = 0;
  std::string etag;
  std::string crc32c;
};
// The body of CompleteMultipartUpload.
std::string WriteComplete(const std::vector<PartInfo>& parts);

// ---- failures

// A reply of the store, or its absence, as a Status.
struct Outcome {
  Status status;
  bool again = false;            // the same request may succeed later
  bool new_credentials = false;  // it may succeed with credentials that are asked for anew
  bool refused = false;          // the store knows no such credentials: others may have taken their place
};
// `sent`: the error of a request without a reply, or ok. `http`: the status of the reply. `code` and
// `message`: of its body, if it has one.
Outcome Judge(const Status& sent, int http, const std::string& code, const std::string& message);

struct RetryPolicy {
  Duration first = std::chrono::milliseconds(100);
  Duration most = std::chrono::seconds(10);
  Duration deadline = std::chrono::minutes(2);  // limit of a request with all its attempts
};

// The attempts of one request.
class Retries {
 public:
  Retries(const RetryPolicy& policy, Time begun) : policy_(policy), begun_(begun) {}
  // After the `attempt`-th failure (from 1): the pause before the next attempt, between half of and the whole
  // of first * 2^(attempt-1), at most `most`. Negative: there is no time for one. `random`: any number.
  Duration Pause(Time now, uint32_t attempt, uint64_t random) const;
  // The time that is left for an attempt.
  Duration Left(Time now) const { return policy_.deadline - (now - begun_); }

 private:
  const RetryPolicy policy_;
  const Time begun_;
};

}  // namespace leat::object_store
