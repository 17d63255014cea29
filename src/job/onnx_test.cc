// Jobs whose network comes from an ONNX file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing.h"
#include "job/job.h"
#include "job/testing.h"
#include "storage/checkpoint/store.h"
#include "stream/files.h"

namespace leat::job {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

namespace fs = std::filesystem;

std::string Text(const std::string& layer) {
  return "name: net\nstream: {topic: events, live: true}\n"
         "schema: {format: json, fields: {a: {type: number}, b: {type: number}, c: {type: number}, d: {type: "
         "number}, "
         "e: {type: number}, f: {type: number}, kind: {type: number, role: label}}}\n"
         "model:\n  layers:\n    - onnx: " +
         layer +
         "\n  loss: softmax_cross_entropy\noptimizer: {type: sgd}\n"
         "resolved:\n  directory: /nowhere\n  data: " LEAT_ONNX_GOLDENS "\n";
}

// Servers start from the file's weights, slice by slice.
TEST(OnnxJob, StartsFromTheFilesWeights) {
  const auto job = Job::FromText(Text("{file: mlp.onnx}"), "job.yaml");
  EXPECT_EQ(job.model->classes(), 3u);
  EXPECT_EQ(job.model->inputs(), 6u);
  const auto& first = job.model->variables().front();
  EXPECT_EQ(first.name, "onnx1/0.weight");
  ASSERT_EQ(first.init.kind, optim::InitKind::kGiven);
  std::vector<float> part(3);
  optim::Initialise(first.init, job.seed, first.name, 5, part);
  for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], (*first.init.given)[5 + i]);
  EXPECT_EQ(job.Slices().variables.size(), job.model->variables().size());
}

TEST(OnnxJob, MistakesNameJobLayerAndFile) {
  const auto mistake = [](const std::string& layer) {
    return Mistake([&] { Job::FromText(Text(layer), "job.yaml"); });
  };
  EXPECT_THAT(mistake("{file: gone.onnx}"),
              AllOf(HasSubstr("job.yaml:6: cannot read "), HasSubstr("gone.onnx")));
  EXPECT_THAT(
      mistake("{file: lenet.onnx}"),
      AllOf(HasSubstr("job.yaml:6: layer onnx1: lenet.onnx: input 'x' needs rows of [1, 12, 10], not [6]")));
  EXPECT_THAT(mistake("{file: make.py}"), HasSubstr("make.py: is not an ONNX file"));
  EXPECT_THAT(mistake("{fil: mlp.onnx}"), HasSubstr("file"));
}

// A job directory, a folder with the model, and one without.
class OnnxAssets : public ::testing::Test {
 protected:
  OnnxAssets() {
    for (const auto& folder : {here_.path() + "/net v2", elsewhere_.path()}) fs::create_directories(folder);
    fs::copy(LEAT_ONNX_GOLDENS "/mlp.onnx", File());
  }
  std::string File() const { return here_.path() + "/net v2/mlp: a.onnx"; }
  static JobSource Source() {
    JobSource source;
    source.text = Text("{file: 'net v2/mlp: a.onnx'}");
    source.text.resize(source.text.find("resolved:"));
    return source;
  }
  JobOverrides In(const TempDir& data) const {
    return {.data = data.path(), .directory = directory_.path() + "/job"};
  }
  std::string Kept(const std::string& identity) const {
    const std::string kept = KeptAsset(directory_.path() + "/job", identity);
    fs::create_directories(fs::path(kept).parent_path());
    return kept;
  }
  const std::string identity_ = stream::ToString(*stream::IdentifyFile(LEAT_ONNX_GOLDENS "/mlp.onnx"));
  TempDir here_, elsewhere_, directory_;
};

TEST_F(OnnxAssets, AreNamedInTheResolvedJob) {
  const Job job = Job::Load(Source(), In(here_));
  ASSERT_THAT(job.assets, SizeIs(1));
  EXPECT_EQ(job.assets[0].identity, identity_);
  EXPECT_EQ(job.assets[0].file, File());
  EXPECT_TRUE(CheckAsset(job.assets[0]).ok());
  const std::string text = job.config.ToYaml();

  // A host without the file finds out what it needs before it builds the model, and builds it from a copy.
  const auto there = Job::AssetsIn(text, "job", elsewhere_.path());
  ASSERT_THAT(there, SizeIs(1));
  EXPECT_EQ(there[0].path, "net v2/mlp: a.onnx");
  const Status missing = CheckAsset(there[0]);
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr(elsewhere_.path() + "/net v2/mlp: a.onnx: No such file"));
  EXPECT_THAT(Mistake([&] { Job::FromResolved(text, "job", elsewhere_.path()); }), HasSubstr("No such file"));
  const Job copied =
      Job::FromResolved(text, "job", elsewhere_.path(), {{there[0].path, LEAT_ONNX_GOLDENS "/mlp.onnx"}});
  EXPECT_EQ(copied.Hash(), job.Hash());
  EXPECT_EQ(copied.model->parameters(), job.model->parameters());
}

TEST_F(OnnxAssets, AnotherFileOfTheSameNameIsNotTheJobs) {
  const std::string text = Job::Load(Source(), In(here_)).config.ToYaml();
  fs::copy(LEAT_ONNX_GOLDENS "/lenet.onnx", File(), fs::copy_options::overwrite_existing);
  const Status other = CheckAsset(Job::AssetsIn(text, "job")[0]);
  EXPECT_EQ(other.code(), Code::kFailedPrecondition);
  EXPECT_THAT(other.message(),
              AllOf(HasSubstr("mlp: a.onnx is not the job's: it is "), HasSubstr(identity_)));
  EXPECT_THAT(Mistake([&] { Job::FromFiles(text, "job", here_.path()); }), HasSubstr("is not the job's"));
}

TEST_F(OnnxAssets, AFeedTellsACoordinatorWithoutTheFile) {
  const std::string text = Job::WithoutFiles(Source(), In(elsewhere_));
  EXPECT_THAT(Job::AssetsIn(text, "job"), SizeIs(0));
  const Job there = Job::FromFiles(text, "job", here_.path());
  JobOverrides with_found = In(elsewhere_);
  with_found.found = there.Found();
  const auto wanted = Job::AssetsIn(Job::WithoutFiles(Source(), with_found), "job");
  ASSERT_THAT(wanted, SizeIs(1));
  EXPECT_FALSE(CheckAsset(wanted[0]).ok());
  EXPECT_THAT(Mistake([&] { Job::Load(Source(), with_found); }), HasSubstr("No such file"));

  const std::string kept = Kept(wanted[0].identity);
  std::ofstream(kept) << "half a file";
  EXPECT_EQ(Job::AssetsIn(Job::WithoutFiles(Source(), with_found), "job")[0].file,
            elsewhere_.path() + "/net v2/mlp: a.onnx");
  fs::copy(File(), kept, fs::copy_options::overwrite_existing);
  const Job job = Job::Load(Source(), with_found);
  EXPECT_EQ(job.assets[0].file, kept);
  EXPECT_EQ(job.Hash(), there.Hash());
}

TEST_F(OnnxAssets, AJobMakesItsOwnCopy) {
  Job job = Job::Load(Source(), In(here_));
  ASSERT_TRUE(KeepAssets(&job).ok());
  EXPECT_EQ(job.assets[0].file, KeptAsset(job.directory, identity_));
  EXPECT_TRUE(CheckAsset(job.assets[0]).ok());
  fs::remove(File());
  ASSERT_TRUE(KeepAssets(&job).ok()) << "it is there";
  EXPECT_EQ(std::distance(fs::directory_iterator(job.directory + "/assets"), fs::directory_iterator()), 1);
  // A file that has changed since the model was built.
  fs::copy(LEAT_ONNX_GOLDENS "/lenet.onnx", File());
  job.directory = directory_.path() + "/other";
  job.assets[0].file = File();
  const Status changed = KeepAssets(&job);
  EXPECT_EQ(changed.code(), Code::kFailedPrecondition);
  EXPECT_THAT(changed.message(), HasSubstr(File() + ": has changed"));
  EXPECT_TRUE(fs::is_empty(job.directory + "/assets"));
}

TEST_F(OnnxAssets, AResumedJobUsesTheCopyInItsDirectory) {
  const Job job = Job::Load(Source(), In(here_));
  auto store = checkpoint::Store::Open(job.directory, false);
  ASSERT_TRUE(store.ok() && (*store)->WriteJob(job.config.ToYaml()).ok());
  JobSource resume;
  resume.resume = job.directory;
  fs::copy(File(), Kept(identity_));
  fs::remove(File());
  EXPECT_EQ(Job::Load(resume, {}).assets[0].file, Kept(identity_));
  EXPECT_EQ(Job::Load(resume, {}).assets[0].identity, identity_);
  // Another file at the job's path does not matter, as long as there is the copy.
  fs::copy(LEAT_ONNX_GOLDENS "/mlp_fixed.onnx", File());
  EXPECT_EQ(Job::Load(resume, {}).assets[0].file, Kept(identity_));
  fs::remove(Kept(identity_));
  EXPECT_THAT(
      Mistake([&] { Job::Load(resume, {}); }),
      AllOf(HasSubstr("mlp: a.onnx is not the job's: it is "), HasSubstr("the job has " + identity_)));
  fs::copy(LEAT_ONNX_GOLDENS "/mlp.onnx", File(), fs::copy_options::overwrite_existing);
  EXPECT_EQ(Job::Load(resume, {}).assets[0].file, File());
}

// The coordinator's host has lost the file; a feed has it.
TEST_F(OnnxAssets, AResumedJobIsDescribedToAFeedWithoutTheFile) {
  const Job job = Job::Load(Source(), In(here_));
  auto store = checkpoint::Store::Open(job.directory, false);
  ASSERT_TRUE(store.ok() && (*store)->WriteJob(job.config.ToYaml()).ok());
  JobSource resume;
  resume.resume = job.directory;
  fs::rename(here_.path() + "/net v2", elsewhere_.path() + "/net v2");
  EXPECT_THAT(Mistake([&] { Job::Load(resume, {}); }), HasSubstr(File() + ": No such file"));
  const std::string text = Job::WithoutFiles(resume, {});
  const auto wanted = Job::AssetsIn(text, "job");
  ASSERT_THAT(wanted, SizeIs(1));
  EXPECT_EQ(wanted[0].identity, identity_);
  const Job there = Job::FromFiles(text, "job", elsewhere_.path());
  EXPECT_EQ(there.Hash(), job.Hash());

  fs::copy(there.assets[0].file, Kept(identity_));
  JobOverrides with_found;
  with_found.found = there.Found();
  const Job again = Job::Load(resume, with_found);
  EXPECT_EQ(again.Hash(), job.Hash());
  EXPECT_EQ(again.max_servers, job.max_servers);
}

TEST_F(OnnxAssets, AnIdentityThatIsNoneIsRefused) {
  const std::string text =
      Replaced(Job::Load(Source(), In(here_)).config.ToYaml(), identity_, "../../etc/passwd");
  EXPECT_THAT(Mistake([&] { Job::FromResolved(text, "job"); }),
              HasSubstr("'../../etc/passwd' is not the identity of a file"));
}

}  // namespace
}  // namespace leat::job
