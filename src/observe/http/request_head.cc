#include "observe/http/request_head.h"

#include <algorithm>
#include <array>
#include <utility>

namespace leat::observe {
namespace {

constexpr std::string_view kLineEnd = "\r\n", kHeadEnd = "\r\n\r\n";
// More than one of these could mean different things to different readers.
constexpr std::array<std::string_view, 6> kSingle = {
    "host", "origin", "authorization", "content-length", "transfer-encoding", "connection"};

bool IsTokenCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool IsToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsTokenCharacter);
}

std::string_view Trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// The part before `separator`, which is removed from `text` with it; all if there is none.
std::string_view TakeUntil(std::string_view separator, std::string_view* text) {
  const size_t at = text->find(separator);
  const std::string_view part = text->substr(0, at);
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + separator.size());
  return part;
}

Status Bad(std::string_view why) {
  return {Code::kInvalidArgument, "bad request: " + std::string(why)};
}

Status ParseRequestLine(std::string_view line, RequestHead* head) {
  head->method = TakeUntil(" ", &line);
  head->target = TakeUntil(" ", &line);
  if (!IsToken(head->method)) return Bad("no method");
  if (line != "HTTP/1.1" && line != "HTTP/1.0") return Bad("not HTTP/1.1");
  head->http_1_0 = line == "HTTP/1.0";
  const auto printable = [](char c) { return c > ' ' && c < '\x7f'; };
  if (!head->target.starts_with('/') || !std::ranges::all_of(head->target, printable))
    return Bad("the target is no path");
  return {};
}

Status ParseHeader(std::string_view line, RequestHead* head) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return Bad("a line is no header");
  const std::string_view name = line.substr(0, colon), value = Trim(line.substr(colon + 1));
  if (!IsToken(name)) return Bad("a header has no name");
  const auto readable = [](char c) { return c == '\t' || (c >= ' ' && c != '\x7f') || c < 0; };
  if (!std::ranges::all_of(value, readable)) return Bad("a header with a control character");
  const auto [at, fresh] = head->headers.try_emplace(Lower(name), value);
  if (fresh) return {};
  if (std::ranges::find(kSingle, at->first) != kSingle.end()) return Bad("two headers " + at->first);
  at->second += (at->first == "cookie" ? "; " : ", ") + std::string(value);
  return {};
}

// Whether a list of a header, "gzip;q=0.5, br", has the word, and not with the weight 0.
bool Lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    std::string_view item = TakeUntil(",", &list);
    if (Lower(Trim(TakeUntil(";", &item))) != word) continue;
    const std::string weight = Lower(Trim(item));
    return !weight.starts_with("q=0") || weight.find_first_of("123456789") != std::string::npos;
  }
  return false;
}

}  // namespace

std::string_view RequestHead::Header(std::string_view name) const {
  const auto at = headers.find(std::string(name));
  return at == headers.end() ? std::string_view() : at->second;
}

bool RequestHead::has_body() const {
  const std::string_view length = Header("content-length");
  return headers.contains("transfer-encoding") || (headers.contains("content-length") && length != "0");
}

bool RequestHead::keep_alive() const {
  const std::string_view connection = Header("connection");
  return http_1_0 ? Lists(connection, "keep-alive") : !Lists(connection, "close");
}

bool RequestHead::accepts_gzip() const {
  return Lists(Header("accept-encoding"), "gzip");
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
  if (!head.ends_with(kHeadEnd)) return Bad("no end");
  head.remove_suffix(kLineEnd.size());
  LEAT_RETURN_IF_ERROR(ParseRequestLine(TakeUntil(kLineEnd, &head), &parsed));
  while (!head.empty()) LEAT_RETURN_IF_ERROR(ParseHeader(TakeUntil(kLineEnd, &head), &parsed));
  if (!parsed.http_1_0 && !parsed.headers.contains("host")) return Bad("no header host");
  return parsed;
}

}  // namespace leat::observe
