#include "protocol/testing/virtual_cluster.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "protocol/testing/counting.h"

namespace leat::protocol::testing {

namespace {

constexpr Duration kInterval = std::chrono::milliseconds(100);
constexpr Duration kTimeout = std::chrono::milliseconds(1000);
constexpr Duration kCallDeadline = std::chrono::milliseconds(500);
constexpr Duration kTick = std::chrono::milliseconds(20);
constexpr Duration kPoll = std::chrono::milliseconds(50);
// A job that takes longer than this has stopped.
constexpr Time kMostTime = std::chrono::seconds(120);

optim::OptimizerConfig CountingOptimizer() {
  optim::OptimizerConfig config;
  config.kind = optim::Kind::kSgd;
  config.learning_rate = 1;
  return config;
}

}  // namespace

VirtualCluster::VirtualCluster(const VirtualJobOptions& options)
    : options_(options),
      rng_(options.seed),
      table_(CountingTable(options.slices)),
      servers_(options.servers) {
  rules_.hash = 1;
  rules_.batch_size = 4 + static_cast<uint32_t>(rng_.Below(20));
  rules_.split_batches = 1 + static_cast<uint32_t>(rng_.Below(6));
  rules_.shuffle_seed = rng_.Below(3);
  epochs_ = 1 + static_cast<uint32_t>(rng_.Below(2));
  keep_checkpoints_ = 1 + static_cast<uint32_t>(rng_.Below(2));
  checkpoint_interval_ = Between(200, 2000);
  for (uint32_t p = 0; p < options.partitions; ++p) {
    first_.push_back(rng_.Below(3) * 1000);
    events_.push_back(options.events / 2 + rng_.Below(options.events + 1));
  }
}

VirtualJobResult VirtualCluster::Run() {
  StartCoordinator();
  for (uint32_t i = 0; i < servers_; ++i) Start(Role::kServer);
  for (uint32_t i = 0; i < options_.workers; ++i) Start(Role::kWorker);
  Replace();
  if (options_.faults.disaster_every > Duration(0)) Disaster();
  while (!done_ && time_.now() < kMostTime && time_.Step()) {
  }
  result_.took = time_.now();
  if (result_.mistake.empty()) result_.mistake = Check();
  return result_;
}

void VirtualCluster::In(const std::shared_ptr<Process>& process, Duration delay, std::function<void()> what) {
  time_.After(delay, [this, process, what = std::move(what)]() mutable {
    if (!process->alive) return;
    if (time_.now() < process->paused_until) {
      return In(process, process->paused_until - time_.now(), std::move(what));
    }
    what();
  });
}

// ---- the coordinator and the stream

CoordinatorConfig VirtualCluster::Config() {
  CoordinatorConfig config;
  config.table = table_;
  config.placement = static_cast<Placement>(rng_.Below(3));
  config.servers = servers_;
  config.cuts = rules_;
  config.cuts.epochs = epochs_;
  for (uint32_t p = 0; p < options_.partitions; ++p) config.partitions.push_back(p);
  config.heartbeat_interval = kInterval;
  config.heartbeat_timeout = kTimeout;
  config.checkpoint_interval = checkpoint_interval_;
  config.checkpoint_timeout = std::chrono::seconds(4);
  config.server_wait = std::chrono::milliseconds(800);
  config.tail_wait = std::chrono::milliseconds(60);
  config.keep_checkpoints = keep_checkpoints_;
  return config;
}

void VirtualCluster::StartCoordinator() {
  coordinator_ = std::make_shared<CoordinatorProcess>();
  try {
    coordinator_->machine = std::make_unique<Coordinator>(Config(), disk_.Restore());
  } catch (const std::invalid_argument& e) {
    result_.mistake = e.what();
    coordinator_->alive = false;
    done_ = true;
    return;
  }
  Tick(coordinator_);
  Poll(coordinator_);
}

void VirtualCluster::Tick(const std::shared_ptr<CoordinatorProcess>& c) {
  if (c->machine->next_timer() <= time_.now()) Do(c, c->machine->OnTimer(time_.now()));
  In(c, kTick, [this, c] { Tick(c); });
}

void VirtualCluster::Poll(const std::shared_ptr<CoordinatorProcess>& c) {
  Do(c, c->machine->OnStream(time_.now(), Ranges()));
  In(c, kPoll, [this, c] { Poll(c); });
}

std::vector<StreamRange> VirtualCluster::Ranges() const {
  const double grown = std::min(1.0, Seconds(time_.now()) / Seconds(options_.stream_takes));
  std::vector<StreamRange> ranges;
  for (uint32_t p = 0; p < options_.partitions; ++p) {
    const auto there = static_cast<uint64_t>(grown * static_cast<double>(events_[p]));
    ranges.push_back({p, first_[p], first_[p] + there, grown >= 1.0});
  }
  return ranges;
}

void VirtualCluster::Do(const std::shared_ptr<CoordinatorProcess>& c, CoordinatorActions actions) {
  for (CoordinatorAction& action : actions) {
    if (!c->alive || c->ended) return;
    Act(c, action);
    if (c->alive && !c->ended && Chance(options_.faults.crash_between_actions)) {
      c->alive = false;
      ++result_.restarts;
      time_.After(Between(10, 500), [this] { StartCoordinator(); });
    }
  }
}

void VirtualCluster::Act(const std::shared_ptr<CoordinatorProcess>& c, CoordinatorAction& action) {
  if (auto* reply = std::get_if<Reply>(&action)) {
    if (auto call = c->calls.extract(reply->call)) call.mapped()(std::move(reply->reply));
  } else if (auto* journal = std::get_if<Journal>(&action)) {
    disk_.Append(journal->record);
  } else if (auto* prepare = std::get_if<PrepareCheckpoint>(&action)) {
    const uint64_t id = prepare->id;
    In(c, DiskTakes(), [this, c, id] {
      const bool full = Chance(0.05);
      Result<CheckpointOrder> order = Status(Code::kResourceExhausted, "the disk is full");
      if (!full) order = disk_.Prepare(id);
      Do(c, c->machine->OnCheckpointPrepared(time_.now(), id, std::move(order)));
    });
  } else if (auto* commit = std::get_if<CommitManifest>(&action)) {
    In(c, DiskTakes(), [this, c, manifest = commit->manifest] {
      Status status;
      if (Chance(0.05)) status = Status(Code::kResourceExhausted, "the disk is full");
      // One that failed may be complete on the disk all the same.
      if (status.ok() || rng_.Chance(0.5)) {
        disk_.Commit(manifest);
        ++result_.checkpoints;
      }
      // A crash in between leaves a checkpoint that nobody was told of.
      In(c, DiskTakes(), [this, c, id = manifest.id, status] {
        Do(c, c->machine->OnManifestCommitted(time_.now(), id, status));
      });
    });
  } else if (auto* drop = std::get_if<DropCheckpoints>(&action)) {
    disk_.Drop(drop->oldest_kept, drop->watermark);
  } else if (auto* ended = std::get_if<JobEnded>(&action)) {
    c->ended = true;
    result_.releases += c->machine->status().releases;
    JobEnds(ended->status);
  }
}

void VirtualCluster::JobEnds(const Status& status) {
  // A stop may give up its final checkpoint, but not for want of anything but time, and not in peace.
  const bool peace = time_.now() > options_.faults.until + std::chrono::seconds(15);
  if (!status.ok() && (status.code() != Code::kDeadlineExceeded || peace)) {
    result_.mistake = "the job ended with " + status.ToString();
  }
  if (!result_.mistake.empty() || Complete()) {
    done_ = true;
    return;
  }
  ++result_.resumes;
  ResumeJob();
}

// All processes are gone; the job goes on from what is on the disk, on another number of servers.
void VirtualCluster::ResumeJob() {
  coordinator_->alive = false;
  for (const ProcessPtr& p : roles_) p->alive = false;
  roles_.clear();
  servers_ = 1 + static_cast<uint32_t>(rng_.Below(options_.servers + 1));
  rules_.batch_size = 4 + static_cast<uint32_t>(rng_.Below(20));
  rules_.hash += 1;
  time_.After(Between(10, 300), [this] {
    StartCoordinator();
    for (uint32_t i = 0; i < servers_; ++i) Start(Role::kServer);
    for (uint32_t i = 0; i < options_.workers; ++i) Start(Role::kWorker);
  });
}

// ---- roles

void VirtualCluster::Start(Role role, std::string address) {
  auto p = std::make_shared<RoleProcess>();
  p->role = role;
  if (role == Role::kServer) p->address = address.empty() ? "ps-" + std::to_string(++last_address_) : address;
  roles_.push_back(p);
  JoinAgain(p);
  Tick(p);
}

void VirtualCluster::JoinAgain(const ProcessPtr& p) {
  ++p->life;
  p->joined = false;
  p->beating = false;
  p->connections.clear();
  if (p->role == Role::kServer) {
    p->server = std::make_unique<Server>(ServerConfig{table_, CountingOptimizer()});
  } else {
    WorkerConfig config;
    config.table = table_;
    config.reply_timeout = std::chrono::milliseconds(700);
    p->worker = std::make_unique<Worker>(config);
  }
  In(p, Between(0, 30), [this, p] { Join(p); });
}

void VirtualCluster::Join(const ProcessPtr& p) {
  JoinRequest request;
  request.role = p->role;
  request.address = p->address;
  Call(p, request, [this, p](std::optional<ControlReply> reply) {
    const auto* joined = reply ? std::get_if<JoinReply>(&*reply) : nullptr;
    if (!joined || !joined->status.ok()) return In(p, Between(20, 100), [this, p] { Join(p); });
    p->joined = true;
    p->node = joined->node;
    if (p->server) p->server->OnJoined(p->node);
    if (p->worker) p->worker->OnJoined(p->node);
    Beat(p);
  });
}

void VirtualCluster::Beat(const ProcessPtr& p) {
  p->beating = true;
  p->last_beat = time_.now();
  ControlRequest request;
  if (p->server) request = p->server->MakeHeartbeat();
  if (p->worker) request = p->worker->MakeHeartbeat();
  Call(p, request, [this, p, life = p->life](std::optional<ControlReply> reply) {
    if (life == p->life) OnBeatReply(p, reply);
  });
}

void VirtualCluster::OnBeatReply(const ProcessPtr& p, const std::optional<ControlReply>& reply) {
  p->beating = false;
  if (!reply) return;
  if (const auto* server = std::get_if<ServerHeartbeatReply>(&*reply)) {
    Do(p, p->server->OnHeartbeatReply(*server));
  } else if (const auto* worker = std::get_if<WorkerHeartbeatReply>(&*reply)) {
    Do(p, p->worker->OnHeartbeatReply(time_.now(), *worker));
  }
}

void VirtualCluster::Tick(const ProcessPtr& p) {
  if (p->joined) {
    if (p->worker && p->worker->next_timer() <= time_.now()) Do(p, p->worker->OnTimer(time_.now()));
    const bool urgent = p->worker ? p->worker->HeartbeatUrgent() : p->server->HeartbeatUrgent();
    if (p->joined && !p->beating && (urgent || time_.now() - p->last_beat >= kInterval)) Beat(p);
  }
  In(p, p->role == Role::kWorker ? Duration(std::chrono::milliseconds(4)) : kTick, [this, p] { Tick(p); });
}

void VirtualCluster::Do(const ProcessPtr& p, std::vector<ServerAction> actions) {
  for (const ServerAction& action : actions) {
    std::visit([&](const auto& a) { Act(p, a); }, action);
  }
}

void VirtualCluster::Do(const ProcessPtr& p, WorkerActions actions) {
  for (const WorkerAction& action : actions) {
    std::visit([&](const auto& a) { Act(p, a); }, action);
  }
}

void VirtualCluster::Act(const ProcessPtr& p, const StopRole& a) {
  if (a.evicted) return JoinAgain(p);
  p->alive = false;
  std::erase(roles_, p);
}

void VirtualCluster::Act(const ProcessPtr& p, const LoadSlices& a) {
  for (const SliceOrder& order : a.orders) {
    In(p, DiskTakes(), [this, p, life = p->life, order] {
      if (life != p->life) return;
      Result<Slice> slice = Status(Code::kUnavailable, "the disk does not answer");
      if (!Chance(0.01)) slice = disk_.Read(order.directory, order.file, order.slice);
      p->server->OnSliceLoaded(order, std::move(slice));
    });
  }
}

void VirtualCluster::Act(const ProcessPtr& p, const SaveShard& a) {
  In(p, 3 * DiskTakes(), [this, p, life = p->life, a] {
    if (life != p->life) return;
    ShardReport report;
    report.checkpoint = a.order.id;
    report.file = "shard-" + ToString(p->node);
    if (Chance(0.05)) {
      report.status = Status(Code::kResourceExhausted, "the disk is full");
    } else {
      disk_.Write(a.order.directory, report.file, a.slices);
    }
    p->server->OnShardSaved(std::move(report));
  });
}

void VirtualCluster::Act(const ProcessPtr& p, const PrepareSplit& a) {
  In(p, Between(0.1, 20), [this, p, life = p->life, id = a.lease.id] {
    if (life != p->life) return;
    const bool unreadable = Chance(options_.faults.split_unreadable);
    Do(p, unreadable ? p->worker->OnSplitFailed(time_.now(), id) : p->worker->OnSplitReady(time_.now(), id));
  });
}

void VirtualCluster::Act(const ProcessPtr&, const DropSplit&) {}

void VirtualCluster::Act(const ProcessPtr& p, const Compute& a) {
  const Lease* lease = p->worker->FindLease(a.lease);
  const BatchOutcome outcome = CountBatch(lease->cut, a.batch);
  In(p, Between(0.5, 8), [this, p, life = p->life, token = a.token, outcome] {
    if (life == p->life) Do(p, p->worker->OnComputed(time_.now(), token, outcome));
  });
}

void VirtualCluster::Act(const ProcessPtr& p, const Disconnect& a) {
  ++p->connections[a.server];
}

// ---- the network

void VirtualCluster::Act(const ProcessPtr& p, const SendPush& a) {
  ++result_.messages;
  const uint64_t connection = ++p->connections[a.server];
  const auto answer = [this, p, life = p->life, connection, server = a.server,
                       sequence = a.request.sequence](std::optional<PushReply> reply) {
    In(p, Latency(), [=, this] {
      if (life != p->life || p->connections[server] != connection) return;
      Do(p, reply ? p->worker->OnPushReply(time_.now(), server, *reply)
                  : p->worker->OnPushFailed(time_.now(), server, sequence,
                                            Status(Code::kUnavailable, "connection lost")));
    });
  };
  const auto deliver = [this, address = a.address, request = a.request](Answer to) {
    time_.After(Latency(), [=, this] { Deliver(address, request, to); });
  };
  const auto nobody = [](const std::optional<PushReply>&) {};
  if (Chance(options_.faults.doubled)) deliver(nobody);
  if (Chance(options_.faults.lost)) {
    if (rng_.Chance(0.3)) return;  // swallowed: only its own deadline tells the worker
    return answer(std::nullopt);
  }
  if (Chance(options_.faults.lost)) {  // applied, but the answer is lost
    deliver(nobody);
    if (rng_.Chance(0.3)) return;
    return answer(std::nullopt);
  }
  deliver(answer);
}

void VirtualCluster::Deliver(const std::string& address, const PushRequest& request, Answer answer) {
  const ProcessPtr p = At(address);
  if (!p) return answer(std::nullopt);
  if (time_.now() < p->paused_until) {
    time_.After(p->paused_until - time_.now(), [=, this] { Deliver(address, request, answer); });
    return;
  }
  const auto elements = p->server->Begin(request);
  if (!elements.ok()) {
    result_.mistake = "a server refused a push: " + elements.status().ToString();
    done_ = true;
    return;
  }
  std::vector<SliceReply> replies;
  for (size_t i = 0; i < request.slices.size(); ++i) {
    const std::vector<float> gradient((*elements)[i], -static_cast<float>(request.events));
    replies.push_back(p->server->Apply(request, i, gradient));
    if (replies.back().outcome == SliceOutcome::kDuplicate) ++result_.duplicates;
  }
  answer(*p->server->Finish(0, request, std::move(replies)));
}

VirtualCluster::ProcessPtr VirtualCluster::At(const std::string& address) const {
  for (const ProcessPtr& p : roles_) {
    if (p->alive && p->address == address) return p;
  }
  return nullptr;
}

void VirtualCluster::Call(const std::shared_ptr<Process>& from, const ControlRequest& request,
                          std::function<void(std::optional<ControlReply>)> answer) {
  ++result_.messages;
  auto answered = std::make_shared<bool>(false);
  const auto once = [this, from, answered, answer = std::move(answer)](Duration delay,
                                                                       std::optional<ControlReply> reply) {
    In(from, delay, [answered, answer, reply = std::move(reply)] {
      if (!std::exchange(*answered, true)) answer(reply);
    });
  };
  once(kCallDeadline, std::nullopt);
  if (Chance(options_.faults.lost)) return;
  time_.After(Latency(), [this, request, once] {
    const auto c = coordinator_;
    if (!c->alive) return once(Latency(), std::nullopt);
    In(c, Duration(0), [this, c, request, once] {
      const uint64_t call = ++last_call_;
      c->calls[call] = [this, once](ControlReply reply) {
        if (!Chance(options_.faults.lost)) once(Latency(), std::move(reply));
      };
      if (!c->ended) Do(c, c->machine->OnRequest(time_.now(), call, request));
    });
  });
}

// ---- disasters

void VirtualCluster::Disaster() {
  time_.After(FromSeconds(rng_.Exponential(Seconds(options_.faults.disaster_every))), [this] {
    if (!Faulty() || done_) return;
    Disaster();
    const auto c = coordinator_;
    if (rng_.Chance(options_.faults.server_deaths)) {
      if (auto p = Any(Role::kServer)) Kill(p, true);
      return;
    }
    const double what = rng_.Uniform();
    if (what < 0.35) {
      if (auto p = Any(Role::kWorker)) Kill(p, true);
    } else if (what < 0.50) {
      if (auto p = Any(Role::kWorker)) Pause(p.get());
    } else if (what < 0.60) {
      if (auto p = Any(Role::kServer)) Pause(p.get());
    } else if (what < 0.65) {
      Pause(c.get());
    } else if (what < 0.72) {
      if (c->alive && !c->ended) {
        c->alive = false;
        ++result_.restarts;
        time_.After(Between(10, 500), [this] { StartCoordinator(); });
      }
    } else if (what < 0.80) {  // a worker comes, another leaves
      Start(Role::kWorker);
      if (auto p = Any(Role::kWorker); p && p->joined) Do(p, p->worker->Leave(time_.now()));
    } else if (what < 0.85) {
      Start(Role::kServer);  // a spare one
      if (auto p = Any(Role::kServer); p && rng_.Chance(0.5)) Kill(p, false);
    } else {
      AdminRequest request;
      request.kind = what < 0.95 ? AdminRequest::Kind::kCheckpoint : AdminRequest::Kind::kStop;
      Call(std::make_shared<Process>(), request, [](const auto&) {});
    }
  });
}

void VirtualCluster::Kill(const ProcessPtr& p, bool replace) {
  ++result_.deaths;
  p->alive = false;
  std::erase(roles_, p);
  if (p->joined && rng_.Chance(0.5)) {
    AdminRequest request;
    request.kind = AdminRequest::Kind::kNodeLost;
    request.node = p->node;
    Call(std::make_shared<Process>(), request, [](const auto&) {});
  }
  if (!replace) return;
  const std::string address = rng_.Chance(0.5) ? p->address : "";
  time_.After(Between(10, 2000), [this, c = coordinator_, role = p->role, address] {
    // Not for a job that was resumed meanwhile, with processes of its own.
    if (!c->ended) Start(role, address);
  });
}

// Whoever runs the job sees to it that there are enough of each role.
void VirtualCluster::Replace() {
  time_.After(Between(1000, 2000), [this] {
    Replace();
    if (!coordinator_->alive || coordinator_->ended) return;
    for (const auto& [role, wanted] :
         {std::pair(Role::kServer, servers_), {Role::kWorker, options_.workers}}) {
      const auto there =
          std::count_if(roles_.begin(), roles_.end(), [r = role](const auto& p) { return p->role == r; });
      for (auto n = static_cast<uint32_t>(there); n < wanted; ++n) Start(role);
    }
  });
}

void VirtualCluster::Pause(Process* process) {
  ++result_.pauses;
  process->paused_until = std::max(process->paused_until, time_.now() + Between(10, 2500));
}

VirtualCluster::ProcessPtr VirtualCluster::Any(Role role) {
  std::vector<ProcessPtr> some;
  for (const ProcessPtr& p : roles_) {
    if (p->role == role) some.push_back(p);
  }
  return some.empty() ? nullptr : some[rng_.Below(some.size())];
}

// ---- the end

bool VirtualCluster::Complete() const {
  const Manifest* newest = disk_.newest();
  if (!newest || time_.now() < options_.stream_takes) return false;
  for (uint32_t p = 0; p < options_.partitions; ++p) {
    if (newest->watermark[p] != Position{epochs_ - 1, first_[p] + events_[p]}) return false;
  }
  return true;
}

std::string VirtualCluster::Check() const {
  if (!done_) {
    const CoordinatorStatus status = coordinator_->machine->status();
    return "the job has stopped: phase " + std::to_string(static_cast<int>(status.phase)) + ", lag " +
           std::to_string(status.lag) + ", leases " + std::to_string(status.leases);
  }
  std::vector<uint64_t> end;
  for (uint32_t p = 0; p < options_.partitions; ++p) end.push_back(first_[p] + events_[p]);
  if (auto wrong = CheckCover(disk_.cuts(), disk_.start(), end, epochs_); !wrong.empty()) return wrong;

  const Count count = CountAll(disk_.cuts());
  const Manifest& manifest = *disk_.newest();
  std::vector<int> copies(table_.slices.size(), 0);
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceLife& life : shard.slices) {
      const auto slice = disk_.Read(manifest.directory, shard.file, life.slice);
      if (!slice.ok()) return slice.status().ToString();
      ++copies[life.slice.value];
      const std::string name = "slice " + ToString(life.slice);
      for (float value : slice->values()) {
        if (value != static_cast<float>(count.events)) {
          return name + " counts " + std::to_string(value) + " events of " + std::to_string(count.events);
        }
      }
      if (slice->events != count.events || slice->version != count.batches) {
        return name + " has " + std::to_string(slice->events) + " events in " +
               std::to_string(slice->version) + " updates; there were " + std::to_string(count.events) +
               " in " + std::to_string(count.batches);
      }
      for (uint32_t p = 0; p < options_.partitions; ++p) {
        const PartitionLedger& ledger = slice->ledger.partitions()[p];
        if (ledger.done != manifest.watermark[p] || !ledger.open.empty())
          return name + " has open splits left";
      }
    }
  }
  for (int n : copies) {
    if (n != 1) return "a slice is saved " + std::to_string(n) + " times";
  }
  return "";
}

VirtualJobResult RunVirtualJob(const VirtualJobOptions& options) {
  return VirtualCluster(options).Run();
}

VirtualJobOptions Swarm(uint64_t seed) {
  VirtualJobOptions options;
  options.seed = seed;
  Rng rng(Mix(seed, 1));
  const auto some = [&rng](std::initializer_list<double> values) {
    return values.begin()[rng.Below(values.size())];
  };
  Faults& faults = options.faults;
  faults.lost = some({0, 0.01, 0.05});
  faults.doubled = some({0, 0.02, 0.2});
  faults.slow = some({0, 0.02, 0.1});
  faults.split_unreadable = some({0, 0.02, 0.1});
  faults.crash_between_actions = some({0, 0.0005, 0.005});
  faults.server_deaths = some({0, 0.2, 0.6});
  faults.slow_disk = FromSeconds(some({0.01, 0.1, 0.5}));
  faults.disaster_every = FromSeconds(some({0.1, 0.3, 1}));
  return options;
}

Faults NoFaults() {
  Faults none;
  none.until = Time(0);
  return none;
}

}  // namespace leat::protocol::testing
