#include "net/tcp/background_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/rng.h"

namespace leat::net {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStep = microseconds(250);
constexpr double kStep_s = 250e-6;

// A link with a queue, shared by the connection under test and by others. The others are a function of the
// round trip and of whether the queue overflows, which returns their rate in bytes per second.
class SharedLink {
 public:
  using Others = std::function<double(double rtt, bool overflows)>;
  SharedLink(double capacity, Duration base) : capacity_(capacity), base_(Seconds(base)) {}

  struct Shares {
    double own = 0, others = 0;  // shares of the link
    double delay = 0;            // seconds in the queue, mean
  };
  // `reads`: the rate at which the peer reads.
  Shares Run(Duration time, const Others& others, double reads = 1e12) {
    Shares mean;
    const int steps = static_cast<int>(time / kStep);
    for (int i = 0; i < steps; ++i, now_ += kStep) {
      const double rtt = base_ + queue_ / capacity_;
      const double own = std::min(rate_.rate(), reads), other = others(rtt, overflows_);
      const double arrives = (own + other) * kStep_s;
      const double leaves = std::min(capacity_ * kStep_s, queue_ + arrives);
      const double part = own / std::max(own + other, 1.0);  // the queue is as mixed as what arrives
      queue_ += arrives - leaves;
      overflows_ = queue_ > kMaxDelay_s * capacity_;
      if (overflows_) {
        const double lost = queue_ - kMaxDelay_s * capacity_;
        queue_ -= lost;
        sample_.repeated += static_cast<uint64_t>(lost * part);
      }
      delivered_ += leaves * part;
      sent_ += on_interface ? leaves : leaves * part;
      mean.own += leaves * part / (capacity_ * kStep_s * steps);
      mean.others += leaves * (1 - part) / (capacity_ * kStep_s * steps);
      mean.delay += queue_ / capacity_ / steps;
      if (now_ - sampled_ >= BackgroundRate::kInterval) Sample(rtt);
    }
    return mean;
  }

  double noise = 0;    // seconds: the delay of most samples, by a busy processor
  uint64_t noisy = 9;  // noisy samples in ten
  bool knows_link = true;
  bool on_interface = true;  // the others send from this host, too
  double rate() const { return rate_.rate() / capacity_; }

 private:
  void Sample(double rtt) {
    sampled_ = now_;
    least_ = std::min(least_, rtt);
    if (rng_.Below(10) < noisy) rtt += noise;
    if (knows_link && now_ - link_ >= milliseconds(200)) {
      link_ = now_;
      sample_.link = 1 + static_cast<uint64_t>(sent_);
    }
    sample_.rtt = FromSeconds(rtt);
    sample_.min_rtt = FromSeconds(least_);
    sample_.delivered = static_cast<uint64_t>(delivered_);
    rate_.OnSample(now_, sample_);
  }

  static constexpr double kMaxDelay_s = 0.05;
  const double capacity_, base_;
  BackgroundRate rate_;
  Rng rng_{1};
  Time now_ = seconds(100), sampled_{0}, link_{0};
  double queue_ = 0, delivered_ = 0, sent_ = 0, least_ = 1;
  bool overflows_ = false;
  SenderSample sample_;
};

double Nobody(double, bool) {
  return 0;
}

// Connections that fill the queue until it overflows, and then halve their windows, as reno does.
SharedLink::Others Filling(double capacity, double base) {
  return [window = capacity * base, calm = 0.0](double rtt, bool overflows) mutable {
    calm -= kStep_s;
    if (overflows && calm <= 0) {
      window /= 2;
      calm = 2 * rtt;  // reacts once to a loss
    }
    window += 4 * 1448 * kStep_s / rtt;
    return window / rtt;
  };
}

// Connections that keep a short queue, as bbr does.
SharedLink::Others KeepingAQueue(double capacity, double base, double delay) {
  return [=](double rtt, bool) { return capacity * (base + delay) / rtt; };
}

constexpr double kGigabit = 125e6;

class BackgroundRateTest : public ::testing::TestWithParam<std::pair<double, Duration>> {
 protected:
  double capacity() const { return GetParam().first; }
  double base() const { return Seconds(GetParam().second); }
  SharedLink link_{GetParam().first, GetParam().second};
};

TEST_P(BackgroundRateTest, UsesALinkThatNobodyElseUses) {
  link_.Run(seconds(3), Nobody);
  const auto shares = link_.Run(seconds(20), Nobody);
  EXPECT_GT(shares.own, 0.88);
  EXPECT_LT(shares.delay, 1.5e-3 + base() / 3);
}

TEST_P(BackgroundRateTest, LeavesSmallTrafficAlone) {
  const auto little = [this](double, bool) { return 0.04 * capacity(); };
  link_.Run(seconds(3), little);
  const auto shares = link_.Run(seconds(20), little);
  EXPECT_GT(shares.own, 0.85);
  EXPECT_GT(shares.others, 0.038);
  EXPECT_LT(shares.delay, 1.5e-3 + base() / 3);
}

TEST_P(BackgroundRateTest, TakesASmallShareOfALinkThatOthersFill) {
  for (const auto& others : {Filling(capacity(), base()), KeepingAQueue(capacity(), base(), 4e-3 + base())}) {
    SharedLink link(capacity(), GetParam().second);
    link.Run(seconds(5), others);
    const auto shares = link.Run(seconds(20), others);
    EXPECT_GT(shares.own, 0.1);
    EXPECT_LT(shares.own, 0.15);
    EXPECT_GT(shares.others, 0.85);
  }
}

// The link is full elsewhere.
TEST_P(BackgroundRateTest, YieldsToTrafficOfOtherHostsMoreSlowly) {
  link_.on_interface = false;
  const auto others = KeepingAQueue(capacity(), base(), 4e-3 + base());
  link_.Run(seconds(3), Nobody);
  link_.Run(seconds(15), others);
  const auto shares = link_.Run(seconds(20), others);
  EXPECT_GT(shares.own, 0.1);
  EXPECT_LT(shares.own, 0.3);
}

TEST_P(BackgroundRateTest, FollowsTrafficThatComesAndGoes) {
  for (int i = 0; i < 4; ++i) {
    link_.Run(seconds(3), Nobody);
    EXPECT_GT(link_.Run(seconds(3), Nobody).own, 0.85) << i;
    const auto others = KeepingAQueue(capacity(), base(), 4e-3 + base());
    link_.Run(seconds(3), others);
    EXPECT_LT(link_.Run(seconds(3), others).own, 0.15) << i;
  }
}

TEST_P(BackgroundRateTest, ASlowReaderIsNoQueue) {
  link_.Run(seconds(5), Nobody);
  const auto slow = link_.Run(seconds(30), Nobody, 0.02 * capacity());
  EXPECT_NEAR(slow.own, 0.02, 1e-3);
  const auto again = link_.Run(seconds(3), Nobody);
  EXPECT_GT(again.own, 0.7) << "the first second included";
}

TEST_P(BackgroundRateTest, ABusyProcessorIsNoQueue) {
  link_.noise = 20e-3;
  link_.Run(seconds(3), Nobody);
  EXPECT_GT(link_.Run(seconds(20), Nobody).own, 0.85);
}

INSTANTIATE_TEST_SUITE_P(Links, BackgroundRateTest,
                         ::testing::Values(std::pair(kGigabit, Duration(microseconds(100))),
                                           std::pair(kGigabit / 10, Duration(milliseconds(1))),
                                           std::pair(10 * kGigabit, Duration(microseconds(100))),
                                           std::pair(kGigabit, Duration(milliseconds(20)))));

// The interface is unknown, and its own connection never had a larger part.
TEST(BackgroundRate, NeverStarves) {
  SharedLink link(kGigabit, microseconds(100));
  link.knows_link = false;
  const auto others = KeepingAQueue(kGigabit, 1e-4, 20e-3);
  const auto shares = link.Run(seconds(60), others);
  EXPECT_GE(link.rate() * kGigabit, BackgroundRate::kLowest);
  EXPECT_GT(shares.own, 0.0015);
}

// The interface may be faster than the path. The share is then one of the path, not of the interface.
TEST(BackgroundRate, TheShareIsAtMostWhatThePathHasDelivered) {
  BackgroundRate rate;
  SenderSample sample{.rtt = milliseconds(30), .min_rtt = milliseconds(1)};
  for (Time now = seconds(1); now < seconds(10); now += BackgroundRate::kInterval) {
    sample.delivered += 5'000;  // 1 MB/s
    if (now % milliseconds(500) == Time{0}) sample.link += 1'000'000'000;
    rate.OnSample(now, sample);
  }
  EXPECT_LT(rate.rate(), 1.6e6);
  EXPECT_GE(rate.rate(), BackgroundRate::kLowest);
}

TEST(BackgroundRate, KeepsItsRateAcrossAPause) {
  BackgroundRate rate;
  SenderSample sample{.rtt = microseconds(100), .min_rtt = microseconds(100)};
  Time now = seconds(1);
  const auto send = [&](int samples) {
    for (int i = 0; i < samples; ++i, now += BackgroundRate::kInterval) {
      sample.delivered += static_cast<uint64_t>(rate.rate() * Seconds(BackgroundRate::kInterval));
      rate.OnSample(now, sample);
    }
  };
  send(103);  // the last window is not complete
  const double before = rate.rate();
  EXPECT_GT(before, BackgroundRate::kFirst);
  now += seconds(60);
  sample.rtt = milliseconds(9);  // a single window with a queue is not enough
  send(8);
  EXPECT_EQ(rate.rate(), before);
}

TEST(BackgroundRate, AsksForLittleMoreThanASlowReaderTakes) {
  SharedLink link(kGigabit, microseconds(100));
  link.Run(seconds(5), Nobody, 0.02 * kGigabit);
  EXPECT_GT(link.rate(), 0.02);
  EXPECT_LT(link.rate(), 0.1);
}

}  // namespace
}  // namespace leat::net
