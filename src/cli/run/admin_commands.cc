// Commands for a running job: leat status, timeline, checkpoint, scale, drain, pause, continue and stop.
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/exit_status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "net/rpc/client.h"
#include "run/launcher/admin.h"
#include "run/launcher/output/output_file.h"
#include "run/launcher/security.h"
#include "show/report/display.h"
#include "show/timeline/trace.h"

namespace leat {
namespace {

struct AdminArguments {
  std::string coordinator;
  SecurityOptions security;
  bool json = false;
  // leat stop
  bool discard = false;
  // leat scale and leat drain
  protocol::WorkerRange workers;  // none: as before
  std::optional<uint32_t> servers;
  std::vector<std::string> member;
  // leat timeline
  double seconds = 5;
  std::string out = "trace.json";
};

std::unique_ptr<control::ControlClient> AdminClient(const AdminArguments& a) {
  return control::ControlClient::Make(a.coordinator, OrThrow(launcher::UserToken()), a.security.Read().tls);
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

// Writes some seconds of activity of the job's processes to a file, and describes the file.
Status RecordTimeline(const AdminArguments& a) {
  const auto client = AdminClient(a);
  LEAT_ASSIGN_OR_RETURN(launcher::OutputFile file, launcher::OutputFile::Open(a.out));
  LEAT_ASSIGN_OR_RETURN(const auto recorded, launcher::RecordTimeline(*client, FromSeconds(a.seconds)));
  Status written;
  const auto counts = timeline::WriteTrace(recorded, [&](std::string_view text) {
    if (written.ok()) written = file.Write(text);
  });
  LEAT_RETURN_IF_ERROR(written);
  LEAT_RETURN_IF_ERROR(file.Close());
  std::FILE* const out = launcher::MessagesBeside(file);
  std::fprintf(out,
               "%s: %.1f s of %zu processes, %llu spans, %llu pushes with their apply; clocks to ±%.0f µs\n",
               a.out.c_str(), Seconds(recorded.end - recorded.begin), recorded.processes.size(),
               static_cast<unsigned long long>(counts.spans), static_cast<unsigned long long>(counts.arrows),
               Seconds(counts.clock_error) * 1e6);
  for (const auto& [process, tracks] : recorded.processes) {
    if (!process.missing.empty())
      std::fprintf(out, "  %s: %s\n", process.name.c_str(), process.missing.c_str());
    if (process.dropped > 0)
      std::fprintf(out, "  %s: %llu spans were left out\n", process.name.c_str(),
                   static_cast<unsigned long long>(process.dropped));
  }
  return {};
}

int Scale(const AdminArguments& a) {
  protocol::AdminRequest request{.kind = protocol::AdminRequest::Kind::kScale};
  RefuseIf(!a.workers.valid() && !a.servers, "scale needs --workers, --ps, or both: how many are wanted");
  if (a.workers.valid()) request.workers = a.workers;
  request.servers = a.servers;
  return Admin(a, request);
}

int Drain(const AdminArguments& a) {
  return Admin(a, OrThrow(launcher::DrainRequest(Joined(a.member, " "))));
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
                       [a] { return PrintOutcome(RecordTimeline(*a)); });
  AddNumber(timeline, "--seconds", &a->seconds, "time to record", 0.1, 60);
  timeline->add_option("--out", a->out, "file to write: a Chrome trace, in JSON")->capture_default_str();
  add("checkpoint", "write a checkpoint of a running job",
      [a] { return Admin(*a, {.kind = Kind::kCheckpoint}); });
  auto* scale =
      add("scale", "set how many workers and servers a running job wants", [a] { return Scale(*a); });
  AddWorkers(scale, &a->workers.least, &a->workers.most,
             "number of workers, or a range for the autoscaler (default: as before)");
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
