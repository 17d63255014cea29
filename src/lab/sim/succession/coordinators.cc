#include "lab/sim/succession/coordinators.h"

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <variant>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

// As in the shells in roles/.
constexpr Duration kTick = std::chrono::milliseconds(20);
constexpr Duration kPoll = std::chrono::milliseconds(50);
// A request that was given up may still arrive.
constexpr Duration kLateRequest = std::chrono::seconds(5);

}  // namespace

std::string CoordinatorProcesses::DescribeProgress() const {
  const CoordinatorStatus now_at = status();
  return "phase " + std::to_string(static_cast<int>(now_at.phase)) + ", lag " + std::to_string(now_at.lag) +
         ", leases " + std::to_string(now_at.leases);
}

// ---- start and end

CoordinatorConfig CoordinatorProcesses::Config() const {
  CoordinatorConfig config = options_;
  for (uint32_t p = 0; p < options_.stream.partitions.size(); ++p) config.partitions.push_back(p);
  config.late_labels = world_.LateLabels();
  return config;
}

void CoordinatorProcesses::Stop(uint32_t address) {
  if (at_[address]) at_[address]->alive = false;
}

CoordinatorPtr CoordinatorProcesses::Replace(uint32_t address, uint64_t term) {
  Stop(address);
  const auto c = at_[address] = std::make_shared<CoordinatorProcess>();
  c->address = address;
  c->term = term;
  if (!newest_ || newest_->term < term) newest_ = c;
  return c;
}

void CoordinatorProcesses::Start(uint32_t address, bool take_over) {
  const CoordinatorPtr c = Replace(address, all_.disk.Claim());
  CoordinatorConfig config = Config();
  config.term = c->term;
  config.take_over = config.keep_scale = take_over;
  try {
    RecoveredState restored = all_.disk.Restore();
    if (take_over) all_.lease_check.OnTakenOver(restored);
    c->machine = std::make_unique<Coordinator>(std::move(config), std::move(restored));
  } catch (const std::invalid_argument& e) {
    c->alive = false;
    return Violate(Invariant::kSuccessionRestored, e.what());
  }
  StartTimers(c);
}

void CoordinatorProcesses::StartTimers(const CoordinatorPtr& c) {
  if (world_.LateLabels()) {
    c->labels.emplace(Mix(Mix(options_.seed, 1), c->term), options_.stream.late_labels);
    c->labels->Start(c->machine->label_marks());
  }
  OnTick(c);
  // With a directory of its own, it may have found out that it is replaced.
  if (!c->own || c->active()) PollStream(c);
}

void CoordinatorProcesses::Kill() {
  const uint32_t next_address = rng_.Chance(0.5) ? 0 : 1;
  Kill(Between(10, 500), next_address);
}

void CoordinatorProcesses::Kill(Duration absent, uint32_t next_address) {
  const auto dead = newest_;
  dead->alive = false;
  ++result_.restarts;
  world_.TellFault("kill, started again after " + std::to_string(Seconds(absent)) + " s");
  queue_.After(absent, [this, dead, next_address] {
    if (newest_ == dead) Start(next_address, true);
  });
}

void CoordinatorProcesses::OnReplaced(const CoordinatorPtr& c) {
  Execute(c, c->machine->OnReplaced(Status(Code::kStale, "another coordinator has taken over")));
}

void CoordinatorProcesses::CheckTerm(uint64_t before, uint64_t now) {
  if (now >= before) return;
  Violate(Invariant::kSuccessionOneCoordinator, "a member of the coordinator of term " +
                                                    std::to_string(before) + " follows the one of term " +
                                                    std::to_string(now));
}

// ---- inputs

void CoordinatorProcesses::OnTick(const CoordinatorPtr& c) {
  if (c->own) {
    all_.hosts.OnTick(c);
    if (!c->active()) return;
  }
  if (c->machine->next_timer() <= now()) Execute(c, c->machine->OnTimer(now()));
  ScheduleIn(c, kTick, [this, c] { OnTick(c); });
}

void CoordinatorProcesses::PollStream(const CoordinatorPtr& c) {
  Execute(c, c->machine->OnStream(now(), Ranges(c.get())));
  ScheduleIn(c, kPoll, [this, c] { PollStream(c); });
}

void CoordinatorProcesses::ScheduleAlarm() {
  queue_.After(options_.alarm_interval, [this] {
    const auto c = newest_;
    if (c->active() && now() >= c->paused_until) Execute(c, c->machine->OnDrift(now()));
    ScheduleAlarm();
  });
}

void CoordinatorProcesses::OnRequest(const CoordinatorPtr& c, uint64_t call, ControlRequest request) {
  if (c->ended) return;
  if (const auto* journal = std::get_if<FollowRequest>(&request))
    return all_.hosts.OnJournalRequest(c, call, *journal);
  if (world_.hooks.on_request) world_.hooks.on_request(now(), request);
  if (c->own) all_.hosts.OnElector(c, call, &request);
  if (!c->active()) return;
  Execute(c, c->machine->OnRequest(now(), call, request));
  if (options_.check && c->alive && c == newest_) all_.lease_check.CheckWatermark();
}

std::vector<StreamRange> CoordinatorProcesses::Ranges(CoordinatorProcess* c) {
  const StreamPlan& stream = options_.stream;
  const double grown =
      stream.takes > Duration(0) ? std::min(1.0, Seconds(now()) / Seconds(stream.takes)) : 1.0;
  std::vector<StreamRange> ranges;
  for (uint32_t p = 0; p < stream.partitions.size(); ++p) {
    const auto& [first, events] = stream.partitions[p];
    const auto there = static_cast<uint64_t>(grown * static_cast<double>(events));
    ranges.push_back({p, first, first + there, grown >= 1.0});
  }
  if (!world_.LateLabels()) return ranges;
  const std::vector<LabelMarksWanted> wanted = c->machine->label_marks();
  for (StreamRange& range : ranges) c->labels->Mark(now(), wanted[range.partition], &range);
  return ranges;
}

// ---- actions

void CoordinatorProcesses::Execute(const CoordinatorPtr& c, CoordinatorActions actions) {
  if (c->own) return all_.hosts.Execute(c, std::move(actions));
  for (CoordinatorAction& action : actions) {
    if (!c->active()) return;
    // Nothing waits for the answer of the disk: replies to other requests go out meanwhile.
    if (&action == &actions.back() && std::holds_alternative<ConfirmTerm>(action)) {
      ScheduleIn(c, DiskTakes(), [this, c] {
        if (!all_.disk.Confirm(c->term)) OnReplaced(c);
      });
      return;
    }
    Execute(c, action);
    if (c->active() && Chance(options_.faults.crash_between_actions)) {
      c->alive = false;
      if (c == newest_) Kill();
    }
  }
}

void CoordinatorProcesses::Execute(const CoordinatorPtr& c, CoordinatorAction& action) {
  const auto execute = [&]<class A>(A& a) {
    if constexpr (std::is_same_v<A, protocol::Reply>) {
      if (options_.check) all_.lease_check.CheckReply(c->term, a.reply);
      if (c->own) all_.hosts.AddCoordinators(c.get(), a.call, &a.reply);
      c->Answer(a.call, std::move(a.reply));
    } else if constexpr (std::is_same_v<A, AppendJournal>) {
      if (!c->own && !all_.disk.Append(c->term, a.record)) return OnReplaced(c);
      if (const auto* set = std::get_if<ScaleSet>(&a.record))
        c->own ? all_.lease_check.OnAgreedScale(*set) : all_.lease_check.OnScale(*set);
      if (!c->own) OnRecord(a.record);
    } else if constexpr (std::is_same_v<A, ConfirmTerm>) {
      if (!all_.disk.Confirm(c->term)) OnReplaced(c);
    } else if constexpr (std::is_same_v<A, JobEnded>) {
      ExecuteEnd(c, a);
    } else {
      all_.checkpoints.Execute(c, a);
    }
  };
  std::visit(execute, action);
}

void CoordinatorProcesses::OnRecord(const JournalRecord& record) {
  if (const auto* set = std::get_if<LanesSet>(&record)) {
    ++result_.lane_changes;
    world_.workload.OnLanes(*set);
  }
  if (std::holds_alternative<RateRaised>(record)) ++result_.raises;
  if (const auto* marked = std::get_if<LabelsMarked>(&record)) {
    result_.marks += marked->marks.size();
    if (options_.check) all_.lease_check.OnLabels(*marked);
  }
}

void CoordinatorProcesses::ExecuteEnd(const CoordinatorPtr& c, const JobEnded& ended) {
  c->ended = true;
  if (ended.status.code() == Code::kStale || c != newest_) {
    c->alive = false;
    ++result_.replaced;
    if (c->own) return all_.hosts.StartAt(c->address);
    if (c == newest_)
      Violate(Invariant::kSuccessionOneCoordinator, "the newest coordinator was told that it is replaced");
    return;
  }
  if (!c->own) all_.disk.Append(c->term, ended.left);
  const CoordinatorStatus status = c->machine->status();
  result_.regranted_leases += status.regranted_leases;
  result_.overdue_leases += status.overdue_leases;
  result_.replicated = status.replicated;
  const Faults& faults = options_.faults;
  const bool fault_free =
      now() > faults.until + std::max(faults.longest_pause, faults.longest_cut) + std::chrono::seconds(15);
  // A stop may give up its final checkpoint, but only for lack of time, and only under faults.
  if (!ended.status.ok() &&
      (!options_.resume || ended.status.code() != Code::kFailedPrecondition || fault_free)) {
    result_.failure = ended.status;
    return Violate(Invariant::kJobEnds, "the job ended with " + ended.status.ToString());
  }
  if (Complete()) {
    world_.done = true;
    return;
  }
  if (!options_.resume || !options_.resume(&options_.servers, &options_.cuts)) {
    return Violate(Invariant::kJobEnds, "the job has ended before the stream: " + ended.status.ToString());
  }
  // All processes are gone, and the job is resumed from the disk.
  ++result_.resumes;
  for (const CoordinatorPtr& other : at_) {
    if (other) other->alive = false;
  }
  for (const ProcessPtr& p : std::vector(processes_.processes())) {
    if (p) all_.members.OnExit(p);
  }
  queue_.After(Between(10, 300), [this] {
    Start(0, false);
    all_.members.StartAll();
    all_.subscribers.StartAll();
  });
}

bool CoordinatorProcesses::Complete() const {
  const StreamPlan& stream = options_.stream;
  const Manifest* newest = all_.disk.newest();
  if (!newest || now() < stream.takes) return false;
  for (uint32_t p = 0; p < stream.partitions.size(); ++p) {
    const auto& [first, events] = stream.partitions[p];
    if (events > 0 && newest->watermark[p] != Position{options_.cuts.epochs - 1, first + events})
      return false;
  }
  return true;
}

// ---- calls

void ControlCalls::Call(const std::shared_ptr<Process>& from, ControlRequest request,
                        std::function<void(std::optional<ControlReply>)> answer) {
  ++result_.messages;
  const Duration least = options_.worker_link.latency;
  auto answered = std::make_shared<bool>(false);
  const uint32_t address = from->contact;
  const auto once = [this, from, address, answered, answer = std::move(answer)](
                        Duration delay, std::optional<ControlReply> reply) {
    ScheduleIn(from, delay, [this, from, address, answered, answer, reply = std::move(reply)] {
      if (std::exchange(*answered, true)) return;
      const auto* refusal = reply ? std::get_if<Refusal>(&*reply) : nullptr;
      const bool standby = refusal != nullptr && refusal->status.code() == Code::kUnavailable;
      const uint32_t next =
          world_.OwnDirectories() ? (address + 1) % (1 + options_.coordinator_standbys) : 1 - address;
      if ((!reply || standby) && from->contact == address &&
          (world_.OwnDirectories() || all_.coordinators.At(next)))
        from->contact = next;
      answer(standby ? std::nullopt : reply);
    });
  };
  once(5 * options_.heartbeat_interval, std::nullopt);
  const auto cut = [this, from, address] {
    return now() < std::max(from->cut_off_until, from->cut_from_until[address]);
  };
  if (Chance(options_.faults.lost) || cut()) return;
  queue_.After(Latency(least), [this, least, address, cut, request = std::move(request), once] {
    const auto c = all_.coordinators.At(address);
    if (const auto s = all_.hosts.StandbyAt(address); s && s->alive) {
      return ScheduleIn(s, Duration(0), [this, s, least, cut, request, once] {
        ControlReply reply = all_.hosts.Answer(s, request);
        if (!Chance(options_.faults.lost) && !cut()) once(Latency(least), std::move(reply));
      });
    }
    if (!c || !c->alive) return once(Latency(least), std::nullopt);
    ScheduleIn(c, Duration(0), [this, least, c, cut, request = ControlRequest(request), once]() mutable {
      const uint64_t call = ++last_call_;
      c->calls[call] = [this, least, cut, once](ControlReply reply) {
        ++result_.messages;
        const bool lost = Chance(options_.faults.lost) || cut();
        if (!lost) once(Latency(least), std::move(reply));
      };
      all_.coordinators.OnRequest(c, call, std::move(request));
    });
  });
}

// ---- commands

void ControlCalls::Repeat(AdminRequest::Kind kind, std::function<void()> then) {
  Call(Admin(), AdminRequest{.kind = kind},
       [this, kind, then = std::move(then)](const std::optional<ControlReply>& reply) {
         if (reply) return then();  // also if the job is ending
         queue_.After(std::chrono::milliseconds(100), [this, kind, then] { Repeat(kind, then); });
       });
}

void ControlCalls::PauseJob(Duration lasts) {
  ++result_.job_pauses;
  Repeat(AdminRequest::Kind::kPause, [this, lasts] {
    for (const Duration after : {lasts, lasts + kLateRequest})
      queue_.After(after, [this] { Repeat(AdminRequest::Kind::kContinue, [] {}); });
  });
}

std::shared_ptr<Process> ControlCalls::Admin() const {
  auto admin = std::make_shared<Process>();
  admin->contact = all_.coordinators.newest()->address;
  return admin;
}

}  // namespace leat::sim
