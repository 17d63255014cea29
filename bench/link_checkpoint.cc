#include "link_checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "frame/images.h"
#include "frame/program.h"
#include "frame/shaped_link.h"

namespace leat::bench {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr double kMebi = 1 << 20;
constexpr double kMinShare = 0.85, kMinPace = 0.9;          // light training
constexpr double kMinShareFull = 0.1, kMinPaceFull = 0.85;  // training that fills the link
constexpr double kMaxMemory = 64;                           // MiB
// The share of an Ethernet frame that is payload of TCP.
constexpr double kPayload = 1448.0 / 1514;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Memory that a process does not share with files, in bytes: slices are in shared memory.
double MemoryOf(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  double kilobytes = 0;
  for (std::string word; in >> word;) {
    double value = 0;
    if ((word == "RssAnon:" || word == "RssShmem:") && in >> value) kilobytes += value;
  }
  return kilobytes * 1024;
}

// Samples the memory of a process until destroyed.
class MemoryPeak {
 public:
  explicit MemoryPeak(pid_t pid)
      : thread_([this, pid] {
          while (!stop_) {
            peak_ = std::max(peak_.load(), MemoryOf(pid));
            std::this_thread::sleep_for(5ms);
          }
        }) {}
  ~MemoryPeak() {
    stop_ = true;
    thread_.join();
  }
  MemoryPeak(const MemoryPeak&) = delete;
  MemoryPeak& operator=(const MemoryPeak&) = delete;
  double value() const { return peak_; }
  // Returns the peak and begins again.
  double Take() { return peak_.exchange(0); }

 private:
  std::atomic<double> peak_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// A job whose server is behind the link and does not see the job's directory.
class LinkJob {
 public:
  LinkJob(const ShapedLink& link, const Scratch& scratch, const std::string& name, const std::string& text)
      : files_(scratch / name) {
    fs::create_directories(files_ + "/scratch");
    fs::create_directories(files_ + "/seen");
    std::ofstream(files_ + "/job.yaml") << "name: " << name << "\nseed: 1\n" << text;
    coordinator_ = std::make_unique<Running>(
        std::vector<std::string>{"coordinator", files_ + "/job.yaml", "--directory", files_ + "/seen/job",
                                 "--listen", link.near_address() + ":0"},
        files_ + "/coordinator.log");
    WaitFor("the coordinator did not start", *coordinator_,
            [&] { return !(address_ = AddressIn(*coordinator_, "serves on ")).empty(); });
    server_ = std::make_unique<Running>(
        std::vector<std::string>{"ps", "--coordinator", address_, "--listen", link.far_address() + ":0",
                                 "--scratch", files_ + "/scratch"},
        files_ + "/ps.log", link.Enter(files_ + "/seen"));
  }

  void AddWorkers(int count) {
    for (int i = 0; i < count; ++i) {
      workers_.push_back(
          std::make_unique<Running>(std::vector<std::string>{"worker", "--coordinator", address_},
                                    files_ + "/worker-" + std::to_string(workers_.size()) + ".log"));
    }
  }

  Running& server() { return *server_; }

  nlohmann::json Status() {
    const std::string output = files_ + "/status.json";
    Running status({"status", "--coordinator", address_, "--json"}, output);
    if (status.Wait() != 0) throw std::runtime_error("leat status: " + status.Output());
    return nlohmann::json::parse(status.Output());
  }
  double Events() { return Status().value("events", 0.0); }

  struct Saved {
    double bytes = 0;
    double transfer = 0;  // seconds from the first byte to the last
    double total = 0;     // seconds from the command to its answer
  };
  Saved Checkpoint() {
    Saved saved;
    const auto start = Clock::now();
    Running command({"checkpoint", "--coordinator", address_}, files_ + "/checkpoint.log");
    double first = 0, begun = 0;
    while (!Complete()) {
      if (SecondsSince(start) > 900) throw std::runtime_error("no checkpoint: " + server_->Output());
      const double now = SecondsSince(start);
      const double bytes = ShardBytes();
      if (bytes > 0 && first == 0) {
        first = now;
        begun = bytes;
      }
      if (bytes > saved.bytes) {
        saved.bytes = bytes;
        saved.transfer = now - first;
      }
      std::this_thread::sleep_for(5ms);
    }
    saved.total = SecondsSince(start);
    saved.bytes -= begun;
    for (auto& worker : workers_) {
      if (!worker->alive()) throw std::runtime_error("a worker has died: " + worker->Output());
    }
    return saved;
  }

 private:
  bool Complete() const {
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(files_ + "/seen/job", gone))
      if (fs::exists(entry.path() / "manifest.json")) return true;
    return false;
  }

  // The size of the shards of the newest checkpoint that have arrived so far.
  double ShardBytes() const {
    std::string newest;
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(files_ + "/seen/job", gone)) {
      if (entry.path().filename().string().starts_with("checkpoint-"))
        newest = std::max(newest, entry.path().string());
    }
    double bytes = 0;
    if (newest.empty()) return bytes;
    for (const auto& entry : fs::directory_iterator(newest, gone)) {
      if (!entry.path().filename().string().starts_with("shard-")) continue;
      const auto size = entry.file_size(gone);
      if (!gone) bytes += static_cast<double>(size);
    }
    return bytes;
  }

  const std::string files_;
  std::string address_;
  std::unique_ptr<Running> coordinator_, server_;
  std::vector<std::unique_ptr<Running>> workers_;
};

// A model without computation. The state of its optimizer is three times as large as its values, so that a
// checkpoint is four times as large as a push.
std::string LargeJob(const Scratch& scratch, double bytes, int workers) {
  constexpr int kUnits = 1 << 20;
  const std::string layer = "bias: {units: " + std::to_string(kUnits) + "}";
  std::string layers = "    - " + layer + "\n";
  for (double made = 16.0 * kUnits; made < bytes; made += 16.0 * kUnits)
    layers += "    - residual: {layers: [" + layer + "]}\n";
  return "stream:\n  epochs: 1000\n  files: {format: csv, paths: [\"" + scratch / "rows.csv" +
         "\"], partitions: 4, header: false}\n"
         "schema:\n  format: csv\n  delimiter: \",\"\n  fields: {x: {type: number}, y: {type: number, role: "
         "label}}\n"
         "model:\n  layers:\n" +
         layers +
         "  loss: {type: negative_sum, reduction: sum}\n"
         "optimizer: {type: rmsprop, learning_rate: 0.0001, centered: true, momentum: 0.9}\nstrategy: async\n"
         "train: {batch_size: 1, split_batches: 64}\ncheckpoint: {interval_s: 1000000}\n"
         "cluster: {workers: " +
         std::to_string(workers) + ", ps: 1, max_ps: 1}\n";
}

std::string SmallJob(const Scratch& scratch, int workers) {
  return ImagesJob(scratch / "images", scratch / "labels", 10'000) +
         "model:\n  layers:\n    - dense: {units: 32, activation: relu}\n    - dense: {units: 10}\n"
         "  loss: softmax_cross_entropy\n"
         "optimizer: {type: sgd, learning_rate: 0.0001}\nstrategy: async\n"
         "train: {batch_size: 32, split_batches: 16}\ncheckpoint: {interval_s: 1000000}\n"
         "cluster: {workers: " +
         std::to_string(workers) + ", ps: 1}\ndebug: {step_ms: 40}\n";
}

void WriteRows(const Scratch& scratch) {
  std::ofstream rows(scratch / "rows.csv");
  for (int i = 0; i < 100'000; ++i) rows << i % 7 << "," << i % 2 << "\n";
}

void AddShare(Report& report, const std::string& name, const LinkJob::Saved& saved, double gbit,
              double min_share) {
  const double rate = saved.bytes / saved.transfer / kPayload / kMebi;
  report.Add({.name = name,
              .value = rate,
              .unit = "MiB/s",
              .reference = "the link",
              .reference_value = gbit * 1e9 / 8 / kMebi,
              .ratio = rate / (gbit * 1e9 / 8 / kMebi),
              .runs = 1,
              .bound = RatioAtLeast(min_share)});
}

void AddPace(Report& report, const std::string& name, double pace, double alone, const std::string& unit,
             double min_pace) {
  report.Add({.name = name,
              .value = pace,
              .unit = unit,
              .reference = "before and after",
              .reference_value = alone,
              .ratio = pace / alone,
              .runs = 1,
              .bound = RatioAtLeast(min_pace)});
}

}  // namespace

void MeasureLightTraining(Report& report, const CheckpointOptions& options) {
  const Scratch scratch("link");
  ShapedLink link(options.gbit);
  if (!options.congestion_control.empty()) link.SetCongestionControl(options.congestion_control);
  WriteImages(scratch / "images", scratch / "labels", 20'000);
  WriteRows(scratch);
  constexpr int kWorkers = 2;
  LinkJob large(link, scratch, "large", LargeJob(scratch, options.bytes, 1));
  LinkJob small(link, scratch, "small", SmallJob(scratch, kWorkers));
  small.AddWorkers(kWorkers);
  WaitFor("the slices are not live", large.server(), [&] {
    return large.Status().dump().find("\"bytes_held\":0") == std::string::npos &&
           MemoryOf(large.server().pid()) >= options.bytes;
  });
  WaitFor("nothing is trained", small.server(), [&] { return small.Events() > 10'000; });

  const double window = options.bytes / (options.gbit * 1e9 / 8);
  struct Pace {
    double events = 0, link = 0;
  };
  const auto measure = [&](const auto& during) {
    const double events = small.Events(), sent = link.SentFrom();
    const auto start = Clock::now();
    during();
    const double took = SecondsSince(start);
    return Pace{(small.Events() - events) / took, (link.SentFrom() - sent) / took};
  };
  const auto idle = [&] { std::this_thread::sleep_for(std::chrono::duration<double>(window)); };
  const Pace before = measure(idle);
  LinkJob::Saved saved;
  const Pace pace = measure([&] { saved = large.Checkpoint(); });
  const Pace after = measure(idle);
  report.Add({.name = "link used by light training",
              .value = before.link / kMebi,
              .unit = "MiB/s",
              .reference = "the link",
              .reference_value = options.gbit * 1e9 / 8 / kMebi,
              .runs = 1,
              .bound = RatioAtMost(0.05)});
  AddShare(report, "checkpoint next to light training", saved, options.gbit, kMinShare);
  AddPace(report, "light training during a checkpoint", pace.events, (before.events + after.events) / 2,
          "events/s", kMinPace);
  report.Add({.name = "the whole checkpoint", .value = saved.total, .unit = "s", .runs = 1});
}

void MeasureFullLink(Report& report, const CheckpointOptions& options) {
  const Scratch scratch("link");
  ShapedLink link(options.gbit);
  if (!options.congestion_control.empty()) link.SetCongestionControl(options.congestion_control);
  WriteRows(scratch);
  constexpr int kWorkers = 4;
  LinkJob job(link, scratch, "large", LargeJob(scratch, options.bytes, kWorkers));
  job.AddWorkers(kWorkers);
  // All workers have pulled the values, and pushed.
  WaitFor(
      "the workers push hardly any data", job.server(), [&] { return link.SentTo() > 1.5 * options.bytes; },
      600);

  MemoryPeak memory(job.server().pid());
  const auto measure = [&](const auto& during) {
    const double sent = link.SentTo();
    const auto start = Clock::now();
    during();
    return (link.SentTo() - sent) / SecondsSince(start) / kMebi;
  };
  // Each worker pushes about three times.
  const double window = 3 * options.bytes / (options.gbit * 1e9 / 8);
  const auto idle = [&] { std::this_thread::sleep_for(std::chrono::duration<double>(window)); };
  const double before = measure(idle);
  const double memory_before = memory.Take();
  LinkJob::Saved saved;
  const double pace = measure([&] { saved = job.Checkpoint(); });
  const double extra = memory.value() - memory_before;
  const double after = measure(idle);
  AddShare(report, "checkpoint next to training that fills the link", saved, options.gbit, kMinShareFull);
  AddPace(report, "training that fills the link during a checkpoint", pace, (before + after) / 2, "MiB/s",
          kMinPaceFull);
  report.Add({.name = "memory of the server beyond its peak before",
              .value = extra / kMebi,
              .unit = "MiB",
              .runs = 1,
              .bound = ValueAtMost(kMaxMemory)});
  report.Add({.name = "the whole checkpoint", .value = saved.total, .unit = "s", .runs = 1});
}

}  // namespace leat::bench
