// Push and pull of a model between two processes over tcp, the optimizer applied: the worker's and the
// server's own code on both sides, against what UCX moves one way over TCP.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "measure.h"
#include "net/transport.h"
#include "perftest.h"
#include "ps/client.h"
#include "ps/server_shell.h"
#include "report.h"

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

net::TransportOptions Options() {
  return {.token = "bench"};
}

// One worker, one server with all slices, generation 1.
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

// The server's process. Never returns.
[[noreturn]] void Serve(const Job& job, int address_to) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  net::Loop loop;
  const auto transport = net::MakeTcpTransport(loop, Options());
  ps::ServerShell shell(
      {.table = job.table, .optimizer = {.kind = optim::Kind::kSgd, .learning_rate = kRate}});
  shell.machine().OnJoined(NodeId(1));
  protocol::ServerHeartbeatReply orders;
  orders.view = job.view;
  orders.start = {{}};
  for (uint32_t i = 0; i < job.table.slices.size(); ++i) {
    orders.orders.push_back({.slice = SliceId(i), .incarnation = Incarnation(1)});
  }
  shell.machine().OnHeartbeatReply(orders);
  const auto listener = transport->Listen(
      "127.0.0.1:0", [&](std::unique_ptr<net::Connection> worker) { return shell.Adopt(std::move(worker)); });
  if (!listener.ok()) Fail(listener.status().ToString());
  const std::string& address = (*listener)->address();
  if (write(address_to, address.data(), address.size()) < 0) Fail("no pipe");
  close(address_to);
  loop.Run();
  _exit(0);
}

// The worker's process, and the server's as its child.
class Pair {
 public:
  explicit Pair(uint64_t elements)
      : job_(elements),
        transport_(net::MakeTcpTransport(loop_, Options())),
        parameters_(job_.table),
        client_(*transport_, parameters_,
                {.on_reply = [this](NodeId, const protocol::PushReply& reply) { OnReply(reply); },
                 .on_failed = [](NodeId, uint64_t, const Status& why) { Fail(why.ToString()); }}) {
    int ends[2];
    if (pipe(ends) != 0) Fail("no pipe");
    child_ = fork();
    if (child_ == 0) Serve(job_, ends[1]);
    close(ends[1]);
    char text[100];
    const ssize_t size = read(ends[0], text, sizeof(text));
    close(ends[0]);
    if (size <= 0) Fail("the server did not start");
    address_.assign(text, static_cast<size_t>(size));
    std::ranges::fill(parameters_.gradients(0), -1.0f);
  }
  ~Pair() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // One push of all slices and its reply.
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
    client_.Send({.server = NodeId(1), .address = address_, .request = std::move(request)});
    while (answered_ != sequence_) loop_.RunOnce(std::chrono::seconds(1));
  }

  uint64_t bytes() const { return 4 * parameters_.values(0).size(); }

  // Each push has added the rate to each value, and no more.
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

  Job job_;
  net::Loop loop_;
  std::unique_ptr<net::Transport> transport_;
  protocol::Parameters parameters_;
  ps::Client client_;
  pid_t child_ = -1;
  std::string address_;
  uint64_t sequence_ = 0;
  uint64_t answered_ = 0;
  uint64_t pushes_ = 0;
};

// Seconds an exchange, over about `seconds`.
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
  double ways;  // how often the model crosses
  std::string bound;
};

void Large(bench::Report& report, double seconds) {
  constexpr uint64_t kElements = 4 << 20;
  constexpr int kRounds = 5;
  const std::vector<Case> cases = {
      {"push + pull 16 MiB", protocol::Disposition::kGradient, true, 2, "≥ 0.60"},
      {"push 16 MiB", protocol::Disposition::kGradient, false, 1, ""},
      {"pull 16 MiB", protocol::Disposition::kPull, true, 1, ""},
  };
  Pair pair(kElements);
  Time(pair, protocol::Disposition::kGradient, true, 0);
  const double slice = seconds / (kRounds * static_cast<double>(cases.size() + 1));
  std::vector<double> reference;
  std::vector<std::vector<double>> rates(cases.size()), ratios(cases.size());
  for (int round = 0; round < kRounds; ++round) {
    const double ucx = bench::UcxTcpBandwidth(pair.bytes(), slice);
    reference.push_back(ucx / kGibi);
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto& c = cases[i];
      const double took = Time(pair, c.disposition, c.want_values, slice);
      rates[i].push_back(c.ways * static_cast<double>(pair.bytes()) / took / kGibi);
      if (ucx > 0) ratios[i].push_back(rates[i].back() / reference.back());
    }
  }
  pair.Check();
  for (size_t i = 0; i < cases.size(); ++i) {
    bench::Row row{.name = cases[i].name, .value = bench::Median(rates[i]), .unit = "GiB/s"};
    if (!ratios[i].empty()) {
      row.reference = "ucx_perftest ucp_am_bw over tcp";
      row.reference_value = bench::Median(reference);
      row.ratio = bench::Median(ratios[i]);
      row.bound = cases[i].bound;
    }
    report.Add(row);
  }
}

void Small(bench::Report& report, double seconds) {
  for (const auto& [name, elements] : {std::pair("16 KiB", 4096), std::pair("1 MiB", 1 << 18)}) {
    Pair pair(static_cast<uint64_t>(elements));
    Time(pair, protocol::Disposition::kGradient, true, seconds / 10);
    std::vector<double> times;
    for (int i = 0; i < 9; ++i)
      times.push_back(Time(pair, protocol::Disposition::kGradient, true, seconds / 10));
    pair.Check();
    report.Add(
        {.name = std::string("push + pull ") + name, .value = bench::Median(times) * 1e6, .unit = "µs"});
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const bool json = args.Flag("--json");
  const double seconds = args.Number("--seconds", 8);
  args.RefuseTheRest();

  bench::Report report("wire", json);
  Large(report, seconds);
  Small(report, seconds / 8);
  report.Note("SGD applied by the server; bytes of the model that cross a second, both ways together");
}
