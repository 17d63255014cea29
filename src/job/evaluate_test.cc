#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "job/model.h"

namespace leat::job {
namespace {

std::string Summary(const Evaluation& evaluation) {
  nlohmann::ordered_json summary;
  AddToSummary(evaluation, &summary);
  return summary.dump();
}

TEST(AddToSummary, SaysWhatThereIs) {
  EXPECT_EQ(Summary({.rows = 9, .dead_letters = 1, .accuracy = 0.5, .loss = 0.25}),
            R"({"test_rows":9,"test_dead_letters":1,"test_accuracy":0.5,"test_loss":0.25})");
  EXPECT_EQ(Summary({.rows = 9, .loss = 0.25}), R"({"test_rows":9,"test_loss":0.25})");
  EXPECT_EQ(Summary({.rows = 9}), R"({"test_rows":9,"test_loss":null})") << "it was not finite";
}

}  // namespace
}  // namespace leat::job
