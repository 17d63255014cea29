// Members that are busy, not dead: other threads take most of the processors.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cluster.h"
#include "frame/report.h"
#include "frame/session.h"
#include "rows.h"
#include "step_watch.h"

namespace leat::bench {
namespace {

constexpr double kWatchedSeconds = 600;
constexpr unsigned kOversubscription = 4;

// Threads that compute without a pause, in the scheduling group of the job.
class BusyThreads {
 public:
  explicit BusyThreads(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        uint64_t x = 1;
        while (!stop_.load(std::memory_order_relaxed)) {
          for (int n = 0; n < 1000; ++n) x = x * 6364136223846793005 + 1442695040888963407;
          sum_.fetch_add(x, std::memory_order_relaxed);
        }
      });
    }
  }
  ~BusyThreads() {
    stop_ = true;
    for (auto& thread : threads_) thread.join();
  }
  BusyThreads(const BusyThreads&) = delete;
  BusyThreads& operator=(const BusyThreads&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> sum_{0};
  std::vector<std::thread> threads_;
};

}  // namespace

void MeasureFalseEvictions(Report& report, const ElasticOptions& options) {
  constexpr int kWorkers = 3, kServers = 2;
  const double seconds = (options.seconds > 0 ? options.seconds : kWatchedSeconds) / 2;
  double evictions = 0;
  for (const char* strategy : {"async", "allreduce"}) {
    const Scratch scratch("elastic");
    Cluster cluster(scratch, "busy",
                    {.strategy = strategy, .workers = kWorkers, .servers = kServers, .step_ms = 10});
    if (strategy == std::string("async")) {
      for (int i = 0; i < kServers; ++i) cluster.Start("ps");
    }
    for (int i = 0; i < kWorkers; ++i) cluster.Start("worker");
    cluster.WaitFor("not all workers train", [](const Json& status) {
      const auto workers = WorkersIn(status);
      return workers.size() == kWorkers &&
             std::ranges::all_of(workers, [](const auto& w) { return w.second.value("steps", 0) > 0; });
    });
    {
      const BusyThreads load(kOversubscription * std::thread::hardware_concurrency());
      StepWatch::Sleep(seconds);
      evictions += cluster.Status().at("evictions").get<double>();
    }
    if (cluster.Miscounted(cluster.Stop()) != 0) Fail("the job has miscounted");
  }
  report.Add({.name = "members evicted at 4 × CPU oversubscription",
              .value = evictions,
              .unit = "",
              .bound = ValueAtMost(0)});
}

}  // namespace leat::bench
