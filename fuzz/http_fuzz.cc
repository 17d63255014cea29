// Bytes of an unauthenticated peer of a listener: they are refused, or are requests, each of which gets one
// response and none what is for viewers.
#include <string>
#include <string_view>

#include "base/check.h"
#include "observe/http/exchange.h"
#include "observe/http/view_token.h"

namespace {

using namespace leat;
using namespace leat::observe;

// No request can contain it, as names of hosts that are echoed could: control characters are refused.
constexpr std::string_view kSecret = "the\x01secret";

HttpService& Service() {
  static HttpService service(
      {{.path = "/open",
        .access = HttpRoute::Access::kEveryone,
        .handler = [](const HttpRequest& request) { return HttpResponse{.body = request.path}; }},
       {.path = "/secret",
        .handler = [](const HttpRequest&) { return HttpResponse{.body = std::string(kSecret)}; }}},
      Access({.view_token = ViewToken("a token that is in no seed")}), 1);
  return service;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  while (const auto head_bytes = net::HeadBytes(bytes)) {
    const auto head = net::ParseHead(bytes.substr(0, *head_bytes));
    bytes.remove_prefix(*head_bytes);
    if (!head.ok()) break;
    std::string response;
    const bool authorised = Service().access.Authorised(*head, {});
    AnswerRequest(Service(), *head, authorised, [&response](std::string_view piece) {
      response += piece;
      return Status();
    });
    LEAT_CHECK(response.starts_with("HTTP/1.1 "));
    LEAT_CHECK(response.find("X-Content-Type-Options: nosniff\r\n") != std::string::npos);
    LEAT_CHECK(response.find(kSecret) == std::string::npos);
  }
  return 0;
}
