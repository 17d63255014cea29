// Workers training rounds together under a virtual clock: replies are late, lost or cut off, workers die and
// others take over, in random order. Servers and the coordinator are small models of their contracts; values
// are versions only.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>

#include "base/rng.h"
#include "protocol/worker/testing.h"

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;

constexpr size_t kSwarmSlices = 4;
constexpr uint64_t kTorn = ~uint64_t{0};

class Swarm {
 public:
  Swarm(uint64_t seed, const StrategyConfig& strategy) : rng_(seed), strategy_(strategy) {
    runs_ = 1 + static_cast<uint32_t>(rng_.Below(4));
    rounds_ = 3;
    workers_ = 1 + static_cast<uint32_t>(rng_.Below(4));
    lossy_ = rng_.Chance(0.7);
    deadly_ = rng_.Chance(0.7);
    for (uint32_t r = 0; r < rounds_; ++r) {
      for (uint32_t lane = 0; lane < strategy_.total_lanes(); ++lane) parts_.push_back({r, lane});
    }
    for (uint32_t w = 0; w < workers_; ++w) Join();
    if (deadly_) After(Between(20, 100), [this] { Death(); });
  }

  // Empty if everything is as it must be.
  std::string Run() {
    while (mistake_.empty() && !Done()) {
      if (queue_.empty() || now_ > Time(std::chrono::minutes(2))) return "it has stopped: " + Describe();
      auto what = queue_.top().what;
      now_ = queue_.top().at;
      queue_.pop();
      what();
    }
    return mistake_.empty() ? Check() : mistake_;
  }

 private:
  struct Happening {
    Time at;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Happening& o) const { return at != o.at ? at > o.at : order > o.order; }
  };
  struct Process {
    NodeId node;
    std::unique_ptr<Worker> worker;
    bool alive = true;
    std::vector<uint64_t> memory = std::vector<uint64_t>(kSwarmSlices, kTorn);  // versions of values
    std::map<NodeId, uint64_t> connection;
    std::map<NodeId, PushRequest> asked;
  };
  using ProcessPtr = std::shared_ptr<Process>;
  struct SliceModel {
    uint64_t version = 0;
    std::map<uint64_t, std::set<uint32_t>> in;         // by open step: lanes
    std::set<std::pair<uint64_t, uint32_t>> recorded;  // step, lane
  };
  struct Parked {
    NodeId server;
    PushRequest request;
    PushReply reply;
    std::function<void(PushReply)> answer;
  };
  struct Part {
    uint32_t round, lane;
    uint64_t lease = 0;  // 0: free
    NodeId worker;
    Time free_since{0};
  };

  void After(Duration delay, std::function<void()> what) {
    queue_.push({now_ + delay, ++last_, std::move(what)});
  }
  Duration Between(double least_ms, double most_ms) {
    return FromSeconds((least_ms + (most_ms - least_ms) * rng_.Uniform()) * 1e-3);
  }
  uint64_t First(const Part& part) const { return uint64_t{part.round} * runs_; }
  uint64_t Lowest() const {
    uint64_t lowest = slices_[0].version;
    for (const SliceModel& slice : slices_) lowest = std::min(lowest, slice.version);
    return lowest;
  }
  bool Done() const { return Lowest() >= uint64_t{rounds_} * runs_; }
  bool Backup() const { return strategy_.backup > 0; }

  // ---- servers
  static NodeId ServerOf(size_t slice) { return slice < 2 ? kA : kB; }

  void Complete(size_t i) {
    SliceModel& slice = slices_[i];
    for (;;) {
      const auto& in = slice.in[slice.version];
      std::set<uint32_t> counts;
      if (!Backup()) {
        if (in.size() < strategy_.total_lanes()) break;
        counts = in;
      } else {
        if (i == 0 && in.size() >= strategy_.lanes && !counted_.contains(slice.version)) {
          counted_[slice.version] = in;
          told_[kA].insert(slice.version);
        }
        if (!told_[ServerOf(i)].contains(slice.version)) break;
        counts = counted_[slice.version];
        if (!std::includes(in.begin(), in.end(), counts.begin(), counts.end())) break;
      }
      for (uint32_t lane : counts) slice.recorded.insert({slice.version, lane});
      slice.in.erase(slice.version++);
    }
  }

  void Deliver(NodeId server, const PushRequest& request, std::function<void(PushReply)> answer) {
    PushReply reply{request.sequence, Generation(1), false, {}, {}};
    if (!request.counted.empty() && request.step_lane) told_[server].insert(request.step_lane->step);
    for (const SliceRef& ref : request.slices) {
      SliceModel& slice = slices_[ref.slice.value];
      SliceReply said{ref.slice, SliceOutcome::kPulled, false, ref.incarnation, 0};
      if (request.disposition != Disposition::kPull) {
        const auto [step, lane] = std::pair(request.step_lane->step, request.step_lane->lane);
        if (slice.recorded.contains({step, lane})) {
          said.outcome = SliceOutcome::kDuplicate;
        } else if (step < slice.version) {
          said.outcome = SliceOutcome::kLate;
          if (!Backup()) mistake_ = "a run is late where all lanes are waited for";
        } else if (step > slice.version + strategy_.ahead()) {
          said.outcome = SliceOutcome::kConflict;
          mistake_ = "a run is too far ahead";
        } else {
          said.outcome = SliceOutcome::kHeld;
          slice.in[step].insert(lane);
        }
      }
      reply.slices.push_back(said);
    }
    parked_.push_back({server, request, std::move(reply), std::move(answer)});
    for (int twice = 0; twice < 2; ++twice) {  // the deciding server's answer holds for its other slices
      for (size_t i = 0; i < kSwarmSlices; ++i) Complete(i);
    }
    Unpark();
  }

  void Unpark() {
    for (size_t p = 0; p < parked_.size();) {
      Parked& parked = parked_[p];
      const PushRequest& request = parked.request;
      const bool there = std::all_of(request.slices.begin(), request.slices.end(), [&](const SliceRef& ref) {
        return slices_[ref.slice.value].version >= request.version_wanted;
      });
      if (request.want_values && !there) {
        ++p;
        continue;
      }
      for (SliceReply& said : parked.reply.slices) {
        const uint64_t version = slices_[said.slice.value].version;
        const bool before = request.exact && request.want_values && request.version_wanted + 1 == version;
        said.version = before ? request.version_wanted : version;
        said.values = request.want_values;
      }
      if (Backup() && parked.server == kA && request.step_lane &&
          counted_.contains(request.step_lane->step)) {
        parked.reply.counted = {0};
        for (uint32_t lane : counted_[request.step_lane->step])
          parked.reply.counted[0] |= uint64_t{1} << lane;
      }
      parked.answer(std::move(parked.reply));
      parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(p));
    }
  }

  // ---- workers
  void Join() {
    auto p = std::make_shared<Process>();
    p->node = NodeId(100 + ++last_node_);
    WorkerConfig config;
    config.table = {1, {{"v", Shape{4}, {}}}, {{0, 0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 3, 4}}};
    config.strategy = strategy_;
    config.times.reply_timeout = milliseconds(400);
    p->worker = std::make_unique<Worker>(config);
    p->worker->OnJoined(p->node);
    processes_.push_back(p);
    SendHeartbeat(p);
    Tick(p);
  }
  void In(const ProcessPtr& p, Duration delay, std::function<void()> what) {
    After(delay, [p, what = std::move(what)] {
      if (p->alive) what();
    });
  }
  void Tick(const ProcessPtr& p) {
    if (p->worker->next_timer() <= now_) Do(p, p->worker->OnTimer(now_));
    In(p, milliseconds(5), [this, p] { Tick(p); });
  }
  void Death() {
    After(Between(20, 200), [this] { Death(); });
    if (now_ > Time(std::chrono::seconds(10))) return;
    const auto victim = processes_[rng_.Below(processes_.size())];
    if (rng_.Chance(0.3)) {
      Do(victim, victim->worker->Leave(now_));
      return;
    }
    Gone(victim);
  }
  void Gone(const ProcessPtr& p) {
    p->alive = false;
    std::erase(processes_, p);
    for (Part& part : parts_) {
      if (part.worker == p->node) Free(&part);
    }
    Join();
  }

  void Do(const ProcessPtr& p, const WorkerActions& actions) {
    for (const WorkerAction& action : actions) std::visit([&](const auto& a) { Act(p, a); }, action);
  }
  void Act(const ProcessPtr& p, const PrepareSplit& a) {
    In(p, Between(0.1, 30), [this, p, id = a.lease.id] {
      Do(p, rng_.Chance(0.95) ? p->worker->OnSplitReady(now_, id) : p->worker->OnSplitFailed(now_, id));
    });
  }
  void Act(const ProcessPtr&, const DropSplit&) {}
  void Act(const ProcessPtr&, const StopRole&) {}
  void Act(const ProcessPtr& p, const Compute& a) {
    const Lease* lease = p->worker->FindLease(a.lease);
    if (!lease) {
      mistake_ = "a computation for a lease that is not held";
      return;
    }
    const uint32_t run = a.batch / lease->cut.run;
    uint64_t step = lease->first_step;
    for (uint32_t i = 0; i < run; ++i) step += lease->assigned.Has(i);
    if (a.first) {
      for (uint64_t version : p->memory) {
        const bool fits = version != kTorn &&
                          (strategy_.ahead() == 0 ? version == step : version + strategy_.ahead() >= step);
        if (!fits) mistake_ = "step " + std::to_string(step) + " from version " + std::to_string(version);
      }
    }
    if (strategy_.local_steps() && !a.last) p->memory.assign(kSwarmSlices, step);  // its own, until the end
    In(p, Between(0.2, rng_.Chance(0.05) ? 120 : 6), [this, p, a] {
      Do(p, p->worker->OnComputed(now_, a.token, {Disposition::kGradient, 10}));
    });
  }
  void Act(const ProcessPtr& p, const Disconnect& a) {
    ++p->connection[a.server];
    // Values in transit when the connection was lost are undefined.
    for (const SliceRef& ref : p->asked[a.server].slices) {
      if (p->asked[a.server].want_values && rng_.Chance(0.5)) p->memory[ref.slice.value] = kTorn;
    }
  }
  void Act(const ProcessPtr& p, const SendPush& a) {
    const uint64_t connection = ++p->connection[a.server];
    p->asked[a.server] = *a.request;
    const bool lost = lossy_ && rng_.Chance(0.02), answer_lost = lossy_ && rng_.Chance(0.02);
    const auto fail = [this, p, a, connection] {
      In(p, Between(1, 20), [=, this] {
        if (p->connection[a.server] != connection) return;
        Do(p,
           p->worker->OnPushFailed(now_, a.server, a.request->sequence, Status(Code::kUnavailable, "gone")));
      });
    };
    if (lost) return rng_.Chance(0.5) ? fail() : void();
    const auto answer = [this, p, a, connection, answer_lost, fail](PushReply reply) {
      if (answer_lost) return rng_.Chance(0.5) ? fail() : void();
      In(p, Between(0.1, 3), [=, this] {
        if (p->connection[a.server] != connection) return;
        for (const SliceReply& said : reply.slices) {
          if (said.values) p->memory[said.slice.value] = said.version;
        }
        Do(p, p->worker->OnPushReply(now_, a.server, reply));
      });
    };
    After(Between(0.1, 3), [this, a, answer] { Deliver(a.server, *a.request, answer); });
  }

  // ---- the coordinator
  void Free(Part* part) {
    part->lease = 0;
    part->worker = {};
    part->free_since = now_;
  }
  bool Over(const Part& part) const { return Lowest() >= First(part) + runs_; }
  RunSet Missing(const Part& part) const {
    RunSet missing(runs_);
    for (uint32_t k = 0; k < runs_; ++k) {
      for (const SliceModel& slice : slices_) {
        if (!slice.recorded.contains({First(part) + k, part.lane}) && Lowest() <= First(part) + k)
          missing.Add(k);
      }
    }
    return missing;
  }
  void SendHeartbeat(const ProcessPtr& p) {
    In(p, Between(5, 25), [this, p] {
      const WorkerHeartbeat heartbeat = p->worker->MakeHeartbeat({});
      if (heartbeat.leaving) return Gone(p);
      for (Part& part : parts_) {
        const bool released =
            std::count(heartbeat.released.begin(), heartbeat.released.end(), part.lease) > 0;
        if (part.lease != 0 && part.worker == p->node && released) Free(&part);
      }
      WorkerHeartbeatReply reply;
      View& view = reply.view.emplace();
      view.generation = Generation(1);
      view.members = {{kA, Role::kServer, 0, "a"}, {kB, Role::kServer, 1, "b"}};
      for (size_t i = 0; i < kSwarmSlices; ++i)
        view.slices.push_back({ServerOf(i), Incarnation(i + 1), true});
      Grant(p, &reply.leases);
      for (uint64_t id : heartbeat.held) {
        const auto mine = [&](const Part& part) { return part.lease == id && !Over(part); };
        if (std::none_of(parts_.begin(), parts_.end(), mine)) reply.revoked.push_back(id);
      }
      In(p, Between(0.1, 5), [this, p, reply] {
        Do(p, p->worker->OnHeartbeatReply(now_, reply));
        SendHeartbeat(p);
      });
    });
  }
  void Grant(const ProcessPtr& p, std::vector<Lease>* leases) {
    const uint32_t open = static_cast<uint32_t>(Lowest() / runs_);
    const uint32_t share = (strategy_.total_lanes() + workers_ - 1) / workers_;
    for (Part& part : parts_) {
      if (part.lease != 0 || part.round < open || part.round > open + 1) continue;
      const auto has = std::count_if(parts_.begin(), parts_.end(), [&](const Part& other) {
        return other.round == part.round && other.worker == p->node;
      });
      if (has >= share && now_ - part.free_since < milliseconds(100)) continue;
      const RunSet missing = Missing(part);
      if (missing.empty()) continue;
      part.lease = ++last_lease_;
      part.worker = p->node;
      Lease lease;
      lease.id = part.lease;
      lease.cut.run = strategy_.run();
      lease.cut.batch_size = 10;
      lease.cut.begin = lease.cut.after = {0, (uint64_t{part.round} * 100 + part.lane) * 10000};
      lease.cut.end = lease.cut.begin.offset + uint64_t{runs_} * lease.cut.run * 10;
      lease.missing = missing;
      lease.assigned = RunSet(runs_, true);
      lease.first_step = First(part);
      lease.lane = part.lane;
      lease.width = strategy_.total_lanes();
      lease.needed = strategy_.lanes;
      leases->push_back(std::move(lease));
    }
  }

  // ---- the end
  std::string Check() const {
    for (const SliceModel& slice : slices_) {
      if (slice.recorded != slices_[0].recorded) return "slices have recorded different runs";
      if (slice.recorded.size() != uint64_t{rounds_} * runs_ * strategy_.lanes)
        return "recorded " + std::to_string(slice.recorded.size()) + " runs";
    }
    return "";
  }
  std::string Describe() const {
    std::string text = "versions";
    for (const SliceModel& slice : slices_) text += " " + std::to_string(slice.version);
    for (const Part& part : parts_) {
      if (!Over(part)) {
        text += ", round " + std::to_string(part.round) + " lane " + std::to_string(part.lane) + " at " +
                ToString(part.worker);
      }
    }
    return text;
  }

  Rng rng_;
  const StrategyConfig strategy_;
  uint32_t runs_ = 1, rounds_ = 1, workers_ = 1;
  bool lossy_ = false, deadly_ = false;
  Time now_{std::chrono::seconds(1)};
  uint64_t last_ = 0, last_node_ = 0, last_lease_ = 0;
  std::priority_queue<Happening> queue_;
  std::vector<ProcessPtr> processes_;
  std::vector<Part> parts_;
  std::vector<SliceModel> slices_ = std::vector<SliceModel>(kSwarmSlices);
  std::map<uint64_t, std::set<uint32_t>> counted_;  // by step
  std::map<NodeId, std::set<uint64_t>> told_;       // by server: steps whose lanes it knows
  std::vector<Parked> parked_;
  std::string mistake_;
};

void TrySwarm(const std::function<StrategyConfig(Rng&)>& make) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(Mix(seed, 7));
    const StrategyConfig strategy = make(rng);
    ASSERT_EQ(Swarm(seed, strategy).Run(), "") << "seed " << seed << ", lanes " << strategy.total_lanes();
  }
}

StrategyConfig Stepped(StrategyKind kind, Rng& rng) {
  StrategyConfig strategy;
  strategy.kind = kind;
  strategy.lanes = 1 + static_cast<uint32_t>(rng.Below(5));
  return strategy;
}

TEST(WorkerSwarm, Sync) {
  TrySwarm([](Rng& rng) { return Stepped(StrategyKind::kSync, rng); });
}

TEST(WorkerSwarm, Ssp) {
  TrySwarm([](Rng& rng) {
    StrategyConfig strategy = Stepped(StrategyKind::kSsp, rng);
    strategy.staleness = static_cast<int32_t>(rng.Below(4));
    return strategy;
  });
}

TEST(WorkerSwarm, Averaging) {
  TrySwarm([](Rng& rng) {
    StrategyConfig strategy = Stepped(StrategyKind::kAveraging, rng);
    strategy.period = 1 + static_cast<uint32_t>(rng.Below(3));
    return strategy;
  });
}

TEST(WorkerSwarm, BackupWorkers) {
  TrySwarm([](Rng& rng) {
    StrategyConfig strategy = Stepped(StrategyKind::kSync, rng);
    strategy.backup = 1 + static_cast<uint32_t>(rng.Below(2));
    return strategy;
  });
}

}  // namespace
}  // namespace leat::protocol
