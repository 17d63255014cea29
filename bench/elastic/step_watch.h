// The progress of a job over time, as `leat status` shows it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster.h"

namespace leat::bench {

// When a number that only grows was seen to grow. Times are seconds on one clock.
class Growth {
 public:
  void Add(double at, double value);

  // The longest time without growth from `from` to `until`, including what is left at both edges.
  double LongestPause(double from, double until) const;
  // Growth per second between the first and the last change in this time; 0 if there are less than two.
  double Rate(double from, double until) const;
  // Seconds per unit of each change in this time.
  std::vector<double> Lengths(double from, double until) const;
  // The last change before this time; the first one after it. Value 0 at time 0 if there is none.
  struct Change {
    double at = 0, value = 0;
  };
  Change Before(double at) const;
  Change After(double at) const;

 private:
  std::vector<Change> changes_;
};

// Polls the status on a thread of its own. A coordinator that does not answer is a gap.
class StepWatch {
 public:
  explicit StepWatch(const std::string& addresses);
  ~StepWatch();
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

  // Adds another coordinator that may answer.
  void AddAddress(const std::string& address) { client_->AddAddresses({address}); }

  static double Now();  // seconds
  // Sleeps, unless the benchmark is interrupted.
  static void Sleep(double seconds);
  // Batches of each worker that has trained any, by process id; and of all workers together.
  std::map<pid_t, Growth> workers() const;
  Growth all() const;
  // The longest pause of any of these workers.
  double LongestPause(const std::vector<pid_t>& pids, double from, double until) const;

 private:
  void Run();

  std::unique_ptr<control::ControlClient> client_;
  mutable std::mutex mutex_;
  std::map<pid_t, Growth> workers_;
  Growth all_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace leat::bench
