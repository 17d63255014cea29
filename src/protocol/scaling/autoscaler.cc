#include "protocol/scaling/autoscaler.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/text.h"

namespace leat::protocol {

namespace {

constexpr Duration kSpacing = std::chrono::milliseconds(200);
constexpr Duration kLongestRecent = std::chrono::seconds(30);
constexpr uint64_t kMoves = 10;

using std::chrono::minutes;
using std::chrono::seconds;

// Wait this long for the first workers of a job, and for workers that come back to a new coordinator.
constexpr Duration kArrivals = seconds(5);
// A condition must hold this long before we act on it.
constexpr Duration kSustained = seconds(2);
constexpr Duration kMeasure = seconds(10);
constexpr Duration kLongestMeasure = seconds(30);
// A job falls behind if it will exceed its limit within this time.
constexpr Duration kForecast = seconds(15);
constexpr double kFalling = 1.1;  // arrivals per trained event
// A lag should be worked off within this time.
constexpr Duration kCatchUp = seconds(60);
// Least gain of an added worker, relative to its fair share of the throughput.
constexpr double kLeastGain = 0.2;
// A gain below this one is measured for longer.
constexpr double kCertainGain = 0.5;
constexpr Duration kTryAgain = minutes(10);
constexpr double kOtherBottleneck = 0.2;
// Workers are given up if the others can train this many times what comes.
constexpr double kHeadroom = 1.25;
constexpr Duration kPatience = seconds(8), kMostPatience = minutes(10);
// Workers were given up too early if more are wanted within this time.
constexpr Duration kRegret = minutes(2);
constexpr Duration kForget = std::chrono::hours(1);
// Try one worker less after this time if it is not known what fewer workers can do.
constexpr Duration kTrial = seconds(60);

std::string Number(double x) {
  return std::to_string(std::llround(x));
}

std::string Tenths(Duration time) {
  return Formatted("%.1f s", Seconds(time));
}

std::string Traffic(const LoadWindow::Rates& rates) {
  return Number(rates.arrival) + " events/s come, " + Number(rates.throughput) + " are trained";
}

void Update(Time now, bool holds, std::optional<Time>* since) {
  if (!holds) {
    since->reset();
  } else if (!*since) {
    *since = now;
  }
}

bool Lasted(Time now, const std::optional<Time>& since, Duration time) {
  return since && now - *since >= time;
}

}  // namespace

bool LoadWindow::Add(Time now, uint64_t arrived, uint64_t trained) {
  bool same = true;
  if (!samples_.empty()) {
    const Sample& last = samples_.back();
    same = arrived >= last.arrived && trained >= last.trained;
    if (!same) samples_.clear();
    if (same && now - last.at < kSpacing) return true;
  }
  Sample sample{.at = now, .arrived = arrived, .trained = trained};
  if (!samples_.empty()) sample.moves = samples_.back().moves + (trained > samples_.back().trained ? 1 : 0);
  samples_.push_back(sample);
  if (const auto recent = Recent()) samples_.back().arrival = recent->arrival;
  while (now - samples_.front().at > kLength) samples_.pop_front();
  return same;
}

std::optional<LoadWindow::Rates> LoadWindow::Between(const Sample& first, const Sample& last) const {
  const Duration span = last.at - first.at;
  if (span < kShortest) return std::nullopt;
  return Rates{.arrival = static_cast<double>(last.arrived - first.arrived) / Seconds(span),
               .throughput = static_cast<double>(last.trained - first.trained) / Seconds(span)};
}

std::optional<LoadWindow::Rates> LoadWindow::Since(Time from) const {
  const auto first = std::ranges::lower_bound(samples_, from, {}, &Sample::at);
  if (first == samples_.end()) return std::nullopt;
  return Between(*first, samples_.back());
}

std::optional<LoadWindow::Rates> LoadWindow::Recent() const {
  if (samples_.empty()) return std::nullopt;
  const Sample& last = samples_.back();
  for (auto first = samples_.rbegin(); first != samples_.rend(); ++first) {
    const Duration span = last.at - first->at;
    if (span >= kShortest && (last.moves - first->moves >= kMoves || span >= kLongestRecent))
      return Between(*first, last);
  }
  return Between(samples_.front(), last);
}

double LoadWindow::PeakArrival(Time from) const {
  double peak = 0;
  for (auto sample = samples_.rbegin(); sample != samples_.rend() && sample->at >= from; ++sample)
    peak = std::max(peak, sample->arrival);
  return peak;
}

std::optional<double> WorkerGains::Gain(uint32_t workers) const {
  const auto here = sizes_.find(workers);
  if (here == sizes_.end() || here == sizes_.begin() || !here->second.settled) return std::nullopt;
  const auto& [fewer, before] = *std::prev(here);
  const double gain = (here->second.throughput - before.throughput) / (workers - fewer);
  return gain > 0 ? std::optional(gain) : std::nullopt;
}

bool WorkerGains::Knows(uint32_t workers, Time since) const {
  const auto at = sizes_.find(workers);
  return at != sizes_.end() && at->second.at >= since;
}

double WorkerGains::AtLeast(uint32_t workers, uint32_t present, double throughput) const {
  if (const auto at = sizes_.find(workers); at != sizes_.end()) return at->second.throughput;
  const auto next = sizes_.upper_bound(workers);
  const uint32_t fewer = next == sizes_.begin() ? 0 : std::prev(next)->first;
  const double before = next == sizes_.begin() ? 0 : std::prev(next)->second.throughput;
  // On the line from `fewer` to a larger size.
  const auto towards = [&](uint32_t more, double above) {
    return before + (above - before) * (workers - fewer) / (more - fewer);
  };
  double least = before;
  if (next != sizes_.end()) least = std::max(least, towards(next->first, next->second.throughput));
  // They may be able to do more than what is seen now.
  if (present >= workers) least = std::max(least, towards(present, throughput));
  return least;
}

void Autoscaler::SetRange(uint32_t least, uint32_t most) {
  config_.least = least;
  config_.most = most;
  if (decision_.workers > 0) decision_.workers = std::clamp(decision_.workers, least, most);
}

const ScaleDecision& Autoscaler::OnLoad(Time now, const Load& load) {
  if (!load.training) {
    Rest(load);
    return decision_;
  }
  Note(now, load);
  const bool behind = Behind(now, load);
  if (Adopt(now) || GiveUpUseless(now)) return decision_;
  behind ? Grow(now, load) : Shrink(now, load);
  return decision_;
}

// Restarts measuring: earlier samples are not comparable.
void Autoscaler::Rest(const Load& load) {
  resting_ = true;
  window_.Clear();
  before_.reset();
  decided_on_.reset();
  measured_.reset();
  lag_since_.reset();
  over_since_.reset();
  falling_since_.reset();
  quiet_since_.reset();
  Stay("the job does not train now; it has " + Plural(load.workers, "worker"));
}

void Autoscaler::Note(Time now, const Load& load) {
  if (resting_) {
    resting_ = false;
    workers_ = load.workers;
    servers_ = load.servers;
    changed_at_ = now;
    if (!begun_) begun_ = now;
  }
  if (load.servers != servers_) OnServers(now, load.servers);
  if (load.workers != workers_) OnMembership(now, load.workers);
  if (!window_.Add(now, load.arrived, load.trained)) {
    lag_since_.reset();
    measured_.reset();
    before_.reset();
  }
  Update(now, load.oldest >= config_.lag / 2, &lag_since_);
  Update(now, load.oldest >= config_.lag, &over_since_);
  Measure(now);
}

// Servers may be, or have been, what the workers wait for.
void Autoscaler::OnServers(Time now, uint32_t servers) {
  servers_ = servers;
  changed_at_ = now;
  window_.Clear();
  gains_.Clear();
  limit_.reset();
  before_.reset();
  decided_on_.reset();
  measured_.reset();
  lag_since_.reset();
}

// Rates since the job fell behind, while all workers have had work; none if it keeps up.
std::optional<LoadWindow::Rates> Autoscaler::WhileBehind(Time now) const {
  if (!lag_since_ && !falling_since_) return std::nullopt;
  const Time since = std::min(lag_since_.value_or(now), falling_since_.value_or(now));
  return window_.Since(std::max({since, changed_at_, now - kLongestMeasure}));
}

void Autoscaler::OnMembership(Time now, uint32_t workers) {
  if (const auto rates = WhileBehind(now); rates && workers_ > 0) {
    before_ = {workers_, rates->throughput};
    gains_.Record(now, workers_, rates->throughput, measured_.has_value());
  } else if (decided_on_ && decided_on_->workers == workers_) {
    before_ = decided_on_;
  } else if (now - changed_at_ >= LoadWindow::kShortest) {
    before_.reset();  // otherwise several come one after the other
  }
  decided_on_.reset();
  workers_ = workers;
  changed_at_ = now;
  window_.Clear();
  measured_.reset();
  lag_since_.reset();
}

void Autoscaler::Measure(Time now) {
  if (!lag_since_) return;
  const Duration time = std::min(now - std::max(changed_at_, *lag_since_), kLongestMeasure);
  if (time < kMeasure) return;
  const auto rates = window_.Since(now - time);
  if (!rates) return;
  measured_ = {rates->throughput, time};
  gains_.Record(now, workers_, rates->throughput, true);
}

bool Autoscaler::Behind(Time now, const Load& load) {
  const auto rates = window_.Recent();
  const bool known = rates && rates->throughput > 0;
  const double more = known ? rates->arrival / rates->throughput : 1;
  const auto soon =
      known ? load.oldest + FromSeconds(Seconds(kForecast) * std::min(more - 1, 1e3)) : load.oldest;
  Update(now, more >= kFalling && soon >= config_.lag, &falling_since_);
  Update(now, !over_since_ && !falling_since_, &quiet_since_);
  if (!rates) return false;
  if (Lasted(now, falling_since_, kSustained)) return true;
  const double surplus = rates->throughput - rates->arrival;
  const bool draining = surplus > 0 && static_cast<double>(load.lag) <= surplus * Seconds(kCatchUp);
  return Lasted(now, over_since_, kSustained) && !draining;
}

bool Autoscaler::Adopt(Time now) {
  if (decision_.workers > 0) return false;
  if (now - *begun_ < kArrivals) {
    Stay("training has begun " + Tenths(now - *begun_) + " ago");
  } else {
    decision_.workers = std::clamp(workers_, config_.least, config_.most);
    Stay("the job begins with " + Plural(workers_, "worker"));
  }
  return true;
}

// Keeps as many of the workers added together as the gain would have taken at the former workers' pace.
bool Autoscaler::GiveUpUseless(Time now) {
  if (!before_ || !measured_ || workers_ <= before_->workers) return false;
  const Before before = *before_;
  const uint32_t added = workers_ - before.workers;
  const double gain = measured_->throughput - before.throughput;
  const double share = before.throughput / before.workers;
  const double needed = share > 0 ? std::ceil(gain / share - kLeastGain) : added;
  const auto helped = static_cast<uint32_t>(std::clamp(needed, 0.0, static_cast<double>(added)));
  if (helped == added) {
    if (gain >= kCertainGain * share * added || measured_->time >= kLongestMeasure) before_.reset();
    return false;
  }
  before_.reset();
  limit_ = {before.workers + helped, measured_->throughput, now};
  const uint32_t kept = std::max(limit_->workers, config_.least);
  if (kept >= workers_) return false;
  Decide(now, kept,
         Plural(added, "worker") + " more added " + Number(gain) + " events/s to " +
             Number(before.throughput) + "; more than " + std::to_string(limit_->workers) +
             " are tried again in 10 minutes, or when the throughput changes by 20 %");
  return true;
}

void Autoscaler::Grow(Time now, const Load& load) {
  const auto rates = window_.Recent();
  if (!rates) return;
  const std::string lag = "lag " + Tenths(load.oldest);
  if (decision_.workers > workers_) {
    return Stay(lag + "; waiting for workers, " + std::to_string(workers_) + " of " +
                std::to_string(decision_.workers) + " are there");
  }
  if (workers_ >= config_.most) return Stay(lag + "; the job has the most workers that it may have");
  const bool again = limit_ && workers_ >= limit_->workers;
  if (again && !LimitIsOver(now)) {
    return Stay(lag + "; more than " + Plural(limit_->workers, "worker") + " did not help " +
                Tenths(now - limit_->at) + " ago");
  }
  const Duration pause = before_ && measured_ ? kLongestMeasure : kMeasure;
  const auto present = WhileBehind(now);
  if (now - last_change() < std::max(config_.cool_down, pause) || !present) {
    return Stay(lag + "; the last change was " + Tenths(now - last_change()) + " ago");
  }
  if (again) {
    gains_.ForgetAbove(limit_->workers);
    limit_.reset();
  }
  if (shrunk_at_ && now - *shrunk_at_ <= kRegret) {
    patience_ = std::min(2 * std::max(patience_, kPatience), kMostPatience);
    regretted_at_ = now;
  }
  shrunk_at_.reset();
  const uint32_t added = again ? 1 : Added(load, *rates);
  const auto gain = gains_.Gain(workers_);
  if (workers_ > 0) decided_on_ = {workers_, present->throughput};
  Decide(now, std::min(workers_ + added, config_.most),
         lag + ", " + Traffic(*rates) +
             (again || !gain ? "; one more is tried" : "; one more adds " + Number(*gain)));
}

uint32_t Autoscaler::Added(const Load& load, const LoadWindow::Rates& rates) const {
  const auto gain = gains_.Gain(workers_);
  if (!gain) return 1;
  const double lacking = rates.arrival + static_cast<double>(load.lag) / Seconds(kCatchUp) - rates.throughput;
  uint32_t most = std::max(workers_, 1u);  // it may not go on like that
  if (limit_) most = std::min(most, limit_->workers - workers_);
  return static_cast<uint32_t>(std::clamp(std::ceil(lacking / *gain), 1.0, static_cast<double>(most)));
}

bool Autoscaler::LimitIsOver(Time now) const {
  if (now - limit_->at >= kTryAgain) return true;
  return workers_ == limit_->workers && measured_ &&
         std::abs(measured_->throughput - limit_->throughput) >= kOtherBottleneck * limit_->throughput;
}

void Autoscaler::Shrink(Time now, const Load& load) {
  const std::string lag = "lag " + Tenths(load.oldest);
  if (regretted_at_ && now - *regretted_at_ >= kForget) {
    regretted_at_.reset();
    patience_ = Duration{0};
  }
  const Duration patience = std::max(patience_, kPatience);
  const auto rates = window_.Since(now - patience);
  if (decision_.workers <= config_.least || !Lasted(now, quiet_since_, patience) || !rates ||
      now - last_change() < std::max(patience, config_.cool_down))
    return Stay(lag);
  const double arrival = std::max(rates->arrival, window_.PeakArrival(now - patience));
  if (const auto enough = Enough(load, arrival, rates->throughput)) {
    shrunk_at_ = now;
    return Decide(now, *enough,
                  lag + "; " + Number(arrival) + " events/s come at most, and " + Plural(*enough, "worker") +
                      " can train " + Number(gains_.AtLeast(*enough, workers_, rates->throughput)));
  }
  const uint32_t fewer = decision_.workers - 1;
  if (Lasted(now, quiet_since_, kTrial) && now - last_change() >= kTrial && !lag_since_ &&
      !gains_.Knows(fewer, now - kForget)) {
    shrunk_at_ = now;
    return Decide(now, fewer, lag + " for " + Tenths(now - *quiet_since_) + "; one less may be enough");
  }
  Stay(lag);
}

std::optional<uint32_t> Autoscaler::Enough(const Load& load, double arrival, double throughput) const {
  const double demand = kHeadroom * arrival + static_cast<double>(load.lag) / Seconds(kCatchUp);
  for (uint32_t workers = config_.least; workers < decision_.workers; ++workers) {
    if (gains_.AtLeast(workers, workers_, throughput) >= demand) return workers;
  }
  return std::nullopt;
}

void Autoscaler::Decide(Time now, uint32_t workers, const std::string& why) {
  decision_.reason =
      "from " + std::to_string(decision_.workers) + " to " + Plural(workers, "worker") + ": " + why;
  decision_.workers = workers;
  decided_at_ = now;
}

void Autoscaler::Stay(const std::string& why) {
  const std::string workers = decision_.workers > 0 ? Plural(decision_.workers, "worker") + ": " : "";
  decision_.reason = workers + why;
}

bool Activity::OnLoad(Time now, const Load& load, bool open) {
  const bool work = load.lag > 0 || open || load.arrived != arrived_;
  arrived_ = load.arrived;
  // Work is work, whether it can be done now or not.
  if (work) {
    active_ = true;
    silent_since_.reset();
  } else if (!load.ready) {
    silent_since_.reset();
  } else {
    if (!silent_since_) silent_since_ = now;
    if (now - *silent_since_ >= kPause) active_ = false;
  }
  return active_;
}

}  // namespace leat::protocol
