#include "storage/object_store/replies.h"

#include <expat.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/text.h"

namespace leat::object_store {
namespace {

constexpr size_t kMaxDepth = 16;

struct Builder {
  XML_Parser parser = nullptr;
  Element root;  // its only child is the document's element
  std::vector<Element> open;
  std::string refused;

  void Refuse(const char* why) {
    refused = why;
    XML_StopParser(parser, XML_FALSE);
  }
};

void OnStart(void* data, const char* name, const char**) {
  auto& builder = *static_cast<Builder*>(data);
  if (builder.open.size() >= kMaxDepth) return builder.Refuse("is nested too deeply");
  const std::string_view whole = name;
  const size_t colon = whole.rfind(':');
  builder.open.push_back(
      {.name = std::string(colon == std::string_view::npos ? whole : whole.substr(colon + 1))});
}

void OnEnd(void* data, const char*) {
  auto& builder = *static_cast<Builder*>(data);
  Element done = std::move(builder.open.back());
  builder.open.pop_back();
  (builder.open.empty() ? builder.root : builder.open.back()).children.push_back(std::move(done));
}

void OnText(void* data, const char* text, int size) {
  auto& builder = *static_cast<Builder*>(data);
  if (!builder.open.empty()) builder.open.back().text.append(text, static_cast<size_t>(size));
}

void OnDoctype(void* data, const char*, const char*, const char*, int) {
  static_cast<Builder*>(data)->Refuse("has a document type");
}

Status Unexpected(const Element& element, const char* wanted) {
  return {Code::kDataLoss, "the reply is a <" + element.name + ">, not a <" + wanted + ">"};
}

// The document's element, which has to have this name.
Result<Element> ParseElement(ByteView text, const char* wanted) {
  LEAT_ASSIGN_OR_RETURN(Element parsed, ParseXml(text));
  if (parsed.name != wanted) return Unexpected(parsed, wanted);
  return parsed;
}

// Adds the field of the query for the next page, if there is one.
Status AddMarker(const Element& parsed, const char* child, const char* field, net::HttpClient::Fields* next) {
  if (parsed.Text("IsTruncated") != "true") return {};
  std::string marker = parsed.Text(child);
  if (marker.empty()) return {Code::kDataLoss, "the reply has more pages, but does not name the next one"};
  next->emplace_back(field, std::move(marker));
  return {};
}

std::string OneLine(std::string text) {
  constexpr size_t kMost = 300;
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  if (text.size() > kMost) text.resize(kMost);
  return text;
}

}  // namespace

std::string Element::Text(const std::string& child) const {
  const auto found = std::ranges::find(children, child, &Element::name);
  return found == children.end() ? "" : found->text;
}

Result<Element> ParseXml(ByteView text) {
  if (text.size() > kMaxReply)
    return Status(Code::kDataLoss, "the reply has " + std::to_string(text.size()) + " bytes");
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(XML_ParserCreate(nullptr),
                                                                            XML_ParserFree);
  if (parser == nullptr) return Status(Code::kResourceExhausted, "no memory for a reply");
  Builder builder;
  builder.parser = parser.get();
  XML_SetUserData(parser.get(), &builder);
  XML_SetElementHandler(parser.get(), OnStart, OnEnd);
  XML_SetCharacterDataHandler(parser.get(), OnText);
  XML_SetStartDoctypeDeclHandler(parser.get(), OnDoctype);
  const auto parsed = XML_Parse(parser.get(), reinterpret_cast<const char*>(text.data()),
                                static_cast<int>(text.size()), XML_TRUE);
  if (parsed != XML_STATUS_OK) {
    const std::string why =
        builder.refused.empty() ? XML_ErrorString(XML_GetErrorCode(parser.get())) : builder.refused;
    return Status(Code::kDataLoss, "the reply is no valid XML: line " +
                                       std::to_string(XML_GetCurrentLineNumber(parser.get())) + ": " + why);
  }
  if (builder.root.children.empty()) return Status(Code::kDataLoss, "the reply is empty");
  return std::move(builder.root.children.front());
}

ErrorReply ParseError(ByteView body) {
  const auto parsed = ParseXml(body);
  if (!parsed.ok() || (parsed->name != "Error" && parsed->name != "ErrorResponse")) return {};
  // Replies of STS have one more level.
  const auto inner = std::ranges::find(parsed->children, "Error", &Element::name);
  const Element& error =
      parsed->name == "ErrorResponse" && inner != parsed->children.end() ? *inner : *parsed;
  return {OneLine(error.Text("Code")), OneLine(error.Text("Message"))};
}

Result<Page<ObjectInfo>> ParseList(ByteView body) {
  LEAT_ASSIGN_OR_RETURN(const Element parsed, ParseElement(body, "ListBucketResult"));
  Page<ObjectInfo> reply;
  for (const Element& child : parsed.children) {
    if (child.name != "Contents") continue;
    const std::string key = child.Text("Key"), size = child.Text("Size");
    const auto bytes = ToNumber<uint64_t>(size);
    if (key.empty() || !bytes)
      return Status(Code::kDataLoss,
                    "the reply has an object '" + OneLine(key) + "' of '" + OneLine(size) + "' bytes");
    reply.items.push_back({key, *bytes});
  }
  LEAT_RETURN_IF_ERROR(AddMarker(parsed, "NextContinuationToken", "continuation-token", &reply.next));
  return reply;
}

Result<Page<OpenUpload>> ParseUploads(ByteView body) {
  LEAT_ASSIGN_OR_RETURN(const Element parsed, ParseElement(body, "ListMultipartUploadsResult"));
  Page<OpenUpload> reply;
  for (const Element& child : parsed.children) {
    if (child.name != "Upload") continue;
    OpenUpload upload{child.Text("Key"), child.Text("UploadId")};
    if (upload.key.empty() || upload.id.empty())
      return Status(Code::kDataLoss, "the reply has an upload without key or id");
    reply.items.push_back(std::move(upload));
  }
  LEAT_RETURN_IF_ERROR(AddMarker(parsed, "NextKeyMarker", "key-marker", &reply.next));
  if (std::string id = parsed.Text("NextUploadIdMarker"); !reply.next.empty() && !id.empty())
    reply.next.emplace_back("upload-id-marker", std::move(id));
  return reply;
}

Result<std::string> ParseBegun(ByteView body) {
  LEAT_ASSIGN_OR_RETURN(const Element parsed, ParseElement(body, "InitiateMultipartUploadResult"));
  std::string id = parsed.Text("UploadId");
  if (id.empty()) return Status(Code::kDataLoss, "the reply names no upload");
  return id;
}

Result<ErrorReply> ParseCompleted(ByteView body) {
  LEAT_ASSIGN_OR_RETURN(const Element parsed, ParseXml(body));
  if (parsed.name == "CompleteMultipartUploadResult") return ErrorReply();
  if (parsed.name != "Error") return Unexpected(parsed, "CompleteMultipartUploadResult");
  ErrorReply error{OneLine(parsed.Text("Code")), OneLine(parsed.Text("Message"))};
  if (error.code.empty()) error.code = "InternalError";
  return error;
}

std::string WriteComplete(const std::vector<PartInfo>& parts) {
  const auto escaped = [](const std::string& text) {
    std::string out;
    for (const char c : text)
      out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    return out;
  };
  std::string text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (const PartInfo& part : parts) {
    text += "<Part><PartNumber>" + std::to_string(part.number) + "</PartNumber><ETag>" + escaped(part.etag) +
            "</ETag>";
    if (!part.crc32c.empty()) text += "<ChecksumCRC32C>" + part.crc32c + "</ChecksumCRC32C>";
    text += "</Part>";
  }
  return text + "</CompleteMultipartUpload>";
}

// ---- failures

namespace {

template <size_t n>
bool IsOneOf(const std::string& code, const std::array<const char*, n>& codes) {
  return std::ranges::find(codes, code) != codes.end();
}

// Errors that pass, whatever their HTTP status. A body that was damaged on the way is among them.
constexpr std::array kPassing = {"InternalError",
                                 "SlowDown",
                                 "ServiceUnavailable",
                                 "RequestTimeout",
                                 "BadDigest",
                                 "IncompleteBody",
                                 "ConditionalRequestConflict",
                                 "OperationAborted",
                                 "Throttling",
                                 "XAmzContentChecksumMismatch"};
constexpr std::array kExpired = {"ExpiredToken", "ExpiredTokenException", "RequestExpired",
                                 "TokenRefreshRequired"};
constexpr std::array kUnknownKeys = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken",
                                     "InvalidClientTokenId"};

Code CodeOf(int http, const std::string& code) {
  if (code == "NoSuchBucket") return Code::kFailedPrecondition;
  if (http == 401 || http == 403 || IsOneOf(code, kExpired)) return Code::kPermissionDenied;
  if (http == 404) return Code::kNotFound;
  if (http == 412) return Code::kFailedPrecondition;
  if (http == 507) return Code::kResourceExhausted;
  return http >= 500 ? Code::kUnavailable : Code::kInvalidArgument;
}

}  // namespace

Outcome Judge(const Status& sent, int http, const std::string& code, const std::string& message) {
  if (!sent.ok()) {
    const bool again = sent.code() == Code::kUnavailable || sent.code() == Code::kDeadlineExceeded;
    return {sent, again, false};
  }
  if (http / 100 == 2 && code.empty()) return {};
  std::string text = code.empty() ? "" : code + ": ";
  text += message.empty() ? "" : message + " ";
  text += "(HTTP " + std::to_string(http) + ")";
  Outcome outcome{{CodeOf(http, code), std::move(text)}};
  outcome.new_credentials = IsOneOf(code, kExpired);
  // A reply to HEAD has no body that says more.
  outcome.refused = IsOneOf(code, kUnknownKeys) || (code.empty() && (http == 401 || http == 403));
  outcome.again = http == 408 || http == 429 || http == 500 || http == 502 || http == 503 || http == 504 ||
                  IsOneOf(code, kPassing);
  if (outcome.again) outcome.status = Status(Code::kUnavailable, outcome.status.message());
  return outcome;
}

Duration Retries::Pause(Time now, uint32_t attempt, uint64_t random) const {
  constexpr uint32_t kMostDoublings = 20;
  const Duration whole =
      std::min(policy_.first * (int64_t{1} << std::min(attempt - 1, kMostDoublings)), policy_.most);
  const Duration half = whole / 2;
  const Duration pause =
      half +
      Duration(static_cast<int64_t>(random % static_cast<uint64_t>(std::max<int64_t>(1, half.count()))));
  return pause < Left(now) ? pause : Duration(-1);
}

}  // namespace leat::object_store
