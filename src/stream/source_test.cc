#include "stream/source.h"

#include <gtest/gtest.h>

#include <vector>

namespace leat::stream {
namespace {

TEST(RecordBatch, KnowsWhichRecordsAreAbsent) {
  RecordBatch batch;
  EXPECT_FALSE(batch.IsAbsent(0));
  batch.absent = {{1, 2}, {2, 4}, {7, 8}};
  std::vector<size_t> found;
  for (size_t i = 0; i < 10; ++i) {
    if (batch.IsAbsent(i)) found.push_back(i);
  }
  EXPECT_EQ(found, (std::vector<size_t>{1, 2, 3, 7}));
}

}  // namespace
}  // namespace leat::stream
