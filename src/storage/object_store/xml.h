// Replies of an S3-compatible store, which are untrusted. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
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

}  // namespace leat::object_store
