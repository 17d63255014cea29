#include "stream/csv/csv_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "stream/file/file_reader.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CsvSample Lines(std::vector<std::string> records) {
  return CsvSample(std::move(records));
}

Schema SchemaOf(const std::string& fields) {
  std::string text = "format: csv\nfields:\n";
  for (const char field : fields) text += std::string("  ") + field + ": {type: number}\n";
  return Schema::FromConfig(Config::Parse(text, "job.yaml"));
}

TEST(FindDelimiters, TakesWhatDividesNearlyAllLinesAlike) {
  EXPECT_THAT(FindDelimiters(Lines({"a,b,c", "1,2,3"})), ElementsAre(Delimiter{',', 3}));
  EXPECT_THAT(FindDelimiters(Lines({"a;b", "1,5;2", "3;4,5"})), ElementsAre(Delimiter{';', 2}));
  EXPECT_THAT(FindDelimiters(Lines({"a\tb", "one, two\t2"})), ElementsAre(Delimiter{'\t', 2}));
  EXPECT_THAT(FindDelimiters(Lines({"a|\"b|c\"", "1|2"})), ElementsAre(Delimiter{'|', 2}));
  EXPECT_THAT(FindDelimiters(Lines({"1,5;2", "2,5;3"})), ElementsAre(Delimiter{',', 2}, Delimiter{';', 2}));
  EXPECT_THAT(FindDelimiters(Lines({"a", "1", "2"})), ElementsAre());
  EXPECT_THAT(FindDelimiters(Lines({})), ElementsAre());
  std::vector<std::string> lines(20, "1;2;3");
  lines[0] = "|a comment";
  EXPECT_THAT(FindDelimiters(Lines(lines)), ElementsAre(Delimiter{';', 3}));
  lines[1] = lines[2] = "1;2";
  EXPECT_THAT(FindDelimiters(Lines(lines)), ElementsAre())
      << "three of twenty have another number of columns";
}

TEST(ChooseDelimiter, TheSchemaDecidesBetweenSeveral) {
  const auto choose = [](const std::vector<std::string>& lines, const std::string& fields, bool header) {
    return ChooseDelimiter("rows.csv", Lines(lines), SchemaOf(fields), header);
  };
  const std::vector<std::string> decimals = {"1,5;2,5;3,5", "4,5;5,5;6,5"};
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
  Schema commas = SchemaOf("ab");
  commas.decimal = ',';
  EXPECT_EQ(*ChooseDelimiter("rows.csv", Lines({"1,5;2", "2,5;3"}), commas, false), (Delimiter{';', 2}))
      << "a comma divides numbers";
}

TEST(SampleText, ReadsTheBeginning) {
  const TempDir directory;
  const auto write = [&](const std::string& text) {
    std::ofstream(directory / "f") << text;
    return directory / "f";
  };
  EXPECT_EQ(*SampleText(write("\xEF\xBB\xBF"
                              "a\r\n\n\"b\nc\"\nlast"),
                        {}),
            "a\r\n\n\"b\nc\"\nlast");
  EXPECT_EQ(SampleText(write(" \n\n"), {}).status().code(), Code::kDataLoss);
  EXPECT_EQ(SampleText(directory / "nothing", {}).status().code(), Code::kNotFound);
  EXPECT_EQ(SampleText(directory.path(), {}).status().code(), Code::kNotFound);
  std::string many;
  for (int i = 0; i < 300'000; ++i) many += "line\n";
  const std::string sample = *SampleText(write(many), {});
  EXPECT_LE(sample.size(), kSampleBytes);
  EXPECT_TRUE(sample.ends_with("\nline\n"));
  EXPECT_EQ(CsvSample(sample).Records({}).size(), CsvSample::kMaxRecords);
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

TEST(LineReader, RecordsOfCsvHaveTheNumberOfTheirFirstLine) {
  const TempDir directory;
  std::ofstream(directory / "f") << "a,\"" << std::string(300'000, '\n') << "\"\n\nb,1\n\"c\nd,2\n";
  auto reader = LineReader::Open(directory / "f", {}, CsvDialect{});
  ASSERT_TRUE(reader.ok());
  std::string_view record;
  const auto next = [&] {
    EXPECT_TRUE(*(*reader)->Next(&record));
    return std::pair(std::string(record.substr(0, 6)), (*reader)->line());
  };
  EXPECT_EQ(next(), std::pair(std::string("a,\"\n\n\n"), uint64_t{1}));
  EXPECT_EQ(record.size(), 300'004u);
  EXPECT_EQ(next(), std::pair(std::string("b,1"), uint64_t{300'003}));
  EXPECT_EQ(next(), std::pair(std::string("\"c"), uint64_t{300'004})) << "its quote is never closed";
  EXPECT_EQ(next(), std::pair(std::string("d,2"), uint64_t{300'005}));
  EXPECT_FALSE(*(*reader)->Next(&record));
}

TEST(LineReader, SaysWhereARecordIsTooLong) {
  const TempDir directory;
  const auto error = [&](const std::string& text, std::optional<CsvDialect> csv) {
    std::ofstream(directory / "f") << text;
    auto reader = LineReader::Open(directory / "f", {}, csv);
    std::string_view record;
    for (;;) {
      const auto more = (*reader)->Next(&record);
      if (!more.ok()) return more.status().message();
      if (!*more) return std::string();
    }
  };
  const std::string large(LineReader::kMaxLine + (1 << 20), 'x');
  EXPECT_THAT(error("a\n" + large, std::nullopt),
              HasSubstr("f:2: has more than 16777216 bytes; is this a file of"));
  std::string lines;
  while (lines.size() < large.size()) lines += "some,text\n";
  EXPECT_THAT(error("a,b\n\"x," + lines, CsvDialect{}),
              HasSubstr("f:2: has more than 16777216 bytes; is a quote"));
}

}  // namespace
}  // namespace leat::stream
