#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/testing.h"
#include "job/job.h"
#include "job/testing.h"
#include "stream/log/log.h"

namespace leat::job {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kJob = R"(
stream: {files: {format: csv, paths: [a.csv, b.csv]}}
schema: {format: csv, fields: {x: {type: number}, y: {type: number, role: label}}}
model: {layers: [dense: {units: 1}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 0.1}
)";

class InputsTest : public ::testing::Test {
 protected:
  static void Write(const TempDir& directory, const std::string& name, const std::string& text) {
    std::ofstream(directory.path() + "/" + name) << text;
  }
  // The job as its coordinator sends it, with its files in `here`.
  std::string Text() {
    const Job job = Parse(std::string(kJob) + "resolved: {data: " + here_.path() + "}\n");
    const auto identities = job.stream->Identify();
    EXPECT_TRUE(identities.ok()) << identities.status().ToString();
    return job.WithInputs(*identities).config.ToYaml();
  }
  TempDir here_, there_;
};

TEST_F(InputsTest, CopiesElsewhereAreRecognized) {
  for (const TempDir* directory : {&here_, &there_}) {
    Write(*directory, "a.csv", "1,2\n");
    Write(*directory, "b.csv", "3,4\n");
  }
  const std::string text = Text();
  const Job job = Job::FromResolved(text, "job", there_.path());
  EXPECT_THAT(job.stream->files()->paths[0], StartsWith(there_.path()));
  EXPECT_THAT(job.inputs, ElementsAre(StartsWith("4:"), StartsWith("4:")));
  EXPECT_TRUE(job.CheckInputs().ok());
  EXPECT_NE(job.InputsHash(), 0u);
  EXPECT_EQ(job.Hash(), Job::FromResolved(text, "job").Hash());

  Write(there_, "b.csv", "3,5\n");
  const Status other = job.CheckInputs();
  EXPECT_EQ(other.code(), Code::kFailedPrecondition);
  EXPECT_THAT(other.message(),
              AllOf(HasSubstr("b.csv is not the job's: it is 4:"), HasSubstr(job.inputs[1])));
  EXPECT_NE(Job::FromResolved(text, "job", there_.path()).WithInputs(*job.stream->Identify()).InputsHash(),
            job.InputsHash());
}

TEST_F(InputsTest, MissingCopiesAreNamed) {
  Write(here_, "a.csv", "1,2\n");
  Write(here_, "b.csv", "3,4\n");
  Write(there_, "a.csv", "1,2\n");
  const Status missing = Job::FromResolved(Text(), "job", there_.path()).CheckInputs();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("b.csv: No such file"));
}

TEST_F(InputsTest, ATopicOfTheSameNameIsAnother) {
  const std::string text =
      Replaced(kJob, "{files: {format: csv, paths: [a.csv, b.csv]}}", "{topic: t, log: log}");
  const auto job_in = [&](const TempDir& directory) {
    return Parse(text + "resolved: {data: " + directory.path() + "}\n");
  };
  for (const TempDir* directory : {&here_, &there_})
    ASSERT_TRUE(stream::EmbeddedLog::Create(directory->path() + "/log", "t", {}).ok());
  const Job job = job_in(here_);
  const Job sent = job.WithInputs(*job.stream->Identify());
  EXPECT_TRUE(sent.CheckInputs().ok());
  const Status other = job_in(there_).WithInputs(sent.inputs).CheckInputs();
  EXPECT_EQ(other.code(), Code::kFailedPrecondition);
  EXPECT_THAT(other.message(), HasSubstr("topic 't' is not the job's: it is topic:"));
}

TEST_F(InputsTest, UnknownIdentitiesAreNotCompared) {
  Write(here_, "a.csv", "1,2\n");
  Write(here_, "b.csv", "3,4\n");
  const Job job = Parse(std::string(kJob) + "resolved: {data: " + here_.path() + "}\n");
  EXPECT_TRUE(job.CheckInputs().ok());
  EXPECT_EQ(job.InputsHash(), 0u);
}

TEST_F(InputsTest, AJobWithoutFilesIsCompletedWhereTheyAre) {
  Write(there_, "a.csv", "y;x\n1;2\n");
  Write(there_, "b.csv", "y;x\n3;4\n");
  JobSource source;
  source.text = Replaced(kCsvJob, "evaluate: {files: {format: csv, paths: [c.csv], header: true}}\n", "");
  const JobOverrides overrides{.data = here_.path(), .directory = here_.path() + "/job"};
  Job there = Job::FromFiles(Job::WithoutFiles(source, overrides), "job", there_.path());
  there = there.WithInputs(*there.stream->Identify());
  EXPECT_EQ(there.schema.delimiter, ';');

  JobOverrides with_found = overrides;
  with_found.found = there.Found();
  const Job job = Job::Load(source, with_found);
  EXPECT_EQ(job.schema.delimiter, ';');
  EXPECT_EQ(job.schema.columns, there.schema.columns);
  EXPECT_EQ(job.inputs, there.inputs);
  EXPECT_EQ(job.Hash(), there.Hash());
  EXPECT_EQ(job.data, here_.path());
}

}  // namespace
}  // namespace leat::job
