// How many workers a job should have: from how far it is behind, its throughput, and what the last workers
// added.
//
// A worker is added while the job falls behind. Its gain is the throughput with it minus the throughput
// before, both while there is lag, since only then do all workers have work. It is known after at least 10 s,
// a small one after 30 s; until then no further worker is added, and without a gain from earlier only one is
// tried at a time. Workers that have added less than a fifth of the others' share are given up again. Their
// size is tried again after 10 minutes, or when the throughput without them, which is what the bottleneck
// lets through, has changed by 20 %. Workers that are not needed are given up once there has been no lag for
// a while; that takes the longer the more often it was regretted.
//
// Pure: time and load are arguments. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace leat::protocol {

// The load of a job over the last minutes: how many events came and how many were trained. Pure state, part
// of the autoscaler.
class LoadWindow {
 public:
  static constexpr Duration kLength = std::chrono::minutes(10);
  // Rates over less time are noise.
  static constexpr Duration kShortest = std::chrono::seconds(3);

  struct Rates {  // events per second
    double arrival = 0;
    double throughput = 0;
  };

  // The counts at `now`, which ascends. A count that has fallen (a server was restored) begins a new window,
  // and the result is false.
  bool Add(Time now, uint64_t arrived, uint64_t trained);
  void Clear() { samples_.clear(); }

  // Over the time from `from` on, as far as it is known; none if that is shorter than kShortest.
  std::optional<Rates> Since(Time from) const;
  // Over the last seconds: kShortest, or longer until training has moved often enough for a rate.
  std::optional<Rates> Recent() const;
  // The highest recent rate of arrival at any time from `from` on; 0 if it is not known.
  double PeakArrival(Time from) const;

 private:
  struct Sample {
    Time at{0};
    uint64_t arrived = 0;
    uint64_t trained = 0;
    uint64_t moves = 0;  // samples so far in which `trained` had grown
    double arrival = 0;  // Recent(), at that time
  };
  std::optional<Rates> Between(const Sample& first, const Sample& last) const;

  std::deque<Sample> samples_;
};

// Measurements of how a job's throughput depends on the number of its workers. Pure state, part of the
// autoscaler.
class WorkerGains {
 public:
  // The job trained so many events per second while it was behind, so all its workers had work. `settled`:
  // for long enough after the last change.
  void Record(Time now, uint32_t workers, double throughput, bool settled) {
    sizes_[workers] = {throughput, now, settled};
  }
  // Sizes above this one are to be measured again.
  void ForgetAbove(uint32_t workers) { sizes_.erase(sizes_.upper_bound(workers), sizes_.end()); }
  void Clear() { sizes_.clear(); }

  // Events per second that one more worker would add to `workers` if it adds as much as the last ones; none
  // if that was not measured, or if they have added nothing.
  std::optional<double> Gain(uint32_t workers) const;
  // The size was measured at `since` or later.
  bool Knows(uint32_t workers, Time since) const;
  // The events per second that so many workers train at least, when `present` workers have just trained
  // `throughput`. A worker adds at most as much as the one before it, so throughput between two sizes is not
  // below the line between them.
  double AtLeast(uint32_t workers, uint32_t present, double throughput) const;

 private:
  struct Measured {
    double throughput = 0;
    Time at{0};
    bool settled = false;
  };
  std::map<uint32_t, Measured> sizes_;  // by number of workers
};

struct AutoscalerConfig {
  uint32_t least = 1, most = 1;            // workers
  Duration lag = std::chrono::seconds(5);  // the job is behind if its oldest event has waited for longer
  Duration cool_down = std::chrono::seconds(10);  // between two changes
};

// A job at one moment.
struct Load {
  bool ready = false;     // false: it waits for servers, is paused, or ends
  bool training = false;  // it is ready, and has workers
  uint64_t arrived = 0;   // events, since any point
  uint64_t trained = 0;   // events that every slice has
  uint64_t lag = 0;       // events that have arrived and that some slice lacks
  Duration oldest{0};     // how long the first of them has waited
  uint32_t workers = 0;   // members
  uint32_t servers = 0;
};

struct ScaleDecision {
  uint32_t workers = 0;  // wanted; 0: not known yet
  std::string reason;    // a single line
};

class Autoscaler {
 public:
  explicit Autoscaler(const AutoscalerConfig& config) : config_(config) {}

  // Another range. The number that is wanted moves into it at once.
  void SetRange(uint32_t least, uint32_t most);
  // To be called a few times a second. Nothing is decided in the first seconds of training: after a restart
  // of the coordinator, workers need them to come back.
  const ScaleDecision& OnLoad(Time now, const Load& load);
  const ScaleDecision& decision() const { return decision_; }

 private:
  // The workers beyond this number have not helped.
  struct Limit {
    uint32_t workers = 0;
    double throughput = 0;  // throughput that was measured when the limit was set
    Time at{0};
  };
  struct Before {  // the last change of the number of workers
    uint32_t workers = 0;
    double throughput = 0;
  };
  struct Measured {
    double throughput = 0;
    Duration time{0};
  };

  void Rest(const Load& load);
  void Note(Time now, const Load& load);
  std::optional<LoadWindow::Rates> WhileBehind(Time now) const;
  void OnMembership(Time now, uint32_t workers);
  void OnServers(Time now, uint32_t servers);
  void Measure(Time now);
  bool Behind(Time now, const Load& load);
  bool Adopt(Time now);
  bool GiveUpUseless(Time now);
  void Grow(Time now, const Load& load);
  uint32_t Added(const Load& load, const LoadWindow::Rates& rates) const;
  bool LimitIsOver(Time now) const;
  void Shrink(Time now, const Load& load);
  std::optional<uint32_t> Enough(const Load& load, double arrival, double throughput) const;
  void Decide(Time now, uint32_t workers, const std::string& why);
  void Stay(const std::string& why);
  Time last_change() const { return std::max(changed_at_, decided_at_.value_or(changed_at_)); }

  AutoscalerConfig config_;
  ScaleDecision decision_;
  LoadWindow window_;
  WorkerGains gains_;

  bool resting_ = true;
  std::optional<Time> begun_;  // start of training
  uint32_t workers_ = 0, servers_ = 0;
  Time changed_at_{0};                // the number of workers or servers
  std::optional<Before> before_;      // until the gain is certain
  std::optional<Before> decided_on_;  // the same for a change that was decided and has not come
  std::optional<Measured> measured_;  // measurement with this number of workers, while there is lag
  std::optional<Limit> limit_;
  std::optional<Time> lag_since_;      // there is lag, of half the limit or more
  std::optional<Time> over_since_;     // the limit of the lag is exceeded
  std::optional<Time> falling_since_;  // more events come than are trained, and the limit is near
  std::optional<Time> quiet_since_;    // neither of the last two holds
  std::optional<Time> decided_at_;
  std::optional<Time> shrunk_at_, regretted_at_;
  Duration patience_{0};  // before workers are given up; 0: the shortest
};

// Whether a job needs any worker at all: not while its stream is silent and everything is trained. Pure
// state; time and load are arguments. Not thread-safe.
class Activity {
 public:
  // A pause of the stream that is no silence.
  static constexpr Duration kPause = std::chrono::seconds(5);

  // To be called a few times a second. `open`: there is work that the lag does not show. While the job does
  // not train for another reason than that it has no workers, the answer stays as it is.
  bool OnLoad(Time now, const Load& load, bool open);
  bool active() const { return active_; }

 private:
  bool active_ = true;
  uint64_t arrived_ = 0;
  std::optional<Time> silent_since_;
};

}  // namespace leat::protocol
