#include "show/tensorboard/run_writer.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>

#include "base/log.h"
#include "base/threads/thread.h"
#include "show/report/figures.h"
#include "show/tensorboard/events.h"
#include "storage/checkpoint/shard.h"

namespace leat::tensorboard {
namespace {

// Training has precedence over what a job shows.
constexpr int kNice = 10;

struct Point {
  Time now{0};
  double wall_time = 0;
  report::JobStatus status;
  bool last = false;
};

struct Checkpoint {
  std::string directory;
  protocol::Manifest manifest;
};

// The distribution of each variable's values in a checkpoint, by the names of the variables; moments, whose
// words are not numbers, are left out. Reads one slice at a time, so it needs little memory. kNotFound or
// kDataLoss if a shard is gone or damaged.
Result<Histograms> WeightHistograms(const Checkpoint& checkpoint, const protocol::SliceTable& table) {
  std::vector<Distribution> values(table.variables.size());
  std::vector<float> slice;
  for (const auto& shard : checkpoint.manifest.shards) {
    LEAT_ASSIGN_OR_RETURN(const auto reader, checkpoint::ShardReader::Open(
                                                 checkpoint.directory + "/" + shard.file, shard.checksum));
    for (const auto& [id, incarnation] : shard.slices) {
      if (id.value >= table.slices.size())
        return Status(Code::kDataLoss, checkpoint.directory + ": has slice " + std::to_string(id.value) +
                                           ", the job has " + std::to_string(table.slices.size()));
      const auto& spec = table.slices[id.value];
      if (table.variables[spec.variable].role == optim::VariableRole::kMoments) continue;
      slice.resize(spec.elements());
      LEAT_RETURN_IF_ERROR(reader->ReadValues(table, id, slice));
      values[spec.variable].Add(slice);
    }
  }
  Histograms found;
  for (size_t v = 0; v < values.size(); ++v) {
    if (values[v].count() > 0) found.push_back({table.variables[v].name, values[v].ToHistogram()});
  }
  return found;
}

// Every variable is somewhere.
bool Complete(const Placement& placement) {
  return !placement || std::ranges::none_of(*placement, [](const auto& v) { return v.ps.empty(); });
}

Event EventOf(const std::string& scope, double wall_time, uint64_t events, Histograms variables) {
  for (auto& [name, histogram] : variables) name = scope + name;
  return {.wall_time = wall_time,
          .step = static_cast<int64_t>(events),
          .what = Summary{.histograms = std::move(variables)}};
}

}  // namespace

Summary StatusSummary::Take(const report::JobStatus& status) {
  Summary out;
  const auto describe = [&](const std::string& tag, std::string_view help) {
    if (described_.insert(tag).second) out.descriptions[tag] = help;
  };
  const auto add = [&](const std::string& scope, const auto& figures, const auto& from) {
    for (const auto& figure : figures) {
      if (figure.tag.empty()) continue;
      report::ForEachValue(figure, from, [&](const std::string& key, double value) {
        const std::string tag = scope + std::string(figure.tag) + (key.empty() ? "" : "/" + key);
        if (!std::isfinite(value)) return;
        out.scalars.emplace_back(tag, static_cast<float>(value));
        describe(tag, figure.help);
      });
    }
  };
  add("", report::kJobFigures, status);
  for (const report::MemberStatus& m : status.members) {
    const bool worker = m.name.Works("worker");
    if ((!worker && !m.name.Works("ps")) || m.name.index >= kMaxMembers) continue;
    const std::string scope = (worker ? "workers/" : "servers/") + std::to_string(m.name.index) + "/";
    add(scope, report::kMemberFigures, m);
    if (m.worker) add(scope, report::kWorkerFigures, m.worker->progress);
  }

  auto since = status.staleness;
  // Servers that come again begin with 0.
  for (size_t i = 0; i < std::min(since.size(), staleness_.size()); ++i)
    since[i] -= std::min(since[i], staleness_[i]);
  staleness_ = status.staleness;
  if (Histogram histogram = OfWholeNumbers(since); !histogram.counts.empty()) {
    out.histograms.push_back({"updates/staleness", std::move(histogram)});
    describe("updates/staleness", "Staleness of the updates since the last point.");
  }
  return out;
}

Duration PauseAfter(Duration run) {
  return std::clamp(run / 1000, kLeastPause, kMostPause);
}

bool RunEvents::WantsGraph(Time now, const Placement& placement, bool last) {
  const bool settled = seen_ && *seen_ == placement;
  seen_ = placement;
  if (written_ && *written_ == placement) {
    changed_ = Time{0};
    return false;
  }
  if (changed_ == Time{0}) changed_ = now;
  const bool first = !written_;
  return last || (Complete(placement) && (first || settled || now - changed_ >= kGraphPause));
}

std::vector<Event> RunEvents::OnStatus(Time now, double wall_time, const report::JobStatus& status,
                                       bool last) {
  if (status.phase.starts_with("waiting") && !last) return {};
  std::vector<Event> events;
  const auto add = [&](auto what) {
    events.push_back(
        {.wall_time = wall_time, .step = static_cast<int64_t>(status.events), .what = std::move(what)});
  };
  if (!events_ || status.events < *events_) add(RunStart{});
  events_ = status.events;
  if (WantsGraph(now, status.variables, last)) {
    add(make_graph_(status.variables));
    written_ = status.variables;
    changed_ = Time{0};
  }
  add(summary_.Take(status));
  return events;
}

void RunEvents::OnLost() {
  events_.reset();
  written_.reset();
}

std::vector<Event> RunEvents::OnWeights(double wall_time, uint64_t events, Histograms weights) const {
  if (!events_) return {};
  return {EventOf("weights/", wall_time, events, std::move(weights))};
}

std::vector<Event> RunEvents::OnGradients(double wall_time, Histograms gradients) const {
  if (!events_) return {};
  return {EventOf("gradients/", wall_time, *events_, std::move(gradients))};
}

class RunWriter::State {
 public:
  State(Options options, Append append)
      : table_(std::move(options.table)),
        events_(std::move(options.make_graph)),
        append_(std::move(append)) {}

  // ---- the caller's thread
  void Add(Point point) {
    Change([&] {
      // The last one is written, if any.
      if (points_.size() < kMostWaiting || point.last) {
        points_.push_back(std::move(point));
      } else {
        ++lost_;
      }
    });
  }
  void Add(Checkpoint checkpoint) {
    Change([&] { checkpoint_ = std::move(checkpoint); });
  }
  void Add(Bytes gradients) {
    Change([&] { gradients_ = std::move(gradients); });
  }
  // Whether the thread has written everything and is about to end.
  bool End(Duration limit) {
    std::unique_lock lock(mutex_);
    ending_ = true;
    wake_.notify_one();
    return ended_changed_.wait_for(lock, limit, [this] { return ended_; });
  }
  void Abandon() {
    Change([&] {
      abandoned_ = ending_ = true;
      points_.clear();
      checkpoint_.reset();
      gradients_.reset();
    });
  }

  // ---- the writing thread
  void Run() {
    (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
    std::unique_lock lock(mutex_);
    while (true) {
      // Both belong to the last point, so they wait for the first one.
      const bool started = events_.started();
      const auto due = [&] { return checkpoint_ && started && (ending_ || clock_.Now() >= next_weights_); };
      const auto any = [&] { return ending_ || !points_.empty() || (gradients_ && started) || due(); };
      if (checkpoint_ && started) {
        // Woken by a newer checkpoint, or others; then it waits again.
        wake_.wait_for(lock, std::max(next_weights_ - clock_.Now(), Duration::zero()), any);
      } else {
        wake_.wait(lock, [&] { return any() || (checkpoint_ && started); });
      }
      const auto write = [&](auto what) {
        lock.unlock();
        Write(what);
        lock.lock();
      };
      if (!points_.empty()) {
        Point point = std::move(points_.front());
        points_.pop_front();
        write(std::move(point));
      } else if (gradients_ && started) {
        write(*std::exchange(gradients_, std::nullopt));
      } else if (due()) {
        write(*std::exchange(checkpoint_, std::nullopt));
      } else if (ending_) {
        break;
      }
    }
    if (lost_ > 0 && !abandoned_) spdlog::warn("tensorboard: {} points were not written", lost_);
    ended_ = true;
    ended_changed_.notify_all();
  }

 private:
  // Does it, and wakes the writing thread.
  template <class F>
  void Change(const F& f) {
    {
      std::lock_guard lock(mutex_);
      f();
    }
    wake_.notify_one();
  }

  void Write(const Point& point) {
    const auto events = events_.OnStatus(point.now, point.wall_time, point.status, point.last);
    const Status written = append_(events);
    if (!written.ok()) events_.OnLost();
    Report(written);
  }

  void Write(const Checkpoint& checkpoint) {
    const Time begin = clock_.Now();
    auto weights = WeightHistograms(checkpoint, table_);
    next_weights_ = clock_.Now() + kPauseOfWeights * (clock_.Now() - begin);
    if (weights.ok()) {
      Report(append_(events_.OnWeights(WallTime(), checkpoint.manifest.events, std::move(*weights))));
    } else if (weights.status().code() != Code::kNotFound) {  // the checkpoint has been removed meanwhile
      spdlog::warn("tensorboard: no histograms of weights: {}", weights.status().ToString());
    }
  }

  void Write(const Bytes& encoded) {
    auto gradients = DecodeGradients(encoded, table_.variables);
    if (gradients.ok()) return Report(append_(events_.OnGradients(WallTime(), std::move(*gradients))));
    spdlog::warn("tensorboard: a worker's gradients: {}", gradients.status().ToString());
  }

  // Says it once, until it is over.
  void Report(const Status& status) {
    std::lock_guard lock(mutex_);
    if (!status.ok()) ++lost_;
    if (abandoned_ || status.ok() == !failing_) return;
    failing_ = !status.ok();
    if (failing_) {
      spdlog::warn("tensorboard: {}; the job goes on without", status.ToString());
    } else {
      spdlog::info("over: tensorboard: {} points were not written", std::exchange(lost_, 0));
    }
  }

  const protocol::SliceTable table_;
  MonotonicClock clock_;
  RunEvents events_;  // the writing thread's, as the next two
  const Append append_;
  Time next_weights_{0};

  std::mutex mutex_;
  std::condition_variable wake_, ended_changed_;
  std::deque<Point> points_;
  std::optional<Checkpoint> checkpoint_;  // the newest one
  std::optional<Bytes> gradients_;        // the newest ones
  bool ending_ = false, ended_ = false, abandoned_ = false, failing_ = false;
  uint64_t lost_ = 0;  // points since the last report
};

RunWriter::RunWriter(Options options, Append append)
    : state_(std::make_shared<State>(std::move(options), std::move(append))),
      thread_(StartThread([state = state_] { state->Run(); })) {}

RunWriter::~RunWriter() {
  if (!thread_.joinable()) return;
  state_->Abandon();
  // A thread that waits for a disk does so for an unknown time; it uses nothing but what it shares with this.
  constexpr Duration kLimit = std::chrono::milliseconds(200);
  state_->End(kLimit) ? thread_.join() : thread_.detach();
}

void RunWriter::OnStatus(Time now, report::JobStatus status) {
  if (!start_) start_ = now;
  due_ = now + PauseAfter(now - *start_);
  state_->Add(Point{now, WallTime(), std::move(status)});
}

void RunWriter::OnCheckpoint(std::string directory, protocol::Manifest manifest) {
  state_->Add(Checkpoint{std::move(directory), std::move(manifest)});
}

void RunWriter::OnGradients(Bytes gradients) {
  state_->Add(std::move(gradients));
}

void RunWriter::Finish(Time now, report::JobStatus status, Duration limit) {
  state_->Add(Point{now, WallTime(), std::move(status), true});
  if (state_->End(limit)) return thread_.join();
  spdlog::warn("tensorboard: the disk did not take all of the last points within {} s", Seconds(limit));
  state_->Abandon();
  thread_.detach();
}

}  // namespace leat::tensorboard
