// Makes predictions, on a thread of its own. Rows of requests that come while a batch is computed are
// computed together in the next one.
//
// A batch is padded to the next of the sizes 1, 2, 4, … and `max_batch`. Its scores are those of an inference
// pass of step::Trainer for a batch of that size, to the last bit. All rows of a request are predicted with
// the same version.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "base/status.h"
#include "compute/engine/plan.h"
#include "compute/nn/model.h"
#include "serve/versions.h"
#include "train/step/trainer.h"

namespace leat::serve {

// Thread-safe.
class Predictor {
 public:
  struct Options {
    std::shared_ptr<const nn::Model> model;
    engine::PlanOptions plan;
    uint32_t max_batch = 64;          // rows of a batch
    Duration max_wait{0};             // for more rows, if a batch is not full
    size_t max_waiting_rows = 16384;  // further requests are refused
  };
  struct Answer {
    // kDeadlineExceeded: it was not begun in time. kResourceExhausted: too many rows wait. kUnavailable:
    // there is no version yet, or the predictor ends.
    Status status;
    std::vector<float> scores;  // scores_per_row() for each row
    Version version;
  };
  struct Request {
    std::vector<float> features;  // model inputs for each row
    uint32_t rows = 0;            // at least one
    Time deadline{};
    std::function<void(Answer)> done;  // called once, on any thread; must not block
  };

  // Compiles for all sizes of batches, which blocks. `versions` and `registry` outlive it.
  Predictor(Options options, Versions& versions, metrics::Registry& registry);
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  // Takes all requests, also those that it refuses.
  void Submit(std::vector<Request> requests);
  // Answers what waits, and all that comes later, with kUnavailable. Returns once that is done.
  void Stop();

  // It computes now, and kernels should finish (engine::PlanOptions::progress).
  bool computing() const { return computing_; }

  // As in published predictions: one number for the probability of class 1 and for a regression with one
  // label, more with more classes or labels.
  uint32_t scores_per_row() const { return scores_per_row_; }
  // The size that so many rows are padded to.
  uint32_t BatchOf(size_t rows) const;

 private:
  struct Item {
    Request request;
    Answer answer;
    size_t taken = 0;  // rows that have been in a batch
  };
  struct Part {
    Item* item = nullptr;
    size_t first = 0, rows = 0;
  };

  void Run();
  // Waits for rows. False: the end.
  bool AwaitRows(std::unique_lock<std::mutex>& lock);
  // Takes the rows of the next batch, and requests that are too late. `lock` is held.
  void TakeBatch(Time now);
  void Compute();
  // Answers complete requests.
  void Finish();

  const Options options_;
  const MonotonicClock clock_;
  Versions& versions_;
  std::vector<uint32_t> sizes_;
  uint32_t scores_per_row_ = 1;
  metrics::Counter& rows_counter_;
  metrics::Counter& batches_counter_;
  metrics::Gauge& waiting_gauge_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Item>> waiting_;
  size_t waiting_rows_ = 0;
  Time oldest_{};  // when the first of them came
  bool stop_ = false;
  std::atomic<bool> computing_{false};

  // The thread's own.
  protocol::Parameters* bound_ = nullptr;
  std::unique_ptr<step::Trainer> trainer_;
  std::optional<Versions::InUse> in_use_;
  std::vector<Part> batch_;
  std::vector<std::unique_ptr<Item>> complete_;
  std::vector<float> features_;
  std::vector<uint32_t> order_;  // 0, 1, …
  std::thread thread_;
};

}  // namespace leat::serve
