// Live predictions (docs/serve.md): requests a second against the same HTTP layer that returns a constant,
// the latency at a fixed rate, the network alone against ONNX Runtime, and the time from an update on a
// server to the first prediction that uses it.
//
// `leat serve` has core 0, the client core 1.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/passes.h"
#include "frame/baseline.h"
#include "frame/measure.h"
#include "frame/paced_client.h"
#include "frame/program.h"
#include "frame/report.h"
#include "frame/session.h"
#include "job/job.h"
#include "net/http/server.h"
#include "run/roles/follow/follower_role.h"
#include "train/step/trainer.h"

namespace {

using namespace leat;
using bench::Fail;
using Json = nlohmann::json;

constexpr const char* kToken = "bench serve, a token";
constexpr int kConnections = 32;
constexpr uint32_t kBatch = 32, kWidth = 30;
constexpr const char* kEvent =
    R"({"amount":50.31,"times_usual":3.1,"hour":3.25,"hours_off":2.1,"since_last":100.5,"distance_km":500.2,)"
    R"("new_device":1,"kind":"jewellery","country":"BR","channel":"online"})";
constexpr const char* kConstant = "{\"score\":0.53308743,\"version\":1,\"age_seconds\":2.698866}\n";
constexpr double kRefreshMs = 100;

const std::vector<std::string> kOnServerCore = {"/usr/bin/taskset", "-c", "0"};

engine::PlanOptions Kernels() {
  engine::PlanOptions options;
  options.tables = {&cpu::Table(), &reference::Kernels()};
  options.passes = ops::StandardPasses();
  return options;
}

// ---- a server that returns a constant, in a process of its own: bench_serve --constant

class Constant final : public net::http::Handler {
 public:
  net::http::Reply Error(int status, std::string_view) const override { return {.status = status}; }
  void Handle(size_t, net::http::Request, std::shared_ptr<net::http::Exchange> exchange) override {
    exchange->Send({.body = kConstant});
  }
};

int ServeConstant() {
  Constant constant;
  metrics::Registry registry;
  const auto server = net::http::Server::Start({}, constant, registry);
  bench::Check(server.status());
  std::printf("%s\n", (*server)->address().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

// ---- the client

std::string OutputOf(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) Fail("cannot start " + command);
  std::string output;
  std::array<char, 4096> bytes;
  while (const size_t got = fread(bytes.data(), 1, bytes.size(), pipe)) output.append(bytes.data(), got);
  const int status = pclose(pipe);
  if (status != 0) Fail(command + " has failed: " + output);
  return output;
}

double Wrk(const std::string& address, const std::string& script, double seconds) {
  const std::string output = OutputOf("taskset -c 1 wrk -t1 -c" + std::to_string(kConnections) + " -d" +
                                      std::to_string(static_cast<int>(seconds)) + "s -s " + script +
                                      " http://" + address + "/v1/predict 2>&1");
  if (output.find("Non-2xx") != std::string::npos || output.find("Socket errors") != std::string::npos)
    Fail("requests have failed: " + output);
  const size_t at = output.find("Requests/sec:");
  if (at == std::string::npos) Fail("wrk: " + output);
  return std::stod(output.substr(at + 13));
}

void PinTo(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (sched_setaffinity(0, sizeof(cores), &cores) != 0) Fail("this benchmark needs two cores");
}

// The address in a line of the log: "predictions by … at http://127.0.0.1:8000".
std::string AddressOf(bench::Running& serve) {
  std::string address;
  bench::WaitFor("leat serve did not start", serve, [&] {
    const std::string output = serve.Output();
    const size_t at = output.find(" at http://");
    if (at == std::string::npos) return false;
    address = output.substr(at + 11, output.find('\n', at) - at - 11);
    return output.find('\n', at) != std::string::npos;
  });
  return address;
}

void AwaitPredictions(bench::Running& serve, const std::string& address, const std::string& request) {
  bench::WaitFor("there are no predictions", serve, [&] {
    try {
      bench::HttpConnection(address).Ask(request);
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  });
}

// ---- from an update on a server to a prediction

// The model is a bias that grows by the number of events.
constexpr const char* kCounting = R"(name: counting
stream: {topic: events, partitions: 2, retention_mb: 100, bots: {events: 100000000, rate: 20000, customers: 100}}
schema: {format: json, fields: {amount: {type: number}, fraud: {type: number, role: label}}}
model: {layers: [bias: {units: 1}], loss: {type: negative_sum, reduction: sum}}
optimizer: {type: sgd, learning_rate: 1}
train: {batch_size: 50, split_batches: 4}
cluster: {workers: 1, ps: 1}
checkpoint: {interval_s: 1000000}
)";

// Follows the server as fast as it can, and notes when a value cannot have been applied yet.
class Probe final : public roles::ValueSink {
 public:
  Status OnJob(const job::Job& job) override {
    parameters_ = std::make_unique<protocol::Parameters>(job.Slices());
    return {};
  }
  protocol::Parameters* Begin() override { return parameters_.get(); }
  void Complete(protocol::Parameters* parameters, Time asked, bool changed) override {
    std::lock_guard lock(mutex_);
    // It was not there when the round before was asked for.
    if (changed) not_before_.emplace_back(parameters->values(size_t{0})[0], asked_);
    asked_ = asked;
  }
  void OnConnected(bool, const std::string&) override {}

  // (value, time before which it had not been applied), ascending.
  std::vector<std::pair<float, Time>> Take() {
    std::lock_guard lock(mutex_);
    return not_before_;
  }

 private:
  std::unique_ptr<protocol::Parameters> parameters_;
  std::mutex mutex_;
  Time asked_{0};
  std::vector<std::pair<float, Time>> not_before_;
};

// From the arguments of a role that has joined; empty: there is none yet.
std::string CoordinatorOf(const bench::Running& job) {
  for (const auto& [role, pid] : job.Roles()) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
    for (std::string word; std::getline(file, word, '\0');) {
      if (word == "--coordinator" && std::getline(file, word, '\0')) return word;
    }
  }
  return "";
}

std::vector<double> Freshness(double seconds) {
  const bench::Scratch scratch("serve");
  std::ofstream(scratch / "counting.yaml") << kCounting;
  bench::Running job({"train", scratch / "counting.yaml", "--directory", scratch / "counting"},
                     scratch / "counting.out");
  std::string coordinator;
  bench::WaitFor("the job did not start", job, [&] {
    coordinator = CoordinatorOf(job);
    return !coordinator.empty();
  });
  bench::Running serve({"serve", "--coordinator", coordinator, "--listen", "127.0.0.1:0", "--refresh",
                        std::to_string(kRefreshMs)},
                       scratch / "fresh.out");
  const std::string address = AddressOf(serve);
  const std::string request = bench::PostRequest("/v1/predict", R"({"amount":0})");
  AwaitPredictions(serve, address, request);

  Probe probe;
  roles::FollowOptions options{.refresh = std::chrono::milliseconds(1)};
  options.role.coordinator_client.coordinator = coordinator;
  options.role.coordinator_client.token = kToken;
  std::vector<std::pair<float, Time>> seen;  // (value, when its first prediction was there)
  {
    std::jthread follower([&](const std::stop_token& stop) { (void)roles::Follow(options, probe, stop); });
    bench::HttpConnection connection(address);
    const MonotonicClock clock;
    const Time until = clock.Now() + FromSeconds(seconds);
    while (clock.Now() < until) {
      bench::CheckInterrupted();
      const float value = Json::parse(connection.Ask(request))["score"];
      if (seen.empty() || value > seen.back().first) seen.emplace_back(value, clock.Now());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  const auto applied = probe.Take();
  std::vector<double> late;
  for (const auto& [value, not_before] : applied) {
    if (not_before == Time{0}) continue;
    const auto at = std::ranges::lower_bound(seen, value, {}, &std::pair<float, Time>::first);
    if (at == seen.end()) break;
    if (at == seen.begin()) continue;
    late.push_back(1e3 * Seconds(at->second - not_before));
  }
  if (late.size() < 100) Fail("only " + std::to_string(late.size()) + " updates were seen");
  std::ranges::sort(late);
  return late;
}

// ---- the network alone

double NetworkSeconds(step::Trainer& trainer, const std::vector<float>& features, double seconds) {
  std::vector<uint32_t> order(kBatch);
  std::iota(order.begin(), order.end(), 0u);
  return bench::Measure(
      [&] { trainer.Predict({.features = features, .labels = {}, .truth = {}}, order, kBatch); }, seconds);
}

int Run(int argc, char** argv) {
  bench::Args args(argc, argv);
  if (args.Flag("--constant")) return ServeConstant();
  const int runs = static_cast<int>(args.Number("--runs", 7));
  const double seconds = args.Number("--seconds", 3);
  const bool onnx = !args.Flag("--no-onnx");
  args.RefuseTheRest();
  setenv("LEAT_TOKEN", kToken, 1);
  spdlog::set_level(spdlog::level::warn);
  bench::Report report("serve", args);
  const bench::Scratch scratch("serve");

  bench::PrintProgress("training a model for payments");
  {
    bench::Running train({"demo", "--events", "200000", "--rate", "0", "--directory", scratch / "job"},
                         scratch / "train.out");
    if (train.Wait() != 0) Fail("the job has failed: " + train.Output());
  }
  std::ofstream(scratch / "post.lua") << "wrk.method = 'POST'\nwrk.body = '" << kEvent
                                      << "'\nwrk.headers['Content-Type'] = 'application/json'\n";

  std::vector<double> predictions, constants, p99_ms, rates;
  {
    bench::Running serve({"serve", "--directory", scratch / "job", "--listen", "127.0.0.1:0"},
                         scratch / "serve.out", kOnServerCore);
    const std::string address = AddressOf(serve);
    const std::string request = bench::PostRequest("/v1/predict", kEvent);
    AwaitPredictions(serve, address, request);
    bench::Baseline constant("the constant", {"/usr/bin/taskset", "-c", "0",
                                              std::filesystem::read_symlink("/proc/self/exe"), "--constant"});
    const std::string constant_address = constant.ReadLine(30);
    for (int run = 0; run < runs; ++run) {
      bench::CheckInterrupted();
      bench::PrintProgress("run %d of %d", run + 1, runs);
      constants.push_back(Wrk(constant_address, scratch / "post.lua", seconds));
      predictions.push_back(Wrk(address, scratch / "post.lua", seconds));
    }
    PinTo(1);
    const double rate = std::min(20'000.0, 0.8 * bench::Median(predictions));
    for (int run = 0; run < runs; ++run) {
      bench::CheckInterrupted();
      bench::PrintProgress("latency, run %d of %d", run + 1, runs);
      const auto paced = bench::SendPaced(address, request, kConnections, rate, seconds);
      if (paced.failed > 0) Fail(std::to_string(paced.failed) + " requests have failed");
      p99_ms.push_back(1e3 * paced.Quantile(0.99));
      rates.push_back(rate);
    }
  }
  report.Add(bench::MedianRow("requests/s with one event each", predictions, "requests/s",
                              "a constant by the same HTTP layer", constants, bench::RatioAtLeast(0.6)));
  report.Add(bench::MedianRow("latency at 20,000 requests/s or 80 % of capacity, p99", p99_ms, "ms", {}, {},
                              bench::ValueAtMost(5)));
  report.Note("latency at " + std::to_string(static_cast<int>(rates[0])) + " requests/s");

  job::JobSource source;
  source.resume = scratch / "job";
  const job::Job job = job::Job::Load(source, {});
  protocol::Parameters parameters(job.Slices());
  step::Trainer trainer(*job.model, parameters, job.Plan(Kernels()));
  Rng rng(1);
  std::vector<float> features(size_t{kBatch} * kWidth);
  for (float& x : features) x = static_cast<float>(rng.Normal());
  if (onnx) {
    bench::Running exported({"export", "--directory", scratch / "job", "--to", scratch / "model.onnx"},
                            scratch / "export.out");
    if (exported.Wait() != 0) Fail("cannot export the model: " + exported.Output());
    bench::Baseline peer("serve_onnx.py",
                         {bench::EnvironmentPython("serve"), LEAT_BENCH "/serve_onnx.py",
                          scratch / "model.onnx", std::to_string(kBatch), std::to_string(kWidth)},
                         bench::ThreadSettings(1));
    const std::string version = peer.ReadLine(60);
    std::vector<double> own, theirs;
    for (int run = 0; run < runs; ++run) {
      bench::PrintProgress("the network alone, run %d of %d", run + 1, runs);
      own.push_back(kBatch / NetworkSeconds(trainer, features, 0.3));
      theirs.push_back(kBatch / std::stod(peer.Ask("0.3", 60)));
    }
    report.Add(bench::MedianRow("the network alone, batches of 32", own, "rows/s", version, theirs));
  } else {
    report.Skip("ONNX Runtime: disabled by --no-onnx");
  }

  bench::UseCores(2);
  std::vector<double> fresh;
  for (int run = 0; run < 3; ++run) {
    bench::CheckInterrupted();
    bench::PrintProgress("from an update to a prediction, run %d of 3", run + 1);
    const auto late = Freshness(10);
    fresh.push_back(late[static_cast<size_t>(0.99 * static_cast<double>(late.size()))] / kRefreshMs);
  }
  report.Add(bench::MedianRow("from an update on a server to a prediction with it, p99", fresh, "refreshes",
                              {}, {}, bench::ValueAtMost(2)));
  bench::PrintProgress("");
  report.Note("leat serve on core 0, its clients on core 1; the latency counts from when a request was due");
  return report.Finish();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::Main("serve", Run, argc, argv);
}
