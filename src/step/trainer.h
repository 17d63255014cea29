// One worker's computation: a batch of rows in, gradients and scores out, through compiled plans.
//
// Parameters are read from, and gradients written to, the memory of protocol::Parameters, so that nothing is
// copied between the network and the kernels. One plan for each batch size that turns up. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/plan.h"
#include "metrics/auc.h"
#include "nn/model.h"
#include "protocol/parameters.h"

namespace leat::trainer {

// Rows of the stream as decoded: row i's features are features[i * width, (i + 1) * width).
struct Rows {
  std::span<const float> features;
  std::span<const float> labels;  // model.labels() for each row
  std::span<const float> truth;   // known probability of class 1, or empty
};

struct StepOutcome {
  uint32_t events = 0;   // rows in the batch
  double loss_sum = 0;   // Σ over rows, before training on them
  uint64_t correct = 0;  // labels, of events · model.labels()
  bool finite = true;    // neither the loss nor a gradient was infinite or NaN; else the batch is not scored
  bool overflow_safe =
      false;  // every gradient is known to be below kOverflowSafe: sums of a million are finite
};
inline constexpr float kOverflowSafe = 0x1p107f;

class Trainer {
 public:
  // `model` and `parameters` must outlive it. The parameters' table lists the model's variables in its order.
  // `clipping`: of the gradients of each batch.
  Trainer(const nn::Model& model, protocol::Parameters& parameters, const engine::PlanOptions& options,
          const optim::Clipping& clipping = {});

  // Scores the batch (rows.features at `batch`, at most `batch_size` of them), then computes its gradients
  // into the parameters' gradients: other memory than before where somebody still holds that
  // (AcquireGradientBuffer). An empty batch computes nothing. `random_seed`: what the step's random choices
  // (dropout) are a function of, so that the same batch trained again makes the same ones.
  StepOutcome Step(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                   uint64_t random_seed = 0);
  // Scores alone: for data that is only to be measured.
  StepOutcome Score(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size);

  // From the next Step on calls `f` in each, on its thread, with every variable once its gradient lies
  // complete in the parameters' gradients and nothing of the step touches it any more: while back-propagation
  // goes on, where the plan runs inline on one thread, last layers first; otherwise after all of it.
  // Gradients are not clipped then, nor known to be finite; Step says that when it returns. A step of an
  // empty batch calls nothing. An empty `f` ends it.
  void OnGradient(std::function<void(size_t variable)> f);

  // Of all batches so far; binary tasks only.
  const metrics::AucCounts& scores_seen() const { return scores_seen_; }
  const metrics::AucCounts& truths_seen() const { return truths_seen_; }

 private:
  struct Compiled {
    // One graph for training, one for scoring, over the same memory.
    struct Half {
      nn::StepGraph step;
      std::unique_ptr<engine::Plan> plan;
      const float* gradients = nullptr;  // that it is bound to
    };
    Half train, score;
    Tensor features, labels, weights, random_seed;
    uint32_t filled = 0;  // rows of weight 1
  };
  // With the half that is asked for compiled: workers never score alone, and an evaluation never trains.
  Compiled& For(uint32_t batch_size, bool training);
  void BindGradients(Compiled::Half& half);
  void SetHooks(const Compiled::Half& half);
  void Fill(Compiled& compiled, const Rows& rows, std::span<const uint32_t> batch);
  StepOutcome Measure(const Compiled& compiled, const Compiled::Half& half, const Rows& rows,
                      std::span<const uint32_t> batch, bool finite);

  const nn::Model& model_;
  protocol::Parameters& parameters_;
  engine::PlanOptions options_;
  optim::Clipping clipping_;
  std::function<void(size_t)> on_gradient_;
  float largest_ = 0;  // of this step's gradients so far, where they are not clipped
  std::map<uint32_t, Compiled> compiled_;
  metrics::AucCounts scores_seen_;
  metrics::AucCounts truths_seen_;
  std::vector<float> positive_;
};

}  // namespace leat::trainer
