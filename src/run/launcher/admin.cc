#include "run/launcher/admin.h"

#include <future>
#include <string>
#include <variant>

#include "base/text.h"

namespace leat::launcher {
namespace {

// The deadline of the request itself. The command gives up earlier, if nothing moves.
constexpr Duration kLongest = std::chrono::hours(24 * 7);
constexpr Duration kStatusTimeout = std::chrono::seconds(5);

Status UnexpectedReply() {
  return {Code::kInternal, "the coordinator sent a reply of the wrong type"};
}

}  // namespace

Result<report::JobStatus> AskStatus(control::ControlClient& client, Duration deadline) {
  LEAT_ASSIGN_OR_RETURN(const auto reply, client.Call(protocol::StatusRequest{}, deadline));
  const auto* status = std::get_if<protocol::StatusReply>(&reply);
  if (status == nullptr) return UnexpectedReply();
  return report::StatusFromJson(status->json);
}

Status RunAdmin(control::ControlClient& client, const protocol::AdminRequest& request, std::FILE* out,
                Duration interval, Duration silence) {
  auto answer = std::async(std::launch::async, [&client, request] { return client.Call(request, kLongest); });
  const MonotonicClock clock;
  report::AdminWait wait(clock.Now(), silence);
  while (answer.wait_for(interval) != std::future_status::ready) {
    const auto status = AskStatus(client, kStatusTimeout);
    const Time now = clock.Now();
    if (status.ok()) {
      if (const auto line = wait.OnStatus(now, *status)) std::fprintf(out, "%s\n", line->c_str());
    } else {
      wait.OnSilence(status.status());
    }
    if (Status given_up = wait.Check(now); !given_up.ok()) {
      client.Abort();
      return given_up;
    }
  }
  const auto reply = answer.get();
  if (!reply.ok()) return reply.status();
  const auto* admin = std::get_if<protocol::AdminReply>(&*reply);
  if (admin == nullptr) return UnexpectedReply();
  return admin->status;
}

Result<protocol::AdminRequest> DrainRequest(std::string_view name) {
  protocol::AdminRequest request{.kind = protocol::AdminRequest::Kind::kDrain};
  const size_t space = name.find(' ');
  const std::string_view role = name.substr(0, space);
  const std::string_view index = space == std::string_view::npos ? "" : name.substr(space + 1);
  const auto number = ToNumber<decltype(request.index)>(index);
  request.index = number.value_or(0);
  bool known = number.has_value();
  if (role == Name(protocol::Role::kServer)) {
    request.role = protocol::Role::kServer;
  } else if (role == Name(protocol::Role::kFeed)) {
    request.role = protocol::Role::kFeed;
  } else if (role == Name(protocol::Role::kServe)) {
    request.role = protocol::Role::kServe;
  } else {
    known = known && role == Name(protocol::Role::kWorker);
  }
  if (known) return request;
  return Status(Code::kInvalidArgument,
                "'" + std::string(name) + "' is no member that can be drained, such as 'worker 3' or 'ps 1'");
}

}  // namespace leat::launcher
