#include "net/tcp/background_rate.h"

#include <algorithm>
#include <cmath>

namespace leat::net {
namespace {

// A window lasts for two round trips, and for so many samples at least. Its shortest round trip tells a queue
// that stands from one that comes and goes, and from a processor that is busy.
constexpr int kWindowSamples = 4;
// Samples that are this far apart belong to different messages.
constexpr Duration kPause = std::chrono::milliseconds(200);

constexpr double kFirstRise = 2;     // per window, until the first queue
constexpr double kRise = 0.005;      // share of the link, per window near the rate of the last queue
constexpr int kClear = 8;            // windows without a queue, after which each rise is twice the one before
constexpr double kMaxRise = 0.1;     // share of the rate, per window
constexpr double kNear = 0.94;       // share of the last queue's rate, up to which it rises fast
constexpr double kApproach = 0.25;   // share of the distance, per window
constexpr double kFirstFall = 0.95;  // and as much as it takes to drain the queue …
constexpr int kDrainWindows = 4;     // … in this many windows
constexpr double kMaxDrain = 0.3;
// If others on this host send less than this share of the link's best rate, the link is hardly full because
// of them. Late processors may then explain the delay of many packets, so more windows must agree, and the
// rate falls in small steps.
constexpr double kFew = 0.25;
constexpr int kAlonePatience = 6;
constexpr double kMaxDrainAlone = 0.05;
constexpr double kMean = 0.3;          // weight of a new value in a moving mean
constexpr double kFills = 0.95;        // share of the sent bytes; if less arrives, they fill the link
constexpr double kWithHeaders = 1.05;  // bytes on the link, for each byte of a stream
constexpr double kFall = 0.7;          // share of the rate, once a queue has not drained: others fill it
constexpr double kMostOfPath =
    1.5;  // times the best rate of the path: the floor, if the path is slower than the link
constexpr double kMostAhead = 2;  // times the delivered rate: an unused rate is not asked for

}  // namespace

void BackgroundRate::Best::Add(Time now, double value) {
  if (now - since_ >= kForget) {
    before_ = now - since_ < 2 * kForget ? value_ : 0;
    value_ = 0;
    since_ = now;
  }
  value_ = std::max(value_, value);
}

double BackgroundRate::OnSample(Time now, const SenderSample& sample) {
  if (!has_first_ || now - last_ >= kPause) {
    has_first_ = true;
    samples_ = 0;
    link_first_ = {};
  }
  last_ = now;
  if (sample.link != link_first_.link) AddLink(now, sample);
  if (samples_ == 0) {
    begin_ = now;
    first_ = sample;
    least_rtt_ = sample.rtt;
  }
  least_rtt_ = std::min(least_rtt_, sample.rtt);
  if (samples_++ < kWindowSamples || now - begin_ < 2 * sample.rtt) return rate_;
  Decide(now, sample);
  samples_ = 0;
  return rate_;
}

void BackgroundRate::AddLink(Time now, const SenderSample& sample) {
  if (link_first_.link > 0 && sample.link > link_first_.link) {
    const double all = static_cast<double>(sample.link - link_first_.link) / Seconds(now - link_begin_);
    const double own =
        static_cast<double>(sample.delivered - link_first_.delivered) / Seconds(now - link_begin_);
    best_link_.Add(now, all);
    alone_ = all - kWithHeaders * own < kFew * best_link_.value();
  }
  link_begin_ = now;
  link_first_ = sample;
}

void BackgroundRate::Decide(Time now, const SenderSample& last) {
  const double delivered = static_cast<double>(last.delivered - first_.delivered) / Seconds(now - begin_);
  mean_delivered_ += kMean * (delivered - mean_delivered_);
  best_delivered_.Add(now, mean_delivered_);
  mean_rate_ += kMean * (rate_ - mean_rate_);
  const Duration allowed = std::max<Duration>(kQueue, last.min_rtt / kQueuePart);
  const Duration queue = least_rtt_ - last.min_rtt;
  if (queue > allowed || last.repeated > first_.repeated) {
    Fall(now, last, queue);
  } else {
    Rise(delivered);
  }
  rate_ = std::max(rate_, Floor());
}

void BackgroundRate::Rise(double delivered) {
  congested_ = falls_ = 0;
  ++clear_;
  const double most = std::max(rate_, kMostAhead * delivered);
  const double link = std::max({best_link_.value(), best_delivered_.value(), rate_});
  double rise = rate_ * (kFirstRise - 1);
  if (knee_ > 0) {
    const double near = kNear * (alone_ ? std::max(knee_, best_delivered_.value()) : knee_);
    if (delivered < kFills * rate_) clear_ = 0;  // it is not used
    rise = clear_ == 0 ? 0 : kRise * std::exp2(std::max(0, clear_ - kClear)) * link;
    rise = std::max(std::min(rise, kMaxRise * rate_), kApproach * (near - rate_));
  }
  rate_ = std::min(rate_ + rise, most);
}

void BackgroundRate::Fall(Time now, const SenderSample& last, Duration queue) {
  if (congested_++ == 0) {
    streak_begin_ = begin_;
    streak_first_ = first_.delivered;
  }
  // More is sent than arrives.
  const bool fills = mean_delivered_ < kFills * mean_rate_;
  if (alone_ && !fills && congested_ < kAlonePatience) return;
  clear_ = 0;
  const double used =
      std::min(rate_, static_cast<double>(last.delivered - streak_first_) / Seconds(now - streak_begin_));
  const double drain = std::max(Seconds(queue), 0.0) / Seconds(now - begin_) / kDrainWindows;
  // A queue that has shrunk was this connection's own, but has more left than expected.
  if (falls_ > kDrainWindows && (alone_ || queue < queue_ / 2)) falls_ = 0;
  if (falls_ == 0) knee_ = used;
  if (falls_ <= 1) {  // the queue still grows in the window in which it is found
    queue_ = queue;
    rate_ = (kFirstFall - std::min(drain, alone_ && !fills ? kMaxDrainAlone : kMaxDrain)) * knee_;
  } else if (falls_ > kDrainWindows) {
    rate_ = kFall * used;
    knee_ = rate_;
  }
  ++falls_;
}

double BackgroundRate::Floor() const {
  return std::max(kLowest, std::min(kShare * best_link_.value(), kMostOfPath * best_delivered_.value()));
}

}  // namespace leat::net
