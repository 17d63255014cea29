// All-reduce workers: executes their machines' actions.
#include <algorithm>
#include <utility>

#include "compute/optim/mean.h"
#include "compute/optim/moments.h"
#include "lab/sim/cluster/cluster_state.h"
#include "protocol/allreduce/reduction.h"

namespace leat::sim {

namespace {

// Pause between attempts to read a split; no other member has that lane.
constexpr Duration kReadAgain = std::chrono::milliseconds(50);
// Approximate size of a state without its numbers, per partition.
constexpr uint64_t kHeaderBytes = 64;

}  // namespace

void Cluster::State::StartGroupMember(const ProcessPtr& p) {
  p->group_member = std::make_unique<GroupMemberParts>();
  if (p->memory) {
    p->group_member->parameters = std::make_unique<Parameters>(options.table);
    p->group_member->sums.resize(elements);
  }
  p->group_member->machine =
      std::make_unique<GroupMember>(GroupMemberConfig{.table = options.table,
                                                      .optimizer = options.optimizer,
                                                      .strategy = options.strategy,
                                                      .parameters = p->group_member->parameters.get(),
                                                      .late_labels = LateLabels()});
}

// Clears the group state of a process that has ended or restarts.
void Cluster::State::ForgetGroups(const ProcessPtr& p) {
  if (!p->group_member) return;
  LeavePeers(p);
  for (const uint32_t m : std::exchange(p->group_member->callers, {})) {
    NotifyLost(pieces[m].from, pieces[m].connection, p->host->latency, "a member is lost");
    FreePiece(m);
  }
}

// Runs later, not inside another action, and only within this incarnation.
void Cluster::State::Later(const ProcessPtr& p, Duration delay,
                           std::function<GroupMemberActions(GroupMember&)> input) {
  ScheduleIn(p, delay, [this, p, incarnation = p->incarnation, input = std::move(input)] {
    if (incarnation == p->incarnation) Do(p, input(*p->group_member->machine));
  });
}

void Cluster::State::ReadAgain(const ProcessPtr& p, uint64_t lease) {
  Later(p, kReadAgain, [lease](GroupMember& machine) { return machine.OnSplitFailed(lease); });
}

void Cluster::State::Act(const ProcessPtr& p, const LeaveGroup&) {
  LeavePeers(p);
}

void Cluster::State::Act(const ProcessPtr& p, const JoinGroup& a) {
  Membership& in = p->group_member->in;
  in = Membership();
  in.group = a.group;
  in.rank = a.rank;
  in.members = a.members;
  in.connections.emplace(a.group, static_cast<uint32_t>(a.members.size()), a.rank, 1);
  for (const uint32_t peer : in.connections->Peers()) in.peers.emplace_back().rank = peer;
  ++blackboards[a.group].there;
  if (a.rank == 0) ++result.groups;
  Connect(p);
}

void Cluster::State::Act(const ProcessPtr& p, const BroadcastState& a) {
  Membership& in = p->group_member->in;
  in.sharing = a;
  if (in.broken) return FailUnderWay(p);
  const TrainingState& state = p->group_member->machine->state();
  if (in.rank == a.holder) {
    auto shared = std::make_shared<GroupMember::Snapshot>();
    shared->header = state.header();
    for (const auto& part : state.Memory()) {
      shared->memory.insert(shared->memory.end(), part.begin(), part.end());
    }
    blackboards[a.group].state = std::move(shared);
  }
  const uint64_t header = kHeaderBytes * (1 + options.stream.partitions.size());
  StartBucket(p, BucketRun::Kind::kState, 0, 0, header + state.floats() * sizeof(float));
}

void Cluster::State::Shared(const ProcessPtr& p) {
  Membership& in = p->group_member->in;
  in.deadline = Time::max();
  const auto state = blackboards[in.group].state;
  const bool holds = in.rank == in.sharing->holder;
  in.sharing.reset();
  if (!holds) ++result.state_broadcasts;
  Later(p, Duration(0), [group = in.group, state](GroupMember& machine) {
    if (!state)
      return machine.OnStateReceived(group, Status(Code::kDataLoss, "the holder sent no valid state"));
    return machine.OnStateReceived(group, *state);
  });
}

void Cluster::State::Act(const ProcessPtr& p, const ComputeLane& a) {
  GroupMemberParts& r = *p->group_member;
  const Lease& lease = r.leases.at(a.lease);
  if (a.first) {
    r.any = false;
    r.lanes_used = 0;
    r.moments.clear();
    if (p->memory) {
      for (uint32_t i = 0; i < slice_ranges.size(); ++i) {
        p->memory->TakeValues(SliceId(i), a.step, r.parameters->values(SliceId(i)));
      }
    }
  }
  const BatchOutcome outcome = Train(p, lease, a.batch, true);
  if (p->memory && outcome.disposition == Disposition::kGradient) AddLane(p.get(), a.lane, outcome.events);
  r.computing = a.token;
  const Duration takes = DrawCompute(p.get());
  const double slowdown = CoresOf(*p) == nullptr ? 1 : CoresOf(*p)->Share(options.compute_threads);
  // Ready gradients may be sent while the rest is computed. With clipping nothing is ready before everything
  // is, and in lane order only once all of this member's lanes are.
  if (a.last && !options.strategy.deterministic && !options.optimizer.clipping.any()) {
    if (p->memory && !r.any) std::ranges::fill(r.sums, optim::kNothing);
    r.any = true;
    for (size_t k = 0; k + 1 < buckets.size(); ++k) {
      const double share = static_cast<double>(elements - buckets[k].begin) / static_cast<double>(elements);
      const double until = options.first_gradient + (1 - options.first_gradient) * share;
      const Duration ready = FromSeconds(Seconds(takes) * until / slowdown);
      ScheduleIn(p, ready, [this, p, incarnation = p->incarnation, token = a.token, group = r.in.group, k] {
        // A result for a former group is discarded.
        if (incarnation != p->incarnation || token != p->group_member->computing ||
            group != p->group_member->in.group)
          return;
        StartBuckets(p, k + 1);
      });
    }
  }
  ComputedAfter(p, takes, a.token, outcome);
}

void Cluster::State::AddLane(RoleProcess* p, uint32_t lane, uint64_t events) {
  GroupMemberParts& r = *p->group_member;
  std::vector<float>* sums = &r.sums;
  bool add = std::exchange(r.any, true);
  if (options.strategy.deterministic) {
    add = r.lanes_used > 0 && r.lane == lane;
    r.lane = lane;
    if (!add && ++r.lanes_used > r.lanes.size()) r.lanes.emplace_back(elements);
    sums = &r.lanes[r.lanes_used - 1];
  }
  const auto gradient = p->memory->Pushed();
  for (uint32_t i = 0; i < slice_ranges.size(); ++i) {
    const SliceSpec& slice = options.table.slices[i];
    const optim::VariableRole role = options.table.variables[slice.variable].role;
    const auto sum = std::span(*sums).subspan(slice_ranges[i].begin, slice.elements());
    const auto pushed = std::span(*gradient).subspan(slice_ranges[i].begin, slice.elements());
    if (role == optim::VariableRole::kMoments) {
      auto& of_lane = r.moments[lane];
      of_lane.resize(pushed.size());
      optim::MergeMoments(of_lane, pushed);
      std::ranges::fill(sum, optim::kNothing);
      continue;
    }
    const auto rule = optim::MeanRuleFor(options.strategy.sum, options.strategy.full_run, role);
    (add ? optim::AddWeighted : optim::SetWeighted)(sum, pushed, rule.weight(events));
  }
}

// True if every member adds all contributions itself.
bool Cluster::State::OneShot(const RoleProcess& p) const {
  return options.reduce.one_shot && !options.strategy.deterministic &&
         p.group_member->in.members.size() <= kMaxOneShotMembers;
}

// Sends the step's gradients, last variables first; in one shot they are one bucket.
void Cluster::State::StartBuckets(const ProcessPtr& p, size_t until) {
  Membership& in = p->group_member->in;
  if (OneShot(*p)) {
    if (until < buckets.size() || in.step_buckets == until || !in.connected || in.broken) return;
    in.step_buckets = until;
    return StartBucket(p, BucketRun::Kind::kSums, 0, elements, elements * sizeof(float));
  }
  while (in.connected && !in.broken && in.step_buckets < until) {
    const auto& [begin, end] = buckets[in.step_buckets++];
    StartBucket(p, BucketRun::Kind::kSums, begin, end, (end - begin) * sizeof(float));
  }
}

void Cluster::State::Act(const ProcessPtr& p, const ReduceStep& a) {
  GroupMemberParts& r = *p->group_member;
  Membership& in = r.in;
  r.reducing_since = now();
  // A member without lanes in this step still has the gradients of an earlier one.
  if (!a.computed_any()) {
    r.any = false;
    r.lanes_used = 0;
    r.moments.clear();
  }
  const bool nothing = options.strategy.deterministic ? r.lanes_used == 0 : !r.any;
  if (nothing) std::ranges::fill(r.sums, optim::kNothing);
  auto& lanes = blackboards[a.group].lanes[a.step];
  lanes.resize(a.lanes.size());
  std::copy(a.lanes.begin() + a.first_lane, a.lanes.begin() + a.end_lane, lanes.begin() + a.first_lane);
  if (r.parameters && moment_words > 0) {
    auto& moments = blackboards[a.group].moments[a.step];
    moments.resize(a.lanes.size());
    for (const auto& [lane, words] : r.moments) moments[lane] = words;
  }

  StartBuckets(p, buckets.size());
  const uint64_t bytes_of_lane = sizeof(uint64_t) + moment_words * sizeof(float);
  if (!in.broken) StartBucket(p, BucketRun::Kind::kLanes, 0, 0, a.lanes.size() * bytes_of_lane);
  in.reducing = a;
  if (in.broken) return FailUnderWay(p);
  if (in.runs.empty()) Reduced(p);
}

// The whole step has been reduced.
void Cluster::State::Reduced(const ProcessPtr& p) {
  GroupMemberParts& r = *p->group_member;
  Membership& in = r.in;
  const ReduceStep a = *std::exchange(in.reducing, std::nullopt);
  in.deadline = Time::max();
  in.step_buckets = 0;
  r.any = false;
  p->progress.wait_seconds += Seconds(now() - r.reducing_since);
  Blackboard& board = blackboards[in.group];
  ReducedStep step{board.lanes[a.step], true};
  board.lanes.erase(board.lanes.begin(), board.lanes.find(a.step));
  if (r.parameters && moment_words > 0) {
    step.moments.resize(moment_words);
    for (size_t lane = 0; lane < step.lanes.size(); ++lane) {
      if (step.lanes[lane].kind == LaneOutcome::Kind::kGradient)
        optim::MergeMoments(step.moments, board.moments[a.step][lane]);
    }
    board.moments.erase(board.moments.begin(), board.moments.find(a.step));
  }
  // The memory that the terms refer to.
  const auto memory = std::make_shared<std::vector<std::vector<float>>>();
  if (OneShot(*p)) ++result.one_shots;
  if (r.parameters && OneShot(*p)) {
    step.terms = TermsOf(p.get(), memory.get());
    step.finite = r.parameters->GradientsFinite(step.terms);
  } else if (r.parameters) {
    for (uint32_t i = 0; i < slice_ranges.size(); ++i) {
      const auto gradients = r.parameters->gradients(SliceId(i));
      std::ranges::copy(std::span(r.sums).subspan(slice_ranges[i].begin, gradients.size()),
                        gradients.begin());
    }
    step.finite = r.parameters->GradientsFinite();
  }
  // It applies the step before it continues, as a server would.
  const Duration takes = FromSeconds(p->cost.byte * static_cast<double>(elements * sizeof(float)));
  Later(p, takes, [this, p, token = a.token, step = std::move(step), memory](GroupMember& machine) {
    const uint64_t before = machine.state().header().step;
    auto actions = machine.OnReduced(token, step);
    if (options.check && machine.state().header().step > before) CheckMembers(*p);
    return actions;
  });
}

// Each member's contribution to the step, by rank, laid out like the parameters' gradients.
GradientTerms Cluster::State::TermsOf(RoleProcess* p, std::vector<std::vector<float>>* memory) const {
  GroupMemberParts& r = *p->group_member;
  const auto all = r.parameters->all_gradients();
  for (const auto& contribution : std::exchange(r.in.contributions, {})) {
    std::vector<float>& term = memory->emplace_back(all.size(), optim::kNothing);
    for (uint32_t i = 0; i < slice_ranges.size(); ++i) {
      const auto gradients = r.parameters->gradients(SliceId(i));
      std::copy_n(contribution->data() + slice_ranges[i].begin, gradients.size(),
                  term.data() + (gradients.data() - all.data()));
    }
  }
  return {memory->begin(), memory->end()};
}

// Fails the pending operations of a broken group.
void Cluster::State::FailUnderWay(const ProcessPtr& p) {
  Later(p, Duration(0), [p, group = p->group_member->in.group](GroupMember& machine) -> GroupMemberActions {
    Membership& in = p->group_member->in;
    if (in.group != group || !in.broken) return {};
    const Status why = *in.broken;
    if (in.reducing) return machine.OnReduced(std::exchange(in.reducing, std::nullopt)->token, why);
    if (std::exchange(in.sharing, std::nullopt)) return machine.OnStateReceived(group, why);
    if (!in.connected) return machine.OnConnected(group, why);
    return {};
  });
}

}  // namespace leat::sim
