#include "stream/csv/csv_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat::stream {
namespace {

using testing::HasSubstr;

CsvGuess Detected(const std::string& text) {
  const auto guess = DetectCsv("rows.csv", CsvSample(text), {});
  EXPECT_TRUE(guess.ok()) << guess.status().ToString();
  return guess.ok() ? *guess : CsvGuess();
}

TEST(DetectCsv, UsualFilesAreUsual) {
  const CsvGuess usual{.dialect = {}, .columns = 2, .decimal = '.'};
  EXPECT_EQ(Detected("a,b\n1,2\n"), usual);
  EXPECT_EQ(Detected("a,\"b\"\n1.5,\"2,5\"\n"), usual);
  EXPECT_EQ(Detected("a,b\n1,\"x\ny, z\"\n2,\"q\"\n"), usual) << "a record of two lines";
  EXPECT_EQ(Detected("a,b\n'tis,1\nit's,2\n"), usual) << "apostrophes quote no column";
  EXPECT_EQ(Detected("a,b\nC:\\dir,1\n\"D:\\\",2\n"), usual) << "backslashes that escape nothing";
  EXPECT_EQ(Detected("a,b\n\"1,234\",1\n\"22,500\",2\n"), usual) << "commas of thousands";
}

TEST(DetectCsv, QuotesAndEscapes) {
  EXPECT_EQ(Detected("'a','b'\n'x, y','1'\n'it''s','2'\n"),
            (CsvGuess{.dialect = {.quote = '\''}, .columns = 2}));
  EXPECT_EQ(Detected("a;b\n'x;y';1\n'z';2\n"),
            (CsvGuess{.dialect = {.delimiter = ';', .quote = '\''}, .columns = 2}));
  EXPECT_EQ(Detected("a,b\n\"say \\\"hi\\\"\",1\n\"x\",2\n"),
            (CsvGuess{.dialect = {.escape = '\\'}, .columns = 2}));
  EXPECT_EQ(Detected("a,b\n\"x\\\",y\",1\n\"z\",2\n"), (CsvGuess{.dialect = {.escape = '\\'}, .columns = 2}));
}

TEST(DetectCsv, QuotesAndEscapesWhereFewFieldsHaveThem) {
  EXPECT_EQ(Detected("a;b\nplain;1\n'x;y;z';2\nplain;3\n"),
            (CsvGuess{.dialect = {.delimiter = ';', .quote = '\''}, .columns = 2}));
  EXPECT_EQ(Detected("a\tb\nplain\t1\nsay \\\"hi\\\"\t2\n\"x\ny\"\t3\n"),
            (CsvGuess{.dialect = {.delimiter = '\t', .escape = '\\'}, .columns = 2}));
}

TEST(DetectCsv, EscapesInEveryRecord) {
  std::string text = "a,b,y\n";
  for (int i = 0; i < 30; ++i) text += "1,\"say \\\"x\\\", ok\",0\n";
  EXPECT_EQ(Detected(text), (CsvGuess{.dialect = {.escape = '\\'}, .columns = 3}));
  EXPECT_EQ(Detected(text.substr(6)), (CsvGuess{.dialect = {.escape = '\\'}, .columns = 3})) << "no header";
}

TEST(DetectCsv, EscapesWithoutQuotes) {
  const CsvGuess none{.dialect = {.quote = '\0', .escape = '\\'}, .columns = 2};
  std::string commas = "a,b\n", lines = commas, quotes = commas;
  for (int i = 0; i < 30; ++i) {
    commas += i % 5 == 0 ? "x\\, y,1\n" : "'tis,1\n";
    lines += i % 5 == 0 ? "see\\\nthis,1\n" : "plain,1\n";
    quotes += i % 5 == 0 ? "\"x\" y\\, z,1\n" : i == 7 ? "\"x\",1\n" : "plain,1\n";
  }
  EXPECT_EQ(Detected(commas), none) << "an apostrophe begins a text";
  EXPECT_EQ(Detected(lines), none);
  EXPECT_EQ(Detected(quotes), none) << "double quotes begin texts";
  EXPECT_EQ(Detected("a,b\nsay \\\"hi\\\",1\nplain,2\n"), none) << "Python escapes quotes, too";
  EXPECT_EQ(Detected("a,b\n\"x\\\", y\",1\n\"z\"z,2\n\"z\",2\n").dialect, (CsvDialect{.escape = '\\'}))
      << "one bad field makes no other quotes";
}

TEST(DetectCsv, TextsThatBeginWithAQuote) {
  for (const char* text : {"\"Nice\" car", "\"hi"}) {
    std::string rows = "t\ta\ty\n";
    for (int i = 0; i < 30; ++i) rows += (i % 3 == 0 ? text : "plain") + std::string("\t0.5\t1\n");
    EXPECT_EQ(Detected(rows), (CsvGuess{.dialect = {.delimiter = '\t', .quote = '\0'}, .columns = 3}))
        << text;
  }
  EXPECT_EQ(Detected("a,b\n\"Nice\" car,1\n\"x, y\",2\n\"z\",3\n"), (CsvGuess{.columns = 2}))
      << "quotes that hold a delimiter";
}

TEST(DetectCsv, SingleQuotesWithDoubleOnesInside) {
  std::string text = "a,b\n";
  for (int i = 0; i < 30; ++i)
    text += i % 3 == 0 ? "'x, y',1\n" : i % 3 == 1 ? "\"hi\" he said,2\n" : "\"hi\",3\n";
  text += "'\"Hello\", she said',4\n'it''s',5\n";
  EXPECT_EQ(Detected(text), (CsvGuess{.dialect = {.quote = '\''}, .columns = 2}));
  EXPECT_EQ(Detected("a,b\n\"p\",1\n\"q\",2\n\"x\"z,3\n'tis',4\n"), (CsvGuess{.columns = 2}))
      << "more fields are in double quotes";
}

TEST(DetectCsv, ADecimalComma) {
  const CsvGuess semicolons{.dialect = {.delimiter = ';'}, .columns = 2, .decimal = ','};
  EXPECT_EQ(Detected("a;b\n1,5;2,25\n3;NA\n"), semicolons) << "a header tells the delimiter";
  EXPECT_EQ(Detected("a;b\n1,5;x\n2,5;y\n"), semicolons);
  EXPECT_EQ(Detected("a;b\n1,5;1.5\n2,5;2\n").decimal, ',') << "the dots may be those of versions";
  EXPECT_EQ(Detected("a;b;c\n1,5;1.5;0.5\n2,5;2;1\n").decimal, '.') << "more columns have dots";
  EXPECT_EQ(Detected("a,b\n\"1,5\",1.5\n\"2,5\",2\n").decimal, '.') << "commas divide the columns";
  EXPECT_EQ(Detected("a;b;c\n1,5;1.500;12.345\n2,5;2;1.000\n").decimal, ',') << "dots of thousands";
  EXPECT_EQ(Detected("a;b\n1,500;2\n2,250;3\n").decimal, '.') << "commas of thousands";
  for (const char* sure : {"0,434", "-0,004", "1234,567", "1,5"})
    EXPECT_EQ(Detected("a;b\n1,500;2\n" + std::string(sure) + ";3\n").decimal, ',') << sure;
  EXPECT_EQ(Detected("a,b\n\"1,5\",2\n\"2,5\",3\n").decimal, ',');
  EXPECT_THAT(DetectCsv("rows.csv", CsvSample(std::string("1,5;2\n2,5;3\n")), {}).status().message(),
              HasSubstr("divide the lines alike; say which it is (--delimiter)"));
}

}  // namespace
}  // namespace leat::stream
