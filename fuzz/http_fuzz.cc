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

HttpService& Service() {
  static HttpService service(
      {{.path = "/open",
        .access = HttpRoute::Access::kEveryone,
        .handler = [](const HttpRequest& request) { return HttpResponse{.body = request.path}; }},
       {.path = "/secret", .handler = [](const HttpRequest&) { return HttpResponse{.body = "the secret"}; }}},
      Access({.view_token = ViewToken("a token that is in no seed")}), 1);
  return service;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  while (const auto head_bytes = HeadBytes(bytes)) {
    const auto head = ParseHead(bytes.substr(0, *head_bytes));
    bytes.remove_prefix(*head_bytes);
    if (!head.ok()) break;
    std::string response;
    AnswerRequest(Service(), {.address = "127.0.0.1:1"}, *head, [&response](std::string_view piece) {
      response += piece;
      return Status();
    });
    LEAT_CHECK(response.starts_with("HTTP/1.1 "));
    LEAT_CHECK(response.find("X-Content-Type-Options: nosniff\r\n") != std::string::npos);
    LEAT_CHECK(response.find("the secret") == std::string::npos);
  }
  return 0;
}
