#include "lab/sim/allreduce/group_members.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "compute/optim/mean.h"
#include "compute/optim/moments.h"
#include "lab/sim/cluster/concerns.h"
#include "protocol/allreduce/reduction.h"

namespace leat::sim {

using namespace protocol;

namespace {

// Approximate size of a state without its numbers, per partition.
constexpr uint64_t kStateHeaderBytes = 64;

}  // namespace

GroupMembers::GroupMembers(ClusterConcerns& all) : Concern(all) {
  if (const auto v = MomentsVariable(options_.table)) {
    moment_words_ = static_cast<uint64_t>(options_.table.variables[*v].shape.elements());
  }
  std::vector<uint64_t> variable_bytes;
  std::vector<uint64_t> variable_ends;  // in elements
  for (const optim::VariableSpec& variable : options_.table.variables) {
    const auto n = static_cast<uint64_t>(variable.shape.elements());
    variable_bytes.push_back(n * sizeof(float));
    variable_ends.push_back((variable_ends.empty() ? 0 : variable_ends.back()) + n);
  }
  for (const auto& [first, end] : PlanBuckets(variable_bytes, options_.reduce.bucket_bytes)) {
    buckets_.push_back({first == 0 ? 0 : variable_ends[first - 1], variable_ends[end - 1]});
  }
}

void GroupMembers::Start(const ProcessPtr& p) {
  p->group_member = std::make_unique<GroupMemberParts>();
  if (p->memory) {
    p->group_member->parameters = std::make_unique<Parameters>(options_.table);
    p->group_member->sums.resize(world_.elements);
  }
  p->group_member->machine =
      std::make_unique<GroupMember>(GroupMemberConfig{.table = options_.table,
                                                      .optimizer = options_.optimizer,
                                                      .strategy = options_.strategy,
                                                      .parameters = p->group_member->parameters.get(),
                                                      .late_labels = world_.LateLabels()});
}

void GroupMembers::Forget(const ProcessPtr& p) {
  if (!p->group_member) return;
  Leave(p);
  all_.network.DropCallers(p);
}

void GroupMembers::Leave(const ProcessPtr& p) {
  Membership& in = p->group_member->in;
  if (in.group == 0) return;
  all_.network.Leave(p);
  if (const auto board = blackboards_.find(in.group); --board->second.there == 0) {
    blackboards_.erase(board);
    steps_.erase(in.group);
  }
  in = Membership();
}

void GroupMembers::Later(const ProcessPtr& p, Duration delay,
                         std::function<GroupMemberActions(GroupMember&)> input) {
  ScheduleIn(p, delay, [this, p, incarnation = p->incarnation, input = std::move(input)] {
    if (incarnation == p->incarnation) all_.members.ExecuteAll(p, input(*p->group_member->machine));
  });
}

void GroupMembers::Execute(const ProcessPtr& p, const JoinGroup& a) {
  Membership& in = p->group_member->in;
  in = Membership();
  in.group = a.group;
  in.rank = a.rank;
  in.members = a.members;
  in.connections.emplace(a.group, static_cast<uint32_t>(a.members.size()), a.rank, 1);
  for (const uint32_t peer : in.connections->Peers()) in.peers.emplace_back().rank = peer;
  ++blackboards_[a.group].there;
  if (a.rank == 0) ++result_.groups;
  all_.network.Connect(p);
}

void GroupMembers::Execute(const ProcessPtr& p, const BroadcastState& a) {
  Membership& in = p->group_member->in;
  in.sharing = a;
  if (in.broken) return FailUnderWay(p);
  const TrainingState& state = p->group_member->machine->state();
  if (in.rank == a.holder) {
    auto shared = std::make_shared<GroupMember::Snapshot>();
    shared->header = state.header();
    for (const auto& memory : state.Memory()) {
      shared->memory.insert(shared->memory.end(), memory.begin(), memory.end());
    }
    blackboards_[a.group].state = std::move(shared);
  }
  const uint64_t header = kStateHeaderBytes * (1 + options_.stream.partitions.size());
  all_.network.StartBucket(p, BucketRun::Kind::kState, 0, 0, header + state.floats() * sizeof(float));
}

void GroupMembers::OnStateShared(const ProcessPtr& p) {
  Membership& in = p->group_member->in;
  in.deadline = Time::max();
  const auto state = blackboards_[in.group].state;
  const bool holds = in.rank == in.sharing->holder;
  in.sharing.reset();
  if (!holds) ++result_.state_broadcasts;
  Later(p, Duration(0), [group = in.group, state](GroupMember& machine) {
    if (!state)
      return machine.OnStateReceived(group, Status(Code::kDataLoss, "the holder sent no valid state"));
    return machine.OnStateReceived(group, *state);
  });
}

void GroupMembers::Execute(const ProcessPtr& p, const ComputeLane& a) {
  GroupMemberParts& r = *p->group_member;
  const Lease& lease = r.leases.at(a.lease);
  if (a.first) {
    r.any = false;
    r.lanes_used = 0;
    r.moments.clear();
    if (p->memory) {
      for (uint32_t i = 0; i < world_.slice_ranges.size(); ++i) {
        p->memory->TakeValues(SliceId(i), a.step, r.parameters->values(SliceId(i)));
      }
    }
  }
  const BatchOutcome outcome = all_.machines.Train(p, lease, a.batch, true);
  if (p->memory && outcome.disposition == Disposition::kGradient) AddLane(p.get(), a.lane, outcome.events);
  r.computing = a.token;
  const Duration takes = all_.machines.DrawTime(p.get());
  const double slowdown =
      all_.machines.Of(*p) == nullptr ? 1 : all_.machines.Of(*p)->Share(options_.compute_threads);
  // Ready gradients may be sent while the rest is computed. With clipping nothing is ready before everything
  // is, and in lane order only once all of this member's lanes are.
  if (a.last && !options_.strategy.deterministic && !options_.optimizer.clipping.any()) {
    if (p->memory && !r.any) std::ranges::fill(r.sums, optim::kNothing);
    r.any = true;
    for (size_t k = 0; k + 1 < buckets_.size(); ++k) {
      const double share =
          static_cast<double>(world_.elements - buckets_[k].begin) / static_cast<double>(world_.elements);
      const double until = options_.first_gradient + (1 - options_.first_gradient) * share;
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
  all_.machines.EndAfter(p, takes, a.token, outcome);
}

void GroupMembers::AddLane(RoleProcess* p, uint32_t lane, uint64_t events) {
  GroupMemberParts& r = *p->group_member;
  std::vector<float>* sums = &r.sums;
  bool add = std::exchange(r.any, true);
  if (options_.strategy.deterministic) {
    add = r.lanes_used > 0 && r.lane == lane;
    r.lane = lane;
    if (!add && ++r.lanes_used > r.lanes.size()) r.lanes.emplace_back(world_.elements);
    sums = &r.lanes[r.lanes_used - 1];
  }
  const auto gradient = p->memory->Pushed();
  for (uint32_t i = 0; i < world_.slice_ranges.size(); ++i) {
    const SliceSpec& slice = options_.table.slices[i];
    const optim::VariableRole role = options_.table.variables[slice.variable].role;
    const auto sum = std::span(*sums).subspan(world_.slice_ranges[i].begin, slice.elements());
    const auto pushed = std::span(*gradient).subspan(world_.slice_ranges[i].begin, slice.elements());
    if (role == optim::VariableRole::kMoments) {
      auto& of_lane = r.moments[lane];
      of_lane.resize(pushed.size());
      optim::MergeMoments(of_lane, pushed);
      std::ranges::fill(sum, optim::kNothing);
      continue;
    }
    const auto rule = optim::MeanRuleFor(options_.strategy.sum, options_.strategy.full_run, role);
    (add ? optim::AddWeighted : optim::SetWeighted)(sum, pushed, rule.weight(events));
  }
}

void GroupMembers::StartBuckets(const ProcessPtr& p, size_t until) {
  Membership& in = p->group_member->in;
  if (all_.network.OneShot(*p)) {
    if (until < buckets_.size() || in.step_buckets == until || !in.connected || in.broken) return;
    in.step_buckets = until;
    return all_.network.StartBucket(p, BucketRun::Kind::kSums, 0, world_.elements,
                                    world_.elements * sizeof(float));
  }
  while (in.connected && !in.broken && in.step_buckets < until) {
    const auto& [begin, end] = buckets_[in.step_buckets++];
    all_.network.StartBucket(p, BucketRun::Kind::kSums, begin, end, (end - begin) * sizeof(float));
  }
}

void GroupMembers::Execute(const ProcessPtr& p, const ReduceStep& a) {
  GroupMemberParts& r = *p->group_member;
  Membership& in = r.in;
  r.reducing_since = now();
  // A member without lanes in this step still has the gradients of an earlier one.
  if (!a.computed_any()) {
    r.any = false;
    r.lanes_used = 0;
    r.moments.clear();
  }
  const bool nothing = options_.strategy.deterministic ? r.lanes_used == 0 : !r.any;
  if (nothing) std::ranges::fill(r.sums, optim::kNothing);
  auto& lanes = blackboards_[a.group].lanes[a.step];
  lanes.resize(a.lanes.size());
  std::copy(a.lanes.begin() + a.first_lane, a.lanes.begin() + a.end_lane, lanes.begin() + a.first_lane);
  if (r.parameters && moment_words_ > 0) {
    auto& moments = blackboards_[a.group].moments[a.step];
    moments.resize(a.lanes.size());
    for (const auto& [lane, words] : r.moments) moments[lane] = words;
  }

  StartBuckets(p, buckets_.size());
  const uint64_t bytes_of_lane = sizeof(uint64_t) + moment_words_ * sizeof(float);
  if (!in.broken) all_.network.StartBucket(p, BucketRun::Kind::kLanes, 0, 0, a.lanes.size() * bytes_of_lane);
  in.reducing = a;
  if (in.broken) return FailUnderWay(p);
  if (in.runs.empty()) OnReduced(p);
}

void GroupMembers::OnReduced(const ProcessPtr& p) {
  GroupMemberParts& r = *p->group_member;
  Membership& in = r.in;
  const ReduceStep a = *std::exchange(in.reducing, std::nullopt);
  in.deadline = Time::max();
  in.step_buckets = 0;
  r.any = false;
  p->progress.wait_seconds += Seconds(now() - r.reducing_since);
  Blackboard& board = blackboards_[in.group];
  ReducedStep step{board.lanes[a.step], true};
  board.lanes.erase(board.lanes.begin(), board.lanes.find(a.step));
  if (r.parameters && moment_words_ > 0) {
    step.moments.resize(moment_words_);
    for (size_t lane = 0; lane < step.lanes.size(); ++lane) {
      if (step.lanes[lane].kind == LaneOutcome::Kind::kGradient)
        optim::MergeMoments(step.moments, board.moments[a.step][lane]);
    }
    board.moments.erase(board.moments.begin(), board.moments.find(a.step));
  }
  // The memory that the terms refer to.
  const auto memory = std::make_shared<std::vector<std::vector<float>>>();
  if (all_.network.OneShot(*p)) ++result_.one_shots;
  if (r.parameters && all_.network.OneShot(*p)) {
    step.terms = TermsOf(p.get(), memory.get());
    step.finite = r.parameters->GradientsFinite(step.terms);
  } else if (r.parameters) {
    for (uint32_t i = 0; i < world_.slice_ranges.size(); ++i) {
      const auto gradients = r.parameters->gradients(SliceId(i));
      std::ranges::copy(std::span(r.sums).subspan(world_.slice_ranges[i].begin, gradients.size()),
                        gradients.begin());
    }
    step.finite = r.parameters->GradientsFinite();
  }
  // It applies the step before it continues, as a server would.
  const Duration takes = FromSeconds(p->cost.byte * static_cast<double>(world_.elements * sizeof(float)));
  Later(p, takes, [this, p, token = a.token, step = std::move(step), memory](GroupMember& machine) {
    const uint64_t before = machine.state().header().step;
    auto actions = machine.OnReduced(token, step);
    if (options_.check && machine.state().header().step > before) CheckMember(*p);
    return actions;
  });
}

GradientTerms GroupMembers::TermsOf(RoleProcess* p, std::vector<std::vector<float>>* memory) const {
  GroupMemberParts& r = *p->group_member;
  const auto all = r.parameters->all_gradients();
  for (const auto& contribution : std::exchange(r.in.contributions, {})) {
    std::vector<float>& term = memory->emplace_back(all.size(), optim::kNothing);
    for (uint32_t i = 0; i < world_.slice_ranges.size(); ++i) {
      const auto gradients = r.parameters->gradients(SliceId(i));
      std::copy_n(contribution->data() + world_.slice_ranges[i].begin, gradients.size(),
                  term.data() + (gradients.data() - all.data()));
    }
  }
  return {memory->begin(), memory->end()};
}

void GroupMembers::FailUnderWay(const ProcessPtr& p) {
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

// ---- invariants

void GroupMembers::CheckPiece(const RoleProcess& p, const Piece& piece) {
  const uint64_t group = p.group_member->in.group;
  if (piece.group == group) return;
  Violate(Invariant::kAllReduceOneGroup, "a member of group " + std::to_string(group) +
                                             " has taken a piece of bucket " + std::to_string(piece.bucket) +
                                             " of group " + std::to_string(piece.group));
}

void GroupMembers::CheckMember(const RoleProcess& p) {
  const Membership& in = p.group_member->in;
  if (in.group == 0) return;
  GroupSteps& group = steps_[in.group];
  const TrainingState& state = p.group_member->machine->state();
  const uint64_t step = state.header().step;
  auto& reached = group.reached;
  reached.resize(in.members.size(), 0);
  reached[in.rank] = step;
  for (uint32_t rank = 0; rank < reached.size(); ++rank) {
    if (reached[rank] == 0 || std::max(reached[rank], step) - std::min(reached[rank], step) <= 1) continue;
    return Violate(Invariant::kAllReduceMembersAgree,
                   "rank " + std::to_string(in.rank) + " holds step " + std::to_string(step) + ", rank " +
                       std::to_string(rank) + " step " + std::to_string(reached[rank]));
  }
  Held held{state.header(), {}};
  for (const auto& memory : state.Memory())
    held.memory.insert(held.memory.end(), memory.begin(), memory.end());
  auto& all = group.held;
  all.erase(all.begin(), all.lower_bound(step - std::min<uint64_t>(step, 1)));
  const auto [first, fresh] = all.try_emplace(step, std::move(held));
  if (fresh) return;
  const Held& other = first->second;
  if (!(other.header == held.header) || other.memory.size() != held.memory.size() ||
      std::memcmp(other.memory.data(), held.memory.data(), held.memory.size() * sizeof(float)) != 0) {
    Violate(Invariant::kAllReduceMembersAgree,
            "rank " + std::to_string(in.rank) + " of group " + std::to_string(in.group) +
                " holds another state than others at step " + std::to_string(step));
  }
}

}  // namespace leat::sim
