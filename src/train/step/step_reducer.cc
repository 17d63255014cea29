#include "train/step/step_reducer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/fields/codec.h"
#include "compute/optim/moments.h"
#include "protocol/allreduce/reduction.h"

namespace leat::step {

namespace {

using protocol::LaneOutcome;

// The outcome of a lane in one word, which is 0 on members that do not have the lane.
constexpr uint64_t kThere = uint64_t{1} << 63;
constexpr uint64_t kLarge = uint64_t{1} << 62;  // the sum over all lanes may overflow
uint64_t Word(const LaneOutcome& outcome, bool overflow_safe) {
  return kThere | (overflow_safe ? 0 : kLarge) | static_cast<uint64_t>(outcome.kind) << 32 | outcome.events;
}

Result<LaneOutcome> FromWord(uint64_t word) {
  const uint64_t kind = word >> 32 & 0x3fffffff;
  if ((word & kThere) == 0 || kind > static_cast<uint64_t>(LaneOutcome::Kind::kRejected)) {
    return Status(Code::kDataLoss, "no member of the group has computed one of the step's lanes");
  }
  return LaneOutcome{static_cast<LaneOutcome::Kind>(kind), static_cast<uint32_t>(word)};
}

}  // namespace

StepReducer::StepReducer(net::Loop& loop, Trainer& trainer, protocol::Parameters& parameters,
                         const StepReducerOptions& options)
    : loop_(loop), trainer_(trainer), parameters_(parameters), options_(options) {
  const auto& variables = parameters_.table().variables;
  moments_variable_ = protocol::MomentsVariable(parameters_.table());
  std::vector<uint64_t> variable_bytes;
  for (size_t v = 0; v < variables.size(); ++v) {
    means_.push_back(optim::MeanRuleFor(options_.sum, options_.full_batch, variables[v].role));
    const auto gradients = parameters_.gradients(v);
    starts_.push_back(static_cast<size_t>(gradients.data() - parameters_.gradients(0).data()));
    bytes_ = (starts_.back() + gradients.size()) * sizeof(float);
    variable_bytes.push_back(gradients.size_bytes());
  }
  bucket_of_.resize(variables.size());
  for (const auto& [first, end] : protocol::PlanBuckets(variable_bytes, options_.bucket_bytes)) {
    for (size_t v = first; v < end; ++v) bucket_of_[v] = buckets_.size();
    // Variables are stored in sequence, with zeros as padding.
    buckets_.push_back({first, end, starts_[first],
                        starts_[end - 1] + parameters_.gradients(end - 1).size() - starts_[first]});
  }
  if (options_.overlap && !options_.deterministic) {
    trainer_.OnGradient([this](size_t variable) {
      if (overlapping_) OnVariable(variable);
    });
  }
}

StepReducer::~StepReducer() {
  *here_ = false;
  trainer_.OnGradient({});
}

std::span<float> StepReducer::Place(const Buffer& buffer, size_t variable) const {
  return {reinterpret_cast<float*>(buffer.data()) + starts_[variable],
          parameters_.gradients(variable).size()};
}

// ---- the compute thread

StepOutcome StepReducer::Compute(const protocol::ComputeLane& part, uint64_t epoch, const Rows& rows,
                                 std::span<const uint32_t> batch, uint32_t batch_size, uint64_t random_seed) {
  computing_epoch_ = epoch;
  if (part.first) Forget();
  moments_lane_ = part.lane;
  overlapping_ = part.last && options_.overlap && !options_.deterministic && !batch.empty();
  if (overlapping_) {
    events_ = batch.size();
    ready_ = 0;
    left_.clear();
    for (const BucketPart& bucket : buckets_) left_.push_back(bucket.end - bucket.first);
  }
  const auto outcome = trainer_.Step(rows, batch, batch_size, random_seed);
  overflow_safe_ = overflow_safe_ && (batch.empty() || outcome.overflow_safe);
  if (overlapping_) {
    in_place_ = true;
    overlapping_ = false;
    return outcome;
  }
  if (outcome.events == 0 || !outcome.finite) return outcome;

  TakeMoments();
  if (options_.deterministic) {
    const bool another = lanes_used_ == 0 || lane_ != part.lane;
    lane_ = part.lane;
    if (another && ++lanes_used_ > lanes_.size()) lanes_.emplace_back(bytes_);
    const Buffer& lane = lanes_[lanes_used_ - 1];
    for (size_t v = 0; v < means_.size(); ++v) {
      const auto add = another ? optim::SetWeighted : optim::AddWeighted;
      add(Place(lane, v), parameters_.gradients(v), means_[v].weight(outcome.events));
    }
  } else if (part.last) {
    events_ = outcome.events;
    for (size_t v = 0; v < means_.size(); ++v) {
      optim::Scale(parameters_.gradients(v), means_[v].weight(events_));
      if (any_) optim::AddWeighted(parameters_.gradients(v), Place(sum_, v), 1.0f);
    }
    in_place_ = true;
  } else {
    if (sum_.size() == 0) sum_ = Buffer(bytes_);
    for (size_t v = 0; v < means_.size(); ++v) {
      const auto add = any_ ? optim::AddWeighted : optim::SetWeighted;
      add(Place(sum_, v), parameters_.gradients(v), means_[v].weight(outcome.events));
    }
    any_ = true;
  }
  return outcome;
}

void StepReducer::Forget() {
  any_ = in_place_ = false;
  overflow_safe_ = true;
  lanes_used_ = 0;
  moment_lanes_.clear();
  moments_.clear();
}

// Moves the moments of a batch from the gradients, where they would be added to those of other members, to
// those of its lane.
void StepReducer::TakeMoments() {
  if (!moments_variable_) return;
  const auto pushed = parameters_.gradients(*moments_variable_);
  if (moment_lanes_.empty() || moment_lanes_.back() != moments_lane_) {
    moment_lanes_.push_back(moments_lane_);
    moments_.insert(moments_.end(), pushed.begin(), pushed.end());
  } else {
    optim::MergeMoments(std::span(moments_).last(pushed.size()), pushed);
  }
  std::ranges::fill(pushed, optim::kNothing);
}

void StepReducer::OnVariable(size_t v) {
  if (v == moments_variable_) TakeMoments();
  optim::Scale(parameters_.gradients(v), means_[v].weight(events_));
  if (any_) optim::AddWeighted(parameters_.gradients(v), Place(sum_, v), 1.0f);
  --left_[bucket_of_[v]];
  const size_t before = ready_;
  while (ready_ < buckets_.size() && left_[ready_] == 0) ++ready_;
  if (ready_ == before) return;
  if (loop_.OnItsThread()) {
    if (computing_epoch_ == epoch_) StartReady(ready_);
    return;
  }
  loop_.Post([this, here = here_, epoch = computing_epoch_, ready = ready_] {
    if (*here && epoch == epoch_) StartReady(ready);
  });
}

// ---- the loop's thread

void StepReducer::SetGroup(collective::AllReduce* group) {
  group_ = group;
  ++epoch_;
  started_ = under_way_ = 0;
  failure_ = Status();
  done_ = nullptr;
}

void StepReducer::Start(collective::Bucket bucket) {
  ++under_way_;
  timeline::Span span{.kind = timeline::Kind::kBucket, .number = started_, .bytes = bucket.data.size()};
  if (track_ != nullptr && track_->on()) span.begin = loop_.Now();
  group_->Start(std::move(bucket), [this, span, here = here_, epoch = epoch_](const Status& status) mutable {
    if (!*here || epoch != epoch_) return;
    if (span.begin > Time{0} && track_->on()) {
      span.end = loop_.Now();
      track_->Add(span);
    }
    Finished(status);
  });
}

void StepReducer::StartReady(size_t ready) {
  if (group_ == nullptr) return;
  if (gather_only()) {
    if (ready < buckets_.size() || started_ == ready) return;
    started_ = ready;
    return Start({.data = std::as_writable_bytes(parameters_.all_gradients()),
                  .memory = parameters_.gradient_buffer(),
                  .gather_only = true});
  }
  for (; started_ < ready; ++started_) {
    const BucketPart& part = buckets_[started_];
    const auto gradients = parameters_.all_gradients().subspan(part.start, part.floats);
    collective::Bucket bucket{.data = std::as_writable_bytes(gradients),
                              .memory = parameters_.gradient_buffer()};
    if (options_.deterministic) {
      bucket.order = collective::Order::kLanes;
      for (size_t i = 0; i < lanes_used_; ++i) {
        bucket.lanes.push_back(
            lanes_[i].bytes().subspan(part.start * sizeof(float), part.floats * sizeof(float)));
      }
      // Rank 0 starts the chain, with zeros if it has no lane.
      if (bucket.lanes.empty() && group_->rank() == 0) bucket.lanes.push_back(bucket.data);
    }
    Start(std::move(bucket));
  }
}

// Copies this member's sums to the buckets, or zeros if it has no lane.
void StepReducer::CopyOrNothing() {
  for (size_t v = 0; v < means_.size(); ++v) {
    const auto gradients = parameters_.gradients(v);
    if (any_) {
      std::ranges::copy(Place(sum_, v), gradients.begin());
    } else {
      std::ranges::fill(gradients, optim::kNothing);
    }
  }
  in_place_ = true;
}

void StepReducer::Reduce(const protocol::ReduceStep& step,
                         std::function<void(Result<protocol::ReducedStep>)> done) {
  LEAT_CHECK(group_ != nullptr);
  // Left from an earlier step if this member has no lane in this one.
  if (!step.computed_any()) Forget();
  if (!in_place_) {
    // A member whose batches were empty has not computed, so its memory may still hold the previous sums.
    parameters_.AcquireGradientBuffer();
    CopyOrNothing();
  }
  done_ = std::move(done);
  outcomes_ = step.lanes;
  const size_t each = moment_words() / 2;
  words_.assign(step.lanes.size() * (1 + each), 0);
  for (uint32_t lane = step.first_lane; lane < step.end_lane; ++lane)
    words_[lane] = Word(step.lanes[lane], overflow_safe_);
  for (size_t i = 0; i < moment_lanes_.size(); ++i) {
    std::memcpy(words_.data() + step.lanes.size() + moment_lanes_[i] * each,
                moments_.data() + i * moment_words(), moment_words() * sizeof(float));
  }
  StartReady(buckets_.size());
  Start({.data = std::as_writable_bytes(std::span(words_)), .reduce = collective::kMaxU64});
}

void StepReducer::Release() {
  if (group_ != nullptr) group_->Release();
}

void StepReducer::MergeLanes(protocol::ReducedStep* reduced) const {
  const size_t words = moment_words();
  reduced->moments.resize(words);
  std::vector<float> of_lane(words);
  for (size_t lane = 0; lane < reduced->lanes.size(); ++lane) {
    if (reduced->lanes[lane].kind != LaneOutcome::Kind::kGradient) continue;
    std::memcpy(of_lane.data(), words_.data() + reduced->lanes.size() + lane * words / 2,
                words * sizeof(float));
    optim::MergeMoments(reduced->moments, of_lane);
  }
}

void StepReducer::Finished(const Status& status) {
  if (!status.ok() && failure_.ok()) failure_ = status;
  if (--under_way_ > 0 || !done_) return;
  const auto done = std::exchange(done_, nullptr);
  started_ = 0;
  in_place_ = any_ = false;
  if (!failure_.ok()) return done(failure_);
  protocol::ReducedStep reduced{outcomes_, true};
  if (gather_only()) {
    auto contributions = group_->Contributions();
    if (!contributions.ok()) return done(contributions.status());
    for (const ByteView bytes : *contributions) {
      reduced.terms.emplace_back(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
    }
  }
  bool rejected = false, overflow_safe = true;
  for (size_t lane = 0; lane < outcomes_.size(); ++lane) {
    if (outcomes_[lane].kind == LaneOutcome::Kind::kHeld && words_[lane] == 0) continue;
    auto outcome = FromWord(words_[lane]);
    if (!outcome.ok()) return done(outcome.status());
    reduced.lanes[lane] = *outcome;
    overflow_safe = overflow_safe && (words_[lane] & kLarge) == 0;
    rejected = rejected || outcome->kind == LaneOutcome::Kind::kRejected;
  }
  // All members have the same sums, so all decide alike. Sums of finite, moderate gradients with weights of
  // at most 1 are finite and need no check.
  if (!rejected && moments_variable_) MergeLanes(&reduced);
  if (!rejected && !overflow_safe) reduced.finite = parameters_.GradientsFinite(reduced.terms);
  done(std::move(reduced));
}

// ---- the state of a member

namespace {

using protocol::GroupMember;
using protocol::TrainingState;

// The size limit of a ledger; a larger size is an error of the peer.
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 30;

struct StateBroadcast {
  collective::AllReduce* group = nullptr;
  bool holds = false;
  Bytes header;
  uint64_t floats = 0;
  uint64_t header_bytes = 0;
  std::vector<uint64_t> header_words;
  std::vector<uint64_t> words;
  std::function<void(Result<GroupMember::Snapshot>)> done;
};

void Max(const std::shared_ptr<StateBroadcast>& sharing, std::span<uint64_t> words,
         std::function<void()> next) {
  sharing->group->Start({.data = std::as_writable_bytes(words), .reduce = collective::kMaxU64},
                        [sharing, next = std::move(next)](const Status& status) {
                          if (status.ok()) return next();
                          sharing->done(status);
                        });
}

void Finish(const std::shared_ptr<StateBroadcast>& sharing) {
  GroupMember::Snapshot shared;
  auto header = fields::Decode<TrainingState::Header>(
      std::as_bytes(std::span(sharing->header_words)).first(sharing->header_bytes),
      "the state that the holder sent");
  if (!header.ok()) return sharing->done(header.status());
  shared.header = std::move(*header);
  if (!sharing->holds) {
    shared.memory.resize(sharing->floats);
    if (sharing->floats > 0) {
      std::memcpy(shared.memory.data(), sharing->words.data(), sharing->floats * sizeof(float));
    }
  }
  sharing->done(std::move(shared));
}

}  // namespace

void BroadcastState(collective::AllReduce& group, uint32_t holder, const TrainingState& state,
                    std::function<void(Result<GroupMember::Snapshot>)> done) {
  const auto sharing = std::make_shared<StateBroadcast>();
  sharing->group = &group;
  sharing->holds = group.rank() == holder;
  sharing->floats = state.floats();
  sharing->words.resize((state.floats() + 1) / 2);
  sharing->done = std::move(done);
  if (sharing->holds) {
    sharing->header = fields::Encode(state.header());
    sharing->header_bytes = sharing->header.size();
    auto* at = reinterpret_cast<std::byte*>(sharing->words.data());
    for (const auto& part : state.Memory()) {
      std::memcpy(at, part.data(), part.size_bytes());
      at += part.size_bytes();
    }
  }
  Max(sharing, {&sharing->header_bytes, 1}, [sharing] {
    if (sharing->header_bytes > kMaxHeaderBytes) {
      return sharing->done(
          Status(Code::kDataLoss, "the holder sent a ledger of " + std::to_string(sharing->header_bytes) +
                                      " bytes; the limit is " + std::to_string(kMaxHeaderBytes)));
    }
    sharing->header_words.resize((sharing->header_bytes + 7) / 8);
    if (!sharing->header.empty()) {
      std::memcpy(sharing->header_words.data(), sharing->header.data(), sharing->header.size());
    }
    Max(sharing, sharing->header_words,
        [sharing] { Max(sharing, sharing->words, [sharing] { Finish(sharing); }); });
  });
}

}  // namespace leat::step
