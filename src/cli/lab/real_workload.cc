#include "cli/lab/real_workload.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "cli/commands.h"
#include "job/job.h"
#include "train/step/trainer.h"
#include "run/roles/input/split_loader.h"

namespace leat {

namespace {

template <class T>
T WorkloadOrThrow(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return std::move(result).value();
}

void WorkloadOrThrow(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

}  // namespace

class RealWorkload::Memory final : public sim::WorkerMemory {
 public:
  explicit Memory(RealWorkload& all)
      : all_(all),
        parameters_(all.job_.Slices()),
        trainer_(*all.job_.model, parameters_, all.job_.Plan(job::WithPrecision(all.job_, Kernels())),
                 all.job_.optimizer.clipping),
        runs_(trainer_, parameters_, all.job_.strategy, all.job_.optimizer),
        input_errors_(all.job_, Duration(0), &progress_),
        versions_(parameters_.table().slices.size(), 0) {}

  sim::Trained Compute(const protocol::Lease& lease, uint32_t batch, bool first) override {
    const protocol::Cut& cut = lease.cut;
    const auto split = all_.Split(cut);
    if (taken_in_.insert(lease.id).second) WorkloadOrThrow(input_errors_.OnSplit(*split));
    if (first) version_ = *std::ranges::min_element(versions_);
    const bool last = batch % cut.run + 1 == cut.BatchesOf(batch / cut.run);
    const step::Rows rows{
        .features = split->rows.features, .labels = split->rows.labels, .truth = split->rows.truth};
    const auto step = runs_.Step(rows, split->Batch(batch), cut.batch_size, roles::RandomSeedOf(cut, batch),
                                 {.first = first, .last = last, .version = version_});
    pushed_.reset();
    sim::Trained trained{{protocol::Disposition::kGradient, step.events}, step.loss_sum, step.correct};
    if (step.events == 0) trained.outcome.disposition = protocol::Disposition::kEmpty;
    if (!step.finite) trained.outcome.disposition = protocol::Disposition::kRejected;
    return trained;
  }

  std::shared_ptr<const std::vector<float>> Pushed() override {
    if (!pushed_) {
      std::vector<float> all;
      for (uint32_t i = 0; i < versions_.size(); ++i) {
        const auto gradient = parameters_.gradients(SliceId(i));
        all.insert(all.end(), gradient.begin(), gradient.end());
      }
      pushed_ = std::make_shared<const std::vector<float>>(std::move(all));
    }
    return pushed_;
  }

  void TakeValues(SliceId slice, uint64_t version, std::span<const float> values) override {
    std::ranges::copy(values, parameters_.values(slice).begin());
    versions_[slice.value] = version;
  }

  void FillProgress(protocol::WorkerProgress* progress) const override {
    progress->dead_letters = progress_.dead_letters;
    progress->last_dead_letter = progress_.last_dead_letter;
    if (all_.job_.model->task() == nn::Task::kBinary) progress->scores = trainer_.scores_seen().Encode();
    if (all_.job_.schema.has_truth()) progress->true_scores = trainer_.truths_seen().Encode();
  }

 private:
  RealWorkload& all_;
  protocol::Parameters parameters_;
  step::Trainer trainer_;
  step::RunTrainer runs_;
  protocol::WorkerProgress progress_;  // written by `input_errors_`
  roles::InputErrors input_errors_;
  std::vector<uint64_t> versions_;  // version of the values, by slice
  uint64_t version_ = 0;            // version at the start of the run
  std::set<uint64_t> taken_in_;     // leases whose splits are counted in `input_errors_`
  std::shared_ptr<const std::vector<float>> pushed_;
};

RealWorkload::RealWorkload(const job::Job& job) : RealWorkload(job, WorkloadOrThrow(job.stream->Open())) {}

RealWorkload::RealWorkload(const job::Job& job, std::unique_ptr<stream::Source> source)
    : job_(job), ranges_(WorkloadOrThrow(source->Ranges())), reader_(std::move(source), job.schema) {}

RealWorkload::~RealWorkload() = default;

std::unique_ptr<sim::WorkerMemory> RealWorkload::Join() {
  return std::make_unique<Memory>(*this);
}

std::shared_ptr<const roles::PreparedSplit> RealWorkload::Split(const protocol::Cut& cut) {
  const auto at = std::ranges::find_if(splits_, [&](const auto& split) { return split->lease.cut == cut; });
  if (at != splits_.end()) {
    splits_.splice(splits_.begin(), splits_, at);
    return splits_.front();
  }
  auto split = std::make_shared<roles::PreparedSplit>();
  split->lease.cut = cut;
  WorkloadOrThrow(reader_.Read(split.get()));
  splits_.push_front(std::move(split));
  if (splits_.size() > std::max(job_.workers, job_.strategy.total_lanes()) + 2) splits_.pop_back();
  return splits_.front();
}

}  // namespace leat
