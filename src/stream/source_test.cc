#include "stream/source.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
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

TEST(RecordBatch, SomeRecordsLackAnAttribute) {
  RecordBatch batch;
  batch.wanted = {{Attribute::Kind::kKey, ""}};
  EXPECT_EQ(batch.Value(0, 0), std::nullopt) << "a source without attributes";
  batch.attributes.resize(1);
  batch.attributes[0].Append(AsBytes("one"));
  batch.attributes[0].Append(std::nullopt);
  batch.attributes[0].FillTo(1);
  batch.attributes[0].FillTo(4);
  batch.attributes[0].Append(AsBytes(""));
  batch.attributes[0].Append(AsBytes("six"));
  std::vector<std::optional<std::string>> values;
  for (size_t i = 0; i < 7; ++i) {
    const auto value = batch.Value(0, i);
    values.push_back(value ? std::optional(std::string(AsText(*value))) : std::nullopt);
  }
  EXPECT_EQ(values, (std::vector<std::optional<std::string>>{"one", {}, {}, {}, "", "six", {}}));
  batch.Restart(1, 5);
  EXPECT_EQ(batch.Value(0, 0), std::nullopt);
  EXPECT_EQ(batch.wanted.size(), 1u);
}

}  // namespace
}  // namespace leat::stream
