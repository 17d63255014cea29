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

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "protocol/scaling/load_window.h"
#include "protocol/scaling/worker_gains.h"

namespace leat::protocol {

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
  Time last_change() const;

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

}  // namespace leat::protocol
