// Jobs whose network comes from an ONNX file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "job/job.h"

namespace leat::job {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace leat::job
