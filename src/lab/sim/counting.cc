#include "lab/sim/counting.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/rng.h"
#include "compute/optim/moments.h"
#include "lab/sim/checkpoints/disk.h"

namespace leat::sim {

using namespace protocol;

namespace {

// Good records of a batch, and the number that each has.
struct Numbers {
  uint64_t events = 0;
  double number = 0;
};

double NumberOf(const Cut& cut, uint32_t batch) {
  return static_cast<double>(Mix(Mix(cut.partition, cut.begin.offset), batch) % 1000);
}

void AddNumbers(const Cut& cut, uint32_t run, uint32_t poison, std::vector<Numbers>* numbers) {
  for (uint32_t i = 0; i < cut.BatchesOf(run); ++i) {
    const uint32_t batch = run * cut.run + i;
    numbers->push_back({CountBatch(cut, batch, poison).events, NumberOf(cut, batch)});
  }
}

// By two passes, unlike the code.
optim::Moments MomentsOf(const std::vector<Numbers>& numbers) {
  uint64_t count = 0;
  long double sum = 0, squares = 0;
  for (const auto& [events, number] : numbers) {
    count += events;
    sum += static_cast<long double>(events) * number;
  }
  if (count == 0) return {};
  const long double mean = sum / static_cast<long double>(count);
  for (const auto& [events, number] : numbers)
    squares += static_cast<long double>(events) * (number - mean) * (number - mean);
  return {count, static_cast<double>(mean), static_cast<double>(squares)};
}

bool Near(double found, double expected) {
  return std::abs(found - expected) <= 1e-9 * std::abs(expected);
}

bool IsMoments(const SliceTable& table, SliceId slice) {
  return table.variables[table.slices[slice.value].variable].role == optim::VariableRole::kMoments;
}

struct Count {
  uint64_t events = 0;   // good records applied
  uint64_t value = 0;    // value of every element: each record counts as often as its learning rate says
  uint64_t version = 0;  // version of every slice
  std::vector<Numbers> numbers;
};

// The factor on the learning rate that the journal gives a cut.
uint64_t RateOf(const Disk& disk, const Cut& cut) {
  uint64_t rate = 1;
  for (const RateRaised& raised : disk.raised()) {
    const Position first = raised.first[cut.partition], last = raised.last[cut.partition];
    if (cut.begin >= first && cut.begin < last) rate = std::max(rate, static_cast<uint64_t>(raised.factor));
  }
  return rate;
}

// The expected value of every parameter once all cuts are trained.
Count CountAll(const Disk& disk, const StrategyConfig& strategy, uint32_t poison) {
  Count count;
  if (!strategy.stepped() || strategy.backup > 0) {
    for (const Cut& cut : disk.cuts()) {
      for (uint32_t run = 0; run < cut.runs(); ++run) {
        const BatchOutcome outcome = CountRun(cut, run, poison);
        if (outcome.disposition != Disposition::kGradient) continue;
        count.events += outcome.events;
        count.value += outcome.events * RateOf(disk, cut);
        ++count.version;
        AddNumbers(cut, run, poison, &count.numbers);
      }
    }
  }
  if (!strategy.stepped()) return count;
  count.version = 0;
  for (const RoundMade& round : disk.rounds()) {
    const uint32_t steps = round.lanes.empty() ? 0 : round.lanes[0].assigned.count();
    count.version = std::max(count.version, round.first_step + steps);
    if (strategy.backup > 0) continue;
    uint64_t rate = 1;
    for (const RoundMade::Lane& part : round.lanes) rate = std::max(rate, RateOf(disk, part.cut));
    // By step; a step with a non-finite lane is skipped as a whole.
    std::vector<uint64_t> events(steps, 0);
    std::vector<bool> spoilt(steps, false);
    std::vector<std::vector<Numbers>> numbers(steps);
    for (const RoundMade::Lane& part : round.lanes) {
      uint32_t step = 0;
      for (uint32_t run = 0; run < part.cut.runs() && step < steps; ++run) {
        if (!part.assigned.Has(run)) continue;
        const BatchOutcome outcome = CountRun(part.cut, run, poison);
        if (outcome.disposition == Disposition::kRejected) spoilt[step] = true;
        if (outcome.disposition == Disposition::kGradient) {
          events[step] += outcome.events;
          AddNumbers(part.cut, run, poison, &numbers[step]);
        }
        ++step;
      }
    }
    for (uint32_t step = 0; step < steps; ++step) {
      if (spoilt[step]) continue;
      count.events += events[step];
      count.value += events[step] * rate;
      count.numbers.insert(count.numbers.end(), numbers[step].begin(), numbers[step].end());
    }
  }
  return count;
}

// Empty if the cuts of each partition are contiguous from `start` to `end` in each of `epochs` passes; else
// the violation.
std::string CheckCover(std::vector<Cut> cuts, const std::vector<Position>& start,
                       const std::vector<uint64_t>& end, uint32_t epochs) {
  std::vector<Position> at = start;
  std::ranges::sort(cuts, [](const Cut& a, const Cut& b) { return a.begin < b.begin; });
  for (const Cut& cut : cuts) {
    const std::string name = "cut at partition " + std::to_string(cut.partition) + " " + NameOf(cut.begin);
    if (!cut.valid()) return name + " is not valid";
    Position& here = at[cut.partition];
    if (cut.after != here) return name + " does not follow the previous one";
    if (cut.begin != here) {
      const Position pass{here.epoch + 1, start[cut.partition].offset};
      if (here.offset != end[cut.partition] || cut.begin != pass)
        return name + " starts a pass at a wrong position";
    }
    here = cut.next();
  }
  for (size_t p = 0; p < at.size(); ++p) {
    if (start[p].offset < end[p] && at[p] != Position{epochs - 1, end[p]}) {
      return "partition " + std::to_string(p) + " is cut up to " + NameOf(at[p]) + " only";
    }
  }
  return "";
}

}  // namespace

SliceTable CountingTable(uint32_t slices, bool moments) {
  // Sizes without common divisors, and one variable with a single element.
  std::vector<optim::VariableSpec> variables = {
      {"a", Shape{37}, {}}, {"b", Shape{1}, {}}, {"c", Shape{16, 9}, {}}};
  if (moments) variables.push_back({"moments", Shape{3, 1, 2}, {}, optim::VariableRole::kMoments});
  return MakeSlices(std::move(variables), 1, (slices + 11) / 12);
}

BatchOutcome CountBatch(const Cut& cut, uint32_t batch, uint32_t poison) {
  thread_local std::vector<uint32_t> order;
  TrainingOrder(cut, &order);
  const uint32_t begin = batch * cut.batch_size;
  const uint32_t end = std::min(begin + cut.batch_size, cut.events());
  BatchOutcome outcome;
  bool poisoned = false;
  for (uint32_t i = begin; i < end; ++i) {
    const uint64_t hash = Mix(cut.partition, cut.begin.offset + order[i]);
    if (hash % 13 != 0) ++outcome.events;
    if (poison > 0 && hash % poison == 1) poisoned = true;
  }
  if (poisoned) {
    outcome.disposition = Disposition::kRejected;
  } else if (outcome.events == 0) {
    outcome.disposition = Disposition::kEmpty;
  }
  return outcome;
}

BatchOutcome CountRun(const Cut& cut, uint32_t run, uint32_t poison) {
  BatchOutcome all;
  all.disposition = Disposition::kEmpty;
  for (uint32_t i = 0; i < cut.BatchesOf(run); ++i) {
    const BatchOutcome one = CountBatch(cut, run * cut.run + i, poison);
    all.events += one.events;
    if (one.disposition == Disposition::kRejected) {
      all.disposition = Disposition::kRejected;
    } else if (one.disposition == Disposition::kGradient && all.disposition == Disposition::kEmpty) {
      all.disposition = Disposition::kGradient;
    }
  }
  return all;
}

class CountingWorkload::Memory final : public WorkerMemory {
 public:
  explicit Memory(CountingWorkload& all) : all_(all), versions_(all.table_.slices.size(), 0) {}

  Trained Compute(const Lease& lease, uint32_t batch, bool first) override {
    if (first) {
      sum_ = 0;
      moments_ = {};
      LookAtVersions(lease, batch);
    }
    Trained trained;
    trained.outcome = CountBatch(lease.cut, batch, all_.poison());
    // The steps of averaging are local, the others are the servers'.
    const bool local = all_.strategy_.kind == StrategyKind::kAveraging;
    const uint64_t rate = local ? static_cast<uint64_t>(lease.rate) : 1;
    if (trained.outcome.disposition == Disposition::kGradient) {
      sum_ += trained.outcome.events * rate;
      moments_ = optim::Merged(moments_, {trained.outcome.events, NumberOf(lease.cut, batch), 0});
    }
    pushed_.reset();
    return trained;
  }

  std::shared_ptr<const std::vector<float>> Pushed() override {
    if (pushed_) return pushed_;
    std::vector<float> all(all_.elements_, -static_cast<float>(sum_));
    if (all_.moments_at_)
      optim::PutMoments(std::span(all).subspan(*all_.moments_at_, optim::kMomentWords), 0, moments_);
    pushed_ = std::make_shared<const std::vector<float>>(std::move(all));
    return pushed_;
  }

  void TakeValues(SliceId slice, uint64_t version, std::span<const float> values) override {
    versions_[slice.value] = version;
    if (!all_.strategy_.stepped() || all_.strategy_.backup > 0 || IsMoments(all_.table_, slice)) return;
    const float expected = all_.value_at_.emplace(version, values[0]).first->second;
    for (float value : values) {
      if (value != expected) {
        Say("slice " + ToString(slice) + " at version " + std::to_string(version) + " was sent as " +
            std::to_string(value) + "; another was " + std::to_string(expected));
      }
    }
  }

 private:
  void LookAtVersions(const Lease& lease, uint32_t batch) {
    if (!all_.strategy_.stepped()) return;
    uint64_t step = lease.first_step;
    for (uint32_t run = 0; run < batch / lease.cut.run; ++run) step += lease.assigned.Has(run) ? 1 : 0;
    for (uint64_t version : versions_) {
      all_.most_ahead_ = std::max(all_.most_ahead_, step - std::min(step, version));
      const bool fits =
          all_.strategy_.ahead() == 0 ? version == step : version + all_.strategy_.ahead() >= step;
      if (!fits) {
        Say("a batch of step " + std::to_string(step) + " is computed on version " + std::to_string(version));
      }
    }
  }
  void Say(std::string what) {
    if (all_.error_.empty()) all_.error_ = std::move(what);
  }

  CountingWorkload& all_;
  std::vector<uint64_t> versions_;  // by slice
  uint64_t sum_ = 0;                // sum of the run so far
  optim::Moments moments_;
  std::shared_ptr<const std::vector<float>> pushed_;
};

CountingWorkload::CountingWorkload(SliceTable table, StrategyConfig strategy)
    : table_(std::move(table)), strategy_(strategy) {
  for (uint32_t i = 0; i < table_.slices.size(); ++i) {
    if (IsMoments(table_, SliceId(i))) moments_at_ = elements_;
    elements_ += table_.slices[i].elements();
  }
}

CountingWorkload::~CountingWorkload() = default;

void CountingWorkload::OnLanes(const LanesSet& set) {
  value_at_.erase(value_at_.upper_bound(set.first_step), value_at_.end());
}

uint32_t CountingWorkload::poison() const {
  if (strategy_.backup > 0) return 0;
  return 997 * strategy_.run() * (strategy_.stepped() ? strategy_.total_lanes() : 1);
}

std::unique_ptr<WorkerMemory> CountingWorkload::Join() {
  return std::make_unique<Memory>(*this);
}

std::optional<Violation> CheckCounts(const Cluster& cluster, const ClusterOptions& options,
                                     const CountingWorkload& workload) {
  const auto violated = [&](Invariant invariant, std::string what) {
    return Violation{invariant, std::move(what), cluster.now()};
  };
  if (!workload.error().empty()) return violated(Invariant::kPushValues, workload.error());
  const Disk& disk = cluster.disk();
  std::vector<uint64_t> end;
  for (const auto& [first, events] : options.stream.partitions) end.push_back(first + events);
  if (auto wrong = CheckCover(disk.cuts(), disk.start(), end, options.cuts.epochs); !wrong.empty())
    return violated(Invariant::kLeasesCover, std::move(wrong));

  Count count = CountAll(disk, options.strategy, workload.poison());
  const Manifest& manifest = *disk.newest();
  bool seen = false;
  std::optional<Violation> wrong_count;
  std::vector<int> copies(options.table.slices.size(), 0);
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      const auto slice = disk.Read(manifest.directory, shard.file, incarnation.slice);
      if (!slice.ok()) return violated(Invariant::kCheckpointsWhole, slice.status().ToString());
      ++copies[incarnation.slice.value];
      // When steps are repeated, runs that were late before may be in time, and the round made for them has
      // nothing left to do. The journal alone does not determine the number of steps then.
      if (options.strategy.backup > 0 && !seen) count.version = slice->version;
      seen = true;
      const std::string name = "slice " + ToString(incarnation.slice);
      if (IsMoments(options.table, incarnation.slice)) {
        const optim::Moments found = optim::GetMoments(slice->values(), 0);
        const optim::Moments expected = MomentsOf(count.numbers);
        if (found.count != expected.count || !Near(found.mean, expected.mean) ||
            !Near(found.m2, expected.m2)) {
          return violated(Invariant::kJobCount, name + " has the moments of " + std::to_string(found.count) +
                                                    " events of " + std::to_string(expected.count) +
                                                    ", mean " + std::to_string(found.mean) + " instead of " +
                                                    std::to_string(expected.mean));
        }
      }
      for (float value : IsMoments(options.table, incarnation.slice) ? std::span<float>() : slice->values()) {
        if (value == static_cast<float>(count.value)) continue;
        // The first wrong count of a slice is described.
        if (!wrong_count) {
          wrong_count = violated(Invariant::kJobCount, name + " counts " + std::to_string(value) +
                                                           " events of " + std::to_string(count.value));
        }
        const double more = static_cast<double>(value) - static_cast<double>(count.value);
        uint64_t& most = more < 0 ? wrong_count->lost : wrong_count->twice;
        most = std::max(most, static_cast<uint64_t>(std::abs(more)));
      }
      if (wrong_count) continue;  // all slices are counted; whatever else is wrong follows
      if (slice->events != count.events || slice->version != count.version) {
        return violated(Invariant::kJobCount, name + " has " + std::to_string(slice->events) +
                                                  " events at version " + std::to_string(slice->version) +
                                                  ", expected " + std::to_string(count.events) + ", and " +
                                                  std::to_string(count.version));
      }
      for (uint32_t p = 0; p < end.size(); ++p) {
        const PartitionLedger& ledger = slice->ledger.partitions()[p];
        if (ledger.done != manifest.watermark[p] || !ledger.open.empty())
          return violated(Invariant::kPushLedgers, name + " has open splits");
      }
    }
  }
  if (wrong_count) return wrong_count;
  for (int n : copies) {
    if (n != 1)
      return violated(Invariant::kCheckpointsWhole, "a slice is saved " + std::to_string(n) + " times");
  }
  return std::nullopt;
}

}  // namespace leat::sim
