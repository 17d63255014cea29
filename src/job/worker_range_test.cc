#include "job/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat::job {
namespace {

using protocol::WorkerRange;
using ::testing::HasSubstr;

TEST(WorkerRange, IsANumberOrTwo) {
  EXPECT_EQ(*ParseWorkerRange("4"), (WorkerRange{4, 4}));
  EXPECT_EQ(*ParseWorkerRange("2:8"), (WorkerRange{2, 8}));
  EXPECT_EQ(*ParseWorkerRange("3:3"), (WorkerRange{3, 3}));
  EXPECT_EQ(*ParseWorkerRange("1:10000"), (WorkerRange{1, 10'000}));
  for (const char* text : {"4", "2:8"}) EXPECT_EQ(ToString(*ParseWorkerRange(text)), text);
}

TEST(WorkerRange, RejectsAnythingElseInOneLine) {
  for (const auto& [text, part] : {std::pair{"", "''"},
                                   {":", "such as 2:8"},
                                   {"2:", "'2:' is not a number"},
                                   {":8", "such as 2:8"},
                                   {"-1", "such as 2:8"},
                                   {"2:8:9", "such as 2:8"},
                                   {" 2", "such as 2:8"},
                                   {"2.5", "such as 2:8"},
                                   {"99999999999", "such as 2:8"},
                                   {"0", "'0': a job has 1 to 10000 workers"},
                                   {"0:4", "1 to 10000"},
                                   {"2:10001", "1 to 10000"},
                                   {"8:2", "'8:2': the least number of workers is above the largest"}}) {
    const auto parsed = ParseWorkerRange(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(), HasSubstr(part));
  }
}

}  // namespace
}  // namespace leat::job
