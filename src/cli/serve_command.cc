// leat serve: predictions over HTTP, with the parameters of a job that runs, or of its newest checkpoint.
// leat export: these parameters as an ONNX file.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/exit_status.h"
#include "base/log.h"
#include "base/threads/thread.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "compute/engine/plan.h"
#include "compute/engine/run/progress.h"
#include "job/job.h"
#include "job/model.h"
#include "net/http/server.h"
#include "run/launcher/output/output_file.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "run/launcher/start/start_job.h"
#include "run/roles/follow/follower_role.h"
#include "run/roles/role.h"
#include "serve/service.h"
#include "serve/versions.h"

namespace leat {
namespace {

constexpr Duration kLookAtMetrics = std::chrono::milliseconds(250);  // between updates of the metrics
constexpr Duration kDrain = std::chrono::seconds(10);                // for requests when it ends

struct ServeOptions {
  std::string coordinator, directory, data, scratch;
  std::string listen = "127.0.0.1:8000";
  std::string metrics = MetricsVariable();
  std::string tokens, certificate, key;
  SecurityOptions security;
  topology::PlaceSettings place;
  bool allow_tls_1_2 = false;
  double refresh_ms = 100, max_wait_ms = 0, timeout_ms = 10'000;
  uint32_t max_batch = 64, threads = 1;
  size_t max_rows = 10'000, max_body = 8 << 20;
  int ready_fd = -1, life_fd = -1;
};

Duration Milliseconds(double ms) {
  return FromSeconds(ms / 1000);
}

// Checks on clients: TLS and tokens, or else that a request names this host.
struct Door {
  std::shared_ptr<net::TlsIdentity> tls;
  std::unique_ptr<serve::Tokens> tokens;
  std::optional<net::OwnNames> names;
};
Door DoorOf(const ServeOptions& a, const launcher::Security& security) {
  Door door;
  RefuseIf(a.certificate.empty() != a.key.empty(), "--tls-cert and --tls-key go together");
  door.tls = a.certificate.empty() ? security.tls : OrThrow(net::TlsIdentity::Load(a.certificate, a.key));
  RefuseIf(a.allow_tls_1_2 && door.tls == nullptr,
           "--allow-tls-1.2 needs a certificate: --tls-cert or --security");
  if (door.tls == nullptr) ThrowIfError(launcher::CheckListen(security, a.listen));
  if (!a.tokens.empty()) door.tokens = OrThrow(serve::Tokens::Load(a.tokens));
  // Beyond this host, somebody has to be kept out.
  const bool beyond = !launcher::CheckListen({}, a.listen).ok();
  // On this host everyone may ask, but for a page from elsewhere that a browser shows here. Other networks
  // have names of this host that it does not know.
  if (!beyond && door.tokens == nullptr && door.tls == nullptr)
    door.names.emplace(std::vector<std::string>(), a.listen);
  RefuseIf(beyond && door.tokens == nullptr && !security.trusted_network,
           "to listen beyond this host, on " + a.listen + ", use --tokens FILE, with the tokens of clients");
  return door;
}

// The values of a running job, for the service.
class LiveValues final : public roles::ValueSink {
 public:
  LiveValues(serve::Service& service, engine::PlanOptions plan, const launcher::Security& security)
      : service_(service), plan_(std::move(plan)), security_(security) {}

  Status OnJob(const job::Job& job) override {
    LEAT_RETURN_IF_ERROR(launcher::CheckJob(security_, job));
    LEAT_RETURN_IF_ERROR(service_.SetModel(job, plan_));
    service_.NotReady("the parameters of job '" + job.name + "' are not there yet");
    return {};
  }
  protocol::Parameters* Begin() override { return service_.versions()->Begin(); }
  void Complete(protocol::Parameters* parameters, Time asked, bool changed) override {
    service_.versions()->Complete(parameters, asked, changed);
  }
  void OnConnected(bool connected, const std::string& why) override {
    if (!connected) service_.NotReady(why);
  }

 private:
  serve::Service& service_;
  const engine::PlanOptions plan_;
  const launcher::Security& security_;
};

// Serves until a signal, or until the job refuses this process.
class Server {
 public:
  Server(const ServeOptions& a, const launcher::Security& security)
      : a_(a),
        security_(security),
        door_(DoorOf(a, security)),
        https_(door_.tls != nullptr),
        token_(TokenOf(a)),
        listener_(ListenForMetrics(
            "serve",
            {.address = a.metrics, .token = token_, .security = security, .coordinator = a.coordinator})),
        service_({.program_version = roles::ProgramVersion(),
                  .tokens = std::move(door_.tokens),
                  .threads = a.threads,
                  .max_rows = a.max_rows,
                  .timeout = Milliseconds(a.timeout_ms),
                  .max_batch = a.max_batch,
                  .max_wait = Milliseconds(a.max_wait_ms)},
                 metrics_->registry()) {}

  Status Run() { return a_.directory.empty() ? RunLive() : RunFromDirectory(); }

 private:
  // Without a job to talk to, the token is only that of the metrics.
  static std::string TokenOf(const ServeOptions& a) {
    auto user = launcher::UserToken();
    if (!user.ok() && a.directory.empty()) Throw(user.status());
    return user.ok() ? *user : launcher::RandomToken();
  }
  // Plans of predictions; the follower computes nothing.
  engine::PlanOptions Plan() const {
    engine::PlanOptions plan = Kernels();
    plan.progress = progress_;
    return plan;
  }

  Status RunFromDirectory() {
    const job::Job job = job::Job::Load({.resume = a_.directory}, {.data = a_.data});
    service_.NotReady("job '" + job.name + "' has no complete checkpoint yet");
    Listen("the checkpoints in " + a_.directory);
    LEAT_RETURN_IF_ERROR(service_.SetModel(job, Plan()));
    const serve::CheckpointWatch watch(a_.directory, job.Slices(), *service_.versions(),
                                       Milliseconds(a_.refresh_ms));
    AwaitEnd();
    return {};
  }

  Status RunLive() {
    service_.NotReady("the coordinator at " + a_.coordinator + " has not answered yet");
    Listen("the job at " + a_.coordinator);
    roles::FollowOptions options{.refresh = Milliseconds(a_.refresh_ms)};
    options.role.coordinator_client = {.coordinator = a_.coordinator,
                                       .token = token_,
                                       .tls = security_.tls,
                                       .data = a_.data,
                                       .scratch = a_.scratch,
                                       .place = PlaceOfProcess(a_.place),
                                       .metrics = listener_.metrics};
    options.role.plan = Kernels();
    LiveValues values(service_, Plan(), security_);
    Status outcome;
    std::jthread follower([&](const std::stop_token& stop) {
      try {
        outcome = roles::Follow(options, values, stop);
      } catch (const std::exception& error) {
        outcome = StatusOf(error);
      }
      end_.Set();
    });
    AwaitEnd();
    follower.request_stop();
    follower.join();
    return outcome;
  }

  void Listen(const std::string& of) {
    server_ = OrThrow(net::http::Server::Start({.address = a_.listen,
                                                .threads = a_.threads,
                                                .tls = door_.tls,
                                                .allow_tls_1_2 = a_.allow_tls_1_2,
                                                .own_names = door_.names,
                                                .max_body = a_.max_body},
                                               service_, metrics_->registry()));
    spdlog::info("predictions by {} at {}://{}", of, https_ ? "https" : "http", server_->address());
    const Status said = launcher::SayReady(a_.ready_fd, server_->address());
    if (!said.ok()) spdlog::warn("{}", said.message());
  }

  // Requests that have begun are answered, and then there is no server. Predictions depend on two kinds of
  // threads, beside the one that follows a job.
  void AwaitEnd() {
    using Part = observe::RoleMetrics::Part;
    const launcher::SignalWatch signals([this](int) { end_.Set(); });
    const launcher::LifeWatch life(a_.life_fd, [this] { end_.Set(); });
    const MonotonicClock clock;
    observe::Liveness &requests = metrics_->liveness(Part::kRequests),
                      &predictions = metrics_->liveness(Part::kPredictions);
    requests.Watch(clock.Now(), [] { return uint64_t{0}; });
    predictions.Watch(clock.Now(), [progress = progress_] { return progress->kernels(); });
    do {
      service_.UpdateMetrics();
      requests.Turned(server_->turned());
      if (!service_.Computing()) predictions.Turned(clock.Now());
      metrics_->NotReady(service_.WhyNotReady());
    } while (!end_.Await(kLookAtMetrics));
    requests.Unwatch();
    predictions.Unwatch();
    server_->Drain(kDrain);
    service_.Stop();
    server_.reset();
  }

  const ServeOptions& a_;
  const launcher::Security& security_;
  Door door_;
  const bool https_;
  const std::string token_;
  const std::shared_ptr<engine::Progress> progress_ = std::make_shared<engine::Progress>();
  const MetricsListener listener_;
  // Nobody reads those without a listener.
  const std::shared_ptr<observe::RoleMetrics> metrics_ =
      listener_.metrics != nullptr ? listener_.metrics
                                   : std::make_shared<observe::RoleMetrics>(observe::RoleMetrics::Options());
  serve::Service service_;
  std::unique_ptr<net::http::Server> server_;
  StopEvent end_;
};

int ServePredictions(const ServeOptions& a) {
  RefuseIf(a.coordinator.empty() == a.directory.empty(),
           "serve needs --coordinator with the address of a running job, or --directory with that of a job's "
           "checkpoints");
  launcher::BlockSignals();
  const launcher::Security security = a.security.Read();
  ThrowIfError(Server(a, security).Run());
  return 0;
}

struct ExportOptions {
  std::string directory, coordinator, data, to;
  SecurityOptions security;
  int64_t batch = 0;
};

job::Exported ExportCheckpoint(const ExportOptions& a) {
  return OrThrow(job::ExportOnnx(job::Job::Load({.resume = a.directory}, {.data = a.data}), a.batch));
}

job::Exported ExportRunning(const ExportOptions& a) {
  // For a transfer of some GB.
  constexpr Duration kDeadline = std::chrono::minutes(2);
  roles::RoleOptions options;
  options.coordinator_client.coordinator = a.coordinator;
  options.coordinator_client.token = OrThrow(launcher::UserToken());
  options.coordinator_client.tls = a.security.Read().tls;
  options.coordinator_client.data = a.data;
  const auto fetched = OrThrow(roles::FetchValues(options, kDeadline));
  return {job::OnnxOf(fetched.job, fetched.variables, a.batch), ""};
}

int Export(const ExportOptions& a) {
  RefuseIf(a.directory.empty() && a.coordinator.empty(),
           "export needs --directory, or --coordinator for a running job");
  const job::Exported exported = a.coordinator.empty() ? ExportCheckpoint(a) : ExportRunning(a);
  if (!exported.warning.empty()) std::fprintf(stderr, "leat: warning: %s\n", exported.warning.c_str());
  launcher::OutputFile file = OrThrow(launcher::OutputFile::Open(a.to));
  Status written = file.Write(exported.file);
  if (written.ok()) written = file.Close();
  ThrowIfError(written);
  std::fprintf(launcher::MessagesBeside(file), "%s: %zu bytes\n", a.to.c_str(), exported.file.size());
  return 0;
}

}  // namespace

void AddServeCommand(CLI::App& app, int* result) {
  const auto [command, a] = AddCommand(
      app, result, "serve", "answer requests for predictions over HTTP, with the newest parameters of a job",
      ServePredictions);
  command->add_option("--coordinator", a->coordinator,
                      "follow the running job at this address, HOST:PORT, or several with commas between");
  command->add_option("--directory", a->directory, "serve the newest checkpoint of the job in this directory")
      ->check(CLI::ExistingDirectory);
  AddData(command, &a->data, "directory of the job's input files (default: the job's)");
  command->add_option("--scratch", a->scratch,
                      "where copies of ONNX files from a feed are (default: $TMPDIR)");
  command->add_option("--listen", a->listen, "address for requests; port 0: any free port")
      ->capture_default_str();
  AddNumber(
      command, "--refresh", &a->refresh_ms,
      "time between two looks for newer parameters; longer if they would take a fifth of a server's time",
      1.0, 3'600'000.0)
      ->type_name("MS");
  AddNumber(command, "--max-batch", &a->max_batch, "rows that are computed together, at most", 1, 65'536);
  AddNumber(command, "--max-wait", &a->max_wait_ms,
            "time that a request waits for others, if the batch is not full", 0, 10'000)
      ->type_name("MS");
  AddNumber(command, "--timeout", &a->timeout_ms, "a request that is not begun in this time gets status 504",
            1, 600'000)
      ->type_name("MS");
  AddNumber(command, "--max-rows", &a->max_rows, "events or rows of a request, at most", 1, 1'000'000);
  AddNumber(command, "--max-body", &a->max_body, "bytes of a request's body, at most", 1, size_t{1} << 30);
  AddNumber(command, "--threads", &a->threads, "threads that read requests and write replies", 1, 256);
  command->add_option(
      "--tokens", a->tokens,
      "file with the tokens of clients, one a line (default: everyone may ask, on this host)");
  command->add_option("--tls-cert", a->certificate,
                      "certificate for clients, PEM, with its chain (default: that of --security)");
  command->add_option("--tls-key", a->key, "key of --tls-cert, PEM");
  command->add_flag("--allow-tls-1.2", a->allow_tls_1_2,
                    "clients may use TLS 1.2, if they cannot use 1.3, which all others do");
  AddMetrics(command, &a->metrics);
  AddSecurity(command, &a->security);
  AddPlaceOptions(command, &a->place);
  AddDescriptors(command, &a->ready_fd, &a->life_fd);
}

void AddExportCommand(CLI::App& app, int* result) {
  const auto [command, a] = AddCommand(
      app, result, "export",
      "write the newest checkpoint of a job, or the values of a running one, as an ONNX file", Export);
  auto* directory =
      command->add_option("--directory", a->directory, "directory of the job")->check(CLI::ExistingDirectory);
  auto* coordinator =
      command
          ->add_option("--coordinator", a->coordinator, "address of a running job, whose values are written")
          ->excludes(directory);
  command
      ->add_option(
          "--security", a->security.folder,
          "folder of ca.pem, cert.pem and key.pem for TLS, of the role serve (default: $LEAT_SECURITY)")
      ->needs(coordinator);
  command
      ->add_flag("--trusted-network", a->security.trusted_network,
                 "every host on the network is trusted: no TLS (default: $LEAT_TRUSTED_NETWORK=1)")
      ->needs(coordinator);
  command->add_option("--to", a->to, "ONNX file to write, or a pipe or device, such as /dev/stdout")
      ->required();
  AddNumber(command, "--batch", &a->batch, "fixed batch size (default: any, a symbolic axis)", 1, 1'000'000);
  AddData(command, &a->data, "directory of the job's input files (default: the job's)");
}

}  // namespace leat
