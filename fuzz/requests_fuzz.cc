// Bytes of a client of the HTTP server, split in any way. The first byte chooses the pieces. Whatever the
// pieces, the same requests are read and the same refusal ends them, within the limits; one that has no token
// gets no body read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "net/http/exchange.h"

namespace {

using namespace leat;
using namespace net::http;

constexpr size_t kMostBody = 300;

class Door final : public Handler {
 public:
  Admission Admit(const net::RequestHead& head, net::CertificateRoles) override {
    const std::string_view path = head.path(), authorization = head.Header("authorization");
    LEAT_CHECK(path.starts_with('/') || path == "*");
    if (path.starts_with("/health")) return {.body = false, .peer = Admission::Peer::kUnknown};
    if (authorization == "Bearer t") return {.peer = Admission::Peer::kKnown};
    return {.refusal = Error(401, "no token")};
  }
  Reply Error(int status, std::string_view why) const override {
    return {.status = status, .body = std::string(why)};
  }
  void Handle(size_t, Request, std::shared_ptr<Exchange>) override {}
};

// The outcome of a reading: a line for each request, and the refusal.
std::vector<std::string> Read(std::string_view bytes, const std::vector<size_t>& pieces) {
  Door door;
  const net::OwnNames names({"leat.example"});
  BodyMemory bodies;
  const RequestReader::Options options{
      .max_body = kMostBody, .max_extras = 40, .own_names = &names, .handler = &door, .bodies = &bodies};
  RequestReader reader(options);
  std::vector<std::string> found;
  for (size_t piece = 0;;) {
    const RequestReader::Event event = reader.Next();
    if (event == RequestReader::Event::kRefused) {
      const Reply refusal = reader.TakeRefusal();
      LEAT_CHECK(refusal.status >= 400 && refusal.status < 600);
      LEAT_CHECK(!reader.keep_alive());
      found.push_back(std::to_string(refusal.status) + " " + refusal.body);
      return found;
    }
    if (event == RequestReader::Event::kRequest) {
      const bool unknown = reader.peer() == Admission::Peer::kUnknown;
      const Request request = reader.TakeRequest();
      LEAT_CHECK(request.body.size() <= (unknown ? 0 : kMostBody));
      LEAT_CHECK(!request.head.method.empty() && request.head.method != "HEAD");
      found.push_back(request.head.method + " " + request.head.target + " " +
                      std::string(request.head.Header("content-type")) + " " + request.body +
                      (reader.keep_alive() ? " stays" : " ends"));
      continue;
    }
    if (bytes.empty()) return found;
    const std::span<char> space = reader.Space();
    LEAT_CHECK(!space.empty());
    const size_t size = std::min({space.size(), bytes.size(), pieces[piece++ % pieces.size()]});
    std::copy_n(bytes.data(), size, space.data());
    reader.Commit(size);
    bytes.remove_prefix(size);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Rng rng(data[0]);
  std::vector<size_t> pieces(16);
  for (size_t& piece : pieces) piece = 1 + rng.Below(uint64_t{1} << rng.Below(12));
  const auto whole = Read(bytes, {size});
  LEAT_CHECK(Read(bytes, pieces) == whole);
  LEAT_CHECK(Read(bytes, {1}) == whole);
  return 0;
}
