#include "show/prometheus/families.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <variant>

#include "base/metrics/metrics.h"

namespace leat::observe {
namespace {

// Upper bounds of the buckets of a histogram, besides infinity.
constexpr uint64_t kBounds[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
// The same for times in seconds, as powers of two.
constexpr int kLeastSeconds = -13, kMostSeconds = 6;

// Counts are written without an exponent.
std::string NumberText(double x) {
  if (std::isinf(x)) return x > 0 ? "+Inf" : "-Inf";
  char text[400];
  const bool whole = std::abs(x) < 1e15 && x == std::trunc(x);
  const auto [end, error] = whole ? std::to_chars(text, text + sizeof text, static_cast<int64_t>(x))
                                  : std::to_chars(text, text + sizeof text, x);
  return {text, end};
}

// name{label="value",…} value
void AppendSample(std::string_view name, const Labels& labels, double value, std::string* out) {
  *out += name;
  for (const auto& [label, text] : labels) {
    *out += &label == &labels.front().first ? "{" : ",";
    *out += label + "=\"";
    for (const char c : text) {
      if (c == '\\' || c == '"') *out += '\\';
      *out += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    *out += '"';
  }
  *out += (labels.empty() ? " " : "} ") + NumberText(value) + "\n";
}

constexpr Metric kCpu = {"process_cpu_seconds_total", "Processor time of the process."};
constexpr Metric kResident = {"process_resident_memory_bytes", "Memory that is resident."};
constexpr Metric kStart = {"process_start_time_seconds", "When it started, since 1970."};
constexpr Metric kOpen = {"process_open_fds", "Open file descriptors."};
constexpr Metric kMost = {"process_max_fds", "The limit of open file descriptors."};

double Resident() {
  std::ifstream in("/proc/self/statm");
  double all = 0, resident = 0;
  return in >> all >> resident ? resident * static_cast<double>(sysconf(_SC_PAGESIZE)) : NAN;
}

// In ticks after the boot; NaN if it is not known.
double StartTicks() {
  constexpr int kField = 22;
  std::ifstream in("/proc/self/stat");
  std::string line;
  std::getline(in, line);
  // The second field is the program's name, in brackets, and may contain anything.
  std::istringstream rest(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string field;
  for (int i = 3; i <= kField; ++i) rest >> field;
  return rest ? std::stod(field) : NAN;
}

double StartTime() {
  std::ifstream in("/proc/stat");
  std::string word;
  double boot = NAN;
  while (in >> word) {
    if (word == "btime") {
      in >> boot;
      break;
    }
  }
  return boot + StartTicks() / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double OpenDescriptors() {
  std::error_code error;
  std::filesystem::directory_iterator all("/proc/self/fd", error);
  return error ? NAN : static_cast<double>(std::distance(begin(all), end(all)) - 1);  // but that one
}

constexpr Metric kInfo = {"leat_job_info", "Always 1."};
constexpr Metric kEvents = {"leat_job_events_total",
                            "Events that were trained, each counted once, since this process was first asked "
                            "for metrics of the job."};
constexpr Metric kPhase = {"leat_job_phase", "1 for the phase that the job is in, else 0."};
constexpr Metric kStaleness = {"leat_job_staleness",
                               "Updates of a slice between a worker's pull and its push."};
constexpr Metric kMembers = {"leat_job_members", "Members of the job."};
constexpr Metric kPartitionLag = {
    "leat_job_partition_lag_events",
    "The lag of those partitions, at most 16, whose events have waited longest."};
constexpr Metric kPartitionAge = {"leat_job_partition_lag_seconds",
                                  "How long the oldest event of such a partition has waited."};

void AddMembers(const report::JobStatus& status, Families* families) {
  std::map<std::pair<std::string, std::string>, double> numbers;
  for (const report::MemberStatus& m : status.members)
    ++numbers[{m.name.role, m.name.state.empty() ? "active" : m.name.state}];
  for (const auto& [group, number] : numbers)
    families->Add(kMembers, number, {{"role", group.first}, {"state", group.second}});
  for (size_t i = 0; i < std::min(status.members.size(), StatusFamilies::kMostMembers); ++i) {
    const report::MemberStatus& m = status.members[i];
    families->Add(
        report::kMemberFigures, m,
        {{"role", m.name.standby() ? m.name.state : m.name.role}, {"index", std::to_string(m.name.index)}});
  }
}

}  // namespace

std::string& Families::TextOf(const Metric& metric, std::string_view type) {
  const auto [at, fresh] = by_name_.try_emplace(std::string(metric.name), texts_.size());
  if (fresh) {
    const std::string& name = at->first;
    texts_.push_back("# HELP " + name + " " + std::string(metric.help) + "\n# TYPE " + name + " " +
                     std::string(type) + "\n");
  }
  return texts_[at->second];
}

void Families::Add(const Metric& metric, double value, const Labels& labels) {
  if (std::isfinite(value))
    AppendSample(metric.name, labels, value,
                 &TextOf(metric, metric.name.ends_with("_total") ? "counter" : "gauge"));
}

void Families::AddHistogram(const Metric& metric, std::span<const std::pair<double, uint64_t>> buckets,
                            uint64_t count, double sum) {
  std::string& text = TextOf(metric, "histogram");
  const std::string name(metric.name);
  AppendSample(name + "_count", {}, static_cast<double>(count), &text);
  AppendSample(name + "_sum", {}, sum, &text);
  Labels bounded = {{"le", ""}};
  for (const auto& [bound, below] : buckets) {
    bounded.back().second = NumberText(bound);
    AppendSample(name + "_bucket", bounded, static_cast<double>(below), &text);
  }
  bounded.back().second = "+Inf";
  AppendSample(name + "_bucket", bounded, static_cast<double>(count), &text);
}

void Families::AddHistogram(const Metric& metric, std::span<const uint64_t> counts, double sum) {
  std::vector<std::pair<double, uint64_t>> buckets;
  size_t at = 0;
  uint64_t count = 0;
  for (const uint64_t bound : kBounds) {
    for (; at < counts.size() && at <= bound; ++at) count += counts[at];
    buckets.emplace_back(static_cast<double>(bound), count);
  }
  for (; at < counts.size(); ++at) count += counts[at];
  AddHistogram(metric, buckets, count, sum);
}

// Powers of two, which are limits of its buckets, from a tenth of a millisecond to a minute.
void Families::Add(const Metric& metric, const metrics::HistogramSnapshot& values) {
  std::vector<std::pair<double, uint64_t>> buckets;
  size_t at = 0;
  uint64_t below = 0;
  for (int exponent = kLeastSeconds; exponent <= kMostSeconds; ++exponent) {
    const double bound = std::ldexp(1.0, exponent);
    for (; at < values.buckets.size() && metrics::Buckets::Lower(at) < bound; ++at)
      below += values.buckets[at];
    buckets.emplace_back(bound, below);
  }
  AddHistogram(metric, buckets, values.count, values.sum);
}

void Families::Add(const metrics::Registry& registry) {
  for (const metrics::Sample& sample : registry.Snapshot()) {
    const Metric metric{sample.name, sample.help};
    if (const auto* times = std::get_if<metrics::HistogramSnapshot>(&sample.value)) {
      Add(metric, *times);
    } else if (const auto* count = std::get_if<uint64_t>(&sample.value)) {
      Add(metric, static_cast<double>(*count));
    } else {
      Add(metric, std::get<double>(sample.value));
    }
  }
}

std::string Families::Text() const {
  std::string all;
  for (const std::string& text : texts_) all += text;
  return all;
}

void AddProcess(Families* families) {
  if (const auto cpu = metrics::CpuSeconds(); cpu.ok()) families->Add(kCpu, *cpu);
  families->Add(kResident, Resident());
  static const double kStarted = StartTime();
  families->Add(kStart, kStarted);
  families->Add(kOpen, OpenDescriptors());
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) families->Add(kMost, static_cast<double>(limit.rlim_cur));
}

void StatusFamilies::Add(const report::JobStatus& status, Families* families) {
  families->Add(kInfo, 1, {{"name", status.job}, {"strategy", status.strategy}});
  most_events_ = std::max(most_events_, status.events);
  if (!first_events_) first_events_ = most_events_;
  families->Add(kEvents, static_cast<double>(most_events_ - *first_events_));
  using Phase = protocol::CoordinatorStatus::Phase;
  for (const auto& phase : EnumeratorsOf(Phase()))
    families->Add(kPhase, status.phase == phase.name ? 1 : 0, {{"phase", std::string(phase.name)}});
  families->Add(report::kJobFigures, status);
  const auto updates = std::accumulate(status.staleness.begin(), status.staleness.end(), uint64_t{0});
  // Whole, so that it never falls.
  if (std::isfinite(status.staleness_mean))
    families->AddHistogram(kStaleness, status.staleness,
                           std::round(status.staleness_mean * static_cast<double>(updates)));
  for (const auto& partition : status.partitions) {
    const Labels labels = {{"partition", std::to_string(partition.partition)}};
    families->Add(kPartitionLag, static_cast<double>(partition.events), labels);
    families->Add(kPartitionAge, partition.seconds, labels);
  }
  AddMembers(status, families);
}

}  // namespace leat::observe
