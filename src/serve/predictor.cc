#include "serve/predictor.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/threads/thread.h"

namespace leat::serve {
namespace {

std::vector<uint32_t> SizesUpTo(uint32_t most) {
  std::vector<uint32_t> sizes;
  for (uint32_t size = 1; size < most; size *= 2) sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

}  // namespace

Predictor::Predictor(Options options, Versions& versions, metrics::Registry& registry)
    : options_(std::move(options)),
      versions_(versions),
      sizes_(SizesUpTo(options_.max_batch)),
      rows_counter_(registry.counter("leat_serve_rows_total", "Rows that were predicted.")),
      batches_counter_(registry.counter("leat_serve_batches_total", "Batches that were computed.")),
      waiting_gauge_(registry.gauge("leat_serve_waiting_rows", "Rows that wait for a batch.")) {
  const nn::Model& model = *options_.model;
  scores_per_row_ = model.task() == nn::Task::kBinary ? model.labels() : model.labels() * model.outputs();
  features_.resize(size_t{options_.max_batch} * model.inputs());
  order_.resize(options_.max_batch);
  std::iota(order_.begin(), order_.end(), 0u);
  // Any values do for compiling.
  bound_ = versions_.Begin();
  LEAT_CHECK(bound_ != nullptr);
  trainer_ = std::make_unique<step::Trainer>(model, *bound_, options_.plan);
  for (const uint32_t size : sizes_)
    trainer_->Predict({.features = features_, .labels = {}, .truth = {}}, std::span(order_).first(1), size);
  thread_ = StartThread([this] { Run(); });
}

Predictor::~Predictor() {
  Stop();
}

void Predictor::Stop() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(stop_, true)) return;
  }
  wake_.notify_all();
  thread_.join();
  for (auto& item : waiting_) {
    item->answer.status = Status(Code::kUnavailable, "the server ends");
    item->request.done(std::move(item->answer));
  }
  waiting_.clear();
}

uint32_t Predictor::BatchOf(size_t rows) const {
  return *std::ranges::lower_bound(sizes_, std::min<size_t>(rows, options_.max_batch));
}

void Predictor::Submit(std::vector<Request> requests) {
  std::vector<std::function<void(Answer)>> refused;
  Status why(Code::kResourceExhausted, "too many rows wait for a prediction");
  {
    std::lock_guard lock(mutex_);
    if (stop_) why = Status(Code::kUnavailable, "the server ends");
    for (Request& request : requests) {
      LEAT_CHECK(request.rows > 0 &&
                 request.features.size() == size_t{request.rows} * options_.model->inputs());
      // A request that is larger than the limit is taken if it is alone.
      if (stop_ || (waiting_rows_ > 0 && waiting_rows_ + request.rows > options_.max_waiting_rows)) {
        refused.push_back(std::move(request.done));
        continue;
      }
      if (waiting_rows_ == 0) oldest_ = clock_.Now();
      waiting_rows_ += request.rows;
      waiting_.push_back(std::make_unique<Item>());
      waiting_.back()->request = std::move(request);
    }
    waiting_gauge_.Set(static_cast<double>(waiting_rows_));
  }
  wake_.notify_one();
  for (const auto& done : refused) done({.status = why, .scores = {}, .version = {}});
}

bool Predictor::AwaitRows(std::unique_lock<std::mutex>& lock) {
  wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
  // The rest of a request that has begun does not wait.
  if (options_.max_wait > Duration{0} && !in_use_) {
    const auto full = [this] { return stop_ || waiting_rows_ >= options_.max_batch; };
    const auto until = std::chrono::steady_clock::time_point(oldest_ + options_.max_wait);
    wake_.wait_until(lock, until, full);
  }
  return !stop_;
}

void Predictor::TakeBatch(Time now) {
  batch_.clear();
  size_t rows = 0;
  while (!waiting_.empty() && rows < options_.max_batch) {
    Item& item = *waiting_.front();
    const bool late = item.taken == 0 && now > item.request.deadline;
    const size_t left = item.request.rows - item.taken;
    if (late) {
      item.answer.status = Status(Code::kDeadlineExceeded, "the prediction was not begun in time");
      waiting_rows_ -= left;
    } else {
      const Part part{.item = &item, .first = item.taken, .rows = std::min(left, options_.max_batch - rows)};
      batch_.push_back(part);
      item.taken += part.rows;
      rows += part.rows;
      waiting_rows_ -= part.rows;
      if (item.taken < item.request.rows) break;
    }
    complete_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  oldest_ = now;
  waiting_gauge_.Set(static_cast<double>(waiting_rows_));
}

void Predictor::Compute() {
  if (batch_.empty()) return;
  if (!in_use_) in_use_ = versions_.Acquire();
  if (!in_use_) {
    for (const Part& part : batch_)
      part.item->answer.status = Status(Code::kUnavailable, "there are no parameters yet");
    return;
  }
  if (in_use_->parameters != bound_) {
    bound_ = in_use_->parameters;
    trainer_->UseParameters(*bound_);
  }
  const size_t width = options_.model->inputs();
  size_t rows = 0;
  for (const Part& part : batch_) {
    std::copy_n(part.item->request.features.data() + part.first * width, part.rows * width,
                features_.data() + rows * width);
    rows += part.rows;
  }
  trainer_->Predict({.features = features_, .labels = {}, .truth = {}}, std::span(order_).first(rows),
                    BatchOf(rows));
  const std::span<const float> scores = trainer_->predictions();
  LEAT_CHECK(scores.size() == rows * scores_per_row_);
  size_t at = 0;
  for (const Part& part : batch_) {
    const size_t count = part.rows * scores_per_row_;
    part.item->answer.scores.insert(part.item->answer.scores.end(), scores.begin() + at,
                                    scores.begin() + at + count);
    part.item->answer.version = in_use_->version;
    at += count;
  }
  rows_counter_.Add(rows);
  batches_counter_.Add();
}

void Predictor::Finish() {
  // The version changes between two requests, not within one.
  const bool within = !batch_.empty() && batch_.back().item->taken < batch_.back().item->request.rows;
  if (in_use_ && !within) {
    in_use_.reset();
    versions_.Release();
  }
  for (auto& item : complete_) item->request.done(std::move(item->answer));
  complete_.clear();
}

void Predictor::Run() {
  std::unique_lock lock(mutex_);
  while (AwaitRows(lock)) {
    TakeBatch(clock_.Now());
    lock.unlock();
    computing_ = true;
    Compute();
    Finish();
    computing_ = false;
    lock.lock();
  }
  if (in_use_) versions_.Release();
}

}  // namespace leat::serve
