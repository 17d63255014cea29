#include "show/history/sample.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace leat::observe {
namespace {

// A sum that is smaller than before began anew.
float Rate(double now, double before, double seconds) {
  return seconds > 0 && now >= before ? static_cast<float>((now - before) / seconds) : kUnknownValue;
}

float MeanStaleness(const std::vector<uint64_t>& now, const std::vector<uint64_t>& before) {
  double count = 0, sum = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    const double updates =
        static_cast<double>(now[i]) - static_cast<double>(i < before.size() ? before[i] : 0);
    if (updates < 0) return kUnknownValue;
    count += updates;
    sum += updates * static_cast<double>(i);
  }
  return count > 0 ? static_cast<float>(sum / count) : kUnknownValue;
}

float Mean(float a, float span_a, float b, float span_b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  return (a * span_a + b * span_b) / (span_a + span_b);
}

using enum Series;
using M = MemberStatus;

MemberSample Measure(const M& now, const M* before, double seconds) {
  MemberSample sample;
  sample.role = now.name.role == "worker" ? MemberSample::Role::kWorker : MemberSample::Role::kServer;
  sample.index = now.name.index;
  sample.figures.fill(kUnknownValue);
  if (before == nullptr) return sample;
  size_t place = 0;
  for (const auto& figure : RatesOf(sample.role)) {
    const float rate = Rate(figure.value(now), figure.value(*before), seconds);
    // Sums that are reported a moment late may make a share of the time larger than it can be.
    const bool share = figure.unit == "seconds" && figure.series != kCount;
    sample.figures[place++] = share && rate > 1 ? 1 : rate;
  }
  return sample;
}

// The mean of a figure of all members of a role, or their sum.
float Combine(const std::vector<MemberSample>& members, MemberSample::Role role, size_t figure, bool sum) {
  float total = 0;
  int count = 0;
  for (const MemberSample& member : members) {
    if (member.role != role || std::isnan(member.figures[figure])) continue;
    total += member.figures[figure];
    ++count;
  }
  return count == 0 ? kUnknownValue : sum ? total : total / static_cast<float>(count);
}

}  // namespace

report::Figures<M> RatesOf(MemberSample::Role role) {
  return role == MemberSample::Role::kWorker ? report::kWorkerRates : report::kServerRates;
}

std::string Name(const MemberSample& member) {
  return std::string(fields::NameOf(member.role)) + " " + std::to_string(member.index);
}

Status Check(const Sample& sample) {
  return sample.span_s > 0 ? Status() : Status(Code::kInvalidArgument, "a sample of no time");
}

Sample Merge(const Sample& earlier, const Sample& later) {
  Sample merged;
  merged.time_s = later.time_s;
  merged.span_s = earlier.span_s + later.span_s;
  for (size_t i = 0; i < kSeries; ++i)
    merged.figures[i] = Mean(earlier.figures[i], earlier.span_s, later.figures[i], later.span_s);
  merged.members = earlier.members;
  for (const MemberSample& member : later.members) {
    const auto known =
        std::ranges::find_if(merged.members, [&](const auto& m) { return m.SameMember(member); });
    if (known == merged.members.end()) {
      merged.members.push_back(member);
      continue;
    }
    for (size_t i = 0; i < MemberSample::kFigures; ++i)
      known->figures[i] = Mean(known->figures[i], earlier.span_s, member.figures[i], later.span_s);
  }
  return merged;
}

Sample Sampler::OnReading(Reading reading) {
  recent_.push_back(std::move(reading));
  const Reading& now = recent_.back();
  // The front is the latest reading that is at least a window old.
  while (recent_.size() > 2 && recent_[1].time_s <= now.time_s - kWindow_s) recent_.pop_front();
  const Reading& before = recent_.front();
  const double seconds = now.time_s - before.time_s;

  Sample sample;
  sample.time_s = now.time_s;
  for (const auto& figure : report::kJobFigures) {
    if (figure.series == kCount) continue;
    const double value = figure.value(now);
    sample[figure.series] =
        figure.rate ? Rate(value, figure.value(before), seconds) : static_cast<float>(value);
  }
  sample[kStaleness] = MeanStaleness(now.staleness, before.staleness);
  for (const M& member : now.members) {
    if (!member.name.Works("worker") && !member.name.Works("ps")) continue;
    // A member that came meanwhile has its rates since then.
    const M* first = nullptr;
    double since = 0;
    for (const Reading& earlier : recent_) {
      first = earlier.Find(member.name.node);
      since = now.time_s - earlier.time_s;
      if (first != nullptr) break;
    }
    sample.members.push_back(Measure(member, since > 0 ? first : nullptr, since));
  }
  for (const auto role : {MemberSample::Role::kWorker, MemberSample::Role::kServer}) {
    size_t place = 0;
    for (const auto& figure : RatesOf(role)) {
      if (figure.series != kCount)
        sample[figure.series] = Combine(sample.members, role, place, role == MemberSample::Role::kServer);
      ++place;
    }
  }
  return sample;
}

}  // namespace leat::observe
