// Push and pull of a model between a worker and a server process, with the optimizer: over tcp, compared with
// UCX's one-way bandwidth over TCP, and over shared memory, compared with tcp. Also round trips of the
// transports alone, and the time of a handshake.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "frame/measure.h"
#include "frame/perftest.h"
#include "frame/report.h"
#include "net/same_host/shared_memory.h"
#include "net/transport.h"
#include "net/transports.h"
#include "train/ps/client.h"
#include "train/ps/server_shell.h"

namespace {

using namespace leat;

constexpr float kRate = 0.5f;
constexpr double kGibi = 1 << 30;

double Now() {
  return Seconds(MonotonicClock().Now());
}

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "wire: %s\n", why.c_str());
  std::exit(1);
}

const std::string kTcp = "tcp";
const std::string kUcx = "ucx";

std::unique_ptr<net::Transport> MakeTransport(net::Loop& loop, const std::string& name,
                                              metrics::Registry* registry = nullptr) {
  net::TransportOptions options{.token = "bench", .metrics = registry};
  return name == kUcx ? net::MakeUcxTransport(loop, options) : net::MakeTcpTransport(loop, options);
}

// This program as a server in a child process, killed by the destructor. Its first line is its address.
class Server {
 public:
  explicit Server(std::vector<std::string> words) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) Fail("no pipe");
    child_ = fork();
    if (child_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      words.insert(words.begin(), "bench_wire");
      std::vector<char*> argv;
      for (auto& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv("/proc/self/exe", argv.data());
      _exit(1);
    }
    close(ends[1]);
    char text[100];
    const ssize_t size = read(ends[0], text, sizeof(text));
    close(ends[0]);
    if (size <= 0) Fail("the server did not start");
    address_.assign(text, static_cast<size_t>(size));
  }
  ~Server() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  const std::string& address() const { return address_; }
  // CPU time of this process and the server.
  double CpuSeconds() const {
    clockid_t child_clock = 0;
    clock_getcpuclockid(child_, &child_clock);
    double seconds = 0;
    for (const clockid_t clock : {child_clock, CLOCK_PROCESS_CPUTIME_ID}) {
      timespec time{};
      clock_gettime(clock, &time);
      seconds += static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    }
    return seconds;
  }

 private:
  pid_t child_ = -1;
  std::string address_;
};

// The server process: sends its address to the parent.
[[noreturn]] void Run(net::Loop& loop, net::Transport& transport, net::Transport::Accept accept) {
  const auto listener = transport.Listen("127.0.0.1:0", std::move(accept));
  if (!listener.ok()) Fail(listener.status().ToString());
  const std::string& address = (*listener)->address();
  if (write(STDOUT_FILENO, address.data(), address.size()) < 0) Fail("no pipe");
  close(STDOUT_FILENO);
  loop.Run();
  _exit(0);
}

// The view of one worker and one server with all slices, generation 1.
struct Job {
  explicit Job(uint64_t elements)
      : table(protocol::MakeSlices({{"w", Shape{static_cast<int64_t>(elements)}, {}}}, 1, 1)) {
    view.generation = Generation(1);
    view.members = {{.node = NodeId(1), .role = protocol::Role::kServer},
                    {.node = NodeId(2), .role = protocol::Role::kWorker}};
    for (size_t i = 0; i < table.slices.size(); ++i) view.slices.push_back({NodeId(1), Incarnation(1), true});
  }
  protocol::SliceTable table;
  protocol::View view;
};

[[noreturn]] void ServeModel(const std::string& transport_name, uint64_t elements) {
  const Job job(elements);
  net::Loop loop;
  const auto transport = MakeTransport(loop, transport_name);
  ps::ServerShell shell(
      loop, {.table = job.table, .optimizer = {.kind = optim::Kind::kSgd, .learning_rate = kRate}});
  shell.machine().OnJoined(NodeId(1));
  protocol::ServerHeartbeatReply orders;
  orders.view = job.view;
  orders.start = {{}};
  for (uint32_t i = 0; i < job.table.slices.size(); ++i) {
    orders.orders.push_back({.slice = SliceId(i), .incarnation = Incarnation(1)});
  }
  shell.OnHeartbeatReply(orders);
  Run(loop, *transport,
      [&](std::unique_ptr<net::Connection> worker) { return shell.Adopt(std::move(worker)); });
}

// A worker in this process, with a server in another.
class Pair {
 public:
  Pair(const std::string& transport, uint64_t elements)
      : server_({"--serve", "model", "--transport", transport, "--elements", std::to_string(elements)}),
        job_(elements),
        transport_(MakeTransport(loop_, transport)),
        parameters_(job_.table, net::MakeSharedBuffer),
        client_(*transport_, parameters_,
                {.on_reply = [this](NodeId, const protocol::PushReply& reply) { OnReply(reply); },
                 .on_failed = [](NodeId, uint64_t, const Status& why) { Fail(why.ToString()); }}) {
    std::ranges::fill(parameters_.gradients(0), -1.0f);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // Pushes all slices and waits for the replies.
  void Exchange(protocol::Disposition disposition, bool want_values) {
    protocol::PushRequest request;
    request.sequence = ++sequence_;
    request.worker = NodeId(2);
    request.generation = Generation(1);
    request.disposition = disposition;
    request.want_values = want_values;
    if (disposition == protocol::Disposition::kGradient) {
      const uint64_t batch = pushes_++;
      request.cut.begin.offset = batch / kBatches * kBatches;
      request.cut.after = request.cut.begin;
      request.cut.end = request.cut.begin.offset + kBatches;
      request.run = static_cast<uint32_t>(batch % kBatches);
      request.events = 1;
    }
    for (uint32_t i = 0; i < job_.table.slices.size(); ++i) {
      request.slices.push_back({SliceId(i), Incarnation(1), pushes_});
    }
    client_.Send({.server = NodeId(1),
                  .address = server_.address(),
                  .request = std::make_shared<protocol::PushRequest>(std::move(request))});
    while (answered_ != sequence_) loop_.RunOnce(std::chrono::seconds(1));
  }

  uint64_t bytes() const { return 4 * parameters_.values(0).size(); }

  // Checks that each push has added the learning rate to each value.
  void Check() {
    Exchange(protocol::Disposition::kPull, true);
    for (const float value : parameters_.values(0)) {
      if (value != kRate * static_cast<float>(pushes_)) Fail("wrong values");
    }
  }

 private:
  static constexpr uint64_t kBatches = 1 << 12;

  void OnReply(const protocol::PushReply& reply) {
    for (const auto& slice : reply.slices) {
      const bool good = slice.outcome == protocol::SliceOutcome::kApplied ||
                        slice.outcome == protocol::SliceOutcome::kPulled;
      if (!good) Fail("a slice was not applied");
    }
    answered_ = reply.sequence;
  }

  Server server_;
  Job job_;
  net::Loop loop_;
  std::unique_ptr<net::Transport> transport_;
  protocol::Parameters parameters_;
  ps::Client client_;
  uint64_t sequence_ = 0;
  uint64_t answered_ = 0;
  uint64_t pushes_ = 0;
};

// Measures the seconds per exchange, for about `seconds`.
double Time(Pair& pair, protocol::Disposition disposition, bool want_values, double seconds) {
  const double begin = Now();
  uint64_t count = 0;
  while (Now() - begin < seconds || count < 3) {
    pair.Exchange(disposition, want_values);
    ++count;
  }
  return (Now() - begin) / static_cast<double>(count);
}

struct Case {
  std::string name;
  protocol::Disposition disposition;
  bool want_values;
  double ways;  // transfers of the model per exchange
  bench::Bound bound;
};

void Large(bench::Report& report, double seconds) {
  constexpr uint64_t kElements = 4 << 20;
  constexpr int kRounds = 5;
  const std::vector<Case> cases = {
      {"push + pull 16 MiB", protocol::Disposition::kGradient, true, 2, bench::RatioAtLeast(0.6)},
      {"push 16 MiB", protocol::Disposition::kGradient, false, 1, {}},
      {"pull 16 MiB", protocol::Disposition::kPull, true, 1, {}},
  };
  const std::string version = bench::UcxPerftestVersion();
  Pair pair(kTcp, kElements);
  Time(pair, protocol::Disposition::kGradient, true, 0);
  const double slice = seconds / (kRounds * static_cast<double>(cases.size() + 1));
  std::vector<double> reference;
  std::vector<std::vector<double>> rates(cases.size());
  for (int round = 0; round < kRounds; ++round) {
    reference.push_back(bench::UcxTcpBandwidth(pair.bytes(), slice) / kGibi);
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto& c = cases[i];
      const double took = Time(pair, c.disposition, c.want_values, slice);
      rates[i].push_back(c.ways * static_cast<double>(pair.bytes()) / took / kGibi);
    }
  }
  pair.Check();
  for (size_t i = 0; i < cases.size(); ++i) {
    report.Add(bench::MedianRow(cases[i].name, rates[i], "GiB/s", version + " ucp_am_bw over tcp", reference,
                                cases[i].bound));
  }
}

// Measures push and pull of models of several sizes, over tcp and ucx in turn.
void BothWays(bench::Report& report, double seconds) {
  constexpr int kRounds = 9;
  for (const auto& [name, elements] : {std::pair("16 KiB", 4 << 10), std::pair("1 MiB", 1 << 18),
                                       std::pair("4 MiB", 1 << 20), std::pair("16 MiB", 4 << 20)}) {
    Pair tcp(kTcp, static_cast<uint64_t>(elements));
    Pair ucx(kUcx, static_cast<uint64_t>(elements));
    std::vector<double> times, faster, reference;
    for (int round = 0; round <= kRounds; ++round) {
      const double a = Time(tcp, protocol::Disposition::kGradient, true, seconds / (2 * kRounds));
      const double b = Time(ucx, protocol::Disposition::kGradient, true, seconds / (2 * kRounds));
      if (round == 0) continue;  // warm-up
      reference.push_back(a * 1e6);
      times.push_back(b * 1e6);
      faster.push_back(a / b);
    }
    tcp.Check();
    ucx.Check();
    const bool large = elements >= 1 << 18;
    report.Add({.name = std::string("push + pull ") + name,
                .value = bench::Median(reference),
                .unit = "µs",
                .runs = reference.size()});
    report.Add({.name = std::string("push + pull ") + name + ", ucx",
                .value = bench::Median(times),
                .unit = "µs",
                .reference = "tcp (ratio: times as fast)",
                .reference_value = bench::Median(reference),
                .ratio = bench::Median(faster),
                .runs = faster.size(),
                .bound = bench::RatioAtLeast(large ? 1.2 : 1)});
  }
}

// ---- the transports alone

// Sends each message back.
struct Mirror final : net::Receiver {
  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t, ByteView,
                                                     uint64_t payload_bytes) override {
    room.resize(payload_bytes);
    return std::vector<std::span<std::byte>>{room};
  }
  void OnMessage(net::Connection& now) override { now.Send(1, {}, {ByteView(room)}); }
  void OnClosed(net::Connection&, const Status&) override { _exit(0); }
  Bytes room;
  std::unique_ptr<net::Connection> connection;
};

[[noreturn]] void ServeMirror(const std::string& transport_name) {
  net::Loop loop;
  const auto transport = MakeTransport(loop, transport_name);
  Mirror mirror;
  Run(loop, *transport, [&](std::unique_ptr<net::Connection> connection) {
    mirror.connection = std::move(connection);
    return &mirror;
  });
}

// Ends each connection after its handshake.
[[noreturn]] void ServeHandshakes() {
  net::Loop loop;
  const auto transport = MakeTransport(loop, kTcp);
  Run(loop, *transport, [](std::unique_ptr<net::Connection>) -> net::Receiver* { return nullptr; });
}

// From connect to the verdict.
void Handshakes(bench::Report& report) {
  struct Ignore final : net::Receiver {
    Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t, ByteView,
                                                       uint64_t) override {
      return Status(Code::kDataLoss, "unexpected");
    }
    void OnMessage(net::Connection&) override {}
    void OnClosed(net::Connection&, const Status&) override {}
  };
  Server server({"--serve", "handshakes"});
  net::Loop loop;
  const auto transport = MakeTransport(loop, kTcp);
  Ignore receiver;
  std::vector<double> times;
  for (int i = 0; i < 301; ++i) {
    bool done = false;
    std::unique_ptr<net::Connection> connection;
    const double begin = Now();
    transport->Connect(server.address(), &receiver, std::chrono::seconds(10), [&](auto connected) {
      if (!connected.ok()) Fail(connected.status().ToString());
      connection = std::move(*connected);
      done = true;
    });
    while (!done) loop.RunOnce(std::chrono::seconds(1));
    times.push_back((Now() - begin) * 1e3);
  }
  report.Add(bench::MedianRow("handshake", times, "ms", {}, {}, bench::ValueAtMost(5)));
}

class Echo final : public net::Receiver {
 public:
  explicit Echo(const std::string& transport)
      : server_({"--serve", "mirror", "--transport", transport}),
        transport_(MakeTransport(loop_, transport, &metrics_)) {
    transport_->Connect(server_.address(), this, std::chrono::seconds(10), [this](auto connection) {
      if (!connection.ok()) Fail(connection.status().ToString());
      connection_ = std::move(*connection);
    });
    while (connection_ == nullptr) loop_.RunOnce(std::chrono::seconds(1));
    const bool shared = metrics_.gauge("leat_net_ucx_connections").value() > 0;
    if (shared != (transport == kUcx)) Fail("the connection did not use " + transport);
  }

  struct Cost {
    double seconds = 0;  // per round trip
    double cpu = 0;      // seconds of both processes per round trip
  };
  Cost Measure(size_t bytes, double seconds) {
    payload_.resize(bytes);
    room_.resize(bytes);
    const double begin = Now();
    const double cpu = server_.CpuSeconds();
    uint64_t count = 0;
    for (; count < 3 || Now() - begin < seconds; ++count) {
      back_ = false;
      connection_->Send(1, {}, {ByteView(payload_)});
      while (!back_) loop_.RunOnce(std::chrono::seconds(1));
    }
    const auto trips = static_cast<double>(count);
    return {(Now() - begin) / trips, (server_.CpuSeconds() - cpu) / trips};
  }

 private:
  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t, ByteView, uint64_t) override {
    return std::vector<std::span<std::byte>>{room_};
  }
  void OnMessage(net::Connection&) override { back_ = true; }
  void OnClosed(net::Connection&, const Status& why) override { Fail(why.ToString()); }

  Server server_;
  metrics::Registry metrics_;
  net::Loop loop_;
  std::unique_ptr<net::Transport> transport_;
  Bytes payload_, room_;
  bool back_ = false;
  std::unique_ptr<net::Connection> connection_;
};

void Alone(bench::Report& report, double seconds) {
  constexpr int kRounds = 7;
  Echo tcp(kTcp), ucx(kUcx);
  for (const auto& [name, bytes] :
       {std::pair("64 B", 64), std::pair("64 KiB", 64 << 10), std::pair("1 MiB", 1 << 20),
        std::pair("4 MiB", 4 << 20), std::pair("16 MiB", 16 << 20)}) {
    std::vector<double> times[2], cpus[2], faster, cheaper;
    for (int round = 0; round <= kRounds; ++round) {
      const Echo::Cost a = tcp.Measure(static_cast<size_t>(bytes), seconds / (2 * kRounds));
      const Echo::Cost b = ucx.Measure(static_cast<size_t>(bytes), seconds / (2 * kRounds));
      if (round == 0) continue;
      times[0].push_back(a.seconds);
      times[1].push_back(b.seconds);
      cpus[0].push_back(a.cpu);
      cpus[1].push_back(b.cpu);
      faster.push_back(a.seconds / b.seconds);
      cheaper.push_back(a.cpu / b.cpu);
    }
    const bool large = bytes >= 1 << 20;
    const double scale = large ? 2.0 * bytes / kGibi : 1;
    const auto rate = [&](const std::vector<double>& of) {
      const double median = bench::Median(of);
      return large ? scale / median : median * 1e6;
    };
    report.Add({.name = std::string(large ? "there and back " : "round trip ") + name + ", ucx",
                .value = rate(times[1]),
                .unit = large ? "GiB/s" : "µs",
                .reference = "tcp (ratio: times as fast)",
                .reference_value = rate(times[0]),
                .ratio = bench::Median(faster),
                .runs = faster.size(),
                .bound = bench::RatioAtLeast(large ? 1.5 : 1)});
    if (!large) continue;
    report.Add({.name = std::string("processor time a GiB, ") + name + ", ucx",
                .value = bench::Median(cpus[1]) / scale,
                .unit = "s",
                .reference = "tcp (ratio: times as cheap)",
                .reference_value = bench::Median(cpus[0]) / scale,
                .ratio = bench::Median(cheaper),
                .runs = cheaper.size()});
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const std::string serve = args.String("--serve", "");  // internal: runs the server process
  const std::string transport = args.String("--transport", kTcp);
  const double elements = args.Number("--elements", 0);
  const double seconds = args.Number("--seconds", 8);
  args.RefuseTheRest();
  if (!serve.empty()) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (serve == "model") ServeModel(transport, static_cast<uint64_t>(elements));
    if (serve == "handshakes") ServeHandshakes();
    ServeMirror(transport);
  }

  bench::Report report("wire", args);
  try {
    Large(report, seconds);
  } catch (const std::exception& e) {
    Fail(e.what());
  }
  Handshakes(report);
  BothWays(report, seconds / 8);
  Alone(report, seconds / 8);
  report.Note("the server applies SGD; bytes of the model per second, both directions together");
  return report.Finish();
}
