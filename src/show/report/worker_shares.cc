#include "show/report/worker_shares.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace leat::report {
namespace {

// Effect of a skew on a job with this strategy.
std::string Consequence(const protocol::StrategyConfig& strategy) {
  const std::string with = "With " + std::string(protocol::Name(strategy.kind));
  if (strategy.local_steps()) {
    return with + ", workers train on their own shares for a while and drift apart: a smaller " +
           (strategy.kind == protocol::StrategyKind::kAveraging ? "period helps" : "n_fetch helps") + ", too";
  }
  if (strategy.stepped())
    return with + ", a step is the mean over all workers, but batch norm sees the batch of one of them";
  return with + ", each update pulls the model towards the share of one worker";
}

double SmallSkew(const metrics::Distribution& d) {
  return d.bins.empty() ? WorkerShares::kSmallDifference : WorkerShares::kSmallDistance;
}

}  // namespace

// Comparison of one variable.
struct WorkerShares::Comparison {
  double skew = std::numeric_limits<double>::quiet_NaN();
  double limit = std::numeric_limits<double>::infinity();
  double splits = 0;  // effective
  bool number = false;

  Comparison() = default;
  // `variables`: how many are compared, each of which may give a warning.
  Comparison(const metrics::Distribution& share, const metrics::Distribution& whole, double n,
             size_t variables)
      : splits(n), number(whole.bins.empty()) {
    if (n <= 0) return;
    skew = metrics::Skew(share, whole);
    limit = std::max(SmallSkew(whole), metrics::SkewLimit(whole, n, kAlpha / static_cast<double>(variables)));
  }
  // NaN is not above anything.
  double ratio() const { return skew / limit; }
  // "0.42, above 0.18 (total variation distance over 130 splits)"
  std::string Text() const {
    return Formatted("%.2f, above %.2f (%s over %.0f splits)", skew, limit,
                     number ? "standardised mean difference" : "total variation distance",
                     std::floor(splits));
  }
};

void WorkerShares::OnReport(NodeId worker, ByteView share) {
  auto now = metrics::Share::Decode(options_.layout, share);
  if (!now.ok()) return;
  const metrics::Share none(options_.layout);
  Worker& sender = workers_.try_emplace(worker, Worker{.last = none, .recent = none}).first->second;
  const auto added = now->Since(sender.last);
  if (!added || added->events() <= 0 || added->splits() <= 0) return;
  const auto workers = static_cast<double>(std::max<size_t>(1, in_view_));
  clock_ += std::min(added->events() / static_cast<double>(std::max<uint64_t>(1, options_.window)),
                     added->splits() / (kWindowSplits * workers));
  FadeToNow(&sender);
  sender.recent.Merge(*added);
  // Assumes splits of equal size. A part of a split counts in proportion, so that its parts add up to its
  // square.
  sender.squares += added->events() * added->events() / added->splits();
  sender.trained = clock_;
  sender.last = std::move(*now);
  changed_ = true;
}

void WorkerShares::FadeToNow(Worker* worker) const {
  const double factor = std::exp(worker->at - clock_);
  worker->recent.Fade(factor);
  worker->squares *= factor * factor;
  worker->at = clock_;
}

void WorkerShares::Compare(Time now, const protocol::View& view) {
  in_view_ = static_cast<size_t>(std::ranges::count_if(view.members, [](const protocol::Member& member) {
    return member.role == protocol::Role::kWorker && member.state != protocol::Member::State::kStandby;
  }));
  if (!changed_ || (compared_ && now - *compared_ < kInterval)) return;
  changed_ = false;
  compared_ = now;
  metrics::Share whole(options_.layout);
  metrics::SplitSums sums;
  for (auto& [node, worker] : workers_) {
    FadeToNow(&worker);
    whole.Merge(worker.recent);
    sums.events += worker.recent.events();
    sums.squares += worker.squares;
  }
  for (const auto& member : view.members) {
    const auto found = workers_.find(member.node);
    if (found != workers_.end()) Judge(member, whole, sums, &found->second);
  }
}

void WorkerShares::Judge(const protocol::Member& member, const metrics::Share& whole,
                         const metrics::SplitSums& sums, Worker* worker) {
  const metrics::Share& share = worker->recent;
  // A single worker trains whatever there is, and the share of an idle worker may be of another time.
  const bool comparable = in_view_ >= 2 && clock_ - worker->trained <= 1;
  const double n =
      comparable ? metrics::EffectiveSplits({.events = share.events(), .squares = worker->squares}, sums) : 0;
  const Comparison label(share.label(), whole.label(), n, 1);
  Comparison worst;
  std::string name;
  for (size_t f = 0; f < share.features().size(); ++f) {
    const Comparison feature(share.features()[f], whole.features()[f], n, share.features().size());
    if (std::isnan(feature.skew) || (!name.empty() && feature.ratio() <= worst.ratio())) continue;
    worst = feature;
    name = options_.layout.features[f].name;
  }
  Skew& skew = worker->skew;
  skew.label = label.skew;
  skew.feature = worst.skew;
  skew.feature_name = name;
  Note(label, Name(member) + ": label skew", "", &skew.label_skewed);
  Note(worst, Name(member) + ": feature skew", " of '" + name + "'", &skew.feature_skewed);
}

void WorkerShares::Note(const Comparison& comparison, const std::string& subject, const std::string& detail,
                        bool* skewed) {
  if (!*skewed && comparison.splits >= kMinSplits && comparison.skew > comparison.limit) {
    *skewed = true;
    ++warnings_;
    notices_.push_back(
        {.text = subject + detail + " " + comparison.Text() +
                 ": its share of the stream is not like that of all workers. Keys choose partitions, and "
                 "partitions choose workers: publish with a key that mixes labels and features, or without a "
                 "key; make more partitions than workers; shuffle files that are sorted. " +
                 Consequence(options_.strategy)});
  } else if (*skewed && !(comparison.skew >= kOver * comparison.limit)) {
    *skewed = false;
    notices_.push_back({.over = true, .text = subject});
  }
}

const WorkerShares::Skew* WorkerShares::Find(NodeId worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : &found->second.skew;
}

}  // namespace leat::report
