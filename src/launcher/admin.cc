#include "launcher/admin.h"

#include <future>
#include <variant>

namespace leat::launcher {
namespace {

// The deadline of the request itself. The command gives up earlier, if nothing moves.
constexpr Duration kLongest = std::chrono::hours(24 * 7);
constexpr Duration kStatusTimeout = std::chrono::seconds(5);

}  // namespace

Status RunAdmin(control::ControlClient& client, protocol::AdminRequest::Kind kind, std::FILE* out,
                Duration interval, Duration silence) {
  auto answer = std::async(std::launch::async, [&client, kind] {
    return client.Call(protocol::AdminRequest{.kind = kind, .node = {}}, kLongest);
  });
  const MonotonicClock clock;
  report::AdminWait wait(clock.Now(), silence);
  while (answer.wait_for(interval) != std::future_status::ready) {
    const auto reply = client.Call(protocol::StatusRequest{}, kStatusTimeout);
    const Time now = clock.Now();
    if (const auto* status = reply.ok() ? std::get_if<protocol::StatusReply>(&*reply) : nullptr) {
      if (const auto line = wait.OnStatus(now, status->json)) std::fprintf(out, "%s\n", line->c_str());
    } else {
      wait.OnSilence(reply.status());
    }
    if (Status given_up = wait.Check(now); !given_up.ok()) {
      client.Abort();
      return given_up;
    }
  }
  const auto reply = answer.get();
  if (!reply.ok()) return reply.status();
  const auto* admin = std::get_if<protocol::AdminReply>(&*reply);
  if (admin == nullptr) return {Code::kInternal, "the coordinator sent a reply of the wrong type"};
  return admin->status;
}

}  // namespace leat::launcher
