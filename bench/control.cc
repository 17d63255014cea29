// The control plane: heartbeats of many members, keep-alives beside large replies on a slow link, and what
// roles cost that have nothing to do.
//
// The heartbeats' server and its members share this process, so the row has the cost of both sides.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "frame/measure.h"
#include "frame/program.h"
#include "frame/report.h"
#include "frame/shaped_link.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"

namespace {

using namespace leat;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kToken = "of this run alone";
constexpr double kIdle = 0.01;  // cores that an idle role may use
constexpr size_t kStatusBytes = (4 << 20) - 1024;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

protocol::WorkerHeartbeat HeartbeatOf(uint64_t member, uint64_t number) {
  protocol::WorkerHeartbeat beat;
  beat.node = NodeId(member + 1);
  beat.metrics = "10.0.0.7:40123";
  beat.term = protocol::MakeTerm(7, 1);
  beat.generation = Generation(12);
  beat.leases_wanted = 2;
  beat.held = {number, number + 1, number + 2};
  beat.released = {number - 1};
  protocol::WorkerProgress& progress = beat.progress;
  progress.steps = number * 64;
  progress.events = number * 8192;
  progress.loss_sum = static_cast<double>(number) * 5000.5;
  progress.correct = number * 7000;
  progress.cpu_seconds = static_cast<double>(number) * 0.25;
  progress.compute_seconds = static_cast<double>(number) * 0.2;
  progress.input_records = number * 8192;
  progress.input_bytes = number * 800'000;
  progress.scores.resize(2000);
  progress.batches.resize(64, {.events = 128, .loss_sum = 80.25, .correct = 100});
  beat.elector = {.promised = beat.term, .set_term = beat.term, .set_epoch = 3};
  return beat;
}

protocol::WorkerHeartbeatReply ReplyTo(const protocol::WorkerHeartbeat& beat) {
  protocol::WorkerHeartbeatReply reply;
  reply.term = beat.term;
  protocol::Lease lease;
  lease.id = beat.held.back() + 1;
  lease.cut = {.partition = 3,
               .after = {0, lease.id * 8192},
               .begin = {0, lease.id * 8192},
               .end = (lease.id + 1) * 8192,
               .hash = 0x1234567890abcdef,
               .batch_size = 128,
               .shuffle_seed = 5};
  lease.missing = protocol::RunSet(lease.cut.runs(), true);
  reply.leases.push_back(std::move(lease));
  return reply;
}

void Answer(protocol::ControlRequest request, const std::function<void(protocol::ControlReply)>& reply) {
  if (const auto* beat = std::get_if<protocol::WorkerHeartbeat>(&request)) return reply(ReplyTo(*beat));
  if (std::holds_alternative<protocol::KeepAlive>(request)) return reply(protocol::KeepAliveReply());
  if (std::holds_alternative<protocol::StatusRequest>(request))
    return reply(protocol::StatusReply{std::string(kStatusBytes, 's')});
  reply(protocol::Refusal{Status(Code::kInvalidArgument, "not of this benchmark")});
}

std::unique_ptr<control::ControlServer> Serve(const std::string& address) {
  auto server = control::ControlServer::Start(address, kToken, Answer);
  if (!server.ok()) throw std::runtime_error(server.status().message());
  return std::move(*server);
}

template <class Reply>
void Ask(control::ControlClient& client, const protocol::ControlRequest& request, Duration deadline) {
  const auto reply = client.Call(request, deadline);
  if (!reply.ok()) throw std::runtime_error(reply.status().ToString());
  if (!std::holds_alternative<Reply>(*reply)) throw std::runtime_error("an answer of another kind");
}

// Each thread has its share of the members, and sends one heartbeat of each in turn.
void MeasureHeartbeats(bench::Report& report, uint64_t members, double seconds, int runs) {
  constexpr uint64_t kThreads = 16;
  const auto server = Serve("127.0.0.1:0");
  std::vector<std::unique_ptr<control::ControlClient>> clients(members);
  for (auto& client : clients) client = control::ControlClient::Make(server->address(), kToken);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> answered{0}, first_rounds{0};
  std::atomic<int> failed{0};
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        for (uint64_t number = 10; !stop; ++number) {
          for (uint64_t m = t; m < members && !stop; m += kThreads) {
            Ask<protocol::WorkerHeartbeatReply>(*clients[m], HeartbeatOf(m, number), 60s);
            ++answered;
          }
          if (number == 10) ++first_rounds;
        }
      } catch (const std::exception& e) {
        std::fprintf(stderr, "bench control: %s\n", e.what());
        ++failed;
      }
    });
  }
  while (first_rounds < kThreads && failed == 0) std::this_thread::sleep_for(10ms);  // all are connected
  std::vector<double> rates;
  for (int run = 0; run < runs && failed == 0; ++run) {
    const uint64_t before = answered;
    const auto start = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    rates.push_back(static_cast<double>(answered - before) / SecondsSince(start));
  }
  stop = true;
  threads.clear();
  if (failed > 0) throw std::runtime_error("a heartbeat failed");
  report.Add(bench::MedianRow("heartbeats of " + std::to_string(members) + " members", rates, "/s"));
}

// The member at the far end, in a process of its own: prints the keep-alives' times in milliseconds.
int PrintKeepAlives(const std::string& address, int statuses) {
  const auto client = control::ControlClient::Make(address, kToken);
  Ask<protocol::KeepAliveReply>(*client, protocol::KeepAlive{.node = NodeId(1)}, 30s);
  std::atomic<int> left{statuses}, asking{4};
  std::vector<std::jthread> readers;
  for (int i = asking; i > 0; --i) {
    readers.emplace_back([&] {
      try {
        while (left-- > 0) Ask<protocol::StatusReply>(*client, protocol::StatusRequest{}, 10min);
      } catch (const std::exception& e) {
        std::printf("failed: %s\n", e.what());
      }
      --asking;
    });
  }
  while (asking > 0) {
    const auto start = Clock::now();
    Ask<protocol::KeepAliveReply>(*client, protocol::KeepAlive{.node = NodeId(1)}, 60s);
    std::printf("%.3f\n", SecondsSince(start) * 1000);
    std::this_thread::sleep_for(20ms);
  }
  return 0;
}

void MeasureKeepAlives(bench::Report& report, double mbit, int statuses, int runs) {
  if (geteuid() != 0) return report.Skip("keep-alives need root, to create network namespaces");
  const bench::ShapedLink link(mbit / 1000);
  const auto server = Serve(link.near_address() + ":0");
  const std::string own = std::filesystem::read_symlink("/proc/self/exe");
  std::string command;
  for (const std::string& word : link.Enter()) command += word + " ";
  command += own + " --member-of " + server->address() + " --statuses " + std::to_string(statuses);
  std::vector<double> tails;
  for (int run = 0; run < runs; ++run) {
    FILE* const member = popen(command.c_str(), "r");
    if (member == nullptr) throw std::runtime_error("the member cannot be started");
    std::vector<double> times;
    std::array<char, 256> line{};
    std::string odd;
    while (std::fgets(line.data(), line.size(), member) != nullptr) {
      char* end = nullptr;
      const double ms = std::strtod(line.data(), &end);
      if (end == line.data()) odd = line.data();
      times.push_back(ms);
    }
    if (pclose(member) != 0 || !odd.empty() || times.size() < 10)
      throw std::runtime_error("the member failed after " + std::to_string(times.size()) +
                               " keep-alives: " + odd);
    std::ranges::sort(times);
    tails.push_back(times[times.size() * 99 / 100]);
  }
  report.Add(bench::MedianRow("keep-alive beside " + std::to_string(statuses) + " statuses of 4 MiB, p99",
                              tails, "ms"));
}

double CpuSeconds(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(in), {}};
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

void MeasureIdle(bench::Report& report, double seconds, int runs) {
  const bench::Scratch scratch("control");
  std::ofstream(scratch / "job.yaml")
      << "name: idle\nseed: 1\nstream: {topic: events, log: \"" + (scratch / "log") +
             "\", bots: {events: 1000000, rate: 0.001}}\n"
             "schema:\n  format: json\n"
             "  fields: {x: {type: number}, y: {type: number, role: label}}\n"
             "model:\n  layers: [{dense: {units: 2}}]\n  loss: softmax_cross_entropy\n"
             "optimizer: {type: sgd, learning_rate: 0.1}\nstrategy: async\n"
             "cluster: {workers: 1, ps: 1}\n";
  std::vector<std::pair<std::string, std::unique_ptr<bench::Running>>> roles;
  const auto start = [&](const std::string& name, const std::vector<std::string>& arguments) {
    roles.emplace_back(name, std::make_unique<bench::Running>(arguments, scratch / (name + ".log")));
    return roles.back().second.get();
  };
  const auto address_of = [](bench::Running& role, const std::string& before) {
    std::string address;
    bench::WaitFor("a role did not start", role,
                   [&] { return !(address = bench::AddressIn(role, before)).empty(); });
    return address;
  };
  const std::string coordinator =
      address_of(*start("coordinator", {"coordinator", scratch / "job.yaml", "--directory", scratch / "job"}),
                 "serves on ");
  start("ps", {"ps", "--coordinator", coordinator});
  start("worker", {"worker", "--coordinator", coordinator});
  start("feed", {"feed", "--coordinator", coordinator});
  start("bots", {"bots", "--coordinator", coordinator});
  start("serve", {"serve", "--coordinator", coordinator, "--listen", "127.0.0.1:0"});
  start("standby", {"coordinator", "--standby", coordinator, "--directory", scratch / "standby"});
  const std::string pool =
      address_of(*start("pool", {"pool", "--directory", scratch / "pool"}), "listens on ");
  start("agent", {"agent", "--pool", pool, "--directory", scratch / "agent"});
  std::this_thread::sleep_for(5s);  // whatever they do first is over
  std::vector<std::vector<double>> shares(roles.size());
  for (int run = 0; run < runs; ++run) {
    std::vector<double> before;
    for (const auto& [name, role] : roles) before.push_back(CpuSeconds(role->pid()));
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const double took = SecondsSince(begin);
    for (size_t i = 0; i < roles.size(); ++i) {
      const auto& [name, role] = roles[i];
      if (!role->alive()) throw std::runtime_error(name + " has ended: " + role->Output());
      shares[i].push_back((CpuSeconds(role->pid()) - before[i]) / took);
    }
  }
  for (size_t i = 0; i < roles.size(); ++i)
    report.Add(
        bench::MedianRow("idle " + roles[i].first, shares[i], "cores", "", {}, bench::ValueAtMost(kIdle)));
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const auto members = static_cast<uint64_t>(args.Number("--members", 1000));
  const double mbit = args.Number("--mbit", 100);
  const auto statuses = static_cast<int>(args.Number("--statuses", 100));
  const double seconds = args.Number("--seconds", 10);  // per run
  const auto runs = static_cast<int>(args.Number("--runs", 3));
  // "heartbeats", "keep-alives" or "idle": only this part.
  const std::string only = args.String("--only", "");
  const std::string member_of = args.String("--member-of", "");
  args.RefuseTheRest();
  constexpr std::array kParts{"heartbeats", "keep-alives", "idle"};
  if (!only.empty() && std::ranges::find(kParts, only) == kParts.end()) {
    std::fprintf(stderr, "no rows '%s'; there are: heartbeats keep-alives idle\n", only.c_str());
    return 2;
  }
  setenv("LEAT_TOKEN", kToken, 1);
  setenv("LEAT_TRUSTED_NETWORK", "1", 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  try {
    if (!member_of.empty()) return PrintKeepAlives(member_of, statuses);
    bench::Report report("control", args);
    if (only.empty() || only == "heartbeats") MeasureHeartbeats(report, members, seconds, runs);
    if (only.empty() || only == "keep-alives") MeasureKeepAlives(report, mbit, statuses, runs);
    if (only.empty() || only == "idle") MeasureIdle(report, seconds, runs);
    return report.Finish();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench control: %s\n", e.what());
    return 1;
  }
}
