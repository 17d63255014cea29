#include "observe/history/sample.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace leat::observe {
namespace {

// A sum that is smaller than before began anew.
float Rate(double now, double before, double seconds) {
  return seconds > 0 && now >= before ? static_cast<float>((now - before) / seconds) : kUnknownValue;
}

// A share of time. Sums that are reported a moment late may make it larger than it can be.
float Share(double now, double before, double seconds) {
  const float share = Rate(now, before, seconds);
  return std::isnan(share) ? share : std::min(share, 1.0f);
}

float MeanStaleness(const std::vector<double>& now, const std::vector<double>& before) {
  double count = 0, sum = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    const double updates = now[i] - (i < before.size() ? before[i] : 0);
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

MemberSample Measure(const MemberReading& now, const MemberReading* before, double seconds) {
  MemberSample sample;
  sample.role = now.role == "worker" ? MemberSample::Role::kWorker : MemberSample::Role::kServer;
  sample.index = now.index;
  sample.figures.fill(kUnknownValue);
  if (before == nullptr) return sample;
  const auto rate = [&](double MemberReading::*sum) { return Rate(now.*sum, before->*sum, seconds); };
  const auto share = [&](double MemberReading::*sum) { return Share(now.*sum, before->*sum, seconds); };
  if (sample.role == MemberSample::Role::kWorker) {
    sample.figures = {rate(&MemberReading::done),      share(&MemberReading::compute_s),
                      share(&MemberReading::wait_s),   share(&MemberReading::input_wait_s),
                      share(&MemberReading::decode_s), rate(&MemberReading::cpu_s)};
  } else {
    sample.figures = {rate(&MemberReading::bytes),
                      rate(&MemberReading::done),
                      rate(&MemberReading::cpu_s),
                      kUnknownValue,
                      kUnknownValue,
                      kUnknownValue};
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

const char* Name(Series series) {
  static constexpr std::array<const char*, kSeries> kNames = {"events_per_s",
                                                              "arrived_per_s",
                                                              "loss",
                                                              "accuracy",
                                                              "mae",
                                                              "auc",
                                                              "auc_possible",
                                                              "lag",
                                                              "lag_s",
                                                              "staleness",
                                                              "server_bytes_per_s",
                                                              "compute",
                                                              "wait",
                                                              "input_wait",
                                                              "decode",
                                                              "cores",
                                                              "workers",
                                                              "servers",
                                                              "dead_letters_per_s"};
  return kNames[static_cast<size_t>(series)];
}

const std::vector<const char*>& FigureNames(MemberSample::Role role) {
  static const std::vector<const char*> worker = {"events_per_s", "compute", "wait",
                                                  "input_wait",   "decode",  "cores"};
  static const std::vector<const char*> server = {"bytes_per_s", "updates_per_s", "cores"};
  return role == MemberSample::Role::kWorker ? worker : server;
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
  sample[Series::kEventsPerS] = static_cast<float>(now.events_per_s);
  sample[Series::kArrivedPerS] =
      Rate(static_cast<double>(now.stream_end), static_cast<double>(before.stream_end), seconds);
  sample[Series::kLoss] = static_cast<float>(now.loss);
  sample[Series::kAccuracy] = static_cast<float>(now.accuracy);
  sample[Series::kMae] = static_cast<float>(now.mae);
  sample[Series::kAuc] = static_cast<float>(now.auc);
  sample[Series::kAucPossible] = static_cast<float>(now.auc_possible);
  sample[Series::kLag] = static_cast<float>(now.lag);
  sample[Series::kLagS] = static_cast<float>(now.lag_s);
  sample[Series::kStaleness] = MeanStaleness(now.staleness, before.staleness);
  sample[Series::kCores] = Rate(now.cpu_s, before.cpu_s, seconds);
  sample[Series::kWorkers] = static_cast<float>(now.Count("worker"));
  sample[Series::kServers] = static_cast<float>(now.Count("ps"));
  sample[Series::kDeadLettersPerS] =
      Rate(static_cast<double>(now.dead_letters), static_cast<double>(before.dead_letters), seconds);
  for (const MemberReading& member : now.members) {
    if (member.state == "standby" || (member.role != "worker" && member.role != "ps")) continue;
    // A member that came meanwhile has its rates since then.
    const MemberReading* first = nullptr;
    double since = 0;
    for (const Reading& earlier : recent_) {
      first = earlier.Find(member.node);
      since = now.time_s - earlier.time_s;
      if (first != nullptr) break;
    }
    sample.members.push_back(Measure(member, since > 0 ? first : nullptr, since));
  }
  using Role = MemberSample::Role;
  sample[Series::kServerBytesPerS] = Combine(sample.members, Role::kServer, 0, true);
  sample[Series::kCompute] = Combine(sample.members, Role::kWorker, 1, false);
  sample[Series::kWait] = Combine(sample.members, Role::kWorker, 2, false);
  sample[Series::kInputWait] = Combine(sample.members, Role::kWorker, 3, false);
  sample[Series::kDecode] = Combine(sample.members, Role::kWorker, 4, false);
  return sample;
}

}  // namespace leat::observe
