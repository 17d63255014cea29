// Commands for a running job: leat status, timeline, checkpoint, scale, drain, pause, continue and stop.
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/exit_status.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/run/job_options.h"
#include "job/job.h"
#include "net/rpc/client.h"
#include "run/launcher/admin.h"
#include "show/report/display.h"

namespace leat {
namespace {

struct AdminArguments {
  std::string coordinator;
  SecurityOptions security;
  bool json = false;
  // leat stop
  bool discard = false;
  // leat scale and leat drain
  std::string workers;
  std::optional<uint32_t> servers;
  std::vector<std::string> member;
  // leat timeline
  double seconds = 5;
  std::string out = "trace.json";
};

std::unique_ptr<control::ControlClient> AdminClient(const AdminArguments& a) {
  return control::ControlClient::Make(a.coordinator, RequiredToken(), a.security.Read().tls);
}

int ShowStatus(const AdminArguments& a) {
  const auto client = AdminClient(a);
  auto reply = client->Call(protocol::StatusRequest{}, std::chrono::seconds(5));
  if (!reply.ok()) return PrintOutcome(reply.status());
  const auto* status = std::get_if<protocol::StatusReply>(&*reply);
  if (status == nullptr)
    return PrintOutcome({Code::kInternal, "the coordinator sent a reply of the wrong type"});
  if (a.json) {
    std::printf("%s\n", status->json.c_str());
  } else {
    const auto shown = report::StatusFromJson(status->json);
    if (!shown.ok()) return PrintOutcome(shown.status());
    for (const auto& line : report::RenderTable(*shown, {}, 100, false)) std::printf("%s\n", line.c_str());
  }
  return 0;
}

int Admin(const AdminArguments& a, const protocol::AdminRequest& request) {
  const auto client = AdminClient(a);
  return PrintOutcome(launcher::RunAdmin(*client, request, stderr));
}

int Timeline(const AdminArguments& a) {
  const auto client = AdminClient(a);
  return PrintOutcome(RecordTimeline(*client, a.seconds, a.out));
}

int Scale(const AdminArguments& a) {
  protocol::AdminRequest request{.kind = protocol::AdminRequest::Kind::kScale};
  if (a.workers.empty() && !a.servers)
    throw std::invalid_argument("scale needs --workers, --ps, or both: how many are wanted");
  if (!a.workers.empty()) {
    const auto workers = job::ParseWorkerRange(a.workers);
    if (!workers.ok()) Throw(workers.status().With("--workers"));
    request.workers = *workers;
  }
  request.servers = a.servers;
  return Admin(a, request);
}

int Drain(const AdminArguments& a) {
  std::string name;
  for (const std::string& word : a.member) name += (name.empty() ? "" : " ") + word;
  const auto request = launcher::DrainRequest(name);
  ThrowIfError(request.status());
  return Admin(a, *request);
}

}  // namespace

void AddAdminCommands(CLI::App& app, int* result) {
  const auto a = std::make_shared<AdminArguments>();
  const auto add = [&](const char* name, const char* what, std::function<int()> run) {
    auto* command = app.add_subcommand(name, what);
    command->add_option("--coordinator", a->coordinator, kCoordinatorAddress)->required();
    AddSecurity(command, &a->security);
    command->callback([result, run = std::move(run)] { *result = run(); });
    return command;
  };
  using Kind = protocol::AdminRequest::Kind;
  add("status", "show the progress of a running job", [a] {
    return ShowStatus(*a);
  })->add_flag("--json", a->json, "print one JSON object");
  auto* timeline = add("timeline", "record what the processes of a running job do, as a trace for Perfetto",
                       [a] { return Timeline(*a); });
  timeline->add_option("--seconds", a->seconds, "time to record")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 60.0));
  timeline->add_option("--out", a->out, "file to write: a Chrome trace, in JSON")->capture_default_str();
  add("checkpoint", "write a checkpoint of a running job",
      [a] { return Admin(*a, {.kind = Kind::kCheckpoint}); });
  auto* scale =
      add("scale", "set how many workers and servers a running job wants", [a] { return Scale(*a); });
  scale
      ->add_option("--workers", a->workers,
                   "number of workers, or a range for the autoscaler (default: as before)")
      ->type_name("N|MIN:MAX");
  scale->add_option("--ps", a->servers, "number of parameter servers (default: as before)");
  add("drain", "let a member of a running job hand over what it has, and leave", [a] { return Drain(*a); })
      ->add_option("member", a->member, "as `leat status` names it: worker 3, ps 1")
      ->required()
      ->expected(1, 2);
  add("pause", "let a running job finish what it has begun, and wait",
      [a] { return Admin(*a, {.kind = Kind::kPause}); });
  add("continue", "continue a job that has paused, by leat pause or at --pause-at",
      [a] { return Admin(*a, {.kind = Kind::kContinue}); });
  add("stop", "write a checkpoint of a running job and end it",
      [a] { return Admin(*a, {.kind = a->discard ? Kind::kDiscard : Kind::kStop}); })
      ->add_flag("--discard", a->discard,
                 "do not write the checkpoint: what was trained since the last one is lost");
}

}  // namespace leat
