#include "job/input/input_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing.h"

namespace leat::job {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TrainedFilesTest : public ::testing::Test {
 protected:
  TrainedFilesTest() {
    here_.Write("a.csv", "y,x\n1,1\n1,2\n1,3\n");
    here_.Write("b.csv", "y,x\n1,4\n");
  }
  Job Load(const std::string& paths = "[a.csv, b.csv]") {
    std::string text =
        Replaced(kCsvJob, "evaluate: {files: {format: csv, paths: [c.csv], header: true}}\n", "");
    text = Replaced(text, "[a.csv, b.csv]", paths + ", partitions: 2");
    return Job::Load({.text = text}, {.data = here_.path(), .directory = here_ / "job"});
  }
  // Identities of the files that a run reads, as its directory would keep them.
  std::vector<std::string> Trained() { return *Load().stream->Identify(); }
  static std::vector<std::vector<uint64_t>> ReadingsOf(const Job& job) {
    return job.stream->files()->readings;
  }
  const TempDir here_;
};

TEST_F(TrainedFilesTest, WhatHasNotChangedIsReadAsBefore) {
  const auto trained = Trained();
  const Job job = WithTrained(Load(), trained);
  EXPECT_EQ(job.inputs, trained);
  EXPECT_THAT(ReadingsOf(job), ElementsAre());
  EXPECT_THAT(job.notes, ElementsAre(HasSubstr("delimiter")));
  EXPECT_THAT(WithTrained(Load(), {}).inputs, ElementsAre()) << "unknown";
}

TEST_F(TrainedFilesTest, FilesThatHaveGrownAreReadInTheOrderOfRuns) {
  const auto trained = Trained();
  here_.Write("a.csv", "y,x\n1,1\n1,2\n1,3\n1,5\n");
  here_.Write("c.csv", "y,x\n1,6\n");
  const Job job = WithTrained(Load("[a.csv, b.csv, c.csv]"), trained);
  EXPECT_THAT(ReadingsOf(job), ElementsAre(ElementsAre(3, 1, 0)));
  EXPECT_THAT(job.notes, ElementsAre(HasSubstr("delimiter"), HasSubstr("a.csv has grown from 16 to 20 bytes"),
                                     HasSubstr("c.csv was added")));
  // Every role has the same order; a feed of the old one is not asked.
  const Job elsewhere = Job::FromResolved(job.config.ToYaml(), "job");
  EXPECT_EQ(ReadingsOf(elsewhere), ReadingsOf(job));
  EXPECT_EQ(elsewhere.InputsHash(), job.InputsHash());
  EXPECT_NE(job.InputsHash(), Load("[a.csv, b.csv, c.csv]").WithInputs(job.inputs).InputsHash());
  const auto ranges = (*elsewhere.stream->Open())->Ranges();
  EXPECT_EQ(ranges->at(0).end, 2u);
  EXPECT_EQ(ranges->at(1).end, 4u);
}

TEST_F(TrainedFilesTest, WhatWasReplacedIsRefusedWithBothIdentities) {
  const auto trained = Trained();
  here_.Write("b.csv", "y,x\n1,5\n1,5\n");
  const Job job = Load();
  EXPECT_THAT(Mistake([&] { WithTrained(job, trained); }),
              AllOf(HasSubstr("b.csv is not what job 'job' was trained on: it is 12:"),
                    HasSubstr("it was " + trained[1])));
  here_.Write("b.csv", "y,x\n");
  EXPECT_THAT(Mistake([&] { WithTrained(job, trained); }), HasSubstr("it is 4:"));
  EXPECT_THAT(Mistake([&] { WithTrained(Load("[a.csv]"), trained); }),
              HasSubstr("trained on 2 files, and now has 1"));
}

TEST_F(TrainedFilesTest, ALastRecordThatGoesOnIsRefused) {
  here_.Write("b.csv", "y,x\n1,4");
  const auto trained = Trained();
  here_.Write("b.csv", "y,x\n1,47\n1,5\n");
  EXPECT_THAT(Mistake([&] { WithTrained(Load(), trained); }), HasSubstr("record 1 of 1 has changed"));
  here_.Write("b.csv", "y,x\n1,4\n1,5\n");
  EXPECT_THAT(ReadingsOf(WithTrained(Load(), trained)), ElementsAre(ElementsAre(3, 1)));
}

}  // namespace
}  // namespace leat::job
