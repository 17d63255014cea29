#include "observe/http/probe.h"

#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "net/address.h"

namespace leat::observe {
namespace {

constexpr size_t kMaxReason = 200;

// The first line, without characters that a terminal would obey.
std::string Line(const std::string& body) {
  std::string line = body.substr(0, std::min(body.find('\n'), kMaxReason));
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  return line;
}

Result<httplib::Response> Get(httplib::ClientImpl& client, const ProbeOptions& options) {
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(options.timeout);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left).count();
  const auto rest = left.count() - seconds * 1'000'000;
  client.set_connection_timeout(seconds, rest);
  client.set_read_timeout(seconds, rest);
  client.set_write_timeout(seconds, rest);
  const auto reply = client.Get(options.path);
  if (reply) return *reply;
  const std::string why = reply.error() == httplib::Error::Connection ? "there is no connection"
                                                                      : httplib::to_string(reply.error());
  return Status(Code::kUnavailable, options.address + " does not answer: " + why);
}

}  // namespace

Status Probe(const ProbeOptions& options) {
  LEAT_ASSIGN_OR_RETURN(net::HostPort at, net::ParseAddress(options.address));
  if (at.port == 0) return {Code::kInvalidArgument, options.address + ": port 0 is none that can be asked"};
  if (at.host == "0.0.0.0") at.host = "127.0.0.1";
  if (at.host == "::") at.host = "::1";
  std::unique_ptr<httplib::ClientImpl> client;
  if (options.tls) {
    auto secure = std::make_unique<httplib::SSLClient>(at.host, at.port);
    secure->enable_server_certificate_verification(false);
    client = std::move(secure);
  } else {
    client = std::make_unique<httplib::ClientImpl>(at.host, at.port);
  }
  LEAT_ASSIGN_OR_RETURN(const httplib::Response reply, Get(*client, options));
  if (reply.status == 200) return {};
  return {Code::kFailedPrecondition, options.address + options.path + ": status " +
                                         std::to_string(reply.status) + ": " + Line(reply.body)};
}

}  // namespace leat::observe
