#include "job/input/input_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "job/testing.h"
#include "stream/log/log.h"

namespace leat::job {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ReadableTest : public ::testing::Test {
 protected:
  TempDir directory_;
};

TEST_F(ReadableTest, DevicesAndThreadsOfWorkers) {
  for (const char* name : {"a.csv", "b.csv", "c.csv"}) directory_.Write(name, "x,y\n1,2\n");
  const auto load = [&](const std::string& layer, const std::string& more) {
    const std::string text = Replaced(kCsvJob, "dense: {units: 1}", layer) + more;
    return Job::Load({.text = text}, {.data = directory_.path()});
  };
  const Job job =
      load("dense: {units: 1, device: \"cpu:0\"}", "compute: {inter_op_threads: 2, intra_op_threads: 0}");
  CheckReadable(job);
  const engine::PlanOptions plan = job.Plan({});
  EXPECT_EQ(plan.inter_op_threads, 2);
  EXPECT_EQ(plan.intra_op_threads, 0);
  EXPECT_EQ(plan.machine->DeviceNames(), "cpu:0");
  EXPECT_EQ(Mistake([&] { CheckReadable(load("dense: {units: 1, device: \"gpu:0\"}", "")); }),
            "job:4: unknown device \"gpu:0\"; available: cpu:0 (compute: cpu_devices divides the cores)");
  EXPECT_THAT(Mistake([&] { load("dense: {units: 1}", "compute: {inter_op_threads: -1}"); }),
              HasSubstr("inter_op_threads is -1; must be between 0 and 1024"));
  EXPECT_THAT(Mistake([&] { CheckReadable(load("dense: {units: 1}", "compute: {cpu_devices: 1024}")); }),
              HasSubstr("1024 CPU devices for"));
}

TEST_F(ReadableTest, FilesThatDoNotFitTheSchemaAreSaid) {
  std::string text(2000, 'a');
  for (size_t i = 0; i < text.size(); ++i) text[i] = "abcd"[i * i % 7 % 4];
  const auto mistake = [&](const std::string& job) {
    directory_.Write("input.txt", text);
    return Mistake([&] { CheckReadable(Job::Load({.text = job}, {.data = directory_.path()})); });
  };
  const std::string job = Replaced(kTextJob, "resolved: {data: /somewhere}\n", "");
  EXPECT_EQ(mistake(job), "");
  const std::string other = Replaced(job, "alphabet: abcd", "alphabet: wxyz");
  EXPECT_THAT(mistake(other), AllOf(StartsWith("job:3: "), HasSubstr("input.txt: 33 of the first 33 records"),
                                    HasSubstr("partition 0 offset 0"), HasSubstr("not in the alphabet")))
      << "of the evaluation, which is looked at first";
  // A few misfits become dead letters; too many would stop the job.
  text[700] = 'x';
  EXPECT_EQ(mistake(job), "");
  text.assign(20'000, 'a');
  std::fill_n(text.begin(), 8000, 'x');
  EXPECT_THAT(mistake(job), AllOf(StartsWith("job:3: "),
                                  HasSubstr("2667 of the first 5998 records do not fit the schema")));
  EXPECT_EQ(mistake(job + "train: {max_dead_letter_rate: 0.5}\n"), "");
}

TEST_F(ReadableTest, TheLimitOfDeadLettersHoldsForShortFiles) {
  directory_.Write("b.csv", "x,y\n1,2\n");
  directory_.Write("c.csv", "x,y\n1,2\n");
  const auto mistake = [&](int good, int bad, const std::string& more = "") {
    std::string text = "x,y\n";
    for (int i = 0; i < good; ++i) text += "1,2\n";
    for (int i = 0; i < bad; ++i) text += "oops,2\n";
    directory_.Write("a.csv", text);
    return Mistake([&] { CheckReadable(Job::Load({.text = kCsvJob + more}, {.data = directory_.path()})); });
  };
  EXPECT_EQ(mistake(18, 2), "") << "10 % of 21 are allowed";
  EXPECT_THAT(mistake(16, 3), AllOf(HasSubstr("a.csv: 3 of the first 19 records do not fit"),
                                    HasSubstr("'oops' is not a number")));
  EXPECT_THAT(mistake(110, 990), HasSubstr("990 of the first 1100 records"));
  EXPECT_EQ(mistake(110, 990, "train: {max_dead_letter_rate: 0.95}\n"), "");
}

TEST_F(ReadableTest, ACategoryOfWhichNoValueOccursIsSaid) {
  const auto warnings = [&](const std::string& field, const std::string& value) {
    for (const char* name : {"a.csv", "b.csv", "c.csv"})
      directory_.Write(name, "x,y\n" + value + ",2\n3,4\n");
    const std::string text = Replaced(kCsvJob, "x: {type: number}", "x: {type: category, " + field + "}");
    return CheckReadable(Job::Load({.text = text}, {.data = directory_.path()}));
  };
  const std::string path = directory_ / "";
  EXPECT_THAT(warnings("values: [u, v]", "1.50"),
              ::testing::ElementsAre("job:3: none of the values of 'x' occurs in the first 2 records of " +
                                         path + "c.csv; they have '1.50', for example",
                                     "job:3: none of the values of 'x' occurs in the first 4 records of " +
                                         path + "a.csv and 1 more; they have '1.50', for example"));
  for (const char* field : {"values: [u, 3.0]", "values: [u, 1.5]", "buckets: 4"})
    EXPECT_THAT(warnings(field, "1.50"), ::testing::IsEmpty()) << field;
}

TEST_F(ReadableTest, TheFileThatDoesNotFitIsNamed) {
  const auto mistake = [&] {
    return Mistake([&] { CheckReadable(Job::Load({.text = kCsvJob}, {.data = directory_.path()})); });
  };
  std::string bad = "x,y\n", few = bad;
  for (int i = 0; i < 50; ++i) {
    bad += "oops,2\n";
    few += i % 4 == 0 ? "oops,2\n" : "1,2\n";
  }
  for (const char* name : {"a.csv", "c.csv"}) directory_.Write(name, "x,y\n1,2\n");
  directory_.Write("b.csv", bad);
  EXPECT_THAT(mistake(),
              AllOf(HasSubstr("b.csv: 50 of the first 50 records"), HasSubstr("partition 0 offset 0: x:")));
  for (const char* name : {"a.csv", "b.csv"}) directory_.Write(name, few);
  EXPECT_THAT(mistake(), HasSubstr("a.csv: 13 of the first 50 records")) << "both are bad";
  directory_.Write("a.csv", "x,y\n1,2\n");
  directory_.Write("b.csv", "x,y\n1,2\n");
  directory_.Write("c.csv", "z,y\n1,2\n");
  EXPECT_THAT(mistake(),
              AllOf(StartsWith("job:3: "), HasSubstr("c.csv: field 'x' is not among the columns")));
  directory_.Write("c.csv", "of May, and June\n\nx,y\n1,2\n");
  EXPECT_THAT(mistake(),
              HasSubstr("c.csv: the names of the columns are in line 3; remove the lines above: tail -n +3"));
}

TEST_F(ReadableTest, HeadersThatDoNotFitAreSaid) {
  const auto mistake = [&] {
    return Mistake([&] { CheckReadable(Job::Load({.text = kCsvJob}, {.data = directory_.path()})); });
  };
  EXPECT_THAT(mistake(), HasSubstr("a.csv"));
  directory_.Write("a.csv", "x,y\n1,2\n");
  EXPECT_THAT(mistake(), HasSubstr("b.csv"));
  directory_.Write("b.csv", "y,x\n1,2\n");
  EXPECT_THAT(mistake(), AllOf(HasSubstr("b.csv"), HasSubstr("a.csv")));
  directory_.Write("b.csv", "x,y\n1,2\n");
  EXPECT_THAT(mistake(), HasSubstr("c.csv"));
  directory_.Write("c.csv", "x,z\n1,2\n");
  EXPECT_THAT(mistake(), HasSubstr("y"));
  directory_.Write("c.csv", "x,z,y\n1,2,3\n");
  EXPECT_EQ(mistake(), "");
  directory_.Write("a.csv", "x,z\n1,2\n");
  directory_.Write("b.csv", "x,z\n1,2\n");
  EXPECT_THAT(mistake(), HasSubstr("y"));
}

TEST_F(ReadableTest, AStreamThatCannotBeReadIsSaid) {
  const std::string topic = Replaced(kSmallJob, ", bots: {events: 4000, customers: 100}", ", log: mylog");
  const auto mistake = [&](const std::string& text) {
    return Mistake([&] { CheckReadable(Job::Load({.text = text}, {.data = directory_.path()})); });
  };
  EXPECT_THAT(mistake(topic), AllOf(HasSubstr("events"), HasSubstr("mylog"))) << "no such topic";
  ASSERT_TRUE(stream::EmbeddedLog::Create(directory_ / "mylog", "events", {.partitions = 2}).ok());
  EXPECT_THAT(mistake(topic), AllOf(HasSubstr("is empty"), HasSubstr("live: true")));
  EXPECT_EQ(mistake(Replaced(topic, "log: mylog", "log: mylog, live: true")), "");
  auto writer = stream::LogWriter::Open(directory_ / "mylog", "events");
  ASSERT_TRUE(writer.ok());
  const std::vector<std::string_view> records{"{}"};
  ASSERT_TRUE((*writer)->Append(1, records).ok());
  EXPECT_EQ(mistake(topic), "");
  EXPECT_EQ(mistake(kSmallJob), "") << "bots will write it";
  EXPECT_THAT(mistake(std::string(kSmallJob) + "evaluate: {files: {format: csv, paths: [none.csv]}}"),
              HasSubstr("none.csv"));
}

}  // namespace
}  // namespace leat::job
