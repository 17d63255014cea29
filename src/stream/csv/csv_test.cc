#include "stream/csv/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "stream/decode/text.h"

namespace leat::stream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> RecordsIn(std::string_view text, const CsvDialect& dialect = {}) {
  std::vector<std::string> records;
  ForCsvRecords(text, dialect, [&](std::string_view record) { records.emplace_back(record); });
  return records;
}

TEST(SplitCsv, SplitsAsTheStandardSays) {
  std::vector<std::string_view> fields;
  std::string scratch;
  const auto split = [&](std::string_view line) {
    EXPECT_EQ(SplitCsv(line, {}, &fields, &scratch), "") << line;
    return fields;
  };
  EXPECT_THAT(split("a,b,,d"), ElementsAre("a", "b", "", "d"));
  EXPECT_THAT(split("39, State-gov,\t77516 \r\n"), ElementsAre("39", "State-gov", "77516"));
  EXPECT_THAT(split(R"("a,b", "say ""hi""" ,"","""",x"y)"),
              ElementsAre("a,b", "say \"hi\"", "", "\"", "x\"y"));
  EXPECT_THAT(split(""), ElementsAre(""));
  EXPECT_THAT(split(","), ElementsAre("", ""));
  EXPECT_THAT(SplitCsv("a,\"b", {}, &fields, &scratch), HasSubstr("column 2: a quote is not closed"));
  EXPECT_THAT(SplitCsv("\"a\"\"", {}, &fields, &scratch), HasSubstr("not closed"));
  EXPECT_THAT(SplitCsv("\"a\"b,c", {}, &fields, &scratch), HasSubstr("column 1: text follows"));
}

TEST(SplitCsv, SplitsByOtherDelimiters) {
  std::vector<std::string_view> fields;
  std::string scratch;
  const auto split = [&](std::string_view line, char delimiter) {
    EXPECT_EQ(SplitCsv(line, {.delimiter = delimiter}, &fields, &scratch), "") << line;
    return fields;
  };
  EXPECT_THAT(split("a,b; \"c;d\" ;\"say \"\"hi\"\"\"", ';'), ElementsAre("a,b", "c;d", "say \"hi\""));
  EXPECT_THAT(split("a\t\t b \t\"c\td\"\t", '\t'), ElementsAre("a", "", "b", "c\td", ""));
  EXPECT_THAT(split("1|2", '|'), ElementsAre("1", "2"));
  EXPECT_THAT(SplitCsv("\"a\",b", {.delimiter = ';'}, &fields, &scratch),
              HasSubstr("column 1: text follows"));
}

TEST(SplitCsv, OtherQuotesAndEscapes) {
  std::vector<std::string_view> fields;
  std::string scratch;
  const auto split = [&](std::string_view record, const CsvDialect& dialect) {
    EXPECT_EQ(SplitCsv(record, dialect, &fields, &scratch), "") << record;
    return fields;
  };
  const CsvDialect single{.quote = '\''}, none{.quote = '\0'}, escape{.escape = '\\'};
  EXPECT_THAT(split("'a,b','it''s',\"c\"", single), ElementsAre("a,b", "it's", "\"c\""));
  EXPECT_THAT(split("\"a\",'b'", none), ElementsAre("\"a\"", "'b'"));
  EXPECT_THAT(split(R"("say \"hi\"","a\\",b\,c,"d""e",\"f)", escape),
              ElementsAre("say \"hi\"", "a\\", "b,c", "d\"e", "\"f"));
  EXPECT_THAT(split("a\\", escape), ElementsAre("a\\")) << "nothing to escape";
  EXPECT_THAT(split("1,\\N,\"\\N\",\\Nil,\\N", escape), ElementsAre("1", "\\N", "N", "Nil", "\\N"))
      << "NULL of databases is the field that is \\N alone";
  EXPECT_THAT(split("a\\\nb,c\\,", {.quote = '\0', .escape = '\\'}), ElementsAre("a\nb", "c,"));
  EXPECT_THAT(split("C:\\dir,b", {}), ElementsAre("C:\\dir", "b"));
  EXPECT_THAT(SplitCsv("\"a\\\"", escape, &fields, &scratch), HasSubstr("not closed"));
}

TEST(CsvRecords, LineEndsInQuotesBelongToTheRecord) {
  EXPECT_THAT(RecordsIn("a,b\n1,\"x\ny\"\n2,z\n"), ElementsAre("a,b", "1,\"x\ny\"", "2,z"));
  EXPECT_THAT(RecordsIn("1,\"a\r\n\r\nb\"\r\n\r\n2,\"\"\"\n\""),
              ElementsAre("1,\"a\r\n\r\nb\"", "2,\"\"\"\n\""));
  EXPECT_THAT(RecordsIn("\"a\n,b\",1\n"), ElementsAre("\"a\n,b\",1")) << "in the first field";
  EXPECT_THAT(RecordsIn("a\t\"x\ny\"\t1\n", {.delimiter = '\t'}), ElementsAre("a\t\"x\ny\"\t1"));
  EXPECT_THAT(RecordsIn("'x\ny',\"\n", {.quote = '\''}), ElementsAre("'x\ny',\""));
  EXPECT_THAT(RecordsIn("\"x\ny\"\n", {.quote = '\0'}), ElementsAre("\"x", "y\""));
  EXPECT_THAT(RecordsIn("\"x\\\"\ny\",1\n2,3", {.escape = '\\'}), ElementsAre("\"x\\\"\ny\",1", "2,3"));
}

TEST(CsvRecords, EscapedLineEndsBelongToTheRecord) {
  const CsvDialect escape{.escape = '\\'}, none{.quote = '\0', .escape = '\\'};
  for (const CsvDialect& dialect : {escape, none}) {
    EXPECT_THAT(RecordsIn("1,see\\\nthis,0\n2,x\\\r\ny,1\r\n", dialect),
                ElementsAre("1,see\\\nthis,0", "2,x\\\r\ny,1"));
    EXPECT_THAT(RecordsIn("a\\\r\\\nb,1\nC:\\\\\nc", dialect), ElementsAre("a\\\r\\\nb,1", "C:\\\\", "c"))
        << "both characters of a line end, and an escape that is escaped";
    EXPECT_THAT(RecordsIn("1,a\\\n", dialect), ElementsAre("1,a\\\n")) << "nothing follows";
  }
  EXPECT_THAT(RecordsIn("\"a\nb\",x\\\ny\nc\n", escape), ElementsAre("\"a\nb\",x\\\ny", "c"));
  EXPECT_THAT(RecordsIn("C:\\\nb\n"), ElementsAre("C:\\", "b")) << "without an escape";
}

TEST(CsvRecords, AQuoteInsideAFieldOpensNothing) {
  EXPECT_THAT(RecordsIn("5\" pipe,1\n6\" pipe,2\n"), ElementsAre("5\" pipe,1", "6\" pipe,2"));
  EXPECT_THAT(RecordsIn("\"a\" b\",1\nc,2\n"), ElementsAre("\"a\" b\",1", "c,2"))
      << "a dead letter, and no more";
}

TEST(CsvRecords, AQuoteThatIsNeverClosedCostsItsLineAlone) {
  EXPECT_THAT(RecordsIn("1,a\n2,\"b\n3,c\n4,d"), ElementsAre("1,a", "2,\"b", "3,c", "4,d"));
  EXPECT_THAT(RecordsIn("\"a\n"), ElementsAre("\"a"));
  EXPECT_THAT(RecordsIn("\"a\nb\",\"c\nd,2\n"), ElementsAre("\"a\nb\",\"c", "d,2"))
      << "a field of two lines comes before it";
}

TEST(CsvRecords, AQuoteThatClosesBeforeTextCostsItsLineAlone) {
  EXPECT_THAT(RecordsIn("1,\"large,0\n2,b,0\n3,\"large,0\n4,c,0\n"),
              ElementsAre("1,\"large,0", "2,b,0", "3,\"large,0", "4,c,0"));
  EXPECT_THAT(RecordsIn("\"a\nb\" \t,1\r\n\"c\nd\"\r\n2,e"), ElementsAre("\"a\nb\" \t,1", "\"c\nd\"", "2,e"))
      << "blanks and line ends are no text";
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "a\",\"b\n";
  EXPECT_EQ(RecordsIn(text + "\"c\"d\n").size(), 2u) << "in linear time";
}

TEST(CsvRecords, BlankLinesAreNone) {
  EXPECT_THAT(RecordsIn("\n \t\r\na\n\n"), ElementsAre("a"));
  EXPECT_THAT(RecordsIn("\t\t\n \n1\t2\t3\n", {.delimiter = '\t'}), ElementsAre("\t\t", "1\t2\t3"))
      << "empty fields are a record";
}

// Character by character, in the states of a textbook.
std::vector<std::vector<std::string>> ReadByStates(const std::string& text, const CsvDialect& dialect) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool quoted = false, began = false, closed = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == dialect.escape && c != '\0') {
      row.back() += text[++i];
      began = true;
    } else if (quoted && c == dialect.quote && i + 1 < text.size() && text[i + 1] == c) {
      row.back() += text[++i];
    } else if (quoted && c == dialect.quote) {
      quoted = false;
      closed = true;
    } else if (quoted) {
      row.back() += c;
    } else if (c == dialect.quote && c != '\0' && !began && !closed) {
      quoted = true;
    } else if (c == dialect.delimiter || c == '\n') {
      if (c == '\n') rows.push_back(std::exchange(row, {}));
      row.emplace_back();
      began = closed = false;
    } else {
      row.back() += c;
      began = true;
    }
  }
  return rows;
}

// Whatever fields have is read as it was written, and as a simpler reader reads it.
TEST(CsvRecords, AgreesWithASimplerReader) {
  for (const CsvDialect dialect :
       {CsvDialect{}, CsvDialect{.delimiter = ';', .quote = '\''},
        CsvDialect{.delimiter = '\t', .escape = '\\'}, CsvDialect{.quote = '\0', .escape = '\\'}}) {
    Rng rng(7);
    const bool quotes = dialect.quote != '\0';  // blanks around a field need some
    const std::string letters =
        std::string("ab\n,;'\"") + (quotes ? "\r \t" : "") + (dialect.escape != '\0' ? "\\" : "");
    std::string text;
    std::vector<std::vector<std::string>> written;
    for (int r = 0; r < 2000; ++r) {
      std::vector<std::string> row;
      for (int c = 0; c < 3; ++c) {
        std::string field = c == 0 ? "r" + std::to_string(r) : "";
        for (uint64_t size = rng.Below(6); c > 0 && size > 0; --size)
          field += letters[rng.Below(letters.size())];
        text += c > 0 ? std::string(1, dialect.delimiter) : "";
        if (field.find_first_not_of("ab0123456789r") == field.npos) {
          text += field;
        } else if (!quotes) {
          for (const char x : field) text += {dialect.escape, x};
        } else {
          text += dialect.quote;
          for (const char x : field) {
            if (x == dialect.quote)
              text += rng.Below(2) == 0 && dialect.escape != '\0' ? dialect.escape : x;
            else if (x == dialect.escape && x != '\0')
              text += x;
            text += x;
          }
          text += dialect.quote;
        }
        row.push_back(field);
      }
      text += '\n';
      written.push_back(row);
    }
    EXPECT_EQ(ReadByStates(text, dialect), written);
    std::vector<std::vector<std::string>> read;
    std::vector<std::string_view> fields;
    std::string scratch;
    for (const std::string& record : RecordsIn(text, dialect)) {
      ASSERT_EQ(SplitCsv(record, dialect, &fields, &scratch), "") << record;
      read.emplace_back(fields.begin(), fields.end());
    }
    EXPECT_EQ(read, written);
  }
}

TEST(CsvNumber, WithADecimalComma) {
  double number = 0;
  EXPECT_TRUE(CsvNumber("-1,5", ',', &number));
  EXPECT_EQ(number, -1.5);
  EXPECT_TRUE(CsvNumber("12", ',', &number));
  EXPECT_EQ(number, 12);
  EXPECT_TRUE(CsvNumber("1,5e3", ',', &number));
  EXPECT_EQ(number, 1500);
  for (const char* wrong : {"1.5", "1.234,5", "1,2,3", "", ",", "x"})
    EXPECT_FALSE(CsvNumber(wrong, ',', &number)) << wrong;
}

TEST(CsvNumber, OutOfTheRangeOfDouble) {
  for (const char* large : {"1e400", "-1e400", "+1e400", ".1e400", "1.e400", "1e99999999999"}) {
    double number = 0;
    const std::string padded = large + std::string(kCsvReadAhead, '\0');
    EXPECT_FALSE(CsvNumber(std::string_view(padded).substr(0, std::strlen(large)), &number)) << large;
    EXPECT_TRUE(IsTooLargeNumber(large)) << large;
  }
  EXPECT_TRUE(IsTooLargeNumber(std::string(400, '9')));
  EXPECT_TRUE(IsTooLargeNumber("1,5e400", ','));
  for (const char* other : {"", "+", "+-1e400", "1e400x", "x1e400", "1,5e400", "1e39", "-1e308", "inf", "nan",
                            "1e-400", "+.1e-400"})
    EXPECT_FALSE(IsTooLargeNumber(other)) << other;
  EXPECT_FALSE(IsTooLargeNumber("1.5e400", ','));
  for (const char* small : {"1e-400", "+1e-400", ".1e-400", "-.1e-400"}) {
    double number = 1;
    EXPECT_TRUE(CsvNumber(small, '.', &number)) << small;
    EXPECT_EQ(number, 0) << small;
  }
}

}  // namespace
}  // namespace leat::stream
