#include "net/http/exchange.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
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

bool IsIpAddress(std::string_view host) {
  const std::string text(host);
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(AF_INET, text.c_str(), &v4) == 1 || inet_pton(AF_INET6, text.c_str(), &v6) == 1;
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
