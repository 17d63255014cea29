#include "net/http/request_head.h"

#include <algorithm>
#include <array>
#include <utility>

namespace leat::net {
namespace {

constexpr std::string_view kLineEnd = "\r\n", kHeadEnd = "\r\n\r\n";
// More than one of these could mean different things to different readers.
constexpr std::array<std::string_view, 5> kSingle = {"host", "origin", "authorization", "content-length",
                                                     "transfer-encoding"};

bool IsHeaderName(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsTokenCharacter);
}

std::string_view TrimBlanks(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// The part before `separator`, which is removed from `text` with it; all if there is none.
std::string_view TakeUntilText(std::string_view separator, std::string_view* text) {
  const size_t at = text->find(separator);
  const std::string_view part = text->substr(0, at);
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + separator.size());
  return part;
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
  head->method = TakeUntilText(" ", &line);
  head->target = TakeUntilText(" ", &line);
  if (!IsHeaderName(head->method)) return BadRequest("no method");
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
  const std::string_view name = line.substr(0, colon), value = TrimBlanks(line.substr(colon + 1));
  if (!IsHeaderName(name)) return BadRequest("a header has no name");
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
    std::string_view item = TakeUntilText(",", &list);
    if (Lower(TrimBlanks(TakeUntilText(";", &item))) != word) continue;
    const std::string weight = Lower(TrimBlanks(item));
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

std::string_view RequestHead::Header(std::string_view name) const {
  const auto at = headers.find(std::string(name));
  return at == headers.end() ? std::string_view() : at->second;
}

std::string_view RequestHead::BearerToken() const {
  constexpr std::string_view kBearer = "bearer ";
  const std::string_view given = Header("authorization");
  return Lower(given.substr(0, kBearer.size())) == kBearer ? TrimBlanks(given.substr(kBearer.size()))
                                                           : std::string_view();
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

bool IsTokenCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

std::optional<std::string> DecodePercent(std::string_view text) {
  std::string decoded;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const int lower = c | 32;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0) return std::nullopt;
    decoded += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
    i += 2;
  }
  return decoded;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::optional<size_t> HeadBytes(std::string_view bytes) {
  const size_t end = bytes.find(kHeadEnd);
  if (end == std::string_view::npos) return std::nullopt;
  return end + kHeadEnd.size();
}

Result<RequestHead> ParseHead(std::string_view head) {
  RequestHead parsed;
  if (!head.ends_with(kHeadEnd)) return BadRequest("no end");
  head.remove_suffix(kLineEnd.size());
  std::optional<std::string> authority;
  LEAT_RETURN_IF_ERROR(ParseRequestLine(TakeUntilText(kLineEnd, &head), &parsed, &authority));
  while (!head.empty()) LEAT_RETURN_IF_ERROR(ParseHeaderLine(TakeUntilText(kLineEnd, &head), &parsed));
  if (!parsed.http_1_0 && !parsed.headers.contains("host")) return BadRequest("no header host");
  if (authority) parsed.headers["host"] = std::move(*authority);
  return parsed;
}

}  // namespace leat::net
