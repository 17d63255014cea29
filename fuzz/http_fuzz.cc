// Bytes of an unauthenticated peer of a listener: they are refused, or are requests, each of which gets one
// response without content for viewers.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/http/exchange.h"
#include "show/http/listener.h"

namespace {

using namespace leat;
using namespace leat::observe;
using net::http::RequestReader;

// No request can contain it, as names of hosts that are echoed could: control characters are refused.
constexpr std::string_view kSecret = "the\x01secret";

class CheckedExchange final : public net::http::Exchange {
 public:
  void Send(net::http::Reply reply) override {
    ++replies;
    LEAT_CHECK(reply.status >= 200 && reply.status < 600);
    LEAT_CHECK(reply.headers.find("X-Content-Type-Options: nosniff\r\n") != std::string::npos);
    LEAT_CHECK((reply.headers + reply.type + reply.body).find(kSecret) == std::string::npos);
  }
  void Post(std::function<void()> work) override { work(); }
  int replies = 0;
};

Viewers& AllViewers() {
  static Viewers* const viewers = [] {
    auto* made = new Viewers(
        {{.path = "/open",
          .access = HttpRoute::Access::kEveryone,
          .handler =
              [](const Request& request) {
                const std::string name = request.head.QueryValue("name").value_or("");
                return Reply{.body = request.head.target + std::to_string(name.size())};
              }},
         {.path = "/secret", .handler = [](const Request&) { return Reply{.body = std::string(kSecret)}; }}},
        ViewToken("a token that is in no seed"), false, 1);
    made->OnListening("127.0.0.1:9464");
    return made;
  }();
  return *viewers;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const net::OwnNames names({"leat.example"});
  const RequestReader::Options options{.own_names = &names, .handler = &AllViewers()};
  RequestReader reader(options);
  while (true) {
    const RequestReader::Event event = reader.Next();
    const auto exchange = std::make_shared<CheckedExchange>();
    if (event == RequestReader::Event::kRefused) {
      exchange->Send(reader.TakeRefusal());
      return 0;
    }
    if (event == RequestReader::Event::kRequest) {
      net::http::Request request = reader.TakeRequest();
      LEAT_CHECK(request.body.empty() && !request.known);
      AllViewers().Handle(0, std::move(request), exchange);
      LEAT_CHECK(exchange->replies == 1);
      continue;
    }
    if (bytes.empty()) return 0;
    const std::span<char> space = reader.Space();
    const size_t piece = std::min(space.size(), bytes.size());
    std::copy_n(bytes.data(), piece, space.data());
    reader.Commit(piece);
    bytes.remove_prefix(piece);
  }
}
