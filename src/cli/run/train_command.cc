// leat train and leat demo: run a job on this machine.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/exit_status.h"
#include "cli/commands.h"
#include "cli/demo/demo_job.h"
#include "cli/demo/kafka_demo.h"
#include "cli/run/job_options.h"
#include "run/launcher/runner.h"
#include "run/launcher/security.h"
#include "run/launcher/token.h"
#include "run/roles/start/coordinator_options.h"
#include "show/http/listener.h"

namespace leat {
namespace {

constexpr const char* kNewDirectory = "default: a new directory in leat-jobs/";
constexpr const char* kJsonResult =
    "print the result as one JSON object on stdout, and the progress on stderr";

struct TrainArguments {
  JobOptions job;
  roles::CoordinatorOptions coordinate;  // passed on
  bool demo = false;
  bool on_kafka = false;  // the demo
  std::string brokers;    // brokers of an existing Kafka cluster for it
};

int Train(TrainArguments a) {
  const Status fetched = FetchJob(&a.job, [](const std::string& what) {
    std::fprintf(stderr, "%s\n", what.empty() ? "the bucket answers" : ("waiting for " + what).c_str());
  });
  if (!fetched.ok()) return PrintOutcome(fetched);
  if (a.job.rate >= 0) a.job.run.overrides.rate = a.job.rate;
  launcher::RunnerOptions& options = a.job.run;
  if (a.demo && a.job.run.source.resume.empty()) options.source.text = kDemoJob;
  if (a.demo) options.source_arguments = {"--demo"};
  if (!a.job.run.source.file.empty()) options.source_arguments = {a.job.run.source.file};
  if (options.source.file.empty() && options.source.text.empty() && options.source.resume.empty()) {
    throw std::invalid_argument("train needs a job file, or --resume with the directory of an earlier run");
  }
  options.coordinator_arguments = roles::PassedOn(a.coordinate);
  options.plan = Kernels();
  options.security = a.job.security.Read();
  options.place = PlaceOfProcess(a.job.place);
  options.dashboard = a.job.dashboard.value_or("");
  options.dashboard_link = [tls = options.security.tls != nullptr](const std::string& address,
                                                                   const std::string& job_token) {
    return observe::DashboardLink(address, tls, observe::ViewToken(job_token));
  };
  auto token = launcher::UserToken();
  if (token.ok()) {
    options.token = std::move(token).value();
  } else if (token.status().code() != Code::kNotFound || !a.job.run.metrics.empty()) {
    Throw(token.status());
  }  // otherwise the job gets a random token that only its own processes know
  return launcher::RunLocally(options);
}

int Demo(TrainArguments a) {
  if (!a.on_kafka) return Train(a);
  const KafkaDemo kafka(a.brokers);
  a.demo = false;
  a.job.run.source.file = kafka.job_file();
  return Train(a);
}

}  // namespace

void AddTrainCommands(CLI::App& app, int* result) {
  const auto a = std::make_shared<TrainArguments>();
  auto* demo = app.add_subcommand("demo", "train a fraud detector on simulated payments, on this machine");
  AddJobOptions(demo, &a->job, &a->coordinate, kNewDirectory);
  demo->add_flag("--json", a->job.run.json, kJsonResult);
  auto* kafka =
      demo->add_option("--kafka", a->brokers,
                       "with the events in Kafka: in a broker that tools/kafka starts for the demo, or "
                       "in a running cluster, HOST:PORT,HOST:PORT")
          ->expected(0, 1)
          ->excludes("--resume");
  demo->callback([a, result, kafka] {
    a->demo = true;
    a->on_kafka = kafka->count() > 0;
    *result = Demo(*a);
  });

  auto* train = app.add_subcommand("train", "run a job on this machine, with one process per role");
  train->add_option("job", a->job.run.source.file, kJobFile);
  AddJobOptions(train, &a->job, &a->coordinate, kNewDirectory);
  train->add_flag("--json", a->job.run.json, kJsonResult);
  train
      ->add_option("--ready-fd", a->job.run.ready_fd, "file descriptor to write the coordinator's address to")
      ->group("");
  train
      ->add_option("--life-fd", a->job.run.life_fd,
                   "pipe whose other end the caller holds as long as it wants the job")
      ->group("");
  train->callback([a, result] { *result = Train(*a); });
}

}  // namespace leat
