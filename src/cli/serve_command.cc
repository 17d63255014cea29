// leat serve: predictions over HTTP, with the parameters of a job that runs, or of its newest checkpoint.
#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/exit_status.h"
#include "base/log.h"
#include "base/threads/thread.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/observer_listener.h"
#include "compute/engine/plan.h"
#include "compute/engine/run/progress.h"
#include "job/job.h"
#include "net/http/server.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "run/launcher/start/ready.h"
#include "run/launcher/token.h"
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
  if (a.certificate.empty() != a.key.empty())
    throw std::invalid_argument("--tls-cert and --tls-key go together");
  door.tls = a.certificate.empty() ? security.tls : OrThrow(net::TlsIdentity::Load(a.certificate, a.key));
  if (a.allow_tls_1_2 && door.tls == nullptr)
    throw std::invalid_argument("--allow-tls-1.2 needs a certificate: --tls-cert or --security");
  if (door.tls == nullptr) ThrowIfError(launcher::CheckListen(security, a.listen));
  if (!a.tokens.empty()) door.tokens = OrThrow(serve::Tokens::Load(a.tokens));
  // Beyond this host, somebody has to be kept out.
  const bool beyond = !launcher::CheckListen({}, a.listen).ok();
  // On this host everyone may ask, but for a page from elsewhere that a browser shows here. Other networks
  // have names of this host that it does not know.
  if (!beyond && door.tokens == nullptr && door.tls == nullptr)
    door.names.emplace(std::vector<std::string>(), a.listen);
  if (beyond && door.tokens == nullptr && !security.trusted_network) {
    throw std::invalid_argument("to listen beyond this host, on " + a.listen +
                                ", use --tokens FILE, with the tokens of clients");
  }
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

// Each connection is a descriptor, and the usual limit leaves none for anything else.
void AllowDescriptors() {
  rlimit limit{};
  const rlim_t wanted = net::http::Server::Options().max_connections + 1024;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

// Serves until a signal, or until the job refuses this process.
class Server {
 public:
  Server(const ServeOptions& a, const launcher::Security& security)
      : a_(a),
        security_(security),
        door_(DoorOf(a, security)),
        https_(door_.tls != nullptr),
        token_(TokenOf(a)),
        metrics_(ListenForMetrics(
            "serve",
            {.address = a.metrics, .token = token_, .security = security, .coordinator = a.coordinator})),
        service_({.program_version = roles::ProgramVersion(),
                  .tokens = std::move(door_.tokens),
                  .threads = a.threads,
                  .max_rows = a.max_rows,
                  .timeout = Milliseconds(a.timeout_ms),
                  .max_batch = a.max_batch,
                  .max_wait = Milliseconds(a.max_wait_ms)},
                 registry()) {}

  Status Run() { return a_.directory.empty() ? RunLive() : RunFromDirectory(); }

 private:
  using Part = observe::RoleMetrics::Part;

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
  metrics::Registry& registry() { return metrics_.metrics != nullptr ? metrics_.metrics->registry() : own_; }

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
                                       .metrics = metrics_.metrics};
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
                                               service_, registry()));
    spdlog::info("predictions by {} at {}://{}", of, https_ ? "https" : "http", server_->address());
    const Status said = launcher::SayReady(a_.ready_fd, server_->address());
    if (!said.ok()) spdlog::warn("{}", said.message());
  }

  // Predictions depend on two kinds of threads, beside the one that follows a job.
  void WatchLiveness() {
    if (metrics_.metrics == nullptr) return;
    const Time now = MonotonicClock().Now();
    metrics_.metrics->liveness(Part::kRequests).Watch(now, [] { return uint64_t{0}; });
    metrics_.metrics->liveness(Part::kPredictions).Watch(now, [progress = progress_] {
      return progress->kernels();
    });
  }
  void LookAtLiveness() {
    if (metrics_.metrics == nullptr) return;
    metrics_.metrics->liveness(Part::kRequests).Turned(server_->turned());
    if (!service_.Computing()) metrics_.metrics->liveness(Part::kPredictions).Turned(MonotonicClock().Now());
  }
  void UnwatchLiveness() {
    if (metrics_.metrics == nullptr) return;
    for (const Part part : {Part::kRequests, Part::kPredictions}) metrics_.metrics->liveness(part).Unwatch();
  }

  // Requests that have begun are answered, and then there is no server.
  void AwaitEnd() {
    const launcher::SignalWatch signals([this](int) { end_.Set(); });
    const launcher::LifeWatch life(a_.life_fd, [this] { end_.Set(); });
    WatchLiveness();
    do {
      service_.UpdateMetrics();
      LookAtLiveness();
      if (metrics_.metrics != nullptr) metrics_.metrics->NotReady(service_.WhyNotReady());
    } while (!end_.Await(kLookAtMetrics));
    UnwatchLiveness();
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
  const MetricsListener metrics_;
  metrics::Registry own_;  // without --metrics
  serve::Service service_;
  std::unique_ptr<net::http::Server> server_;
  StopEvent end_;
};

int ServePredictions(const ServeOptions& a) {
  if (a.coordinator.empty() == a.directory.empty()) {
    throw std::invalid_argument(
        "serve needs --coordinator with the address of a running job, or --directory with that of a job's "
        "checkpoints");
  }
  launcher::BlockSignals();
  AllowDescriptors();
  const launcher::Security security = a.security.Read();
  ThrowIfError(Server(a, security).Run());
  return 0;
}

}  // namespace

void AddServeCommand(CLI::App& app, int* result) {
  const auto a = std::make_shared<ServeOptions>();
  auto* command = app.add_subcommand(
      "serve", "answer requests for predictions over HTTP, with the newest parameters of a job");
  command->add_option("--coordinator", a->coordinator,
                      "follow the running job at this address, HOST:PORT, or several with commas between");
  command->add_option("--directory", a->directory, "serve the newest checkpoint of the job in this directory")
      ->check(CLI::ExistingDirectory);
  AddData(command, &a->data, "directory of the job's input files (default: the job's)");
  command->add_option("--scratch", a->scratch,
                      "where copies of ONNX files from a feed are (default: $TMPDIR)");
  command->add_option("--listen", a->listen, "address for requests; port 0: any free port")
      ->capture_default_str();
  command
      ->add_option("--refresh", a->refresh_ms,
                   "time between two looks for newer parameters; longer if they would take a fifth of a "
                   "server's time")
      ->type_name("MS")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 3'600'000.0));
  command->add_option("--max-batch", a->max_batch, "rows that are computed together, at most")
      ->capture_default_str()
      ->check(CLI::Range(1u, 65'536u));
  command
      ->add_option("--max-wait", a->max_wait_ms,
                   "time that a request waits for others, if the batch is not full")
      ->type_name("MS")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 10'000.0));
  command->add_option("--timeout", a->timeout_ms, "a request that is not begun in this time gets status 504")
      ->type_name("MS")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 600'000.0));
  command->add_option("--max-rows", a->max_rows, "events or rows of a request, at most")
      ->capture_default_str()
      ->check(CLI::Range(size_t{1}, size_t{1'000'000}));
  command->add_option("--max-body", a->max_body, "bytes of a request's body, at most")
      ->capture_default_str()
      ->check(CLI::Range(size_t{1}, size_t{1} << 30));
  command->add_option("--threads", a->threads, "threads that read requests and write replies")
      ->capture_default_str()
      ->check(CLI::Range(1u, 256u));
  command->add_option(
      "--tokens", a->tokens,
      "file with the tokens of clients, one a line (default: everyone may ask, on this host)");
  command->add_option("--tls-cert", a->certificate,
                      "certificate for clients, PEM, with its chain (default: that of --security)");
  command->add_option("--tls-key", a->key, "key of --tls-cert, PEM");
  command->add_flag("--allow-tls-1.2", a->allow_tls_1_2,
                    "clients may use TLS 1.2, if they cannot use 1.3, which all others do");
  command
      ->add_option("--metrics", a->metrics,
                   "address for Prometheus: /metrics, /healthz, /readyz; port 0: any free port")
      ->type_name("HOST:PORT");
  AddSecurity(command, &a->security);
  AddPlaceOptions(command, &a->place);
  command->add_option("--ready-fd", a->ready_fd, "file descriptor to write the address to")->group("");
  command
      ->add_option("--life-fd", a->life_fd,
                   "pipe whose other end the caller holds as long as it wants the predictions")
      ->group("");
  command->callback([a, result] { *result = ServePredictions(*a); });
}

}  // namespace leat
