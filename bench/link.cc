// Utilization of a slow link: a parameter server behind 1 Gbit/s (its own network namespace, with token
// buckets on both ends of the link), and four workers that push as fast as possible. Needs root and iproute2.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "frame/images.h"
#include "frame/program.h"
#include "frame/report.h"

namespace {

using namespace leat;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr double kMin = 0.9;

std::string Shell(const std::string& command) {
  std::string output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run a shell");
  std::array<char, 4096> some{};
  while (const size_t n = fread(some.data(), 1, some.size(), pipe)) output.append(some.data(), n);
  const int status = pclose(pipe);
  if (status != 0) throw std::runtime_error(command + ": " + output.substr(0, output.find('\n')));
  return output;
}

// A network namespace behind a link of `gbit` Gbit/s per direction. The destructor removes it.
class ShapedLink {
 public:
  explicit ShapedLink(double gbit) {
    const std::string tag = std::to_string(getpid());
    name_ = "leat" + tag;
    near_ = "ln" + tag;
    far_ = "lf" + tag;
    // A subnet of the private range that is no common default.
    const std::string net = "10.197." + std::to_string(getpid() % 250 + 1);
    near_address_ = net + ".1";
    far_address_ = net + ".2";
    const std::string rate = std::to_string(static_cast<long>(gbit * 1000)) + "mbit";
    const std::string bucket = " root tbf rate " + rate + " burst 512kb latency 50ms";
    Shell("ip netns add " + name_);
    try {
      Shell("ip link add " + near_ + " type veth peer name " + far_);
      Shell("ip link set " + far_ + " netns " + name_);
      Shell("ip addr add " + near_address_ + "/24 dev " + near_);
      Shell("ip link set " + near_ + " up");
      Shell(Inside("ip addr add " + far_address_ + "/24 dev " + far_));
      Shell(Inside("ip link set " + far_ + " up"));
      Shell(Inside("ip link set lo up"));
      Shell("tc qdisc add dev " + near_ + bucket);
      Shell(Inside("tc qdisc add dev " + far_ + bucket));
    } catch (...) {
      Remove();
      throw;
    }
  }
  ~ShapedLink() { Remove(); }
  ShapedLink(const ShapedLink&) = delete;
  ShapedLink& operator=(const ShapedLink&) = delete;

  const std::string& name() const { return name_; }
  const std::string& near_address() const { return near_address_; }
  const std::string& far_address() const { return far_address_; }
  // Bytes on the link so far, to and from the servers, including headers.
  double SentTo() const { return Sent(Shell("tc -s -j qdisc show dev " + near_)); }
  double SentFrom() const { return Sent(Shell(Inside("tc -s -j qdisc show dev " + far_))); }

 private:
  std::string Inside(const std::string& command) const { return "ip netns exec " + name_ + " " + command; }
  static double Sent(const std::string& json) {
    for (const auto& qdisc : nlohmann::json::parse(json)) {
      if (qdisc.at("kind") == "tbf") return qdisc.at("bytes").get<double>();
    }
    throw std::runtime_error("no token bucket: " + json);
  }
  void Remove() {
    for (const std::string& command : {"ip link del " + near_, "ip netns del " + name_}) {
      try {
        Shell(command);
      } catch (const std::exception&) {  // it does not exist
      }
    }
  }

  std::string name_, near_, far_, near_address_, far_address_;
};

std::string JobText(const std::string& images, const std::string& labels, int workers) {
  return "name: link\nseed: 1\n" + bench::ImagesJob(images, labels, 10'000) +
         "model:\n  layers:\n"
         "    - dense: {units: 512, activation: relu}\n    - dense: {units: 512, activation: relu}\n"
         "    - dense: {units: 10}\n  loss: softmax_cross_entropy\n"
         "optimizer: {type: sgd, learning_rate: 0.0001}\nstrategy: async\n"
         "train: {batch_size: 32, split_batches: 16}\n"
         "cluster: {workers: " +
         std::to_string(workers) + ", ps: 1}\n";
}

// The address in the line that a role prints when it has started; empty before.
std::string AddressIn(const bench::Running& role, const std::string& before) {
  const std::string output = role.Output();
  const size_t at = output.find(before);
  const size_t end = at == std::string::npos ? at : output.find('\n', at);
  if (end == std::string::npos) return "";
  return output.substr(at + before.size(), end - at - before.size());
}

void WaitFor(const std::string& what, bench::Running& role, const std::function<bool()>& condition) {
  const auto deadline = Clock::now() + 60s;
  while (!condition()) {
    if (!role.alive() || Clock::now() > deadline) throw std::runtime_error(what + ": " + role.Output());
    std::this_thread::sleep_for(20ms);
  }
}

void Measure(bench::Report& report, double gbit, int workers, double seconds, int runs) {
  const bench::Scratch scratch("link");
  const ShapedLink link(gbit);
  bench::WriteImages(scratch / "images", scratch / "labels", 20'000);
  std::ofstream(scratch / "job.yaml") << JobText(scratch / "images", scratch / "labels", workers);
  setenv("LEAT_TOKEN", "of this run alone", 1);
  setenv("LEAT_TRUSTED_NETWORK", "1", 1);
  setenv("OMP_NUM_THREADS", "1", 1);

  bench::Running coordinator({"coordinator", scratch / "job.yaml", "--directory", scratch / "job", "--listen",
                              link.near_address() + ":0"},
                             scratch / "coordinator");
  std::string address;
  WaitFor("the coordinator did not start", coordinator,
          [&] { return !(address = AddressIn(coordinator, "serves on ")).empty(); });
  bench::Running server({"ps", "--coordinator", address, "--listen", link.far_address() + ":0"},
                        scratch / "ps", {"/usr/bin/env", "ip", "netns", "exec", link.name()});
  std::vector<std::unique_ptr<bench::Running>> all;
  for (int i = 0; i < workers; ++i) {
    all.push_back(
        std::make_unique<bench::Running>(std::vector<std::string>{"worker", "--coordinator", address},
                                         scratch / ("worker-" + std::to_string(i))));
  }
  // All workers are training, and the token bucket's first burst has passed.
  const double warm = gbit * 1e9 / 8;
  WaitFor("the workers push hardly any data", server, [&] { return link.SentTo() > warm; });

  constexpr double kMebi = 1 << 20;
  std::vector<double> pushed, pulled;
  for (int run = 0; run < runs; ++run) {
    const double to = link.SentTo(), from = link.SentFrom();
    const auto start = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const double sent_to = link.SentTo() - to, sent_from = link.SentFrom() - from;
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    pushed.push_back(sent_to / took / kMebi);
    pulled.push_back(sent_from / took / kMebi);
  }
  const std::vector<double> capacity(pushed.size(), gbit * 1e9 / 8 / kMebi);
  report.Add(bench::MedianRow("pushed to the server", pushed, "MiB/s", "the link", capacity,
                              bench::RatioAtLeast(kMin)));
  report.Add(bench::MedianRow("values from the server", pulled, "MiB/s", "the link", capacity));
  for (auto& worker : all) {
    if (!worker->alive()) throw std::runtime_error("a worker has died: " + worker->Output());
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const double gbit = args.Number("--gbit", 1);
  const double workers = args.Number("--workers", 4);
  const double seconds = args.Number("--seconds", 10);  // per run
  const auto runs = static_cast<int>(args.Number("--runs", 3));
  args.RefuseTheRest();
  bench::Report report("link", args);
  if (geteuid() != 0) {
    report.Skip("needs root, to create network namespaces");
    return report.Finish();
  }
  try {
    Measure(report, gbit, static_cast<int>(workers), seconds, runs);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench link: %s\n", e.what());
    return 1;
  }
  return report.Finish();
}
