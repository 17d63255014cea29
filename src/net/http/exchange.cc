#include "net/http/exchange.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "net/address.h"

namespace leat::net {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
// More than one of these could mean different things to different readers.
constexpr std::array<std::string_view, 5> kSingle = {"host", "origin", "authorization", "content-length",
                                                     "transfer-encoding"};

std::string_view WithoutBlanks(std::string_view text) {
  return Trimmed(text, " \t");
}

Status BadRequest(std::string_view why) {
  return {Code::kInvalidArgument, "bad request: " + std::string(why)};
}

// Takes "http://host" off an absolute target, which proxies and some clients send, and returns the host.
// None: it is not absolute.
std::optional<std::string> TakeAuthority(std::string* target) {
  const size_t colon = target->find("://");
  if (colon == std::string::npos) return std::nullopt;
  const std::string scheme = Lower(std::string_view(*target).substr(0, colon));
  if (scheme != "http" && scheme != "https") return std::nullopt;
  const size_t begin = colon + 3, end = std::min(target->find_first_of("/?", begin), target->size());
  std::string authority = target->substr(begin, end - begin);
  target->erase(0, end);
  if (!target->starts_with('/')) target->insert(0, "/");
  return authority;
}

// `authority`: of an absolute target.
Status ParseRequestLine(std::string_view line, RequestHead* head, std::optional<std::string>* authority) {
  head->method = TakeUntil(" ", &line);
  head->target = TakeUntil(" ", &line);
  if (!IsToken(head->method)) return BadRequest("no method");
  if (line != "HTTP/1.1" && line != "HTTP/1.0") return BadRequest("not HTTP/1.1");
  head->http_1_0 = line == "HTTP/1.0";
  const auto printable = [](char c) { return c > ' ' && c < '\x7f'; };
  const bool is_text = std::ranges::all_of(head->target, printable);
  *authority = TakeAuthority(&head->target);  // errors name it
  // No client needs a user's name here, which may be there to make a host look like another one.
  const bool named = !*authority || (!(*authority)->empty() && (*authority)->find('@') == std::string::npos);
  const bool is_path = head->target.starts_with('/') || (head->target == "*" && head->method == "OPTIONS");
  if (!is_text || !named || !is_path) return BadRequest("the target is no path");
  return {};
}

Status ParseHeaderLine(std::string_view line, RequestHead* head) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return BadRequest("a line is no header");
  const std::string_view name = line.substr(0, colon), value = WithoutBlanks(line.substr(colon + 1));
  if (!IsToken(name)) return BadRequest("a header has no name");
  const auto readable = [](char c) { return c == '\t' || (c >= ' ' && c != '\x7f') || c < 0; };
  if (!std::ranges::all_of(value, readable)) return BadRequest("a header with a control character");
  const auto [at, fresh] = head->headers.try_emplace(Lower(name), value);
  if (fresh) return {};
  if (std::ranges::find(kSingle, at->first) != kSingle.end()) return BadRequest("two headers " + at->first);
  at->second += (at->first == "cookie" ? "; " : ", ") + std::string(value);
  return {};
}

// Whether a list of a header, "gzip;q=0.5, br", has the word, and not with the weight 0.
bool ListHas(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    std::string_view item = TakeUntil(",", &list);
    if (Lower(WithoutBlanks(TakeUntil(";", &item))) != word) continue;
    const std::string weight = Lower(WithoutBlanks(item));
    return !weight.starts_with("q=0") || weight.find_first_of("123456789") != std::string::npos;
  }
  return false;
}

}  // namespace

std::string_view RequestHead::path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

std::string_view RequestHead::query() const {
  return std::string_view(target).substr(std::min(path().size() + 1, target.size()));
}

std::optional<std::string> RequestHead::QueryValue(std::string_view name) const {
  const auto decoded = [](std::string_view part) {
    std::string text(part);
    std::ranges::replace(text, '+', ' ');
    return DecodePercent(text).value_or(text);
  };
  for (std::string_view rest = query(); !rest.empty();) {
    std::string_view part = TakeUntil("&", &rest);
    if (decoded(TakeUntil("=", &part)) == name) return decoded(part);
  }
  return std::nullopt;
}

std::string_view RequestHead::Header(std::string_view name) const {
  const auto at = headers.find(std::string(name));
  return at == headers.end() ? std::string_view() : at->second;
}

std::string_view RequestHead::BearerToken() const {
  std::string_view given = Header("authorization");
  return Lower(TakeUntil(" ", &given)) == "bearer" ? WithoutBlanks(given) : "";
}

bool RequestHead::has_body() const {
  const std::string_view length = Header("content-length");
  return headers.contains("transfer-encoding") || (headers.contains("content-length") && length != "0");
}

bool RequestHead::keep_alive() const {
  const std::string_view connection = Header("connection");
  return http_1_0 ? ListHas(connection, "keep-alive") : !ListHas(connection, "close");
}

bool RequestHead::accepts_gzip() const {
  return ListHas(Header("accept-encoding"), "gzip");
}

bool IsToken(std::string_view text) {
  return IsWord(text, text.size(), "!#$%&'*+-.^_`|~");
}

std::optional<std::string> DecodePercent(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    decoded += text[i];
    if (text[i] != '%') continue;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto byte = ToNumber<uint8_t>(digits, 16);
    if (digits.size() < 2 || !byte) return std::nullopt;
    decoded.back() = static_cast<char>(*byte);
    i += 2;
  }
  return decoded;
}

Result<RequestHead> ParseHead(std::string_view head) {
  RequestHead parsed;
  if (!head.ends_with(RequestHead::kEnd)) return BadRequest("no end");
  head.remove_suffix(kLineEnd.size());
  std::optional<std::string> authority;
  LEAT_RETURN_IF_ERROR(ParseRequestLine(TakeUntil(kLineEnd, &head), &parsed, &authority));
  while (!head.empty()) LEAT_RETURN_IF_ERROR(ParseHeaderLine(TakeUntil(kLineEnd, &head), &parsed));
  if (!parsed.http_1_0 && !parsed.headers.contains("host")) return BadRequest("no header host");
  if (authority) parsed.headers["host"] = std::move(*authority);
  return parsed;
}

namespace {

constexpr size_t kMostShownOfName = 100;

bool SameLetters(std::string_view a, std::string_view b) {
  return Lower(a) == Lower(b);
}

// "[::1]:80" and "[::1]" are ::1, "name:80" is name.
std::string_view WithoutPort(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  return authority.substr(0, authority.find(':'));
}

}  // namespace

OwnNames::OwnNames(std::vector<std::string> names, const std::string& address,
                   std::function<bool(const std::string&)> certified)
    : names_(std::move(names)), certified_(std::move(certified)) {
  if (const auto own = ParseAddress(address); own.ok()) names_.push_back(own->host);
  if (const std::string name = HostName(); !name.empty()) {
    names_.push_back(name);
    names_.push_back(name.substr(0, name.find('.')));
  }
}

bool OwnNames::Knows(std::string_view host) const {
  if (IsIpAddress(host) || SameLetters(host, "localhost")) return true;
  if (std::ranges::any_of(names_, [&](const std::string& own) { return SameLetters(own, host); }))
    return true;
  return certified_ != nullptr && certified_(std::string(host));
}

std::optional<HttpRefusal> OwnNames::Check(const RequestHead& head) const {
  const std::string_view authority = head.Header("host");
  // A probe may speak HTTP/1.0 and name no host. Browsers always name one.
  if (!(head.http_1_0 && authority.empty()) && !Knows(WithoutPort(authority))) {
    return HttpRefusal{421, "'" + std::string(WithoutPort(authority).substr(0, kMostShownOfName)) +
                                "' is not known to be a name of this host: use its address, or a name in its "
                                "certificate, in --advertise, or before the port that it listens on"};
  }
  if (!head.headers.contains("origin")) return std::nullopt;
  const std::string_view origin = head.Header("origin");
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme) && SameLetters(origin.substr(scheme.size()), authority))
      return std::nullopt;
  }
  return HttpRefusal{403, "the request is from a page of another origin"};
}

}  // namespace leat::net

namespace leat::net::http {
namespace {

constexpr size_t kLongestChunkSize = 16;  // hexadecimal digits
constexpr size_t kLongestTarget = 8 << 10;

// A line of chunks or trailers that another reader could take for two.
bool HasLoneLineEnd(std::string_view line) {
  return line.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos;
}

}  // namespace

RequestReader::RequestReader(const Options& options) : options_(options), buffer_(new char[kBuffer]) {}

std::span<char> RequestReader::Space() {
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  return {buffer_.get() + end_, kBuffer - end_};
}

RequestReader::Event RequestReader::Next() {
  using R = RequestReader;
  // By Part.
  constexpr std::array kRead = {&R::ReadHead, &R::ReadBody,     &R::ReadChunkSize,
                                &R::ReadBody, &R::ReadChunkEnd, &R::ReadTrailers};
  while (part_ < Part::kDone && (this->*kRead[static_cast<size_t>(part_)])()) {
  }
  if (part_ == Part::kRefused) return Event::kRefused;
  if (part_ == Part::kDone) return Event::kRequest;
  return std::exchange(wants_continue_, false) ? Event::kContinue : Event::kMore;
}

bool RequestReader::ReadHead() {
  if (searched_ == 0) {
    // Some clients send an empty line after a body.
    while (unread().starts_with("\r\n")) begin_ += 2;
    if (unread() == "\r") return false;
  }
  const std::string_view bytes = unread();
  const size_t from = searched_ - std::min<size_t>(searched_, 3);
  const size_t found = bytes.find(RequestHead::kEnd, from);
  if (found == std::string_view::npos) {
    // Such as the beginning of TLS, whose sender waits for an answer.
    if (!bytes.empty() && !IsToken(bytes.substr(0, 1))) return Refuse(400, "bad request: no method");
    searched_ = bytes.size();
    return bytes.size() == kBuffer ? Refuse(431, "the head is too long") : false;
  }
  searched_ = 0;
  keep_alive_ = head_only_ = false;
  peer_ = Admission::Peer::kUnknown;
  const size_t size = found + RequestHead::kEnd.size();
  auto head = ParseHead(bytes.substr(0, size));
  if (!head.ok()) return Refuse(400, head.status().message());
  begin_ += size;
  head_only_ = head->method == "HEAD";
  if (head->target.size() > kLongestTarget) return Refuse(414, "the target is too long");
  if (options_.own_names != nullptr) {
    if (const auto refusal = options_.own_names->Check(*head)) return Refuse(refusal->status, refusal->why);
  }
  Admission admission = options_.handler->Admit(*head, roles_);
  if (admission.refusal) {
    refusal_ = std::move(*admission.refusal);
    part_ = Part::kRefused;
    return false;
  }
  if (!admission.body && head->has_body()) return Refuse(413, "requests to this path have no body");
  peer_ = admission.peer;
  keep_alive_ = head->keep_alive();
  BeginBody(*head);
  if (part_ == Part::kRefused) return false;
  if (head_only_) head->method = "GET";
  request_ = {.head = std::move(*head), .known = peer_ == Admission::Peer::kKnown};
  return true;
}

void RequestReader::BeginBody(const RequestHead& head) {
  const bool has_length = head.headers.contains("content-length");
  extras_ = left_ = 0;
  part_ = Part::kDone;
  if (head.headers.contains("transfer-encoding")) {
    // Readers disagree about where such a request ends, so it could smuggle another one.
    if (has_length || head.http_1_0) {
      Refuse(400, "bad request: transfer-encoding with content-length, or in HTTP/1.0");
    } else if (Lower(head.Header("transfer-encoding")) != "chunked") {
      Refuse(501, "the only transfer encoding is chunked");
    } else {
      part_ = Part::kChunkSize;
    }
  } else if (has_length) {
    const std::string_view length = head.Header("content-length");
    const bool digits = !length.empty() && length.find_first_not_of("0123456789") == std::string_view::npos;
    left_ = ToNumber<size_t>(length).value_or(SIZE_MAX);
    if (!digits) {
      Refuse(400, "bad request: content-length is not a number");
    } else if (left_ > options_.max_body) {
      RefuseTooLong();
    } else if (left_ > 0) {
      part_ = Part::kBody;
    }
  }
  const bool body = part_ == Part::kBody || part_ == Part::kChunkSize;
  wants_continue_ = body && !head.http_1_0 && Lower(head.Header("expect")) == "100-continue";
}

bool RequestReader::ReadBody() {
  const std::string_view bytes = unread().substr(0, left_);
  if (bytes.empty()) return false;
  wants_continue_ = false;
  std::string& body = request_.body;
  const size_t size = body.size() + bytes.size();
  if (options_.bodies != nullptr && size > BodyMemory::kSmall) {
    const size_t added = size - reserved_;
    reserved_ = size;
    if ((options_.bodies->used += added) > options_.bodies->most)
      return Refuse(503, "too many large requests at a time");
  }
  body += bytes;
  begin_ += bytes.size();
  left_ -= bytes.size();
  if (left_ == 0) part_ = part_ == Part::kChunk ? Part::kChunkEnd : Part::kDone;
  return true;
}

bool RequestReader::TakeLine(std::string_view* line) {
  const std::string_view bytes = unread();
  const size_t end = bytes.find("\r\n");
  const bool whole = end != std::string_view::npos;
  const size_t size = whole ? end : bytes.size() - (bytes.ends_with('\r') ? 1 : 0);
  if (extras_ + size > options_.max_extras + kLongestChunkSize)
    return Refuse(431, "the chunk extensions and trailers are too long");
  if (!whole) return false;
  *line = bytes.substr(0, end);
  if (HasLoneLineEnd(*line)) return Refuse(400, "bad request: a control character between chunks");
  begin_ += end + 2;
  return true;
}

bool RequestReader::ReadChunkSize() {
  std::string_view line;
  if (!TakeLine(&line)) return false;
  wants_continue_ = false;
  const size_t digits = std::min(line.find_first_not_of("0123456789abcdefABCDEF"), line.size());
  const std::string_view extension = line.substr(digits);
  const size_t blanks = std::min(extension.find_first_not_of(" \t"), extension.size());
  if (digits == 0 || (blanks < extension.size() && extension[blanks] != ';'))
    return Refuse(400, "bad request: not the size of a chunk");
  extras_ += extension.size();
  left_ = ToNumber<size_t>(line.substr(0, digits), 16).value_or(SIZE_MAX);
  if (left_ > options_.max_body - request_.body.size()) return RefuseTooLong();
  part_ = left_ == 0 ? Part::kTrailers : Part::kChunk;
  return true;
}

bool RequestReader::ReadChunkEnd() {
  const std::string_view end = unread().substr(0, 2);
  if (!std::string_view("\r\n").starts_with(end))
    return Refuse(400, "bad request: a chunk is longer than its size");
  if (end.size() < 2) return false;
  begin_ += 2;
  part_ = Part::kChunkSize;
  return true;
}

bool RequestReader::ReadTrailers() {
  std::string_view line;
  if (!TakeLine(&line)) return false;
  extras_ += line.size();
  if (line.empty()) part_ = Part::kDone;
  return true;
}

bool RequestReader::Refuse(int status, std::string_view why) {
  refusal_ = options_.handler->Error(status, why);
  part_ = Part::kRefused;
  keep_alive_ = wants_continue_ = false;
  Release();
  request_ = {};
  return false;
}

bool RequestReader::RefuseTooLong() {
  return Refuse(413, "the body is larger than " + std::to_string(options_.max_body) + " bytes");
}

void RequestReader::Release() {
  if (options_.bodies != nullptr) options_.bodies->used -= std::exchange(reserved_, 0);
}

Request RequestReader::TakeRequest() {
  part_ = Part::kHead;
  Release();
  return std::exchange(request_, {});
}

Reply RequestReader::TakeRefusal() {
  return std::move(refusal_);
}

}  // namespace leat::net::http
