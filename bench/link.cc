// Utilization of a slow link: a parameter server behind 1 Gbit/s (its own network namespace, with token
// buckets on both ends of the link), and four workers that push as fast as possible. And checkpoints over
// such a link, next to training (link_checkpoint.cc). Needs root and iproute2.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "frame/images.h"
#include "frame/program.h"
#include "frame/report.h"
#include "frame/shaped_link.h"
#include "link_checkpoint.h"

namespace {

using namespace leat;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr double kMin = 0.9;

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

void MeasurePushes(bench::Report& report, double gbit, int workers, double seconds, int runs) {
  const bench::Scratch scratch("link");
  const bench::ShapedLink link(gbit);
  bench::WriteImages(scratch / "images", scratch / "labels", 20'000);
  std::ofstream(scratch / "job.yaml") << JobText(scratch / "images", scratch / "labels", workers);
  bench::Running coordinator({"coordinator", scratch / "job.yaml", "--directory", scratch / "job", "--listen",
                              link.near_address() + ":0"},
                             scratch / "coordinator");
  std::string address;
  bench::WaitFor("the coordinator did not start", coordinator,
                 [&] { return !(address = bench::AddressIn(coordinator, "serves on ")).empty(); });
  bench::Running server({"ps", "--coordinator", address, "--listen", link.far_address() + ":0"},
                        scratch / "ps", link.Enter());
  std::vector<std::unique_ptr<bench::Running>> all;
  for (int i = 0; i < workers; ++i) {
    all.push_back(
        std::make_unique<bench::Running>(std::vector<std::string>{"worker", "--coordinator", address},
                                         scratch / ("worker-" + std::to_string(i))));
  }
  // All workers are training, and the token bucket's first burst has passed.
  const double warm = gbit * 1e9 / 8;
  bench::WaitFor("the workers push hardly any data", server, [&] { return link.SentTo() > warm; });

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
  // "pushes", "light" or "full": only this part.
  const std::string only = args.String("--only", "");
  bench::CheckpointOptions checkpoint{.gbit = gbit};
  if (args.Flag("--quick")) checkpoint.bytes = 1 << 27;
  checkpoint.congestion_control = args.String("--congestion-control", "");
  args.RefuseTheRest();
  if (!only.empty() && only != "pushes" && only != "light" && only != "full") {
    std::fprintf(stderr, "no rows '%s'; there are: pushes light full\n", only.c_str());
    return 2;
  }
  bench::Report report("link", args);
  if (geteuid() != 0) {
    report.Skip("needs root, to create network namespaces");
    return report.Finish();
  }
  try {
    setenv("LEAT_TOKEN", "of this run alone", 1);
    setenv("LEAT_TRUSTED_NETWORK", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    if (only.empty() || only == "pushes")
      MeasurePushes(report, gbit, static_cast<int>(workers), seconds, runs);
    if (only.empty() || only == "light") bench::MeasureLightTraining(report, checkpoint);
    if (only.empty() || only == "full") bench::MeasureFullLink(report, checkpoint);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench link: %s\n", e.what());
    return 1;
  }
  return report.Finish();
}
