// The gradients of a step, from this member's lanes and then from all members: computed,
// weighted, added up, and reduced in buckets while back-propagation still runs.
//
// Compute runs on a thread that does nothing but compute, or on the loop's own; everything else on the
// loop's. Compute is never called while a Reduce is under way, nor Reduce before the last Compute of its step
// has returned.
//
// Buckets are the same on all members, and start in the same order: those of the last variables first, as
// their gradients are ready first. After them comes one with what has become of each lane. Where the job is
// deterministic (lanes are added in their order, whoever has them) or clips gradients (which needs all of
// them), buckets start after back-propagation. Where the group leaves apart what its members have, nothing is
// moved: all gradients are one bucket then, and the step's terms are what the members have.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collective/all_reduce.h"
#include "net/loop.h"
#include "optim/mean.h"
#include "protocol/member/group_member.h"
#include "step/trainer.h"
#include "tensor/buffer.h"

namespace leat::parallel {

struct StepReducerOptions {
  bool sum = false;                 // of the loss: gradients are added, not averaged by events
  uint64_t full_batch = 1;          // events of one
  bool deterministic = false;       // lanes are added in their order
  bool overlap = true;              // off where gradients are clipped
  uint64_t bucket_bytes = 1 << 20;  // at least; whole variables
};

class StepReducer {
 public:
  // All must outlive it; `trainer` is one on `parameters`, and nobody else's hooks are in it.
  StepReducer(net::Loop& loop, trainer::Trainer& trainer, protocol::Parameters& parameters,
              const StepReducerOptions& options);
  ~StepReducer();

  // ---- the loop's thread
  // From now on buckets go there; null: nowhere, and what was under way is forgotten. Whoever calls this has
  // ended the former one.
  void SetGroup(collective::AllReduce* group);
  // What Compute is to be called with.
  uint64_t epoch() const { return epoch_; }
  // `done` is called once, from the loop, unless the group changes before. With ok the sums are where the
  // parameters have gradients, or the step has terms, which are there until Release.
  void ReduceOp(const protocol::ReduceStep& step, std::function<void(Result<protocol::ReducedStep>)> done);

  // The step's terms are not needed any more. Within `done`, before anything else is computed.
  void Release();

  // ---- the computing thread; on the loop's, buckets leave as far as they can without waiting for anybody
  // As Trainer::Step; the lane's gradients are added to those of the step.
  trainer::StepOutcome Compute(const protocol::ComputeLane& part, uint64_t epoch, const trainer::Rows& rows,
                               std::span<const uint32_t> batch, uint32_t batch_size, uint64_t random_seed);

 private:
  struct BucketPart {
    size_t first = 0, end = 0;     // variables
    size_t start = 0, floats = 0;  // of its gradients, in all of them
  };

  bool gather_only() const { return group_->supports_gather_only() && !options_.deterministic; }
  void OnVariable(size_t variable);
  void AddUp(std::span<float> sums, bool first, uint64_t events);
  void CopyOrNothing();
  std::span<float> Place(const Buffer& buffer, size_t variable) const;
  void StartReady(size_t ready);
  void Start(collective::Bucket bucket);
  void Finished(const Status& status);

  net::Loop& loop_;
  trainer::Trainer& trainer_;
  protocol::Parameters& parameters_;
  const StepReducerOptions options_;
  std::vector<optim::MeanRule> means_;  // by variable
  std::vector<BucketPart> buckets_;     // in the order in which they start
  std::vector<size_t> bucket_of_;       // by variable
  std::vector<size_t> starts_;          // of variables, in floats; the buffers below are laid out alike
  size_t bytes_ = 0;                    // of each of them
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);

  // ---- the computing thread's; the loop's between two computations
  Buffer sum_;                 // of the lanes before the last
  std::vector<Buffer> lanes_;  // deterministic: of each lane by itself
  size_t lanes_used_ = 0;
  uint32_t lane_ = 0;
  bool any_ = false;           // sum_ is of something
  bool overflow_safe_ = true;  // all of this member's gradients in this step (trainer::kOverflowSafe)
  bool in_place_ = false;      // this member's sums are where the parameters have gradients
  bool overlapping_ = false;
  uint64_t events_ = 0;       // of the batch that is overlapped
  std::vector<size_t> left_;  // by bucket: variables still to come
  size_t ready_ = 0;          // buckets whose variables are all there
  uint64_t computing_epoch_ = 0;

  // ---- the loop's
  collective::AllReduce* group_ = nullptr;
  uint64_t epoch_ = 0;  // changes with the group
  size_t started_ = 0;  // buckets of this step
  size_t under_way_ = 0;
  Status failure_;
  std::vector<uint64_t> words_;  // what has become of each lane
  std::vector<protocol::LaneOutcome> outcomes_;
  std::function<void(Result<protocol::ReducedStep>)> done_;
};

}  // namespace leat::parallel
