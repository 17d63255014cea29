#include "cli/run/job_options.h"

#include <unistd.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "base/exit_status.h"
#include "job/job.h"
#include "job/resume.h"
#include "net/address.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"

namespace leat {
namespace {

void AddDashboard(CLI::App* app, JobOptions* a) {
  app->add_option_function<std::vector<std::string>>(
         "--dashboard",
         [a](const std::vector<std::string>& given) {
           a->dashboard = given.empty() || given[0].empty() ? "127.0.0.1:0" : given[0];
           if (net::ParseAddress(*a->dashboard).ok()) return;
           throw CLI::ValidationError("--dashboard", "'" + *a->dashboard +
                                                         "' is no address HOST:PORT (a job file goes before "
                                                         "--dashboard)");
         },
         "show the job in a browser, at this address (default: 127.0.0.1 and any free port)")
      ->type_name("[HOST:PORT]")
      ->expected(0, 1);
}

}  // namespace

void AddMetrics(CLI::App* app, std::string* address, const std::string& what) {
  app->add_option("--metrics", *address, what)->type_name("HOST:PORT");
}

void AddAdvertise(CLI::App* app, std::string* address) {
  app->add_option("--advertise", *address,
                  "address that others use instead of --listen's, HOST or HOST:PORT (default: --listen's)");
}

void AddJobOptions(CLI::App* app, JobOptions* a, roles::CoordinatorOptions* coordinate,
                   const std::string& directory_default) {
  AddData(app, &a->run.overrides.data);
  app->add_option_function<std::string>(
         "--workers",
         [a](const std::string& text) {
           const auto workers = job::ParseWorkerRange(text);
           if (!workers.ok()) throw CLI::ValidationError("--workers", workers.status().message());
           a->run.overrides.workers = workers->least;
           a->run.overrides.max_workers = workers->most;
         },
         "number of worker processes, or a range for the autoscaler, MIN:MAX (default: the job's)")
      ->type_name("N|MIN:MAX");
  app->add_option("--ps", a->run.overrides.servers, "number of parameter servers (default, or 0: the job's)")
      ->check(CLI::Range(0u, 1000u));
  app->add_option("--directory", a->run.overrides.directory,
                  "directory for checkpoints, journal and logs (" + directory_default + ")");
  app->add_option(
      "--resume", a->run.source.resume,
      "resume from the newest checkpoint in this job directory, or, into an empty --directory, in "
      "s3://BUCKET/PREFIX");
  app->add_option("--rate", a->rate,
                  "events per second that the bots publish; 0: no limit (default: the job's)")
      ->check(CLI::Range(0.0, 1e9));
  app->add_option("--events", a->run.overrides.events,
                  "number of events that the bots publish (default: the job's)");
  app->add_option("--pause-at", a->run.pause_at, "pause after this many events, until `leat continue`");
  AddCoordinatorOptions(app, true, coordinate);
  app->add_option("--listen", a->run.listen, "address that the coordinator listens on; port 0: any free port")
      ->capture_default_str();
  AddMetrics(app, &a->run.metrics,
             "address for Prometheus: the coordinator's /metrics, /healthz, /readyz, and all roles at "
             "/targets; port 0: any free port");
  AddDashboard(app, a);
  AddSecurity(app, &a->security);
  AddPlaceOptions(app, &a->place);
}

std::string RequiredToken() {
  return OrThrow(launcher::UserToken());
}

int PrintOutcome(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "leat: %s\n", status.message().c_str());
  return ExitStatusOf(status.code());
}

Status FetchJob(JobOptions* a, const std::function<void(const std::string&)>& on_wait) {
  if (!job::IsBucket(a->run.source.resume)) return {};
  launcher::BlockSignals();
  // A fetch that was interrupted goes on next time, and nothing ends one that takes an hour but this.
  const auto end = [] { _exit(ExitStatus::kInterrupted); };
  LEAT_RETURN_IF_ERROR(launcher::AwaitHealing({.on_wait = on_wait, .on_signal = end}, [a] {
    job::FetchFromBucket(a->run.source.resume, a->run.source.file, a->run.overrides.directory);
    return Status();
  }));
  a->run.source.resume = std::exchange(a->run.overrides.directory, "");
  return {};
}

}  // namespace leat
