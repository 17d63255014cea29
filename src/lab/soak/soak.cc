#include "lab/soak/soak.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/json/text.h"
#include "base/path/paths.h"
#include "lab/hosts/hosts.h"
#include "run/launcher/processes.h"
#include "run/launcher/signals.h"
#include "show/report/display.h"
#include "storage/checkpoint/file.h"

namespace leat::soak {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;
using report::Grouped;

// Returns the absolute path of the folder, and whether it is new.
std::pair<std::string, bool> FolderFor(const SoakOptions& options) {
  if (options.directory.empty()) {
    std::string made = (fs::temp_directory_path() / "leat-soak-XXXXXX").string();
    if (mkdtemp(made.data()) == nullptr)
      Throw(checkpoint::SystemError(made, "cannot create the directory", errno));
    return {made, true};
  }
  std::string folder = AbsolutePathOrThrow(options.directory);
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (error) Throw(checkpoint::SystemError(options.directory, "cannot create the directory", error.value()));
  return {std::move(folder), made};
}

class Soak {
 public:
  explicit Soak(const SoakOptions& options) : options_(options) {
    std::tie(folder_, made_folder_) = FolderFor(options);
    if (options.on_this_host) return;
    if (const Status entered = hosts::EnterNamespaces(); !entered.ok()) {
      RemoveFolder();
      Throw({entered.code(),
             "cannot emulate hosts: " + entered.message() + "; --on-this-host runs all processes here"});
    }
  }

  int Run() {
    launcher::BlockSignals();
    std::atomic<bool> interrupted{false};
    launcher::Processes processes;
    launcher::SignalWatch signals([&](int) {
      interrupted = true;
      processes.Wake();
    });
    for (uint64_t round = 0; round < options_.rounds && !interrupted; ++round) {
      const RoundPlan plan = DrawRound(options_.first_seed + round, !options_.on_this_host);
      const std::string folder = folder_ + "/round-" + std::to_string(plan.seed);
      // It is removed after a round that was good.
      if (fs::exists(folder))
        throw std::invalid_argument(folder + " is there already; name another --directory");
      const Time begin = clock_.Now();
      const RoundResult result = RunRound(plan,
                                          {.folder = folder,
                                           .hosts = !options_.on_this_host,
                                           .interrupted = [&] { return interrupted.load(); }},
                                          processes);
      if (result.interrupted) {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
        break;
      }
      Report(plan, result, folder, Seconds(clock_.Now() - begin));
    }
    return Finish(interrupted);
  }

 private:
  std::string ReplayOf(uint64_t seed) const {
    return "leat soak --rounds 1 --seed " + std::to_string(seed) +
           (options_.on_this_host ? " --on-this-host" : "");
  }
  void RemoveFolder() const {
    std::error_code ignored;
    if (made_folder_) fs::remove(folder_, ignored);  // only if it is empty
  }
  std::FILE* Out() const { return options_.json ? stderr : stdout; }

  void Report(const RoundPlan& plan, const RoundResult& result, const std::string& folder, double took) {
    ++rounds_;
    lost_ += result.lost;
    twice_ += result.twice;
    deaths_ += result.deaths;
    events_ += result.counted;
    std::fprintf(Out(), "%3llu  %s  %5.1f s  %s\n", static_cast<unsigned long long>(rounds_),
                 result.failure.empty() ? "ok    " : "FAILED", took, plan.Describe().c_str());
    std::error_code ignored;
    if (result.failure.empty()) {
      fs::remove_all(folder, ignored);
    } else {
      std::fprintf(Out(), "     %s\n     logs: %s\n     the same choices again: %s\n", result.failure.c_str(),
                   folder.c_str(), ReplayOf(plan.seed).c_str());
      failed_.push_back({{"round", rounds_},
                         {"seed", plan.seed},
                         {"reason", result.failure},
                         {"lost", result.lost},
                         {"twice", result.twice},
                         {"plan", plan.Describe()},
                         {"logs", folder},
                         {"replay", ReplayOf(plan.seed)}});
    }
    std::fflush(Out());
  }

  int Finish(bool interrupted) {
    const double took = Seconds(clock_.Now() - start_);
    std::fprintf(Out(), "%llu rounds in %.0f s, %zu failed: %s events, %s lost, %s counted twice%s\n",
                 static_cast<unsigned long long>(rounds_), took, failed_.size(), Grouped(events_).c_str(),
                 Grouped(lost_).c_str(), Grouped(twice_).c_str(), interrupted ? "; interrupted" : "");
    if (options_.json) {
      const OrderedJson json = {{"rounds", rounds_}, {"first_seed", options_.first_seed},
                                {"lost", lost_},     {"twice", twice_},
                                {"failed", failed_}, {"events", events_},
                                {"deaths", deaths_}, {"hosts", !options_.on_this_host},
                                {"wall_s", took},    {"interrupted", interrupted}};
      std::printf("%s\n", JsonText(json).c_str());
    }
    RemoveFolder();
    if (interrupted) return ExitStatus::kInterrupted;
    return failed_.empty() ? 0 : 1;
  }

  const SoakOptions& options_;
  std::string folder_;
  bool made_folder_ = false;
  MonotonicClock clock_;
  const Time start_ = clock_.Now();
  uint64_t rounds_ = 0, lost_ = 0, twice_ = 0, deaths_ = 0, events_ = 0;
  std::vector<OrderedJson> failed_;
};

}  // namespace

int RunSoak(const SoakOptions& options) {
  return Soak(options).Run();
}

}  // namespace leat::soak
