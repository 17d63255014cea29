// A day in virtual time: a load that rises and falls, with bursts. The oracles are the least number of
// workers that can train what comes at each moment, and a job that has the most workers all day.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "base/testing.h"
#include "protocol/scaling/autoscaler.h"
#include "protocol/scaling/testing.h"

namespace leat::protocol {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr Duration kDay = hours(24);
constexpr uint32_t kLeast = 1, kMost = 8;

struct Burst {
  Time begin{0}, end{0};
  double factor = 1;
};

// From 500 events/s at night to 5500 at noon.
class DayLoad {
 public:
  explicit DayLoad(uint64_t seed) {
    Rng rng(seed);
    for (Time at = FromSeconds(rng.Exponential(1200)); at < kDay;) {
      const Burst burst{at, at + FromSeconds(20 + 160 * rng.Uniform()), 1.3 + 0.5 * rng.Uniform()};
      bursts_.push_back(burst);
      at = burst.end + FromSeconds(rng.Exponential(1200));
    }
  }
  double operator()(Time now) {
    while (next_ < bursts_.size() && now >= bursts_[next_].end) ++next_;
    const double day = Seconds(now) / Seconds(kDay);
    const double base = 3000 - 2500 * std::cos(2 * std::numbers::pi * day);
    return base * (next_ < bursts_.size() && now >= bursts_[next_].begin ? bursts_[next_].factor : 1);
  }
  size_t bursts() const { return bursts_.size(); }

 private:
  std::vector<Burst> bursts_;
  size_t next_ = 0;  // time ascends
};

struct Case {
  std::string name;
  std::function<double(uint32_t)> throughput;
  uint32_t useful = kMost;  // more workers do not help
};

// Worker hours of a job that always has as many workers as it needs, and all useful ones while it is behind.
double WorkerHoursOfTheOracle(const Case& c, uint64_t seed, Duration step) {
  DayLoad load(seed);
  double seconds_worked = 0, behind = 0;
  for (Time now{0}; now < kDay; now += step) {
    const double rate = load(now);
    uint32_t workers = kLeast;
    while (workers < c.useful && (behind > 0 || c.throughput(workers) < rate)) ++workers;
    behind = std::max(behind + (rate - c.throughput(workers)) * Seconds(step), 0.0);
    seconds_worked += workers * Seconds(step);
  }
  return seconds_worked / 3600;
}

JobModel RunDay(const Case& c, uint64_t seed, bool fixed) {
  JobModel job({.throughput = c.throughput,
                .autoscaler = {.least = kLeast, .most = kMost},
                .workers = fixed ? kMost : kLeast,
                .fixed = fixed,
                .seed = seed,
                .step = std::chrono::milliseconds(500)});
  DayLoad load(seed);
  job.Run(kDay, std::ref(load));
  return job;
}

// The share of the time in which the job was further behind than `other` by more than `lag`.
double ShareBehind(const JobModel& job, const JobModel& other, Duration lag) {
  size_t behind = 0;
  for (size_t i = 0; i < job.lags().size(); ++i) behind += job.lags()[i] > other.lags()[i] + lag ? 1 : 0;
  return static_cast<double>(behind) / static_cast<double>(job.lags().size());
}

bool GivesUp(const JobModel::Change& change) {
  return change.reason.find("are tried again in 10 minutes") != std::string::npos;
}

// The changes of a day, without those that tried whether more workers help, and found that they do not.
std::vector<JobModel::Change> WithoutTrials(const JobModel& job) {
  std::vector<JobModel::Change> changes;
  for (const JobModel::Change& change : job.changes()) {
    const bool trial = GivesUp(change) && !changes.empty() && changes.back().from == change.to;
    trial ? changes.pop_back() : changes.push_back(change);
  }
  return changes;
}

size_t ReversalsWithin(const std::vector<JobModel::Change>& changes, Duration time) {
  size_t count = 0;
  for (size_t i = 1; i < changes.size(); ++i) {
    const bool reversed = (changes[i - 1].to > changes[i - 1].from) != (changes[i].to > changes[i].from);
    count += reversed && changes[i].at - changes[i - 1].at < time ? 1 : 0;
  }
  return count;
}

class AutoscalerDay : public ::testing::TestWithParam<Case> {};

TEST_P(AutoscalerDay, FollowsTheLoad) {
  const Case& c = GetParam();
  for (uint64_t seed = 1; seed <= (LongTier() ? 20 : 1); ++seed) {
    SCOPED_TRACE(seed);
    const JobModel job = RunDay(c, seed, false), most = RunDay(c, seed, true);
    const double spent = job.worker_seconds() / 3600;
    const double needed = WorkerHoursOfTheOracle(c, seed, std::chrono::milliseconds(500));
    const size_t bursts = DayLoad(seed).bursts();
    const auto changes = WithoutTrials(job);
    EXPECT_LE(spent, 1.25 * needed);
    EXPECT_LE(ShareBehind(job, most, seconds(10)), 0.005);
    EXPECT_EQ(ShareBehind(job, most, seconds(30)), 0);
    // A burst that is over before the job is behind needs none, most need two.
    EXPECT_LE(changes.size(), 2 * bursts + 20);
    EXPECT_LE(ReversalsWithin(changes, seconds(30)), bursts / 3);
    std::map<uint32_t, Time> last;  // by the number that stays
    for (const JobModel::Change& change : job.changes()) {
      if (!GivesUp(change)) continue;
      const auto [before, first] = last.try_emplace(change.to, change.at);
      if (first) continue;
      EXPECT_GE(change.at - before->second, std::chrono::minutes(10)) << change.reason;
      before->second = change.at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AutoscalerDay,
                         ::testing::Values(Case{"linear", Linear(1000)},
                                           Case{"servers", Saturating(1000, 4500), 5},
                                           Case{"cores", OnCores(1000, 4), 4}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace leat::protocol
