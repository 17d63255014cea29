#include "cli/lab/simulate_faults.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/encoding/printable.h"
#include "base/json/text.h"
#include "base/processors.h"
#include "base/text.h"
#include "lab/sim/fault_job.h"
#include "lab/soak/seed_pool.h"
#include "show/report/display.h"

namespace leat {
namespace {

using Json = nlohmann::ordered_json;
using report::Grouped;

std::string ReplayOf(uint64_t seed) {
  return "leat simulate --faults --seeds 1 --seed " + std::to_string(seed);
}

// Counts of faults, summed over all jobs, in the order of the report.
struct FaultCount {
  const char* name;
  uint64_t (*of)(const sim::ClusterResult&);
};
constexpr FaultCount kFaultCounts[] = {
    {"deaths", [](const sim::ClusterResult& r) { return r.deaths; }},
    {"pauses", [](const sim::ClusterResult& r) { return r.pauses; }},
    {"partitions", [](const sim::ClusterResult& r) { return r.cuts + r.isolations; }},
    {"coordinator_restarts", [](const sim::ClusterResult& r) { return r.restarts; }},
    {"coordinator_takeovers", [](const sim::ClusterResult& r) { return r.overtaken; }},
    {"moves_of_slices", [](const sim::ClusterResult& r) { return r.moves; }},
    {"replicas_promoted", [](const sim::ClusterResult& r) { return r.promotions; }},
    {"servers_left", [](const sim::ClusterResult& r) { return r.servers_left; }},
    {"resumes", [](const sim::ClusterResult& r) { return r.resumes; }},
    {"damaged_checkpoints", [](const sim::ClusterResult& r) { return r.damaged; }},
};

// Runs one seed, in a child process unless it is debugged.
std::string RunSeed(uint64_t seed, bool in_words) {
  sim::Hooks hooks;
  if (in_words) {
    std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed),
                 sim::DrawFaultJob(seed).Describe().c_str());
    hooks.on_fault = [](Time at, const std::string& what) {
      std::fprintf(stderr, "  %8.4f s  %s\n", Seconds(at), what.c_str());
    };
  }
  const sim::FaultOutcome outcome = sim::RunFaultJob(seed, std::move(hooks));
  Json json = {{"reason", outcome.error}, {"lost", outcome.lost}, {"twice", outcome.twice}};
  json["digest"] = ToHex(outcome.digest);
  json["virtual_s"] = Seconds(outcome.result.took);
  json["messages"] = outcome.result.messages;
  for (const FaultCount& fault : kFaultCounts) json["faults"][fault.name] = fault.of(outcome.result);
  return JsonText(json);
}

std::string TimeLeft(double seconds) {
  return seconds < 60 ? Formatted("%.0f s", seconds)
                      : Formatted("%.0f min %02.0f s", std::floor(seconds / 60), std::fmod(seconds, 60));
}

class FaultReport {
 public:
  explicit FaultReport(const FaultsArguments& a)
      : a_(a), terminal_(isatty(STDERR_FILENO) == 1), start_(clock_.Now()) {
    for (const FaultCount& fault : kFaultCounts) faults_[fault.name] = uint64_t{0};
  }

  void OnResult(uint64_t seed, const std::string& text) {
    ++done_;
    const Json result = ParsedOrderedJson(text);
    lost_ += result["lost"].get<uint64_t>();
    twice_ += result["twice"].get<uint64_t>();
    virtual_s_ += result["virtual_s"].get<double>();
    messages_ += result["messages"].get<uint64_t>();
    last_digest_ = result["digest"];
    for (const auto& [name, count] : result["faults"].items())
      faults_[name] = faults_[name].get<uint64_t>() + count.get<uint64_t>();
    if (const std::string reason = result["reason"]; !reason.empty()) Fail(seed, reason);
  }
  void OnDeath(uint64_t seed, const std::string& why) {
    ++done_;
    Fail(seed, why);
  }

  // A line that is drawn again and again in a terminal; elsewhere a line now and then.
  void Show() {
    const double now = Elapsed();
    if (now - shown_ < (terminal_ ? 0.5 : 10)) return;
    shown_ = now;
    const double rate = static_cast<double>(done_) / now;
    const double left = rate > 0 ? static_cast<double>(a_.seeds - done_) / rate : 0;
    std::fprintf(stderr, "%s  %s of %s seeds, %.1f/s, %s left, %zu failed%s", terminal_ ? "\r\033[K" : "",
                 Grouped(done_).c_str(), Grouped(a_.seeds).c_str(), rate, TimeLeft(left).c_str(),
                 failed_.size(), terminal_ ? "" : "\n");
  }

  int Finish() {
    Clear();
    std::ranges::sort(failed_, {}, [](const Json& one) { return one["seed"].get<uint64_t>(); });
    const double took = Elapsed();
    const double rate = static_cast<double>(done_) / took;
    std::FILE* const out = a_.json ? stderr : stdout;
    const auto row = [out](const char* name, const std::string& value) {
      std::fprintf(out, "  %-22s%s\n", name, value.c_str());
    };
    std::fprintf(out, "%s jobs with random faults, seeds %s to %s\n", Grouped(a_.seeds).c_str(),
                 std::to_string(a_.first_seed).c_str(), std::to_string(a_.first_seed + a_.seeds - 1).c_str());
    row("clean", Grouped(done_ - failed_.size()));
    row("failed", Grouped(failed_.size()));
    row("lost", Grouped(lost_) + " events");
    row("counted twice", Grouped(twice_) + " events");
    for (const auto& [name, count] : faults_.items()) {
      std::string words = name;
      std::ranges::replace(words, '_', ' ');
      row(words.c_str(), Grouped(count.get<uint64_t>()));
    }
    row("time", Formatted("%.1f s, %.1f seeds/s, %.0f s of virtual time", took, rate, virtual_s_));
    if (a_.seeds == 1) row("digest", last_digest_);
    if (a_.json) {
      Json json = {{"seeds", a_.seeds},     {"first_seed", a_.first_seed}, {"lost", lost_},
                   {"twice", twice_},       {"failed", failed_},           {"faults", faults_},
                   {"messages", messages_}, {"virtual_s", virtual_s_},     {"wall_s", took},
                   {"seeds_per_s", rate}};
      if (a_.seeds == 1) json["digest"] = last_digest_;
      std::printf("%s\n", JsonText(json).c_str());
    }
    return failed_.empty() ? 0 : 1;
  }

 private:
  double Elapsed() const { return Seconds(clock_.Now() - start_); }
  void Clear() const {
    if (terminal_) std::fprintf(stderr, "\r\033[K");
  }
  void Fail(uint64_t seed, const std::string& reason) {
    Clear();
    std::fprintf(stderr, "seed %llu failed: %s\n  replay: %s\n", static_cast<unsigned long long>(seed),
                 reason.c_str(), ReplayOf(seed).c_str());
    failed_.push_back({{"seed", seed}, {"reason", reason}, {"replay", ReplayOf(seed)}});
  }

  const FaultsArguments& a_;
  const bool terminal_;
  MonotonicClock clock_;
  const Time start_;
  double shown_ = 0;
  uint64_t done_ = 0, lost_ = 0, twice_ = 0, messages_ = 0;
  double virtual_s_ = 0;
  std::string last_digest_;
  std::vector<Json> failed_;
  Json faults_ = Json::object();
};

}  // namespace

int SimulateFaults(const FaultsArguments& a) {
  FaultReport report(a);
  soak::SeedPoolOptions pool;
  pool.first = a.first_seed;
  pool.count = a.seeds;
  pool.processes = static_cast<uint32_t>(std::min<uint64_t>(a.seeds, AllowedProcessors()));
  if (a.seeds == 1) {
    report.OnResult(a.first_seed, RunSeed(a.first_seed, true));  // here, for a debugger
    return report.Finish();
  }
  pool.run = [](uint64_t seed) { return RunSeed(seed, false); };
  pool.on_result = [&](uint64_t seed, const std::string& result) { report.OnResult(seed, result); };
  pool.on_death = [&](uint64_t seed, const std::string& why) { report.OnDeath(seed, why); };
  pool.on_wait = [&] { report.Show(); };
  soak::RunSeeds(pool);
  return report.Finish();
}

}  // namespace leat
