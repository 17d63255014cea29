// The cost of a viewer of a job's page (docs/dashboard.md). The coordinator serves the page: its processor
// time is measured in turn with a viewer and without, in one job.
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "frame/measure.h"
#include "frame/program.h"
#include "frame/report.h"
#include "frame/scraper.h"
#include "frame/session.h"
#include "show/http/listener.h"

namespace {

using namespace leat;
using bench::Fail;

constexpr const char* kToken = "bench dashboard";

// Steps take 20 ms, so that the job leaves the processors to the page.
void WriteJob(const std::string& job, const std::string& rows) {
  std::ofstream data(rows);
  for (int row = 0; row < 1000; ++row) data << row % 7 << "," << row % 5 << "," << row % 2 << "\n";
  if (!data.flush()) Fail("cannot write " + rows);
  std::ofstream(job)
      << "name: dashboard\nstream: {epochs: 1000000, files: {format: csv, paths: [\"" << rows
      << "\"], partitions: 4, header: false}}\n"
         "schema: {format: csv, delimiter: \",\", fields: {a: {type: number}, b: {type: number}, "
         "y: {type: number, role: label}}}\n"
         "model: {layers: [{dense: {units: 2}}], loss: softmax_cross_entropy}\n"
         "optimizer: {type: sgd, learning_rate: 0.01}\nstrategy: async\n"
         "train: {batch_size: 100}\ncheckpoint: {interval_s: 1000000}\n"
         "debug: {step_ms: 20}\ncluster: {workers: 2, ps: 1}\n";
}

double ProcessorSeconds(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
    Fail("the coordinator is gone");
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// The share of a core that the process used, in percent.
double Share(pid_t pid, double seconds) {
  const MonotonicClock clock;
  const Time begin = clock.Now();
  const double before = ProcessorSeconds(pid);
  std::this_thread::sleep_for(FromSeconds(seconds));
  return 100 * (ProcessorSeconds(pid) - before) / Seconds(clock.Now() - begin);
}

int Run(int argc, char** argv) {
  bench::Args args(argc, argv);
  const double seconds = args.Number("--seconds", 5);
  const int pairs = static_cast<int>(args.Number("--pairs", 7));
  args.RefuseTheRest();
  if (seconds < 1 || pairs < 1) Fail("too few seconds or pairs");
  setenv("LEAT_TOKEN", kToken, 1);

  bench::Report report("dashboard", args);
  const bench::Scratch scratch("dashboard");
  WriteJob(scratch / "job.yaml", scratch / "rows.csv");
  const std::string page = "127.0.0.1:" + std::to_string(bench::FreePort());
  bench::Running job({"train", scratch / "job.yaml", "--directory", scratch / "job", "--dashboard", page},
                     scratch / "out");
  pid_t coordinator = 0;
  bench::WaitFor("the coordinator did not start", job, [&] {
    for (const auto& [role, pid] : job.Roles()) {
      if (role == "coordinator") coordinator = pid;
    }
    return coordinator != 0;
  });
  const auto follow = [&] {
    auto viewer = std::make_unique<bench::Viewer>(page, observe::ViewToken(kToken));
    bench::WaitFor("the page cannot be followed", job, [&] { return viewer->bytes() > 0; });
    return viewer;
  };
  follow();  // the job runs
  Share(coordinator, seconds);

  std::vector<double> with, without, cost;
  for (int pair = 0; pair < pairs; ++pair) {
    bench::CheckInterrupted();
    bench::PrintProgress("pair %d of %d", pair + 1, pairs);
    const auto followed = [&] {
      const auto viewer = follow();
      with.push_back(Share(coordinator, seconds));
    };
    if (pair % 2 == 0) followed();
    without.push_back(Share(coordinator, seconds));
    if (pair % 2 == 1) followed();
    cost.push_back(with.back() - without.back());
  }
  bench::PrintProgress("");
  report.Add(bench::MedianRow("coordinator, with a viewer", with, "% of a core", "without", without));
  report.Add(bench::MedianRow("a viewer", cost, "% of a core", {}, {}, bench::ValueAtMost(1)));
  report.Note("pairs of " + std::to_string(seconds).substr(0, 3) + " s in turn, in one job");
  return report.Finish();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::Main("dashboard", Run, argc, argv);
}
