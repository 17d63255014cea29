// leat train and leat demo: run a job on this machine.
#include <stdlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/config/config.h"
#include "base/exit_status.h"
#include "cli/commands.h"
#include "cli/demo_job.h"
#include "cli/options.h"
#include "run/launcher/local_broker.h"
#include "run/launcher/output/output_file.h"
#include "run/launcher/runner.h"
#include "run/launcher/signals.h"
#include "run/roles/start/coordinator_options.h"
#include "show/http/listener.h"

namespace leat {
namespace {

std::string MakeFolder() {
  std::string folder = std::filesystem::temp_directory_path() / "leat-demo-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr)
    Throw({CodeOfErrno(errno), "cannot create the directory " + folder + ": " + std::strerror(errno)});
  return folder;
}

// A name that a cluster does not have yet.
std::string NewTopic() {
  const std::time_t now = std::time(nullptr);
  char name[64];
  std::strftime(name, sizeof(name), "leat-demo-%Y%m%d-%H%M%S", std::gmtime(&now));
  return name;
}

std::string JobText(const std::string& brokers, const std::string& topic) {
  const Config job = Config::Parse(kDemoJob, "demo");
  const Config kafka = Config::EmptyMap("demo").With("bootstrap.servers", brokers);
  const Config stream = job.At("stream").Without("retention_mb").With("topic", topic).With("kafka", kafka);
  return job.With("stream", stream).ToYaml();
}

// leat demo --kafka: the demo's job with its events in a topic of Kafka. Has the job file of one run, and the
// broker if there is no other, until it is destroyed.
class KafkaDemo {
 public:
  // `brokers`: of a running cluster; empty: starts a broker. Throws std::invalid_argument if it cannot.
  explicit KafkaDemo(const std::string& brokers) : KafkaDemo() {
    std::string address = brokers, topic = NewTopic();
    if (brokers.empty()) {
      const std::string tool = OrThrow(launcher::FindBrokerTool());
      broker_ = OrThrow(launcher::LocalBroker::Start(tool, folder_ + "/broker"));
      address = broker_->address();
      topic = "payments";
    }
    ThrowIfError(launcher::WriteOutput(job_file(), JobText(address, topic)));
    std::fprintf(stderr, "the events are in the topic '%s' of Kafka at %s%s\n", topic.c_str(),
                 address.c_str(), brokers.empty() ? "; the broker ends with the demo" : "");
  }
  ~KafkaDemo() {
    broker_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  KafkaDemo(const KafkaDemo&) = delete;
  KafkaDemo& operator=(const KafkaDemo&) = delete;

  std::string job_file() const { return folder_ + "/demo.yaml"; }

 private:
  // Whatever fails after this, the destructor removes the folder.
  KafkaDemo() {
    launcher::BlockSignals();
    folder_ = MakeFolder();
  }

  std::string folder_;  // temporary
  std::unique_ptr<launcher::LocalBroker> broker_;
};

struct TrainArguments {
  JobOptions job;
  roles::CoordinatorOptions coordinate;  // passed on
  bool demo = false;
  CLI::Option* kafka = nullptr;  // the option of the demo
  std::string brokers;           // brokers of an existing Kafka cluster for it
};

int Train(TrainArguments a) {
  const Status fetched = FetchJob(&a.job, [](const std::string& what) {
    std::fprintf(stderr, "%s\n", what.empty() ? "the bucket answers" : ("waiting for " + what).c_str());
  });
  if (!fetched.ok()) return PrintOutcome(fetched);
  launcher::RunnerOptions& options = a.job.run;
  if (a.demo && a.job.run.source.resume.empty()) options.source.text = kDemoJob;
  if (a.demo) options.source_arguments = {"--demo"};
  if (!a.job.run.source.file.empty()) options.source_arguments = {a.job.run.source.file};
  RefuseIf(options.source.file.empty() && options.source.text.empty() && options.source.resume.empty(),
           "train needs a job file, or --resume with the directory of an earlier run");
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
  a.demo = a.kafka->count() == 0;
  if (a.demo) return Train(a);
  const KafkaDemo kafka(a.brokers);
  a.job.run.source.file = kafka.job_file();
  return Train(a);
}

}  // namespace

void AddTrainCommands(CLI::App& app, int* result) {
  const auto add = [&](const char* name, const char* help, int (*run)(TrainArguments)) {
    auto added = AddCommand(app, result, name, help, run);
    auto& [command, a] = added;
    AddJobOptions(command, &a->job, &a->coordinate, "default: a new directory in leat-jobs/");
    command->add_flag("--json", a->job.run.json,
                      "print the result as one JSON object on stdout, and the progress on stderr");
    return added;
  };
  const auto [demo, of_demo] =
      add("demo", "train a fraud detector on simulated payments, on this machine", Demo);
  of_demo->kafka =
      demo->add_option("--kafka", of_demo->brokers,
                       "with the events in Kafka: in a broker that tools/kafka starts for the demo, or "
                       "in a running cluster, HOST:PORT,HOST:PORT")
          ->expected(0, 1)
          ->excludes("--resume");

  const auto [train, a] = add("train", "run a job on this machine, with one process per role", Train);
  train->add_option("job", a->job.run.source.file, kJobFile);
  AddDescriptors(train, &a->job.run.ready_fd, &a->job.run.life_fd);
}

}  // namespace leat
