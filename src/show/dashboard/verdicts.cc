#include "show/dashboard/dashboard.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/text.h"

namespace leat::observe {
namespace {

using Level = Verdict::Level;

// How long what has happened is worth a warning.
constexpr double kRecent_s = 60;
constexpr double kDriftRecent_s = 300;
// A job that is less behind is up to date.
constexpr double kUpToDate_s = 5;
// A loss that changes by less is steady.
constexpr double kSteady = 0.01;
constexpr double kWorse = 0.05;
// A server with more than this times an even share of the traffic holds up the others.
constexpr double kUneven = 1.5;
// From this share of the workers' time on, something limits the job.
constexpr double kMost = 0.5;

std::string Count(double x) {
  if (!std::isfinite(x)) return "?";
  if (x >= 999'500) return Formatted("%.3g M", x / 1e6);
  if (x >= 9'995) return Formatted("%.3gk", x / 1e3);
  return Formatted("%.0f", x);
}

std::string Span(double s) {
  if (s < 1) return Formatted("%.0f ms", s * 1000);
  if (s < 10) return Formatted("%.1f s", s);
  if (s < 90) return Formatted("%.0f s", s);
  if (s < 5400) return Formatted("%.0f min", s / 60);
  if (s < 36 * 3600.0) return Formatted("%.0f h", s / 3600);
  return Formatted("%.0f days", s / 86400);
}

// A share.
std::string Percent(double x) {
  return x > 0 && x < 0.01 ? "under 1 %" : Formatted("%.0f %%", x * 100);
}

// The mean of the known figures of the samples that end in (from, to]; none if there are none.
std::optional<double> MeanOf(const std::vector<Sample>& samples, Series series, double from, double to) {
  double sum = 0, span = 0;
  for (const Sample& sample : samples) {
    const double figure = static_cast<double>(sample[series]);
    if (sample.time_s <= from || sample.time_s > to || !std::isfinite(figure)) continue;
    sum += figure * static_cast<double>(sample.span_s);
    span += static_cast<double>(sample.span_s);
  }
  return span > 0 ? std::optional(sum / span) : std::nullopt;
}

std::optional<double> MeanOfLast(const Evidence& e, Series series, double seconds) {
  return MeanOf(e.recent, series, e.now.time_s - seconds, e.now.time_s);
}

const Event* LastOf(const Evidence& e, std::initializer_list<Event::Kind> kinds, double seconds) {
  for (auto event = e.events.rbegin(); event != e.events.rend(); ++event) {
    if (event->time_s < e.now.time_s - seconds) break;
    if (std::ranges::find(kinds, event->kind) != kinds.end()) return &*event;
  }
  return nullptr;
}

std::string Ago(const Evidence& e, const Event& event) {
  return Span(std::max(0.0, std::floor(e.now.time_s - event.time_s))) + " ago";
}

std::string AllWell(const Reading& now) {
  std::string text = Plural(now.members.size(), "member");
  text += now.members.size() == 1 ? " is well" : " are well";
  if (now.checkpoint) text += "; " + now.checkpoint->substr(now.checkpoint->rfind('/') + 1) + " is complete";
  return text;
}

}  // namespace

Verdict Health(const Evidence& e) {
  const Reading& now = e.now;
  if (now.phase == "ended")
    return {Level::kNone, "The job has ended",
            Count(static_cast<double>(now.events)) + " events are trained"};
  if (!e.live)
    return {Level::kBad, "No coordinator reports here",
            "it has crashed or was stopped, or another one has taken over"};
  for (const MemberStatus& m : now.members) {
    if (m.stuck) return {Level::kBad, m.name.Text() + " is stuck", "its process is alive and does nothing"};
    if (!m.unreachable.empty())
      return {Level::kBad, m.name.Text() + " cannot reach " + m.unreachable.front(),
              "check the network between their hosts"};
  }
  if (!now.waiting_for.empty()) return {Level::kBad, "Waiting", "for " + now.waiting_for};
  if (!now.checkpoint_failure.empty())
    return {Level::kBad, "The last checkpoint failed", now.checkpoint_failure};
  if (now.phase.starts_with("waiting")) return {Level::kWarn, "Not training yet", now.phase};
  const size_t workers = now.Count("worker"), servers = now.Count("ps");
  const size_t wanted_workers = now.wanted ? now.wanted->workers.value_or(0) : 0,
               wanted_servers = now.wanted ? now.wanted->ps.value_or(0) : 0;
  if (now.phase == "running" && workers == 0)
    return {Level::kBad, "No worker is there", "nothing is being trained"};
  const Event* died = LastOf(e, {Event::Kind::kDied}, kRecent_s);
  if (now.phase == "running" && (workers < wanted_workers || servers < wanted_servers)) {
    const bool worker = workers < wanted_workers;
    return {Level::kWarn,
            Formatted("%zu of %zu %s are there", worker ? workers : servers,
                      worker ? wanted_workers : wanted_servers, worker ? "workers" : "servers"),
            died != nullptr ? died->text + ", " + Ago(e, *died) : "the others have not joined yet"};
  }
  if (now.conflicts > 0)
    return {Level::kBad, "Batches contradict each other",
            Count(static_cast<double>(now.conflicts)) + " were refused by ledgers"};
  if (died != nullptr) return {Level::kWarn, died->text, Ago(e, *died) + "; " + AllWell(now)};
  if (const Event* failed = LastOf(e, {Event::Kind::kCheckpointFailed}, kRecent_s))
    return {Level::kWarn, "A checkpoint failed", Ago(e, *failed) + ": " + failed->text};
  if (const auto dead = MeanOfLast(e, Series::kDeadLettersPerS, kRecent_s); dead && *dead > 0)
    return {Level::kWarn, "Some records do not fit",
            Count(static_cast<double>(now.dead_letters)) + " dead letters so far"};
  if (now.phase == "paused") return {Level::kWarn, "Paused", "leat continue goes on with it"};
  if (!now.warnings.empty()) return {Level::kWarn, "Yes, with a warning", now.warnings.front()};
  return {Level::kGood, "Yes", AllWell(now)};
}

Verdict Learning(const Evidence& e) {
  const Reading& now = e.now;
  const report::Quality& q = now.quality;
  if (now.rejected_batches > 0 && !std::isfinite(q.loss))
    return {Level::kBad, "The loss is not a number", "try a smaller learning rate, or clipping"};
  if (!std::isfinite(q.loss)) return {Level::kNone, "Not known yet", "no event has been trained"};
  std::string quality;
  if (std::isfinite(q.auc)) {
    quality = Formatted("AUC %.4f", q.auc);
    if (std::isfinite(now.auc_possible.value_or(kUnknown)))
      quality += Formatted(" of a possible %.4f", *now.auc_possible);
  } else if (std::isfinite(q.accuracy.value_or(kUnknown))) {
    quality = Formatted("accuracy %.4f", *q.accuracy);
  } else if (std::isfinite(q.mae.value_or(kUnknown))) {
    quality = Formatted("mean absolute error %.4g", *q.mae);
  }
  const auto with = [&quality](std::string text) { return quality.empty() ? text : text + "; " + quality; };
  if (const Event* drift = LastOf(e, {Event::Kind::kDrift}, kDriftRecent_s))
    return {Level::kWarn, "The stream drifts", with(Ago(e, *drift))};
  const std::string loss = Formatted("loss %.4g", q.loss);
  const double begin = e.recent.empty() ? now.time_s : e.recent.front().time_s;
  const double fifth = (now.time_s - begin) / 5;
  const auto first = MeanOf(e.recent, Series::kLoss, begin - 1, begin + fifth);
  const auto last = MeanOf(e.recent, Series::kLoss, now.time_s - fifth, now.time_s);
  if (now.time_s - begin < 5 || !first || !last) return {Level::kGood, "It begins: " + loss, quality};
  const double change = (*last - *first) / std::max(std::abs(*first), 1e-12);
  const std::string in = " in " + Span(now.time_s - begin);
  if (change > kWorse)
    return {Level::kWarn, "The loss grows", with(Formatted("from %.4g to %.4g", *first, *last) + in)};
  if (change < -kSteady) return {Level::kGood, "Yes: " + loss, with(Formatted("from %.4g", *first) + in)};
  return {Level::kGood, "Steady: " + loss, with(Formatted("changed by %.1f %%", change * 100) + in)};
}

Verdict Pace(const Evidence& e) {
  const Reading& now = e.now;
  const auto lag = static_cast<double>(now.lag);
  if (now.phase == "ended")
    return {Level::kNone, now.lag > 0 ? Count(lag) + " events are left" : "Everything is trained", ""};
  const auto trained = MeanOfLast(e, Series::kEventsPerS, 30),
             arrived = MeanOfLast(e, Series::kArrivedPerS, 30);
  if (now.phase != "running" || !trained || !arrived) return {Level::kNone, "Not known yet", ""};
  const std::string rates = Count(*arrived) + " events/s arrive, " + Count(*trained) + " are trained";
  if (now.lag_s <= kUpToDate_s) return {Level::kGood, "Yes: " + Span(now.lag_s) + " behind", rates};
  const double gain = *trained - *arrived;
  const std::string left = Count(lag) + " events";
  if (*arrived < 1 && *trained >= 1)
    return {Level::kGood, "About " + Span(lag / *trained) + " left",
            left + " to train, " + Count(*trained) + " a second"};
  if (gain > 0.02 * *arrived)
    return {Level::kWarn, "Catching up", left + " behind; done in about " + Span(lag / gain)};
  if (gain >= -0.02 * *arrived) return {Level::kWarn, Span(now.lag_s) + " behind, and steady", rates};
  return {Level::kBad, "No: " + Span(now.lag_s) + " behind", rates};
}

Verdict Limit(const Evidence& e) {
  const Reading& now = e.now;
  if (now.phase != "running" || e.recent.empty()) return {Level::kNone, "Not known yet", ""};
  std::vector<double> steps;
  const MemberStatus* slowest = nullptr;
  for (const MemberStatus& m : now.members) {
    if (m.name.role != "worker" || !m.worker || !std::isfinite(m.worker->step_ms)) continue;
    steps.push_back(m.worker->step_ms);
    if (m.worker->slow && (slowest == nullptr || m.worker->step_ms > slowest->worker->step_ms)) slowest = &m;
  }
  if (slowest != nullptr) {
    std::ranges::sort(steps);
    const double usual = steps[(steps.size() - 1) / 2];
    return {Level::kWarn, slowest->name.Text() + " is slow",
            Formatted("%.3g ms a step, %.1f times the usual; it is on ", slowest->worker->step_ms,
                      slowest->worker->step_ms / usual) +
                slowest->host};
  }
  // The traffic of each server over the last seconds.
  std::map<uint32_t, double> traffic;
  double all = 0;
  for (const Sample& sample : e.recent) {
    if (sample.time_s <= now.time_s - 15) continue;
    for (const MemberSample& m : sample.members) {
      if (m.role != MemberSample::Role::kServer || std::isnan(m.figures[0])) continue;
      traffic[m.index] += static_cast<double>(m.figures[0] * sample.span_s);
      all += static_cast<double>(m.figures[0] * sample.span_s);
    }
  }
  const auto wait = MeanOfLast(e, Series::kWait, 30), input = MeanOfLast(e, Series::kInputWait, 30),
             compute = MeanOfLast(e, Series::kCompute, 30);
  if (traffic.size() > 1 && all > 0) {
    const auto most = std::ranges::max_element(traffic, {}, [](const auto& entry) { return entry.second; });
    const double share = most->second / all, even = 1.0 / static_cast<double>(traffic.size());
    if (share > kUneven * even && wait && *wait > 0.1)
      return {Level::kWarn, Formatted("ps %u has %.0f %% of the traffic", most->first, share * 100),
              Formatted("an even share is %.0f %%; workers wait for servers %.0f %% of their time. Try "
                        "placement: partitioned",
                        even * 100, *wait * 100)};
  }
  if (!compute || !wait || !input) return {Level::kNone, "Not known yet", ""};
  const std::string split = "computing " + Percent(*compute) + ", waiting for servers " + Percent(*wait) +
                            ", for input " + Percent(*input);
  if (*input >= kMost) {
    // Workers that have trained all there is wait for more.
    const bool idle = now.lag_s <= kUpToDate_s;
    return {idle ? Level::kGood : Level::kWarn,
            idle ? "The stream: workers have time left" : "Reading and decoding", split};
  }
  if (*wait >= kMost) return {Level::kWarn, "The servers, or the network", split};
  if (*compute >= kMost) return {Level::kGood, "Computing", split};
  return {Level::kGood, "Nothing stands out", split};
}

std::vector<Verdict> Verdicts(const Evidence& evidence) {
  std::vector<Verdict> verdicts;
  const auto ask = [&](const char* what, Verdict (*question)(const Evidence&)) {
    verdicts.push_back(question(evidence));
    verdicts.back().what = what;
  };
  ask("health", Health);
  ask("learning", Learning);
  ask("pace", Pace);
  ask("limit", Limit);
  return verdicts;
}

}  // namespace leat::observe
