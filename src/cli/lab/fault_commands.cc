// Jobs that count events under random faults: in the simulator (leat simulate --faults), and with real
// processes (leat soak).
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
#include "base/text.h"
#include "base/threads/thread.h"
#include "cli/commands.h"
#include "lab/sim/swarm.h"
#include "lab/soak/seed_pool.h"
#include "lab/soak/soak.h"
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
  const sim::ClusterResult result = sim::RunFaultJob(seed, std::move(hooks));
  // A job that ends early, because another invariant is violated, has lost nothing, and counted nothing
  // twice.
  const sim::Violation violation = result.violation.value_or(sim::Violation());
  Json json = {{"reason", result.error}, {"lost", violation.lost}, {"twice", violation.twice}};
  json["digest"] = ToHex(sim::DigestOf(result));
  json["virtual_s"] = Seconds(result.took);
  json["messages"] = result.messages;
  for (const FaultCount& fault : kFaultCounts) json["faults"][fault.name] = fault.of(result);
  return JsonText(json);
}

std::string TimeLeft(double seconds) {
  return seconds < 60 ? Formatted("%.0f s", seconds)
                      : Formatted("%.0f min %02.0f s", std::floor(seconds / 60), std::fmod(seconds, 60));
}

class FaultReport {
 public:
  FaultReport(uint64_t first_seed, uint64_t seeds, bool json)
      : first_seed_(first_seed),
        seeds_(seeds),
        json_(json),
        terminal_(isatty(STDERR_FILENO) == 1),
        start_(clock_.Now()) {
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
    const double left = rate > 0 ? static_cast<double>(seeds_ - done_) / rate : 0;
    std::fprintf(stderr, "%s  %s of %s seeds, %.1f/s, %s left, %zu failed%s", terminal_ ? "\r\033[K" : "",
                 Grouped(done_).c_str(), Grouped(seeds_).c_str(), rate, TimeLeft(left).c_str(),
                 failed_.size(), terminal_ ? "" : "\n");
  }

  int Finish() {
    Clear();
    std::ranges::sort(failed_, {}, [](const Json& one) { return one["seed"].get<uint64_t>(); });
    const double took = Elapsed();
    const double rate = static_cast<double>(done_) / took;
    std::FILE* const out = json_ ? stderr : stdout;
    const auto row = [out](const char* name, const std::string& value) {
      std::fprintf(out, "  %-22s%s\n", name, value.c_str());
    };
    std::fprintf(out, "%s jobs with random faults, seeds %s to %s\n", Grouped(seeds_).c_str(),
                 std::to_string(first_seed_).c_str(), std::to_string(first_seed_ + seeds_ - 1).c_str());
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
    if (seeds_ == 1) row("digest", last_digest_);
    if (json_) {
      Json json = {{"seeds", seeds_},       {"first_seed", first_seed_}, {"lost", lost_},
                   {"twice", twice_},       {"failed", failed_},         {"faults", faults_},
                   {"messages", messages_}, {"virtual_s", virtual_s_},   {"wall_s", took},
                   {"seeds_per_s", rate}};
      if (seeds_ == 1) json["digest"] = last_digest_;
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

  const uint64_t first_seed_, seeds_;
  const bool json_;
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

int SimulateFaults(uint64_t first, uint64_t seeds, bool json) {
  FaultReport report(first, seeds, json);
  soak::SeedPoolOptions pool;
  pool.first = first;
  pool.count = seeds;
  pool.processes = static_cast<uint32_t>(std::min<uint64_t>(seeds, AllowedProcessors()));
  if (seeds == 1) {
    report.OnResult(first, RunSeed(first, true));  // here, for a debugger
    return report.Finish();
  }
  pool.run = [](uint64_t seed) { return RunSeed(seed, false); };
  pool.on_result = [&](uint64_t seed, const std::string& result) { report.OnResult(seed, result); };
  pool.on_death = [&](uint64_t seed, const std::string& why) { report.OnDeath(seed, why); };
  pool.on_wait = [&] { report.Show(); };
  soak::RunSeeds(pool);
  return report.Finish();
}

void AddSoakCommand(CLI::App& app, int* result) {
  const auto [command, options] =
      AddCommand(app, result, "soak",
                 "run jobs that count events with real processes and random faults, and check the counts",
                 soak::RunSoak);
  AddNumber(command, "--rounds", &options->rounds, "number of jobs, one after the other", 1, 1'000'000);
  command
      ->add_option("--seed", options->first_seed, "random seed of the first round; the next one has the next")
      ->capture_default_str();
  command->add_flag(
      "--on-this-host", options->on_this_host,
      "run all processes here instead of on emulated hosts: no link is cut and no disk fills up");
  command->add_option("--directory", options->directory,
                      "directory for logs and jobs; those of failed rounds are kept (default: in $TMPDIR)");
  command->add_flag("--json", options->json,
                    "print the result as one JSON object on stdout, and the rounds on stderr");
}

}  // namespace leat
