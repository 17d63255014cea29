#include "step_watch.h"

#include <algorithm>
#include <chrono>

#include "frame/session.h"

namespace leat::bench {

using namespace std::chrono_literals;

// Much shorter than the measured pauses. Workers report every 100 ms or less.
constexpr auto kWatchPoll = 10ms;
// A coordinator that is being replaced is tried again soon.
constexpr auto kDeadline = 250ms;

void Growth::Add(double at, double value) {
  if (changes_.empty() || value > changes_.back().value) changes_.push_back({at, value});
}

double Growth::LongestPause(double from, double until) const {
  double longest = 0, last = from;
  for (const Change& change : changes_) {
    if (change.at <= from || change.at > until) continue;
    longest = std::max(longest, change.at - last);
    last = change.at;
  }
  return std::max(longest, until - last);
}

double Growth::Rate(double from, double until) const {
  const Change first = After(from), last = Before(until);
  return first.at > 0 && last.at > first.at ? (last.value - first.value) / (last.at - first.at) : 0;
}

std::vector<double> Growth::Lengths(double from, double until) const {
  std::vector<double> lengths;
  for (size_t i = 1; i < changes_.size(); ++i) {
    const Change &last = changes_[i - 1], &change = changes_[i];
    if (last.at >= from && change.at <= until)
      lengths.push_back((change.at - last.at) / (change.value - last.value));
  }
  return lengths;
}

Growth::Change Growth::Before(double at) const {
  const auto behind = std::ranges::upper_bound(changes_, at, {}, &Change::at);
  return behind == changes_.begin() ? Change() : *std::prev(behind);
}

Growth::Change Growth::After(double at) const {
  const auto behind = std::ranges::upper_bound(changes_, at, {}, &Change::at);
  return behind == changes_.end() ? Change() : *behind;
}

StepWatch::StepWatch(const std::string& addresses)
    : client_(control::ControlClient::Make(addresses, kToken)), thread_([this] { Run(); }) {}

StepWatch::~StepWatch() {
  stop_ = true;
  thread_.join();
}

double StepWatch::Now() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void StepWatch::Sleep(double seconds) {
  for (const double end = Now() + seconds; Now() < end;) {
    CheckInterrupted();
    std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(end - Now(), 0.0, 0.05)));
  }
}

void StepWatch::Run() {
  while (!stop_) {
    if (const auto status = StatusOf(*client_, kDeadline)) {
      const double now = Now();
      const std::scoped_lock lock(mutex_);
      all_.Add(now, StepsIn(*status));
      for (const auto& [pid, worker] : WorkersIn(*status)) workers_[pid].Add(now, worker.value("steps", 0.0));
    }
    std::this_thread::sleep_for(kWatchPoll);
  }
}

std::map<pid_t, Growth> StepWatch::workers() const {
  const std::scoped_lock lock(mutex_);
  return workers_;
}

Growth StepWatch::all() const {
  const std::scoped_lock lock(mutex_);
  return all_;
}

double StepWatch::LongestPause(const std::vector<pid_t>& pids, double from, double until) const {
  const auto known = workers();
  double longest = 0;
  for (const pid_t pid : pids) {
    const auto worker = known.find(pid);
    longest =
        std::max(longest, worker == known.end() ? until - from : worker->second.LongestPause(from, until));
  }
  return longest;
}

}  // namespace leat::bench
