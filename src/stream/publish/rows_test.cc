#include "stream/publish/publish.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "stream/files.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RowsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes, bool packed = false) {
    const std::string path = dir_ / name;
    gzFile file = gzopen(path.c_str(), packed ? "wb" : "wbT");  // T: as it is
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path;
  }
  static std::vector<std::string> All(const Rows& rows) {
    RecordBatch batch;
    const auto ranges = rows.source->Ranges();
    EXPECT_EQ(ranges->size(), 1u);
    EXPECT_TRUE(rows.source->Read(0, 0, ranges->front().end, &batch).ok());
    return TextsOf(batch);
  }
  static std::string ErrorOf(const RowsOptions& options) { return OpenRows(options).status().message(); }
  TempDir dir_;
};

TEST_F(RowsTest, FormatsAreSeenInTheFiles) {
  const std::string idx(
      "\0\0\x08\x01\0\0\0\x02"
      "ab",
      10);
  for (const bool packed : {false, true}) {
    EXPECT_EQ(*DetectFormat(Write("i", idx, packed)), "idx");
    EXPECT_EQ(*DetectFormat(Write("j", "\xEF\xBB\xBF\n  {\"a\": 1}\n", packed)), "json");
    EXPECT_EQ(*DetectFormat(Write("c", "a,b\n1,2\n", packed)), "csv");
    EXPECT_THAT(DetectFormat(Write("b", std::string("\0\1\2", 3), packed)).status().message(),
                HasSubstr("neither idx, CSV nor JSON lines"));
    EXPECT_THAT(DetectFormat(Write("e", "\n \n", packed)).status().message(), HasSubstr("no records"));
  }
  EXPECT_EQ(DetectFormat(dir_ / "absent").status().code(), Code::kNotFound);
  EXPECT_EQ(DetectFormat(dir_ / "").status().code(), Code::kNotFound);
}

TEST_F(RowsTest, AHeaderIsNoRecord) {
  const std::string a = Write("a.csv", "id;x\n1;2\n3;4\n"), b = Write("b.csv", "id;x\n5;6\n");
  const auto rows = OpenRows({.paths = {a, b}});
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  EXPECT_EQ(rows->format, "csv");
  EXPECT_THAT(rows->columns, ElementsAre("id", "x"));
  EXPECT_THAT(All(*rows), ElementsAre("1;2", "3;4", "5;6"));
  EXPECT_EQ(rows->key, nullptr);
  const auto all = OpenRows({.paths = {a}, .header = false});
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  EXPECT_THAT(All(*all), ElementsAre("id;x", "1;2", "3;4"));
  EXPECT_THAT(all->columns, IsEmpty());
  EXPECT_THAT(ErrorOf({.paths = {a, Write("c.csv", "x;id\n1;2\n")}}), HasSubstr("c.csv: has other columns"));
}

TEST_F(RowsTest, KeysByTheNameOfTheirField) {
  const auto key = [](const RowsOptions& options) {
    const auto rows = OpenRows(options);
    EXPECT_TRUE(rows.ok()) << rows.status().ToString();
    RecordBatch batch;
    EXPECT_TRUE(rows->source->Read(0, 0, 1, &batch).ok());
    const auto found = rows->key(batch[0]);
    return std::string(found.value_or("none"));
  };
  const std::string csv = Write("a.csv", "id;shop\n1;2\n3;4\n");
  EXPECT_EQ(key({.paths = {csv}, .key = "shop"}), "2");
  EXPECT_EQ(key({.paths = {csv}, .header = false, .key = "c1"}), "id");
  EXPECT_EQ(key({.paths = {Write("a.json", "{\"a\": {\"b\": 7}}\n")}, .key = "a.b"}), "7");
  EXPECT_THAT(ErrorOf({.paths = {csv}, .key = "shp"}),
              HasSubstr("a.csv: has no column 'shp'; did you mean 'shop'?"));
  EXPECT_THAT(ErrorOf({.paths = {"i", "l"}, .format = "idx", .key = "y"}), HasSubstr("no field 'y'"));
}

// A job that reads the files and one that reads the topic see the same records.
TEST_F(RowsTest, RecordsAreThoseOfTheFileSource) {
  const std::string images = Write("i", std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
                                                    "abcdef",
                                                    18));
  const std::string labels = Write("l",
                                   std::string("\0\0\x08\x01\0\0\0\x02"
                                               "\1\2",
                                               10),
                                   true);
  const auto rows = OpenRows({.paths = {images, labels}});
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  EXPECT_THAT(All(*rows), ElementsAre("abc\1", "def\2"));
  const auto files = OpenFiles({.format = "idx", .paths = {images, labels}});
  ASSERT_TRUE(files.ok());
  RecordBatch batch;
  ASSERT_TRUE((*files)->Read(0, 0, 2, &batch).ok());
  EXPECT_EQ(TextsOf(batch), All(*rows));
}

}  // namespace
}  // namespace leat::stream
