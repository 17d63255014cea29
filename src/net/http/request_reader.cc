#include "net/http/request_reader.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/text.h"

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
