#include "lab/study/analysis.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

namespace leat::study {

namespace {

// From here on a resource is as good as full: the rest is lost to the start and the end of a run, and to
// gaps.
constexpr double kFull = 0.8;
// Waiting for input or for messages matters from here on.
constexpr double kMuchWaiting = 0.2;
constexpr double kSlow = 1.3;
// Factor by which the events to the target have to grow, with more workers, to count as more.
constexpr double kMoreEvents = 1.1;

double Worth(const SeriesPoint& point, bool target) {
  if (!target) return point.events_per_s;
  return point.target_s && *point.target_s > 0 ? 1 / *point.target_s : 0;
}

std::string Percent(double share) {
  return Formatted("%.0f %%", 100 * share);
}

// A further doubling of workers that gains less than this is not followed by another one.
constexpr double kLeastGain = 1.05;
constexpr double kEqual = 1.01;

std::string ChoiceText(const Choice& choice) {
  return choice.strategy + ", " + Plural(choice.workers, "worker") +
         (choice.servers > 0 ? ", " + Plural(choice.servers, "server") : "");
}

std::string Predicted(const Prediction& prediction) {
  return TimeText(prediction.seconds) + Formatted(", cost %.3g", prediction.cost);
}

class Searcher {
 public:
  Searcher(const SearchSpace& space, Goal goal, double deadline_s,
           const std::function<Result<Prediction>(const Choice&)>& predict,
           const std::function<bool()>& enough)
      : space_(space), goal_(goal), deadline_s_(deadline_s), predict_(predict), enough_(enough) {}

  Advice Run() {
    for (const std::string& strategy : space_.on_servers) {
      for (uint32_t servers = 1; servers <= space_.most_servers; servers *= 2) {
        // More servers than workers gain nothing that faster links would not.
        if (!Climb(strategy, servers)) break;
      }
    }
    if (space_.allreduce) Climb("allreduce", 0);
    if (const auto best = Best()) {
      advice_.best = *best;
      // Between the doublings, and around.
      for (bool better = true; better && !enough_();) {
        better = false;
        for (const Choice& near : Near(advice_.best->choice)) Try(near);
        if (const auto now = Best(); now && now->choice != advice_.best->choice) {
          advice_.best = *now;
          better = true;
        }
      }
      for (const Choice& near : Near(advice_.best->choice)) {
        if (const auto tried = known_.find(near); tried != known_.end() && tried->second)
          advice_.neighbours.push_back({near, *tried->second});
      }
      if (const auto other =
              Best([this](const Choice& c) { return c.strategy != advice_.best->choice.strategy; }))
        advice_.neighbours.push_back(*other);
    }
    for (const auto& tried : advice_.tried) {
      if (!advice_.fastest || tried.prediction.seconds < advice_.fastest->prediction.seconds)
        advice_.fastest = tried;
    }
    return std::move(advice_);
  }

 private:
  // Doubles the workers while that is faster. False if more servers cannot help: the last number of them did
  // not.
  bool Climb(const std::string& strategy, uint32_t servers) {
    double last = 0, best = 0;
    for (uint32_t workers = servers == 0 ? 2 : 1; workers <= space_.most_workers && !enough_();
         workers *= 2) {
      if (workers < servers) continue;
      const auto prediction = Try({strategy, workers, servers});
      if (!prediction) break;
      const double speed = 1 / prediction->seconds;
      best = std::max(best, speed);
      if (last > 0 && speed < last * kLeastGain) break;
      last = speed;
    }
    const double before = std::exchange(best_of_[strategy], std::max(best, best_of_[strategy]));
    return before == 0 || best > before * kLeastGain;
  }

  std::optional<Prediction> Try(const Choice& choice) {
    if (const auto known = known_.find(choice); known != known_.end()) return known->second;
    if (enough_()) return std::nullopt;
    const Result<Prediction> prediction = predict_(choice);
    if (!prediction.ok()) return known_[choice] = std::nullopt;
    advice_.tried.push_back({choice, *prediction});
    known_[choice] = *prediction;
    return *prediction;
  }

  std::vector<Choice> Near(const Choice& of) const {
    std::vector<Choice> near;
    const auto add = [&](int64_t workers, int64_t servers) {
      const bool allowed = workers >= (of.servers == 0 ? 2 : 1) && workers <= space_.most_workers &&
                           (of.servers == 0 || (servers >= 1 && servers <= space_.most_servers));
      if (allowed)
        near.push_back({of.strategy, static_cast<uint32_t>(workers), static_cast<uint32_t>(servers)});
    };
    const int64_t workers = of.workers, servers = of.servers, step = std::max<int64_t>(1, workers / 4);
    add(workers - step, servers);
    add(workers + step, servers);
    if (servers > 0) {
      add(workers, servers - 1);
      add(workers, servers + 1);
    }
    return near;
  }

  bool Better(const Advice::Tried& a, const Advice::Tried& b) const {
    const auto value = [this](const Advice::Tried& t) {
      return goal_ == Goal::kTime ? t.prediction.seconds : t.prediction.cost;
    };
    if (value(a) * kEqual < value(b)) return true;
    if (value(b) * kEqual < value(a)) return false;
    const auto processes = [](const Advice::Tried& t) { return t.choice.workers + t.choice.servers; };
    if (processes(a) != processes(b)) return processes(a) < processes(b);
    // Costs and processes are equal here: the faster choice is better.
    return a.prediction.seconds < b.prediction.seconds;
  }

  std::optional<Advice::Tried> Best(const std::function<bool(const Choice&)>& allowed = [](const Choice&) {
    return true;
  }) const {
    std::optional<Advice::Tried> best;
    for (const auto& tried : advice_.tried) {
      if (!allowed(tried.choice) || (deadline_s_ > 0 && tried.prediction.seconds > deadline_s_)) continue;
      if (!best || Better(tried, *best)) best = tried;
    }
    return best;
  }

  const SearchSpace& space_;
  const Goal goal_;
  const double deadline_s_;
  const std::function<Result<Prediction>(const Choice&)>& predict_;
  const std::function<bool()>& enough_;
  std::map<Choice, std::optional<Prediction>> known_;
  std::map<std::string, double> best_of_;  // speed, by strategy
  Advice advice_;
};

}  // namespace

std::string Explain(Factor factor, const SeriesPoint& point) {
  const Usage& usage = point.usage;
  switch (factor) {
    case Factor::kInput:
      return "workers have nothing to train for " + Percent(usage.input_wait) +
             " of the time; the input's link is used to " + Percent(usage.source_link);
    case Factor::kServerLink:
      return "the busiest server's link is used to " + Percent(usage.server_link) +
             ": more servers, a faster link or another placement help";
    case Factor::kServerCpu:
      return "the busiest server computes for " + Percent(usage.server_cpu) +
             " of the time: more servers help";
    case Factor::kWorkerLink:
      return "the workers' links are used to " + Percent(usage.member_link) +
             ": a faster link or larger batches help";
    case Factor::kSlowestWorker: {
      return Formatted("the slowest worker takes %.1f times as long as the others, who wait for it",
                       usage.slowest);
    }
    case Factor::kStaleness: {
      return Formatted("gradients are %.1f updates old on average, so more events are needed",
                       usage.staleness);
    }
    case Factor::kBatch:
      if (point.target_events)
        return "the joint batch of all workers is so large that more events are needed";
      return "workers wait for messages for " + Percent(usage.wait) +
             " of the time, though no link is full: larger batches help";
    case Factor::kModel:
      return "workers compute for " + Percent(usage.compute) + " of the time: further workers help as much";
  }
  return "";
}

Factor LimitingFactor(const SeriesPoint& point, const SeriesPoint* before) {
  const Usage& usage = point.usage;
  // Learning: the speed grows, and yet the target comes no sooner.
  if (before != nullptr && before->target_events && point.target_events &&
      *point.target_events > kMoreEvents * *before->target_events) {
    const double more_events = *point.target_events / *before->target_events;
    const double faster = before->events_per_s > 0 ? point.events_per_s / before->events_per_s : 1;
    // The larger of the two losses: what more events cost, or what the speed lacks.
    const double expected = static_cast<double>(point.workers) / std::max(1u, before->workers);
    if (more_events > expected / std::max(faster, 1e-9))
      return usage.stepped ? Factor::kBatch : Factor::kStaleness;
  }
  if (usage.input_wait > kMuchWaiting || usage.source_link > kFull) return Factor::kInput;
  if (usage.server_link > kFull && usage.server_link >= usage.server_cpu) return Factor::kServerLink;
  if (usage.server_cpu > kFull) return Factor::kServerCpu;
  if (usage.member_link > kFull) return Factor::kWorkerLink;
  if (usage.stepped && usage.slowest > kSlow) return Factor::kSlowestWorker;
  if (usage.wait > kMuchWaiting) {
    // Nothing is full, but bursts of messages queue: at the busiest resource, if any is busy for half of the
    // time.
    const double busiest = std::max({usage.server_link, usage.server_cpu, usage.member_link});
    if (busiest < kFull / 2) return Factor::kBatch;
    if (busiest == usage.server_link) return Factor::kServerLink;
    return busiest == usage.server_cpu ? Factor::kServerCpu : Factor::kWorkerLink;
  }
  return Factor::kModel;
}

std::optional<SweetSpot> FindSweetSpot(const std::vector<SeriesPoint>& series, double gain, bool target) {
  const double first = Worth(series.front(), target) / std::max(1u, series.front().workers);
  if (!(first > 0)) {
    // The first point that is worth something takes its place.
    if (series.size() == 1) return std::nullopt;
    auto rest = FindSweetSpot({series.begin() + 1, series.end()}, gain, target);
    if (rest) ++rest->index;
    return rest;
  }
  // Worth that each worker between two points adds.
  const auto added = [&](size_t from, size_t to) {
    const double more = Worth(series[to], target) - Worth(series[from], target);
    return more / (static_cast<double>(series[to].workers) - series[from].workers) / first;
  };
  SweetSpot spot;
  for (size_t i = 1; i < series.size(); ++i) {
    if (added(spot.index, i) >= gain) spot.index = i;
  }
  spot.at_end = spot.index + 1 == series.size();
  if (spot.at_end) {
    spot.factor = LimitingFactor(series.back(), series.size() > 1 ? &series[series.size() - 2] : nullptr);
  } else {
    spot.marginal = added(spot.index, spot.index + 1);
    spot.factor = LimitingFactor(series[spot.index + 1], &series[spot.index]);
  }
  return spot;
}

Advice Search(const SearchSpace& space, Goal goal, double deadline_s,
              const std::function<Result<Prediction>(const Choice&)>& predict,
              const std::function<bool()>& enough) {
  return Searcher(space, goal, deadline_s, predict, enough).Run();
}

std::string Render(const Advice& advice, Goal goal, double deadline_s, const std::string& reason) {
  std::string text;
  if (!advice.best) {
    if (!advice.fastest) return "no choice could be predicted\n";
    return "no choice meets the deadline of " + TimeText(deadline_s) + "; the fastest of " +
           std::to_string(advice.tried.size()) + " is " + ChoiceText(advice.fastest->choice) + ": " +
           Predicted(advice.fastest->prediction) + "\n";
  }
  text += "recommended  " + ChoiceText(advice.best->choice) + "\n";
  text += "predicted    " + Predicted(advice.best->prediction) + "; the " +
          (goal == Goal::kTime ? "fastest" : "cheapest") + " of " + std::to_string(advice.tried.size()) +
          " choices" + (deadline_s > 0 ? " within " + TimeText(deadline_s) : "") + "\n";
  text += "because      " + reason + "\n";
  std::string neighbours;
  for (const auto& tried : advice.neighbours) {
    if (tried.choice.strategy == advice.best->choice.strategy)
      neighbours +=
          (neighbours.empty() ? "" : "; ") + ChoiceText(tried.choice) + ": " + Predicted(tried.prediction);
  }
  text += "neighbours   " + (neighbours.empty() ? "none" : neighbours) + "\n";
  const bool other =
      !advice.neighbours.empty() && advice.neighbours.back().choice.strategy != advice.best->choice.strategy;
  text += "otherwise    " +
          (other ? ChoiceText(advice.neighbours.back().choice) + ": " +
                       Predicted(advice.neighbours.back().prediction)
                 : std::string("no other strategy was tried")) +
          "\n";
  return text;
}

void ThroughputMeter::Add(Time now, uint64_t events) {
  if (events <= seen_) return;
  seen_ = events;
  if (!begun_) begun_ = now;
  if (now - *begun_ < warm_up_) return;
  last_ = {now, events};
  if (!first_) first_ = last_;
}

std::optional<double> ThroughputMeter::rate() const {
  if (measured() <= Duration(0)) return std::nullopt;
  return static_cast<double>(last_.events - first_->events) / Seconds(measured());
}

Target ParseTarget(const std::string& text) {
  Target target;
  const size_t equals = text.find('=');
  target.figure = text.substr(0, equals);
  const bool known = target.figure == "accuracy" || target.figure == "auc" || target.figure == "loss";
  target.value = ToNumber<double>(std::string_view(text).substr(equals + 1)).value_or(-1);
  if (!known || equals == text.npos || !std::isfinite(target.value) || target.value < 0)
    throw std::invalid_argument("target is '" + text + "'; must be accuracy=VALUE, auc=VALUE or loss=VALUE");
  return target;
}

void TargetWatch::OnStatus(const report::JobStatus& status) {
  // The figure of a window that is not full may be luck.
  if (!target_ || reached_ || status.window < target_->window) return;
  const report::Quality& quality = status.quality;
  const double value = target_->figure == "loss"  ? quality.loss
                       : target_->figure == "auc" ? quality.auc
                                                  : quality.accuracy.value_or(NAN);
  const auto events = static_cast<double>(status.events);
  const Moment now{status.training_s, events, value};
  const bool there = target_->figure == "loss" ? now.value <= target_->value : now.value >= target_->value;
  if (there) {
    // As if the figure had changed evenly since the last status, which may be a tenth of a second ago.
    const Moment& from = last_.value_or(now);
    const double part =
        from.value == now.value ? 1 : (target_->value - from.value) / (now.value - from.value);
    reached_ = {from.seconds + part * (now.seconds - from.seconds),
                from.events + part * (events - from.events)};
  } else if (!std::isnan(now.value)) {
    last_ = now;
  }
}

}  // namespace leat::study
