#include "stream/decode/delimiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "stream/decode/lines.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Lines = std::vector<std::string>;

Schema SchemaOf(const std::string& fields) {
  std::string text = "format: csv\nfields:\n";
  for (const char field : fields) text += std::string("  ") + field + ": {type: number}\n";
  return Schema::FromConfig(Config::Parse(text, "job.yaml"));
}

TEST(FindDelimiters, TakesWhatDividesNearlyAllLinesAlike) {
  EXPECT_THAT(FindDelimiters(Lines{"a,b,c", "1,2,3"}), ElementsAre(Delimiter{',', 3}));
  EXPECT_THAT(FindDelimiters(Lines{"a;b", "1,5;2", "3;4,5"}), ElementsAre(Delimiter{';', 2}));
  EXPECT_THAT(FindDelimiters(Lines{"a\tb", "one, two\t2"}), ElementsAre(Delimiter{'\t', 2}));
  EXPECT_THAT(FindDelimiters(Lines{"a|\"b|c\"", "1|2"}), ElementsAre(Delimiter{'|', 2}));
  EXPECT_THAT(FindDelimiters(Lines{"1,5;2", "2,5;3"}), ElementsAre(Delimiter{',', 2}, Delimiter{';', 2}));
  EXPECT_THAT(FindDelimiters(Lines{"a", "1", "2"}), ElementsAre());
  EXPECT_THAT(FindDelimiters(Lines{}), ElementsAre());
  Lines lines(20, "1;2;3");
  lines[0] = "|a comment";
  EXPECT_THAT(FindDelimiters(lines), ElementsAre(Delimiter{';', 3}));
  lines[1] = lines[2] = "1;2";
  EXPECT_THAT(FindDelimiters(lines), ElementsAre()) << "three of twenty have another number of columns";
}

TEST(ChooseDelimiter, TheSchemaDecidesBetweenSeveral) {
  const auto choose = [](const Lines& lines, const std::string& fields, bool header) {
    return ChooseDelimiter("rows.csv", lines, SchemaOf(fields), header);
  };
  const Lines decimals = {"1,5;2,5;3,5", "4,5;5,5;6,5"};
  EXPECT_EQ(*choose(decimals, "abc", false), (Delimiter{';', 3}));
  EXPECT_EQ(*choose(decimals, "abcd", false), (Delimiter{',', 4}));
  EXPECT_EQ(*choose({"a;b,c", "1,5;2", "3,5;4"}, "a", true), (Delimiter{';', 2}));
  const auto alike = choose({"1,5;2", "2,5;3"}, "ab", false);
  ASSERT_EQ(alike.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(alike.status().message(),
              HasSubstr("rows.csv: ',' (2 columns) and ';' (2 columns) divide the lines alike"));
  EXPECT_EQ(*choose({"1;2", "3;4"}, "abc", false), (Delimiter{';', 2})) << "which the decoder then rejects";
  EXPECT_EQ(*choose({"a", "1"}, "a", true), (Delimiter{',', 1}));
  EXPECT_EQ(*choose({"1", "2"}, "ab", false), (Delimiter{',', 1})) << "none is found";
  EXPECT_EQ(*choose({"1|1", "2|2"}, "a", false), (Delimiter{',', 1})) << "the schema has one column";
}

TEST(SampleLines, ReadsTheBeginning) {
  const TempDir directory;
  const auto write = [&](const std::string& text) {
    std::ofstream(directory / "f") << text;
    return directory / "f";
  };
  EXPECT_THAT(*SampleLines(write("\xEF\xBB\xBF"
                                 "a\r\n\n \t\nb\nlast")),
              ElementsAre("a", "b", "last"));
  EXPECT_EQ(SampleLines(write(" \n\n")).status().code(), Code::kDataLoss);
  EXPECT_EQ(SampleLines(directory / "nothing").status().code(), Code::kNotFound);
  EXPECT_EQ(SampleLines(directory.path()).status().code(), Code::kNotFound);
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "line\n";
  EXPECT_EQ(SampleLines(write(many))->size(), kSampleLines);
  EXPECT_THAT(SampleLines(write(std::string(LineReader::kMaxLine + (1 << 20), 'x'))).status().message(),
              HasSubstr("f:1: has more than"));
}

// Lines longer than a read, which ends at every position of a line.
TEST(LineReader, JoinsWhatIsReadInParts) {
  const TempDir directory;
  std::string text;
  std::vector<std::string> expected;
  for (size_t size : {1, 7, 131070, 1, 131071, 300000, 131072, 5, 2}) {
    expected.emplace_back(size, static_cast<char>('a' + expected.size()));
    text += expected.back() + "\n";
  }
  std::ofstream(directory / "f") << text;
  auto reader = LineReader::Open(directory / "f");
  ASSERT_TRUE(reader.ok());
  std::string_view line;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(*(*reader)->Next(&line));
    EXPECT_EQ(line, expected[i]);
    EXPECT_EQ((*reader)->line(), i + 1);
  }
  EXPECT_FALSE(*(*reader)->Next(&line));
}

}  // namespace
}  // namespace leat::stream
