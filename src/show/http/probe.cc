#include "show/http/probe.h"

#include <algorithm>
#include <string_view>

#include "net/address.h"
#include "net/http_client/http_client.h"

namespace leat::observe {
namespace {

constexpr size_t kMaxReason = 200;

// The first line, without characters that a terminal would obey.
std::string Line(std::string_view body) {
  std::string line(body.substr(0, std::min(body.find('\n'), kMaxReason)));
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  return line;
}

}  // namespace

Status Probe(const ProbeOptions& options) {
  LEAT_ASSIGN_OR_RETURN(net::HostPort at, net::ParseAddress(options.address));
  if (at.port == 0) return {Code::kInvalidArgument, options.address + ": port 0 is none that can be asked"};
  if (at.host == "0.0.0.0") at.host = "127.0.0.1";
  if (at.host == "::") at.host = "::1";
  const auto client = net::MakeHttpClient({.verify = false, .proxy = false});
  const auto reply = client->Do({.url = (options.tls ? "https://" : "http://") + at.ToString() + options.path,
                                 .timeout = options.timeout,
                                 .name = options.address + " does not answer"});
  if (!reply.ok()) return {Code::kUnavailable, reply.status().message()};
  if (reply->status == 200) return {};
  return {Code::kFailedPrecondition, options.address + options.path + ": status " +
                                         std::to_string(reply->status) + ": " + Line(AsText(reply->body))};
}

}  // namespace leat::observe
