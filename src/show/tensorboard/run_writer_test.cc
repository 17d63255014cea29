#include "show/tensorboard/run_writer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/testing.h"
#include "show/tensorboard/events.h"
#include "show/tensorboard/testing.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/shard.h"

namespace leat::tensorboard {
namespace {

using std::chrono::seconds;
constexpr Duration kLimit = std::chrono::minutes(1);

report::JobStatus StatusAt(uint64_t events) {
  report::JobStatus status;
  status.phase = "running";
  status.events = events;
  return status;
}

RunWriter::Options Options(protocol::SliceTable table = {}) {
  return {.make_graph = [](const auto&) { return Graph{}; }, .table = std::move(table)};
}

RunWriter::Append To(const std::shared_ptr<EventFile>& file) {
  return [file](const std::vector<Event>& events) { return file->Append(events); };
}

std::shared_ptr<EventFile> MakeFile(const std::string& directory, bool resumed = false) {
  auto file = EventFile::Create(directory, "host", resumed);
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return std::make_shared<EventFile>(std::move(*file));
}

std::vector<Event> Read(const std::string& path) {
  const auto bytes = checkpoint::ReadFile(path, 1 << 20);
  EXPECT_TRUE(bytes.ok());
  const auto events = DecodeFile(*bytes, path);
  EXPECT_TRUE(events.ok()) << events.status().ToString();
  return events.ok() ? *events : std::vector<Event>();
}

std::vector<int64_t> StepsOfPoints(const std::vector<Event>& events) {
  std::vector<int64_t> steps;
  for (const Event& event : events) {
    if (std::holds_alternative<Summary>(event.what)) steps.push_back(event.step);
  }
  return steps;
}

// Keeps the summaries that a writer has appended, in memory.
class Collected {
 public:
  RunWriter::Append Append() {
    return [this](const std::vector<Event>& events) {
      std::lock_guard lock(mutex_);
      for (const Event& event : events) {
        const auto* summary = std::get_if<Summary>(&event.what);
        if (summary == nullptr) continue;
        for (const auto& [tag, value] : summary->scalars) found_[{tag, event.step}] = {};
        for (const auto& [tag, histogram] : summary->histograms) found_[{tag, event.step}] = histogram;
      }
      changed_.notify_all();
      return Status();
    };
  }
  bool Await(const std::string& tag, int64_t step) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return found_.contains({tag, step}); });
  }
  std::optional<Histogram> Of(const std::string& tag, int64_t step) {
    std::lock_guard lock(mutex_);
    const auto found = found_.find({tag, step});
    return found == found_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::string, int64_t>, Histogram> found_;
};

TEST(EventFile, NamesFilesByTimeAndRefusesThoseOfAnotherRun) {
  TempDir directory;
  const std::string run = directory.path() + "/runs/job-1";
  const auto first = MakeFile(run);
  EXPECT_TRUE(first->path().starts_with(run + "/events.out.tfevents."));
  const auto again = EventFile::Create(run, "host", false);
  EXPECT_EQ(again.status().code(), Code::kFailedPrecondition);
  EXPECT_TRUE(again.status().message().starts_with(run + " has the event files of another run"));
  const auto resumed = MakeFile(run, true);
  EXPECT_NE(resumed->path(), first->path());
  EXPECT_EQ(Read(resumed->path()).size(), 1u);
  // Not a directory.
  EXPECT_FALSE(EventFile::Create(first->path(), "host", false).ok());
}

// A disk that takes no more bytes for a while.
TEST(EventFile, IsWholeAfterADiskWasFull) {
  TempDir directory;
  const auto file = MakeFile(directory.path());
  const auto event = [](int64_t step) {
    return std::vector<Event>{{.step = step, .what = Summary{.scalars = {{std::string(200, 'x'), 1.0f}}}}};
  };
  ASSERT_TRUE(file->Append(event(1)).ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = std::filesystem::file_size(file->path()) + 100;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_EQ(file->Append(event(2)).code(), Code::kResourceExhausted);
  EXPECT_EQ(file->Append(event(3)).code(), Code::kResourceExhausted);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_TRUE(file->Append(event(4)).ok());
  EXPECT_EQ(StepsOfPoints(Read(file->path())), (std::vector<int64_t>{1, 4}));
}

TEST(RunWriter, WritesAllPoints) {
  TempDir directory;
  const auto file = MakeFile(directory.path());
  RunWriter writer(Options(), To(file));
  EXPECT_TRUE(writer.Due(seconds(5)));
  writer.OnStatus(seconds(5), StatusAt(1));
  EXPECT_FALSE(writer.Due(seconds(5)));
  EXPECT_TRUE(writer.Due(seconds(6)));
  writer.OnStatus(seconds(6), StatusAt(2));
  writer.Finish(seconds(7), StatusAt(3), kLimit);
  EXPECT_EQ(StepsOfPoints(Read(file->path())), (std::vector<int64_t>{1, 2, 3}));
}

TEST(RunWriter, ReadsWeightsFromACheckpoint) {
  TempDir directory;
  protocol::SliceTable table;
  table.variables = {{.name = "w", .shape = {3}}};
  table.slices = {{.variable = 0, .begin = 0, .end = 2}, {.variable = 0, .begin = 2, .end = 3}};
  std::vector<std::shared_ptr<const protocol::Slice>> slices;
  for (uint32_t id = 0; id < 2; ++id) {
    auto slice = std::make_shared<protocol::Slice>();
    slice->id = SliceId(id);
    slice->elements = table.slices[id].elements();
    slice->memory = Buffer(slice->elements * sizeof(float));
    for (float& x : slice->values()) x = static_cast<float>(id) + 1;
    slices.push_back(slice);
  }
  const auto shard = checkpoint::WriteShard(directory.path(), 1, table, {}, slices);
  ASSERT_TRUE(shard.ok()) << shard.status().ToString();
  Collected collected;
  RunWriter writer(Options(table), collected.Append());
  protocol::Manifest manifest;
  manifest.shards = {*shard};
  const auto add = [&](uint64_t events) {
    manifest.events = events;
    writer.OnCheckpoint(directory.path(), manifest);
  };
  writer.OnStatus(seconds(6), StatusAt(60));
  add(60);
  ASSERT_TRUE(collected.Await("weights/w", 60));
  // However soon the last ones come, the last is written.
  add(65);
  add(70);
  for (int64_t point = 71; point < 80; ++point) {
    writer.OnStatus(seconds(7), StatusAt(static_cast<uint64_t>(point)));
    ASSERT_TRUE(collected.Await("stream/events", point));
  }
  writer.Finish(seconds(8), StatusAt(80), kLimit);
  const auto histogram = collected.Of("weights/w", 70);
  ASSERT_TRUE(histogram);
  EXPECT_EQ(histogram->count, 3);
  EXPECT_EQ(histogram->sum, 1 + 1 + 2);
}

// The tags and sums in the file after a worker with this variable has sent its gradients.
std::vector<std::pair<std::string, double>> WrittenGradients(const std::string& variable) {
  const std::vector<float> gradient = {1, 2, 3};
  TempDir directory;
  const auto file = MakeFile(directory.path());
  protocol::SliceTable table;
  table.variables = {{.name = "w", .shape = {3}}};
  RunWriter writer(Options(table), To(file));
  // Gradients that come before the first point wait for it.
  writer.OnGradients(EncodeGradients({{.name = variable, .shape = {3}}},
                                     [&](size_t) { return std::span<const float>(gradient); }));
  std::this_thread::yield();
  writer.OnStatus(seconds(5), StatusAt(60));
  writer.Finish(seconds(7), StatusAt(70), kLimit);
  std::vector<std::pair<std::string, double>> found;
  for (const Event& event : Read(file->path())) {
    const auto* summary = std::get_if<Summary>(&event.what);
    if (summary == nullptr) continue;
    for (const auto& [tag, histogram] : summary->histograms) found.emplace_back(tag, histogram.sum);
  }
  return found;
}

TEST(RunWriter, WritesGradientsOfTheJobsVariables) {
  EXPECT_EQ(WrittenGradients("w"), (std::vector<std::pair<std::string, double>>{{"gradients/w", 6}}));
  EXPECT_TRUE(WrittenGradients("of another job").empty());
}

// A disk that a write does not come back from, for as long as a test wants.
class StuckDisk {
 public:
  Status Append(const std::vector<Event>& events) {
    std::unique_lock lock(mutex_);
    stuck_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return free_; });
    taken_ += events.size();
    return Status();
  }
  void AwaitWrite() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stuck_; });
  }
  void Free() {
    std::lock_guard lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }
  size_t taken() {
    std::lock_guard lock(mutex_);
    return taken_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stuck_ = false, free_ = false;
  size_t taken_ = 0;
};

TEST(RunWriter, AStuckDiskHoldsNobodyUp) {
  const auto disk = std::make_shared<StuckDisk>();
  RunWriter writer(Options(), [disk](const auto& events) { return disk->Append(events); });
  writer.OnStatus(seconds(1), StatusAt(1));
  disk->AwaitWrite();
  for (int i = 2; i < 100; ++i) writer.OnStatus(seconds(i), StatusAt(static_cast<uint64_t>(i)));
  writer.Finish(seconds(100), StatusAt(100), std::chrono::milliseconds(20));
  disk->Free();
}

TEST(RunWriter, AFewPointsWaitForASlowDisk) {
  const auto disk = std::make_shared<StuckDisk>();
  RunWriter writer(Options(), [disk](const auto& events) { return disk->Append(events); });
  writer.OnStatus(seconds(1), StatusAt(1));
  disk->AwaitWrite();
  for (int i = 2; i < 100; ++i) writer.OnStatus(seconds(i), StatusAt(1));
  disk->Free();
  writer.Finish(seconds(100), StatusAt(1), kLimit);
  // The first one with a start and a graph, those that waited, and the last one.
  EXPECT_EQ(disk->taken(), 3 + RunWriter::kMostWaiting + 1);
}

TEST(RunWriter, EndsWithoutALastPoint) {
  const auto disk = std::make_shared<StuckDisk>();
  {
    RunWriter writer(Options(), [disk](const auto& events) { return disk->Append(events); });
    writer.OnStatus(seconds(1), StatusAt(1));
    disk->AwaitWrite();
  }
  disk->Free();
}

}  // namespace
}  // namespace leat::tensorboard
