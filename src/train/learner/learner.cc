#include "train/learner/learner.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/check.h"

namespace leat {

namespace {

// Compiling a plan takes longer than running it some hundred times.
constexpr size_t kExactPlans = 8;

// oneDNN's products for AVX2 take 6 rows at a time, of more than 72 in parts of 24, and round those that are
// left otherwise.
constexpr uint32_t kFewRows = 6, kBlock = 24;

protocol::SliceTable TableOf(const Learner::Options& options) {
  const auto& variables = options.model->variables();
  return protocol::MakeWholeSlices({variables.begin(), variables.end()}, options.seed);
}

protocol::StrategyConfig StrategyOf(const Learner::Options& options) {
  auto strategy = protocol::Defaults(protocol::StrategyKind::kAllReduce, 1);
  strategy.sum = options.model->loss().reduction == nn::Reduction::kSum;
  strategy.full_run = options.batch_size;
  return strategy;
}

}  // namespace

Learner::Learner(Options options)
    : options_(std::move(options)),
      parameters_(TableOf(options_)),
      state_(parameters_.table(), options_.optimizer, StrategyOf(options_), &parameters_),
      trainer_(*options_.model, parameters_, options_.plan, options_.optimizer.clipping),
      rows_(options_.batch_size),
      ids_(options_.model->feature_ids()) {
  std::iota(rows_.begin(), rows_.end(), 0u);
  state_.Make({});
}

uint32_t Learner::PlanFor(std::vector<uint32_t>& sizes, uint32_t size, uint32_t otherwise) {
  if (std::ranges::find(sizes, size) != sizes.end()) return size;
  if (sizes.size() < kExactPlans) {
    sizes.push_back(size);
    return size;
  }
  uint32_t best = otherwise;
  for (const uint32_t other : sizes)
    if (other >= size) best = std::min(best, other);
  if (std::ranges::find(sizes, best) == sizes.end()) sizes.push_back(best);
  return best;
}

void Learner::CheckIds(std::span<const float> features) const {
  if (ids_.empty()) return;
  for (size_t i = 0; i < features.size(); ++i) {
    const size_t column = i % ids_.size();
    const float id = features[i];
    if (ids_[column] == 0) continue;
    const bool within = id >= 0 && id < static_cast<float>(ids_[column]);
    if (within && id == static_cast<float>(static_cast<uint32_t>(id))) continue;
    char text[32];
    *std::to_chars(text, text + sizeof text - 1, id).ptr = '\0';
    throw std::invalid_argument("row " + std::to_string(i / ids_.size()) + ", column " +
                                std::to_string(column) + ": id " + text + " is not in the model's table of " +
                                std::to_string(ids_[column]) + " rows; must be a whole number from 0 to " +
                                std::to_string(ids_[column] - 1));
  }
}

step::StepOutcome Learner::LearnBatch(const step::Rows& rows, std::span<const uint32_t> batch) {
  LEAT_CHECK(batch.size() <= options_.batch_size);
  if (batch.empty()) return {};
  const auto size = static_cast<uint32_t>(batch.size());
  const uint32_t plan = PlanFor(training_sizes_, size, std::min(std::bit_ceil(size), options_.batch_size));
  const step::StepOutcome outcome = trainer_.Step(rows, batch, plan, options_.seed + state_.header().step);
  if (!outcome.finite) return outcome;
  const auto moments = protocol::MomentsVariable(parameters_.table());
  state_.Apply(options_.batch_size, {}, 1,
               moments ? parameters_.gradients(*moments) : std::span<const float>());
  state_.Complete(batch.size());
  return outcome;
}

step::StepOutcome Learner::Learn(const step::Rows& rows) {
  const size_t width = model().inputs(), each = model().labels();
  const size_t all = rows.features.size() / width;
  LEAT_CHECK(rows.features.size() == all * width && rows.labels.size() == all * each);
  CheckIds(rows.features);
  step::StepOutcome total;
  for (size_t begin = 0; begin < all; begin += options_.batch_size) {
    const size_t n = std::min<size_t>(options_.batch_size, all - begin);
    const step::Rows part{.features = rows.features.subspan(begin * width, n * width),
                          .labels = rows.labels.subspan(begin * each, n * each)};
    const step::StepOutcome outcome = LearnBatch(part, std::span(rows_).first(n));
    total.finite = total.finite && outcome.finite;
    if (!outcome.finite) continue;
    total.events += outcome.events;
    total.loss_sum += outcome.loss_sum;
    total.correct += outcome.correct;
    total.absolute_error += outcome.absolute_error;
  }
  return total;
}

uint32_t Learner::ScoringPlan(size_t rows) {
  const auto size = static_cast<uint32_t>(rows);
  if (size <= kFewRows) return PlanFor(scoring_sizes_, size, size);
  const uint32_t blocks = (size + kBlock - 1) / kBlock;
  return PlanFor(scoring_sizes_, blocks * kBlock, std::bit_ceil(blocks) * kBlock);
}

uint32_t Learner::scores_per_row() const {
  return model().labels() * model().outputs();
}

void Learner::Predict(std::span<const float> features, std::span<float> scores) {
  const size_t width = model().inputs(), each = scores_per_row();
  const size_t all = features.size() / width;
  LEAT_CHECK(features.size() == all * width && scores.size() == all * each);
  CheckIds(features);
  for (size_t begin = 0; begin < all; begin += options_.batch_size) {
    const size_t n = std::min<size_t>(options_.batch_size, all - begin);
    trainer_.Predict({.features = features.subspan(begin * width, n * width)}, std::span(rows_).first(n),
                     ScoringPlan(n));
    std::ranges::copy(trainer_.scores(), scores.begin() + static_cast<ptrdiff_t>(begin * each));
  }
}

std::vector<float> Learner::Save() const {
  std::vector<float> memory;
  memory.reserve(state_.floats());
  for (const auto span : state_.Memory()) memory.insert(memory.end(), span.begin(), span.end());
  return memory;
}

Status Learner::Load(std::span<const float> memory, uint64_t steps, uint64_t events) {
  return state_.Adopt({.step = steps, .events = events}, memory, 0);
}

}  // namespace leat
