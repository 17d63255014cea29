#include "show/history/job_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "show/history/testing.h"

namespace leat::observe {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() : directory_(fs::temp_directory_path() / ("history_" + std::to_string(getpid()))) {
    fs::remove_all(directory_);
    fs::create_directory(directory_);
  }
  ~RecorderTest() override { fs::remove_all(directory_); }

  std::unique_ptr<Recorder> Make() {
    monitor_ = std::make_shared<JobMonitor>();
    return std::make_unique<Recorder>(directory_, monitor_);
  }
  std::string file() const { return directory_ + "/" + kHistoryName; }

  const std::string directory_;
  std::shared_ptr<JobMonitor> monitor_;
  json status_ = StatusJson();
};

TEST_F(RecorderTest, AHistoryIsContinued) {
  auto first = Make();
  EXPECT_EQ(monitor_->present()->number, 0u);
  for (int t = 1; t <= 5; ++t) first->OnStatus(t, StatusOf(status_));
  EXPECT_EQ(monitor_->present()->number, 5u);
  EXPECT_EQ(monitor_->With(&History::end_s), 5);
  const size_t events = monitor_->With(&History::EventsAfter, 0, 100).size();
  EXPECT_EQ(events, 6u);
  first.reset();  // as if killed

  auto second = Make();
  EXPECT_EQ(monitor_->With(&History::end_s), 5);
  EXPECT_EQ(monitor_->With(&History::EventsAfter, 0, 100).size(), events);
  EXPECT_EQ(monitor_->present()->reading.job, "fraud") << "the last status that was stored";
  status_["term"] = 2;
  second->OnStatus(9, StatusOf(status_));
  const auto log = monitor_->With(&History::EventsAfter, events, 100);
  ASSERT_EQ(log.size(), 1u) << "members that are known do not join again";
  EXPECT_EQ(log[0].text, "a coordinator of term 2 has taken over");
  EXPECT_EQ(log[0].number, events + 1);
  status_["phase"] = "ended";
  second->Finish(10, StatusOf(status_));
  EXPECT_TRUE(monitor_->closed());

  HistoryReader reader(directory_);
  ASSERT_TRUE(reader.Update().ok());
  EXPECT_EQ(reader.history().end_s(), 10);
  EXPECT_EQ(json::parse(reader.status().json)["phase"], "ended");
}

TEST_F(RecorderTest, AReaderFollowsTheFile) {
  HistoryReader reader(directory_);
  EXPECT_EQ(reader.Update().status().code(), Code::kNotFound);
  auto recorder = Make();
  recorder->OnStatus(1, StatusOf(status_));
  ASSERT_TRUE(reader.Update().ok());
  EXPECT_EQ(reader.history().end_s(), 1);
  recorder->OnStatus(2, StatusOf(status_));
  EXPECT_TRUE(*reader.Update());
  EXPECT_FALSE(*reader.Update());
  EXPECT_EQ(reader.history().fine().size(), 2u);
  // Another one has replaced the file.
  recorder = Make();
  recorder->OnStatus(3, StatusOf(status_));
  EXPECT_TRUE(*reader.Update());
  EXPECT_EQ(reader.history().fine().size(), 3u);
}

TEST_F(RecorderTest, AFormerProcessDoesNotWriteIntoTheNewFile) {
  auto former = Make();
  former->OnStatus(1, StatusOf(status_));
  auto now = Make();
  now->OnStatus(2, StatusOf(status_));
  former->OnStatus(100, StatusOf(status_));
  now->OnStatus(3, StatusOf(status_));
  HistoryReader reader(directory_);
  ASSERT_TRUE(reader.Update().ok());
  EXPECT_EQ(reader.history().fine().size(), 3u);
  EXPECT_EQ(reader.history().end_s(), 3);
}

TEST_F(RecorderTest, ADamagedFileIsReadUpToTheDamage) {
  auto recorder = Make();
  for (int t = 1; t <= 5; ++t) recorder->OnStatus(t, StatusOf(status_));
  recorder.reset();
  std::ofstream(file(), std::ios::app) << std::string(100, 'x');
  recorder = Make();
  EXPECT_EQ(monitor_->With(&History::end_s), 5);
  recorder->OnStatus(6, StatusOf(status_));
  HistoryReader reader(directory_);
  ASSERT_TRUE(reader.Update().ok());
  EXPECT_EQ(reader.history().fine().size(), 6u);
  std::ofstream(file()) << "nonsense";
  EXPECT_EQ(HistoryReader(directory_).Update().status().code(), Code::kDataLoss);
}

TEST_F(RecorderTest, WithoutAPlaceForTheFileThereIsStillAHistory) {
  fs::create_directories(file() + ".tmp");  // in the way
  auto recorder = Make();
  recorder->OnStatus(1, StatusOf(status_));
  EXPECT_EQ(monitor_->With(&History::end_s), 1);
  EXPECT_FALSE(fs::exists(file()));
  fs::remove(file() + ".tmp");
  recorder->OnStatus(100, StatusOf(status_));
  HistoryReader reader(directory_);
  ASSERT_TRUE(reader.Update().ok()) << "it is tried again";
  EXPECT_EQ(reader.history().fine().size(), 2u);
}

TEST_F(RecorderTest, TheFileDoesNotGrowWithoutLimit) {
  auto recorder = Make();
  // Large statuses make it quick.
  for (int i = 0; i < 100; ++i) status_["variables"].push_back({{"name", std::string(4000, 'x')}});
  const report::JobStatus status = StatusOf(status_);
  uint64_t most = 0;
  for (int minute = 1; minute <= 100; ++minute) {
    recorder->OnStatus(60 * minute, status);
    most = std::max<uint64_t>(most, fs::file_size(file()));
  }
  EXPECT_GT(most, HistoryWriter::kMaxBytes / 2);
  EXPECT_LT(most, uint64_t{16} << 20);
  HistoryReader reader(directory_);
  ASSERT_TRUE(reader.Update().ok());
  EXPECT_EQ(reader.history().end_s(), 6000);
  EXPECT_EQ(reader.history().coarse().size(), 99u);
}

TEST_F(RecorderTest, OfManyMembersTheFileHasThoseThatAreKept) {
  auto recorder = Make();
  for (uint64_t node = 10; node < 5010; ++node)
    status_["members"].push_back(WorkerJson(node, static_cast<uint32_t>(node)));
  const report::JobStatus many = StatusOf(status_);
  recorder->OnStatus(1, many);
  const auto before = fs::file_size(file());
  recorder->OnStatus(2, many);
  EXPECT_LT(fs::file_size(file()) - before, 2000u);
  HistoryReader reader(directory_);
  EXPECT_TRUE(reader.Update().ok());
  EXPECT_EQ(reader.history().fine().size(), 2u);
}

TEST_F(RecorderTest, EventsThatFillTheFileWithinAMinute) {
  auto recorder = Make();
  constexpr int kWarnings = 1000;
  uint64_t all = 0, most = 0;
  for (int t = 1; t < 50; ++t) {
    const auto before = fs::file_size(file());
    status_["warnings"].clear();
    for (int i = 0; i < kWarnings; ++i)
      status_["warnings"].push_back(std::to_string(kWarnings * t + i) + std::string(480, 'x'));
    recorder->OnStatus(t, StatusOf(status_));
    const auto after = fs::file_size(file());
    most = std::max<uint64_t>(most, after);
    all += after > before ? after - before : 0;
  }
  EXPECT_GT(all, uint64_t{17} << 20);
  EXPECT_LT(most, uint64_t{16} << 20);
}

TEST_F(RecorderTest, AClockThatIsBehindMakesNoShortSamples) {
  auto recorder = Make();
  recorder->OnStatus(1000, StatusOf(status_));
  recorder = Make();
  for (int second = 0; second < 70; ++second) {
    status_["stream_end"] = 1000 * second;
    recorder->OnStatus(100 + second, StatusOf(status_));
  }
  monitor_->With([](const History& history) {
    const auto& samples = history.fine();
    ASSERT_EQ(samples.size(), 71u);
    EXPECT_GT(samples[1].time_s, 1000);
    for (size_t i = 2; i < samples.size(); ++i) {
      EXPECT_NEAR(samples[i].time_s - samples[i - 1].time_s, 1, 1e-9);
      EXPECT_NEAR(samples[i][Series::kArrivedPerS], 1000, 1);
    }
    EXPECT_EQ(history.coarse().size(), 1u);
  });
}

TEST_F(RecorderTest, AFileThatWasRemovedIsWrittenAnew) {
  auto recorder = Make();
  recorder->OnStatus(1, StatusOf(status_));
  fs::remove(file());
  recorder->OnStatus(2, StatusOf(status_));
  HistoryReader reader(directory_);
  ASSERT_TRUE(reader.Update().ok());
  EXPECT_EQ(reader.history().fine().size(), 2u);
}

TEST_F(RecorderTest, NothingIsLeftOfAFileThatCannotBeMade) {
  fs::create_directories(file() + "/in the way");
  auto recorder = Make();
  EXPECT_FALSE(fs::exists(file() + ".tmp"));
}

TEST_F(RecorderTest, LiveUntilNothingMoreIsHeard) {
  auto recorder = Make();
  recorder->OnStatus(1, StatusOf(status_));
  EXPECT_TRUE(monitor_->present()->live);
  monitor_->SetLive(false);
  EXPECT_FALSE(monitor_->present()->live);
  EXPECT_EQ(monitor_->present()->number, 2u) << "those who wait are told";
  monitor_->Load(History(), {1, status_.dump()});
  EXPECT_FALSE(monitor_->present()->live) << "what is read may be old";
  recorder->OnStatus(2, StatusOf(status_));
  EXPECT_TRUE(monitor_->present()->live);
}

TEST(HistoryGrowthTest, AFileThatDoesNotGrowIsNotLive) {
  using std::chrono::seconds;
  HistoryGrowth fresh(seconds(100), 3), old(seconds(100), 3600), ahead(seconds(100), -3600);
  EXPECT_TRUE(fresh.live(seconds(109)));
  EXPECT_FALSE(fresh.live(seconds(110)));
  EXPECT_FALSE(old.live(seconds(100)));
  EXPECT_FALSE(ahead.live(seconds(110))) << "whatever the clocks are";
  old.OnGrowth(seconds(101));
  EXPECT_TRUE(old.live(seconds(110)));
  EXPECT_FALSE(old.live(seconds(111)));
}

TEST_F(RecorderTest, ThoseWhoLookWaitForTheNextStatus) {
  auto recorder = Make();
  std::thread writer([&] {
    for (int t = 1; t <= 3; ++t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      recorder->OnStatus(t, StatusOf(status_));
    }
    recorder->Finish(4, StatusOf(status_));
  });
  uint64_t seen = 0;
  while (!monitor_->closed()) {
    std::this_thread::yield();
    const auto present = monitor_->present();
    EXPECT_GE(present->number, seen);
    seen = present->number;
    monitor_->With(&History::Query, 0, 10, 10);
  }
  writer.join();
  EXPECT_EQ(monitor_->present()->number, 4u);
}

TEST_F(RecorderTest, NonsenseThatIsLoadedShowsNothing) {
  auto recorder = Make();
  monitor_->Load(History(), {2, "no JSON"});
  EXPECT_EQ(monitor_->present()->number, 0u);
}

}  // namespace
}  // namespace leat::observe
