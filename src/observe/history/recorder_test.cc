#include "observe/history/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "observe/history/testing.h"

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
  for (int t = 1; t <= 5; ++t) first->OnStatus(t, status_.dump());
  EXPECT_EQ(monitor_->present()->number, 5u);
  EXPECT_EQ(monitor_->end_s(), 5);
  const size_t events = monitor_->EventsAfter(0, 100).size();
  EXPECT_EQ(events, 6u);
  first.reset();  // as if killed

  auto second = Make();
  EXPECT_EQ(monitor_->end_s(), 5);
  EXPECT_EQ(monitor_->EventsAfter(0, 100).size(), events);
  EXPECT_EQ(monitor_->present()->reading.job, "fraud") << "the last status that was stored";
  status_["term"] = 2;
  second->OnStatus(9, status_.dump());
  const auto log = monitor_->EventsAfter(events, 100);
  ASSERT_EQ(log.size(), 1u) << "members that are known do not join again";
  EXPECT_EQ(log[0].text, "a coordinator of term 2 has taken over");
  EXPECT_EQ(log[0].number, events + 1);
  status_["phase"] = "ended";
  second->Finish(10, status_.dump());
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
  recorder->OnStatus(1, status_.dump());
  ASSERT_TRUE(reader.Update().ok());
  EXPECT_EQ(reader.history().end_s(), 1);
  recorder->OnStatus(2, status_.dump());
  EXPECT_TRUE(*reader.Update());
  EXPECT_FALSE(*reader.Update());
  EXPECT_EQ(reader.history().fine().size(), 2u);
  // Another one has replaced the file.
  recorder = Make();
  recorder->OnStatus(3, status_.dump());
  EXPECT_TRUE(*reader.Update());
  EXPECT_EQ(reader.history().fine().size(), 3u);
}

TEST_F(RecorderTest, AFormerProcessDoesNotWriteIntoTheNewFile) {
  auto former = Make();
  former->OnStatus(1, status_.dump());
  auto now = Make();
  now->OnStatus(2, status_.dump());
  former->OnStatus(100, status_.dump());
  now->OnStatus(3, status_.dump());
  HistoryReader reader(directory_);
  ASSERT_TRUE(reader.Update().ok());
  EXPECT_EQ(reader.history().fine().size(), 3u);
  EXPECT_EQ(reader.history().end_s(), 3);
}

TEST_F(RecorderTest, ADamagedFileIsReadUpToTheDamage) {
  auto recorder = Make();
  for (int t = 1; t <= 5; ++t) recorder->OnStatus(t, status_.dump());
  recorder.reset();
  std::ofstream(file(), std::ios::app) << std::string(100, 'x');
  recorder = Make();
  EXPECT_EQ(monitor_->end_s(), 5);
  recorder->OnStatus(6, status_.dump());
  HistoryReader reader(directory_);
  ASSERT_TRUE(reader.Update().ok());
  EXPECT_EQ(reader.history().fine().size(), 6u);
  std::ofstream(file()) << "nonsense";
  EXPECT_EQ(HistoryReader(directory_).Update().status().code(), Code::kDataLoss);
}

TEST_F(RecorderTest, WithoutAPlaceForTheFileThereIsStillAHistory) {
  fs::create_directories(file() + ".tmp");  // in the way
  auto recorder = Make();
  recorder->OnStatus(1, status_.dump());
  EXPECT_EQ(monitor_->end_s(), 1);
  EXPECT_FALSE(fs::exists(file()));
  fs::remove(file() + ".tmp");
  recorder->OnStatus(100, status_.dump());
  HistoryReader reader(directory_);
  ASSERT_TRUE(reader.Update().ok()) << "it is tried again";
  EXPECT_EQ(reader.history().fine().size(), 2u);
}

TEST_F(RecorderTest, TheFileDoesNotGrowWithoutLimit) {
  auto recorder = Make();
  status_["notes"] = std::string(400'000, 'x');  // large statuses make it quick
  const std::string status = status_.dump();
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

TEST_F(RecorderTest, ThoseWhoLookWaitForTheNextStatus) {
  auto recorder = Make();
  std::thread writer([&] {
    for (int t = 1; t <= 3; ++t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      recorder->OnStatus(t, status_.dump());
    }
    recorder->Finish(4, status_.dump());
  });
  uint64_t seen = 0;
  while (!monitor_->closed()) {
    monitor_->WaitFor(seen, std::chrono::seconds(10));
    const auto present = monitor_->present();
    EXPECT_GE(present->number, seen);
    seen = present->number;
    monitor_->Query(0, 10, 10);
  }
  writer.join();
  EXPECT_EQ(monitor_->present()->number, 4u);
}

TEST_F(RecorderTest, NonsenseChangesNothing) {
  auto recorder = Make();
  recorder->OnStatus(1, status_.dump());
  recorder->OnStatus(2, "no JSON");
  EXPECT_EQ(monitor_->present()->number, 1u);
}

}  // namespace
}  // namespace leat::observe
