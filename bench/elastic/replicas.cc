// The cost of replicas: each update is also sent to, and applied on, another server.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cluster.h"
#include "frame/images.h"
#include "frame/report.h"
#include "frame/session.h"
#include "rows.h"

namespace leat::bench {
namespace {

constexpr double kLeastShare = 0.75;
constexpr uint32_t kImages = 60'000;
constexpr int kEpochs = 4;

void Replace(std::string* text, const std::string& old, const std::string& by) {
  const size_t at = text->find(old);
  if (at == std::string::npos) Fail("examples/mnist.yaml has no '" + old + "'");
  text->replace(at, old.size(), by);
}

// examples/mnist.yaml with 2 servers, without the evaluation at its end.
std::string Mnist(int replicas, int epochs) {
  std::ifstream in(LEAT_EXAMPLES "/mnist.yaml");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  Replace(&text, "epochs: 10", "epochs: " + std::to_string(epochs));
  Replace(&text, "cluster: {workers: 2, ps: 1}",
          std::string("cluster: {workers: 2, ps: 2") +
              (replicas > 1 ? ", replicas: " + std::to_string(replicas) : "") + "}");
  const size_t evaluate = text.find("\nevaluate:");
  if (evaluate != std::string::npos) text.resize(evaluate + 1);
  return text;
}

// Events per second of a run of the job.
double Run(const Scratch& scratch, const std::string& name, int replicas, int epochs) {
  std::ofstream(scratch / (name + ".yaml")) << Mnist(replicas, epochs);
  Running job({"train", scratch / (name + ".yaml"), "--data", scratch / "data", "--directory", scratch / name,
               "--json"},
              scratch / (name + ".log"));
  while (job.WaitFor(0.5)) CheckInterrupted();
  const std::string said = job.Output();
  if (job.Wait() != 0) Fail("the job has failed: " + said);
  const Json summary = Json::parse(said.substr(said.rfind("\n{") + 1), nullptr, false);
  if (summary.is_discarded()) Fail("there is no summary: " + said);
  if (summary.value("events", 0.0) != double{kImages} * epochs) Fail("not every event was trained: " + said);
  return summary.at("events_per_s").get<double>();
}

}  // namespace

void MeasureCostOfReplicas(Report& report, const ElasticOptions& options) {
  const Scratch scratch("elastic");
  std::filesystem::create_directories(scratch / "data");
  // The speed does not depend on what the images show.
  WriteImages(scratch / "data/train-images-idx3-ubyte.gz", scratch / "data/train-labels-idx1-ubyte.gz",
              kImages);
  const int epochs =
      options.seconds > 0 ? std::max(1, static_cast<int>(kEpochs * options.seconds / 10)) : kEpochs;
  std::vector<double> with, without;
  for (int run = 0; run < options.runs; ++run) {
    without.push_back(Run(scratch, "without-" + std::to_string(run), 1, epochs));
    with.push_back(Run(scratch, "with-" + std::to_string(run), 2, epochs));
  }
  report.Add(MedianRow("mnist, 2 workers, 2 servers, replicas", with, "events/s", "without replicas", without,
                       RatioAtLeast(kLeastShare)));
}

}  // namespace leat::bench
