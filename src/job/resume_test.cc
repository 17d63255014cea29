#include "job/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_status.h"
#include "job/testing.h"
#include "stream/log/log.h"

namespace leat::job {
namespace {

using protocol::CutsMade;
using protocol::MakeCut;
using protocol::Position;
using protocol::StreamStart;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DataLossTest : public ::testing::Test {
 protected:
  DataLossTest() {
    EXPECT_TRUE(stream::EmbeddedLog::Create(directory_ / "log", "events", {.partitions = 2}).ok());
    auto writer = stream::LogWriter::Open(directory_ / "log", "events");
    EXPECT_TRUE(writer.ok());
    const std::vector<std::string_view> records(30, "{}");
    for (uint32_t p = 0; p < 2; ++p) EXPECT_TRUE((*writer)->Append(p, records).ok());
  }
  static protocol::RecoveredState With(uint64_t watermark, uint64_t open, uint64_t journaled) {
    protocol::CutRules rules;
    protocol::RecoveredState restored;
    restored.manifest.emplace();
    restored.manifest->watermark = {{0, 0}, {0, watermark}};
    if (open > 0) restored.manifest->open = {MakeCut(rules, 1, {0, 10}, {0, 10}, open)};
    restored.journal = {StreamStart{{{0, 0}, {0, 0}}}, CutsMade{{MakeCut(rules, 1, {}, {}, journaled)}}};
    return restored;
  }
  std::string MistakeOf(const protocol::RecoveredState& restored, bool fail_on_data_loss = true) {
    const std::string text =
        Replaced(kSmallJob, "partitions: 2",
                 std::string("partitions: 2, fail_on_data_loss: ") + (fail_on_data_loss ? "true" : "false"));
    const Job job = Job::Load({.text = text}, {.directory = directory_.path()});
    auto source = job.stream->Open();
    EXPECT_TRUE(source.ok());
    ranges_ = *(*source)->Ranges();
    return Mistake([&] { CheckNoDataLoss(job, restored, **source, now_, &short_since_, &ranges_); });
  }
  const TempDir directory_;
  std::vector<stream::PartitionRange> ranges_;
  Time now_{};
  std::optional<Time> short_since_;
};

TEST_F(DataLossTest, ALogThatEndsBeforeAUsedOffsetIsRefused) {
  EXPECT_EQ(MistakeOf(With(30, 30, 30)), "");
  for (const auto& lost : {With(31, 0, 1), With(0, 31, 1), With(0, 0, 31)}) {
    EXPECT_EQ(MistakeOf(lost),
              "topic 'events' partition 1 ends at offset 30, but job 'small' has used the offsets before 31: "
              "records are lost; 'fail_on_data_loss: false' continues without them");
  }
  protocol::RecoveredState rounds;
  rounds.journal = {protocol::RoundMade{.lanes = {{MakeCut({}, 1, {}, {}, 33), {}}}}};
  EXPECT_THAT(MistakeOf(rounds), HasSubstr("before 33"));
  protocol::RecoveredState marks;
  marks.journal = {protocol::LabelsMarked{1, {{20, 0, 5}, {34, 0, 9}}}};
  EXPECT_THAT(MistakeOf(marks), HasSubstr("before 34"));
  EXPECT_EQ(ranges_[1].end, 30u);
}

TEST_F(DataLossTest, ANewLeaderOfKafkaIsAskedAgainForAWhile) {
  const Job job = Job::Load({.text = Replaced(kSmallJob, "{topic: events,",
                                              "{topic: events, kafka: {bootstrap.servers: \"b:9092\"},")},
                            {.directory = directory_.path()});
  ASSERT_TRUE(job.stream->traits().remote);
  auto its_source = stream::EmbeddedLog::OpenSource(directory_ / "log", "events");
  ASSERT_TRUE(its_source.ok());
  const auto code_at = [&](int seconds, uint64_t end) -> Code {
    ranges_ = {{.partition = 0, .begin = 0, .end = 30}, {.partition = 1, .begin = 0, .end = end}};
    try {
      CheckNoDataLoss(job, With(31, 0, 1), **its_source, Time(std::chrono::seconds(seconds)), &short_since_,
                      &ranges_);
      return Code::kOk;
    } catch (const StatusError& error) {
      EXPECT_THAT(error.what(), HasSubstr("partition 1 ends at offset 30, but job 'small' has used"));
      return error.status().code();
    } catch (const std::invalid_argument&) {
      return Code::kInvalidArgument;
    }
  };
  EXPECT_EQ(code_at(100, 30), Code::kUnavailable);
  EXPECT_EQ(code_at(129, 30), Code::kUnavailable);
  EXPECT_EQ(code_at(129, 31), Code::kOk);
  EXPECT_EQ(code_at(150, 30), Code::kUnavailable) << "another time";
  EXPECT_EQ(code_at(180, 30), Code::kInvalidArgument);
}

TEST_F(DataLossTest, ALogThatBeginsBehindTheCheckpointIsRefused) {
  EXPECT_EQ(MistakeOf(With(20, 0, 20)), "");
  const Job job = Job::Load({.text = kSmallJob}, {.directory = directory_.path()});
  auto source = job.stream->Open();
  ASSERT_TRUE(source.ok());
  ranges_[1].begin = 20;
  EXPECT_EQ(Mistake([&] { CheckNoDataLoss(job, With(20, 0, 20), **source, now_, &short_since_, &ranges_); }),
            "");
  ranges_[1].begin = 25;
  EXPECT_EQ(
      Mistake([&] { CheckNoDataLoss(job, With(20, 0, 20), **source, now_, &short_since_, &ranges_); }),
      "topic 'events' partition 1 begins at offset 25, but job 'small' has trained only the records before "
      "20: 5 records have expired");
}

TEST_F(DataLossTest, ALogIsAdvancedIfTheJobSaysSo) {
  EXPECT_EQ(MistakeOf(With(31, 0, 45), false), "");
  EXPECT_EQ(ranges_[0].end, 30u);
  EXPECT_EQ(ranges_[1].end, 45u);
  EXPECT_EQ(MistakeOf(With(45, 0, 45)), "") << "the log itself has grown";
}

TEST_F(DataLossTest, FilesAreNeverAdvanced) {
  directory_.Write("a.csv", "x,y\n1,2\n");
  directory_.Write("b.csv", "x,y\n3,4\n");
  directory_.Write("c.csv", "x,y\n");
  const Job job = Job::Load({.text = kCsvJob}, {.data = directory_.path(), .directory = directory_.path()});
  auto source = job.stream->Open();
  ASSERT_TRUE(source.ok());
  auto ranges = *(*source)->Ranges();
  protocol::RecoveredState restored;
  restored.journal = {CutsMade{{MakeCut({}, 0, {}, {}, 3)}}};
  EXPECT_THAT(Mistake([&] { CheckNoDataLoss(job, restored, **source, now_, &short_since_, &ranges); }),
              AllOf(HasSubstr("ends at offset 2"), HasSubstr("before 3: records are lost")));
}

}  // namespace
}  // namespace leat::job
