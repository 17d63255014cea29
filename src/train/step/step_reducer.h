// Computes the gradients of a step on this member's lanes, adds them up by weight, and reduces them with all
// other members, in buckets, while back-propagation still runs.
//
// Threads: Compute runs on a compute thread or on the loop's thread, everything else on the loop's thread.
// The caller never overlaps Compute and Reduce: Reduce follows the last Compute of its step, and the next
// Compute follows the end of Reduce.
//
// Buckets: all members have the same buckets and start them in the same order, the last variables first,
// because back-propagation completes those first. A final bucket holds the outcome and the moments of each
// lane: words that are zeros on the members without the lane, so that a maximum delivers them unchanged and
// each member merges them in lane order. Buckets
// start only after back-propagation if the job is deterministic (lanes are added in a fixed order) or clips
// gradients (which takes all of them). If the group supports gather only, a single bucket holds all
// gradients, nothing is copied, and the step's terms refer to the members' memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compute/optim/mean.h"
#include "compute/tensor/buffer.h"
#include "net/loop.h"
#include "protocol/allreduce/group_member.h"
#include "train/collective/all_reduce.h"
#include "train/step/trainer.h"

namespace leat::step {

struct StepReducerOptions {
  bool sum = false;                 // the loss is a sum: gradients are added, not averaged over events
  uint64_t full_batch = 1;          // events in a full batch
  bool deterministic = false;       // lanes are added in a fixed order
  bool overlap = true;              // reduce during back-propagation; off if gradients are clipped
  uint64_t bucket_bytes = 1 << 20;  // minimum size; a bucket holds whole variables
};

class StepReducer {
 public:
  // All references must outlive this. `trainer` works on `parameters`; its variable hook belongs to this.
  StepReducer(net::Loop& loop, Trainer& trainer, protocol::Parameters& parameters,
              const StepReducerOptions& options);
  ~StepReducer();

  // ---- the loop's thread
  // Sets the group that buckets are sent to, and drops unfinished ones; null: no group. The caller has ended
  // the former group.
  void SetGroup(collective::AllReduce* group);
  // The epoch to pass to Compute; it changes with the group.
  uint64_t epoch() const { return epoch_; }
  // Reduces the step. `done` is called once, from the loop, unless the group changes before that. On success
  // the parameters' gradients hold the sums, or the result has terms, which are valid until Release.
  void Reduce(const protocol::ReduceStep& step, std::function<void(Result<protocol::ReducedStep>)> done);

  // Releases the step's terms. To be called within `done`, before the next Compute.
  void Release();

  // Buckets of later steps are recorded there; null: nowhere.
  void RecordTo(timeline::Track* track) { track_ = track; }

  // ---- the compute thread, or the loop's, where buckets start as far as they can without blocking
  // Like Trainer::Step; adds the lane's gradients to those of the step.
  StepOutcome Compute(const protocol::ComputeLane& part, uint64_t epoch, const Rows& rows,
                      std::span<const uint32_t> batch, uint32_t batch_size, uint64_t random_seed);

 private:
  struct BucketPart {
    size_t first = 0, end = 0;     // its variables
    size_t start = 0, floats = 0;  // where its gradients begin among all gradients, and their number
  };

  bool gather_only() const { return group_->supports_gather_only() && !options_.deterministic; }
  void OnVariable(size_t variable);
  void TakeMoments();
  void MergeLanes(protocol::ReducedStep* reduced) const;
  // Number of 32-bit words of a lane's moments; even.
  size_t moment_words() const {
    return moments_variable_ ? parameters_.gradients(*moments_variable_).size() : 0;
  }
  // Drops what an earlier step has left.
  void Forget();
  void CopyOrNothing();
  std::span<float> Place(const Buffer& buffer, size_t variable) const;
  void StartReady(size_t ready);
  void Start(collective::Bucket bucket);
  void Finished(const Status& status);

  net::Loop& loop_;
  Trainer& trainer_;
  protocol::Parameters& parameters_;
  const StepReducerOptions options_;
  std::vector<optim::MeanRule> means_;  // by variable
  std::vector<BucketPart> buckets_;     // in start order
  std::vector<size_t> bucket_of_;       // by variable
  std::vector<size_t> starts_;          // offset of each variable in the buffers below, in floats
  std::optional<size_t> moments_variable_;
  size_t bytes_ = 0;  // size of each of these buffers
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);

  // ---- owned by the compute thread; by the loop's between two computations
  Buffer sum_;                 // sum over the lanes before the last
  std::vector<Buffer> lanes_;  // deterministic: the gradients of each lane
  size_t lanes_used_ = 0;
  uint32_t lane_ = 0;
  bool any_ = false;           // sum_ is not empty
  bool overflow_safe_ = true;  // all of this member's gradients in this step are below step::kOverflowSafe
  bool in_place_ = false;      // the parameters' gradients hold this member's sums
  bool overlapping_ = false;
  std::vector<uint32_t> moment_lanes_;  // lanes whose moments are in moments_, ascending
  std::vector<float> moments_;          // the lanes' moments, one lane after the other
  uint32_t moments_lane_ = 0;           // being computed
  uint64_t events_ = 0;                 // events of the batch whose reduction overlaps back-propagation
  std::vector<size_t> left_;            // by bucket: incomplete variables
  size_t ready_ = 0;                    // number of complete buckets
  uint64_t computing_epoch_ = 0;

  // ---- owned by the loop's thread
  timeline::Track* track_ = nullptr;
  collective::AllReduce* group_ = nullptr;
  uint64_t epoch_ = 0;  // changes with the group
  size_t started_ = 0;  // buckets of this step that have started
  size_t under_way_ = 0;
  Status failure_;
  std::vector<uint64_t> words_;  // the outcome of each lane, then the moments of each
  std::vector<protocol::LaneOutcome> outcomes_;
  std::function<void(Result<protocol::ReducedStep>)> done_;
};

// ---- the state of a member

// Broadcasts the training state of one member to all members of its group, so that new members start from it.
//
// The broadcast is an all-reduce by maximum: the holder contributes its state and every other member zeros.
// Tensors thus travel the same way as in training steps, and the loss of a member fails the broadcast for
// all.
//
// All members call this with the same `holder`, a rank. `state` is the caller's own and is read before this
// returns. `done` is called once, from the loop, with the holder's state, or with kDataLoss if that state is
// malformed; never after the group is destroyed.
void BroadcastState(collective::AllReduce& group, uint32_t holder, const protocol::TrainingState& state,
                    std::function<void(Result<protocol::GroupMember::Snapshot>)> done);

}  // namespace leat::step
