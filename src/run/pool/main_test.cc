// main() of the test program: runs the tests, or plays a process that a test or an agent has started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/exit_status.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"
#include "net/tls/tls_identity.h"
#include "run/launcher/signals.h"
#include "run/launcher/start/start_job.h"
#include "run/pool/agent.h"
#include "run/pool/pool_server.h"
#include "run/pool/testing.h"

namespace leat::pool {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Kind = protocol::AdminRequest::Kind;

constexpr uint32_t kWanted = 3;          // workers
constexpr auto kTick = 25ms;             // a worker trains an event in it
constexpr auto kWorkerTimeout = 1000ms;  // without a word

std::string Option(const std::vector<std::string>& arguments, const std::string& name) {
  for (size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == name) return arguments[i + 1];
  }
  return "";
}

std::string Token() {
  const char* token = std::getenv("LEAT_TOKEN");
  return token != nullptr ? token : "";
}

// Null without a folder.
std::shared_ptr<net::TlsIdentity> PlayedTls(const std::string& folder) {
  if (folder.empty()) return nullptr;
  auto tls = net::TlsIdentity::Load(folder);
  return tls.ok() ? std::move(*tls) : nullptr;
}
std::shared_ptr<net::TlsIdentity> PlayedTls() {
  const char* folder = std::getenv("LEAT_SECURITY");
  return PlayedTls(folder != nullptr ? folder : "");
}

int Fail(const Status& status) {
  std::fprintf(stderr, "leat: %s\n", status.message().c_str());
  return ExitStatusOf(status.code());
}

// Trains an event for each worker and tick, keeps the number in its directory, and asks workers beyond its
// grant to leave. Its job file has the number of events, and a path: while that exists, its brokers are away.
// It ends and waits as the program does. While its directory has a file `broken`, it ends as if a write had
// failed.
class PlayedCoordinator {
 public:
  explicit PlayedCoordinator(const std::vector<std::string>& arguments) : arguments_(arguments) {}

  int Run() {
    launcher::BlockSignals();
    const std::string resume = Option(arguments_, "--resume");
    const std::string directory = resume.empty() ? Option(arguments_, "--directory") : resume;
    if (resume.empty()) {
      fs::create_directories(directory);
      fs::copy_file(arguments_.back(), directory + "/job.yaml");
    }
    std::ifstream(directory + "/job.yaml") >> goal_ >> away_;
    std::ifstream(directory + "/events") >> events_;
    const int ready = std::atoi(Option(arguments_, "--ready-fd").c_str());
    const launcher::SignalWatch signals([this](int) { stop_ = true; });
    for (bool said = false; BrokersAway(); said = true) {
      const Status away(Code::kUnavailable, "no broker has answered");
      if (resume.empty()) {
        fs::remove_all(directory);
        return Fail(away);
      }
      if (stop_) return ExitStatus::kInterrupted;
      const std::string line = launcher::WaitsLine(away.message());
      if (!said && write(ready, line.data(), line.size()) < 0) return ExitStatus::kFailed;
      std::this_thread::sleep_for(kTick);
    }
    auto server = control::ControlServer::Start(
        Option(arguments_, "--listen"), Token(),
        [this](protocol::ControlRequest request, auto reply) { reply(Answer(request)); }, {}, PlayedTls());
    if (!server.ok()) return Fail(server.status());
    const std::string line = (*server)->address() + "\n";
    if (write(ready, line.data(), line.size()) < 0) return ExitStatus::kFailed;
    while (true) {
      std::this_thread::sleep_for(kTick);
      std::lock_guard lock(mutex_);
      std::erase_if(workers_, [this](const auto& w) { return clock_.Now() - w.second > kWorkerTimeout; });
      if (fs::exists(directory + "/broken")) return Fail({Code::kDataLoss, "Input/output error"});
      if (!stop_ && !BrokersAway()) events_ = std::min<uint64_t>(goal_, events_ + workers_.size());
      std::ofstream(directory + "/new") << events_ << "\n";
      fs::rename(directory + "/new", directory + "/events");
      if (!stop_ && events_ < goal_) continue;
      over_ = true;
      break;
    }
    std::this_thread::sleep_for(300ms);  // for the workers to hear of it
    return 0;
  }

 private:
  bool BrokersAway() const { return !away_.empty() && fs::exists(away_); }
  protocol::ControlReply Answer(const protocol::ControlRequest& request) {
    std::lock_guard lock(mutex_);
    if (const auto* worker = std::get_if<protocol::JobRequest>(&request)) {
      workers_[worker->version] = clock_.Now();
      const auto place = std::distance(workers_.begin(), workers_.find(worker->version));
      const bool leaves = over_ || (granted_ && place >= *granted_);
      if (leaves) workers_.erase(worker->version);
      return protocol::JobReply{.job = leaves ? "leave" : ""};
    }
    if (std::holds_alternative<protocol::StatusRequest>(request)) {
      return protocol::StatusReply{"{\"events\": " + std::to_string(events_) +
                                   ", \"wanted\": {\"workers\": " + std::to_string(kWanted) +
                                   ", \"ps\": 0}}"};
    }
    if (const auto* admin = std::get_if<protocol::AdminRequest>(&request)) {
      if (admin->kind == Kind::kGrant) granted_ = admin->workers->most;
      if (admin->kind == Kind::kStop) stop_ = true;
      return protocol::AdminReply{};
    }
    return protocol::Refusal{{Code::kInvalidArgument, "unknown"}};
  }

  const std::vector<std::string> arguments_;
  const MonotonicClock clock_;
  std::mutex mutex_;
  uint64_t goal_ = 0, events_ = 0;
  std::string away_;
  std::map<std::string, Time> workers_;  // by process number
  std::optional<int64_t> granted_;
  std::atomic<bool> stop_{false}, over_{false};
};

int PlayWorker(const std::vector<std::string>& arguments) {
  launcher::BlockSignals();
  std::atomic<bool> stop{false};
  const launcher::SignalWatch signals([&](int) { stop = true; });
  const auto client = control::ControlClient::Make(Option(arguments, "--coordinator"), Token(), PlayedTls());
  for (int failures = 0; !stop && failures < 20;) {
    const auto reply = client->Call(protocol::JobRequest{std::to_string(getpid())}, 500ms);
    const auto* said = reply.ok() ? std::get_if<protocol::JobReply>(&*reply) : nullptr;
    if (said != nullptr && said->job == "leave") return 0;
    failures = said != nullptr ? 0 : failures + 1;
    std::this_thread::sleep_for(kTick);
  }
  return stop ? ExitStatus::kDone : Fail({Code::kUnavailable, "the coordinator is lost"});
}

}  // namespace

int Play(const std::vector<std::string>& arguments) {
  const std::string& role = arguments.at(0);
  if (role == "coordinator") return PlayedCoordinator(arguments).Run();
  if (role == "worker") return PlayWorker(arguments);
  launcher::BlockSignals();
  if (role == "pool") {
    PoolOptions options;
    options.directory = Option(arguments, "--directory");
    options.listen = Option(arguments, "--listen");
    options.token = kTestToken;
    options.config.agent_timeout = std::chrono::seconds(3);
    options.tls = PlayedTls(Option(arguments, "--security"));
    if (options.tls != nullptr) options.certificate_life = kCertificateLife;
    return ExitStatusOf(RunPool(options).code());
  }
  AgentOptions options;
  options.pool = Option(arguments, "--pool");
  options.token = kTestToken;
  options.name = Option(arguments, "--name");
  options.directory = Option(arguments, "--directory");
  options.offer = {3000, uint64_t{1} << 33};
  options.tls = PlayedTls(Option(arguments, "--security"));
  return ExitStatusOf(RunAgent(options).code());
}

}  // namespace leat::pool

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] != '-') return leat::pool::Play({argv + 1, argv + argc});
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
