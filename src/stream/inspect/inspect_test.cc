#include "stream/inspect/inspect.h"
#include "stream/decode/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <fstream>

#include "stream/csv/csv.h"
#include "stream/source.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class InspectTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) {
    std::ofstream(dir_ / "rows", std::ios::binary) << text;
    return dir_ / "rows";
  }
  Inspection Look(const std::string& text, const InspectOptions& options = {}) {
    auto made = Inspect(Write(text), options);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? *made : Inspection{};
  }
  std::string ErrorOf(const std::string& text, const InspectOptions& options = {}) {
    const auto made = Inspect(Write(text), options);
    return made.ok() ? "" : made.status().message();
  }
  std::string ProposalFor(const std::string& text, const std::string& label = "") {
    return Propose(Look(text), {.path = "rows.csv", .label = label});
  }
  std::string MistakeIn(const std::string& text, const std::string& label) {
    try {
      ProposalFor(text, label);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  }
  // The schema that a job would parse from it.
  static Schema SchemaOf(const std::string& proposal) {
    const Config config = Config::Parse(proposal, "proposal");
    EXPECT_EQ(config.At("stream").At("files").At("paths")[0].String(), "rows.csv");
    return Schema::FromConfig(config.At("schema"));
  }
  TempDir dir_;
};

TEST_F(InspectTest, CountsWhatColumnsHold) {
  const Inspection made = Look("x;kind;note\n1;a;?\n2.5;b;\n;a;NA\n-3;\"c;d\";x\n");
  EXPECT_EQ(made.format, Schema::Format::kCsv);
  EXPECT_EQ(made.delimiter, (Delimiter{';', 3}));
  EXPECT_TRUE(made.header);
  EXPECT_EQ(made.rows, 4u);
  ASSERT_EQ(made.columns.size(), 3u);
  const Column& x = made.columns[0];
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.values, 3u);
  EXPECT_EQ(x.missing, 1u);
  EXPECT_TRUE(x.is_number());
  EXPECT_FALSE(x.whole);
  EXPECT_EQ(x.min, -3);
  EXPECT_EQ(x.max, 2.5);
  EXPECT_NEAR(x.mean, 1.0 / 6, 1e-12);
  EXPECT_NEAR(x.std, std::sqrt((25.0 / 36 + 49.0 / 9 + 361.0 / 36) / 3), 1e-12);
  EXPECT_THAT(made.columns[1].texts, ElementsAre(Pair("a", 2), Pair("b", 1), Pair("c;d", 1)));
  EXPECT_EQ(made.columns[2].missing, 3u);
}

TEST_F(InspectTest, TellsAHeaderFromARecord) {
  EXPECT_TRUE(Look("a,b\n1,x\n2,y\n").header);
  EXPECT_TRUE(Look("size,colour\nlarge,red\nsmall,red\n").header)
      << "no numbers, but names that never come again";
  EXPECT_FALSE(Look("1,x\n2,y\n").header);
  EXPECT_FALSE(Look("red,large\nred,small\nblue,large\n").header);
  EXPECT_FALSE(Look("x,x\ny,z\n").header) << "names are different";
  EXPECT_THAT(Look("1,x\n2,y\n").columns[1].name, "c2");
  EXPECT_FALSE(Look("a,b\n1,x\n", {.header = false}).header);
  EXPECT_TRUE(Look("red,large\nred,small\n", {.header = true}).header);
}

TEST_F(InspectTest, ReadsJsonLinesPackedOrNot) {
  const std::string text =
      "{\"x\": 1, \"ok\": true, \"s\": \"a\\u0062\"}\n\n{\"x\": 2.5, \"s\": null, \"list\": [1]}\nnothing\n";
  std::string more;
  for (int i = 0; i < 20; ++i) more += "{\"x\": 3, \"s\": \"c\"}\n";
  gzFile file = gzopen((dir_ / "packed").c_str(), "wb");
  gzwrite(file, (text + more).data(), static_cast<unsigned>(text.size() + more.size()));
  gzclose(file);
  for (const std::string& path : {Write(text + more), dir_ / "packed"}) {
    const auto made = Inspect(path, {});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    EXPECT_EQ(made->format, Schema::Format::kJson);
    EXPECT_EQ(made->rows, 22u);
    EXPECT_EQ(made->bad_rows, 1u);
    EXPECT_THAT(made->first_bad, HasSubstr(":4: is not a JSON object"));
    ASSERT_EQ(made->columns.size(), 4u);
    EXPECT_EQ(made->columns[0].numbers, 22u);
    EXPECT_EQ(made->columns[1].name, "ok");
    EXPECT_TRUE(made->columns[1].is_number());
    EXPECT_EQ(made->columns[1].missing, 21u);
    EXPECT_THAT(made->columns[2].texts, ElementsAre(Pair("ab", 1), Pair("c", 20)));
    EXPECT_EQ(made->columns[2].missing, 1u);
    EXPECT_EQ(made->columns[3].nested, 1u);
    EXPECT_EQ(made->columns[3].missing, 21u) << "from the first row on";
  }
}

TEST_F(InspectTest, NumbersOfJsonAreThoseThatTheDecoderReads) {
  std::string text;
  for (int i = 0; i < 30; ++i)
    text += "{\"a\": 1" + std::to_string(i) + std::string(28, '0') + ", \"y\": " + std::to_string(1 + i % 2) +
            std::string(21, '0') + "}\n";
  const Inspection made = Look(text);
  EXPECT_EQ(made.rows, 30u);
  EXPECT_EQ(made.bad_rows, 0u);
  EXPECT_TRUE(made.columns[0].is_number());
  EXPECT_EQ(made.columns[0].max, 129e28);
  const std::string proposal = ProposalFor(text, "y");
  EXPECT_THAT(proposal, HasSubstr("values: [1000000000000000000000, 2000000000000000000000]"));
  DecodedRows rows;
  MakeDecoder(SchemaOf(proposal))->Decode(BatchOf({"{\"a\": 5, \"y\": 2000000000000000000000}"}), &rows);
  EXPECT_THAT(rows.labels, ElementsAre(1));
  EXPECT_THAT(ErrorOf("{\"a\": {\"b\": 1e999}}\n"), HasSubstr(":1: a.b: '1e999' is too large"));
}

TEST_F(InspectTest, ReadsAsManyRowsAsAsked) {
  const Inspection made = Look("a,b\n1,2\n3,4\n5,6\n", {.rows = 2});
  EXPECT_EQ(made.rows, 2u);
  EXPECT_FALSE(made.whole_file);
  EXPECT_EQ(made.columns[0].max, 3);
  EXPECT_TRUE(Look("a,b\n1,2\n3,4\n", {.rows = 2}).whole_file);
}

TEST_F(InspectTest, ForgetsTextsThatAreTooMany) {
  std::string text = "n,word\n";
  for (int i = 0; i < 60'000; ++i) text += std::to_string(i % 7) + ",w" + std::to_string(i) + "\n";
  const Inspection made = Look(text);
  EXPECT_EQ(made.columns[0].texts.size(), 7u);
  EXPECT_EQ(made.columns[1].texts.size(), 0u);
  EXPECT_EQ(made.columns[1].distinct, Column::kMaxDistinct);
  EXPECT_FALSE(made.columns[1].all_distinct_known);
  EXPECT_TRUE(made.columns[1].unique());
}

TEST_F(InspectTest, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(Inspect(dir_ / "nothing", {}).status().message(), HasSubstr("nothing: No such file"));
  EXPECT_THAT(Inspect(dir_.path(), {}).status().message(), HasSubstr("is not a file"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("has no records"));
  EXPECT_THAT(ErrorOf("a,b\n", {.header = true}), HasSubstr("has no records"));
  EXPECT_THAT(ErrorOf("a,b\n"), HasSubstr("has one line, which may be its header"));
  EXPECT_EQ(ErrorOf("a,b\n", {.header = false}), "");
  EXPECT_EQ(ErrorOf("a,1\n"), "");
  EXPECT_THAT(ErrorOf(std::string("\0\1\2,\3", 5)), HasSubstr("is not a text file"));
  EXPECT_THAT(ErrorOf("1,5;2\n2,5;3\n"),
              AllOf(HasSubstr("divide the lines alike"), HasSubstr("--delimiter")));
  EXPECT_EQ(ErrorOf("1,5;2\n2,5;3\n", {.csv = {.delimiter = ';'}}), "");
  EXPECT_THAT(ErrorOf("1,2\n1\n1\n1,2\n"), HasSubstr(":2: has 1 columns instead of 2 (2 of 4 rows"));
  EXPECT_THAT(ErrorOf("{\"a\": 1}\n[1]\n"), HasSubstr(":2: is not a JSON object"));
  EXPECT_THAT(ErrorOf("{\"a\": 1, \"b\": {\"c\": 1, \"d\": 2, \"c\": 3}}\n"),
              HasSubstr(":1: b.c: appears twice"));
  EXPECT_THAT(ErrorOf("a,b,c\n1,2\n1,2\n1,2\n", {.header = true}),
              HasSubstr("the first line names 3 columns, the others have 2"));
}

// ---- proposals

TEST_F(InspectTest, SaysWhatIsWrongWithQuotesAndNames) {
  std::string text = "a,y\n";
  for (int i = 0; i < 30; ++i) text += "\"x, y\"z," + std::to_string(i) + "\n";
  EXPECT_THAT(ErrorOf(text), HasSubstr(":2: column 1: text follows the closing quote (30 of 31 rows"));
  const std::string names = "the first line names 2 columns, the others have 3; the first may be row names";
  for (const char* head : {"\"a\",\"y\"\n", "a,y\n"})
    EXPECT_THAT(ErrorOf(std::string(head) + "\"1\",5,0\n\"2\",6,1\n"), HasSubstr(names)) << head;
  EXPECT_THAT(ErrorOf("\"a\" \"y\"\n\"1\" 5 0\n"),
              HasSubstr("do blanks divide its columns? R's write.table"));
}

// A row with everything: an id, a number, a skewed one, a category, text, a constant, a label.
std::string Everything(const std::string& row_end = "\n") {
  std::string text = "id,age,gain,kind,comment,unit,churned" + row_end;
  for (int i = 0; i < 200; ++i) {
    text += std::to_string(1000 + i) + "," + std::to_string(20 + i % 50) + "," +
            (i % 20 == 0 ? "15000" : "0") + "," +
            (i % 3 == 0   ? "new"
             : i % 3 == 1 ? "old"
                          : "?") +
            ",word " + std::to_string(i) + ",kg," + (i % 4 == 0 ? "yes" : "no") + row_end;
  }
  return text;
}

TEST_F(InspectTest, ProposesASchemaThatReadsTheFile) {
  for (const char* row_end : {"\n", "\r\n"}) {
    const std::string proposal = ProposalFor(Everything(row_end), "churned");
    EXPECT_THAT(proposal, HasSubstr("age: {type: number, mean: 44.5, std: 14.4309}"));
    EXPECT_THAT(proposal, HasSubstr("gain: {type: number, log: true, mean: "));
    EXPECT_THAT(proposal, HasSubstr("kind: {type: category, values: [new, old]}"));
    EXPECT_THAT(proposal, HasSubstr("churned: {type: category, values: [no, yes], role: label}"));
    EXPECT_THAT(proposal, HasSubstr("# constant: 'kg'"));
    EXPECT_THAT(proposal, HasSubstr("# grows by the same with every row: an id?"));
    EXPECT_THAT(proposal, HasSubstr("# nearly every text is another one: an id?"));
    EXPECT_THAT(proposal, HasSubstr("2 units, with the loss softmax_cross_entropy"));
    Schema schema = SchemaOf(proposal);
    EXPECT_EQ(schema.features(), 1u + 1u + 2u);
    EXPECT_EQ(schema.classes(), 2u);
    schema.UseColumns({"id", "age", "gain", "kind", "comment", "unit", "churned"});
    DecodedRows rows;
    MakeDecoder(schema)->Decode(BatchOf({"1000,44.5,0,new,word,kg,yes", "1,20,15000,?,x,kg,no"}), &rows);
    ASSERT_EQ(rows.rows, 2u) << rows.dead[0].reason;
    EXPECT_THAT(rows.labels, ElementsAre(1, 0));
    EXPECT_NEAR(rows.features[0], 0, 1e-6);
    EXPECT_EQ(rows.features[6], 0) << "a value that is not listed";
  }
}

TEST_F(InspectTest, NamesCandidatesWhereNoLabelIsSet) {
  const std::string proposal = ProposalFor(Everything());
  EXPECT_THAT(proposal,
              HasSubstr("# No label is set. Candidates (--label NAME):\n#   'churned' ('no', 'yes')\n"));
  EXPECT_FALSE(SchemaOf(proposal).has_label());
}

TEST_F(InspectTest, ProposesLabelsOfEveryKind) {
  EXPECT_THAT(ProposalFor("a,b\n1,0\n2,1\n3,2\n4,1\n", "b"),
              AllOf(HasSubstr("b: {type: number, classes: 3, role: label}"), HasSubstr("3 units")));
  EXPECT_THAT(ProposalFor("a,b\n1,2\n2,10\n3,2\n4,1\n", "b"),
              HasSubstr("b: {type: category, values: [1, 2, 10], role: label}"))
      << "numbers that do not count from 0, in their order";
  std::string many = "a,b\n";
  for (int i = 0; i < 50; ++i) many += std::to_string(i * i) + "," + std::to_string(i * 0.37) + "\n";
  EXPECT_THAT(ProposalFor(many, "b"), AllOf(HasSubstr("b: {type: number, role: label}"),
                                            HasSubstr("1 unit, with the loss squared_error")));
  EXPECT_THAT(ProposalFor(many + "9,none\n", "b"), HasSubstr("b: {type: number, role: label}"))
      << "one text among numbers makes no classes";
  EXPECT_THAT(ProposalFor("a,b\n1,<=50K\n2,>50K\n", "b"), HasSubstr("values: [\"<=50K\", \">50K\"]"));
}

TEST_F(InspectTest, SaysWhyALabelCannotBe) {
  EXPECT_EQ(MistakeIn(Everything(), "churne"), "there is no column 'churne'; did you mean 'churned'?");
  EXPECT_EQ(MistakeIn("a,b\n1,0\n2,1\n", "other"), "there is no column 'other'; there are 'a', 'b'");
  EXPECT_THAT(MistakeIn(Everything(), "unit"),
              HasSubstr("'unit' cannot be the label: all its values are the same"));
  EXPECT_THAT(MistakeIn("a,b\nx,1\ny,2\n", "b"), "");
  EXPECT_THAT(MistakeIn("a,b\n1,1\n1,2\n", "b"),
              HasSubstr("no column would make a feature; 2 were read: 'a' (constant: '1'), 'b' (the label)"));
  std::string many = "a,b\n";
  for (int i = 0; i < 2000; ++i) many += std::to_string(i % 5) + ",w" + std::to_string(i) + "\n";
  EXPECT_THAT(MistakeIn(many, "b"), HasSubstr("more than 1000 different texts"));
}

TEST_F(InspectTest, MissingValuesOfCsvHaveDefaultsAndTextsAreFew) {
  std::string text = "few,half,most,odd,typo,y\n";
  for (int i = 0; i < 1000; ++i) {
    text += (i < 20 ? "" : std::to_string(i % 13)) + "," + (i % 3 == 0 ? "NA" : std::to_string(i % 17)) +
            "," + (i % 3 == 0 ? std::to_string(i % 17) : "?") + "," +
            (i == 5 ? "none" : std::to_string(i % 19)) + "," + (i == 7 ? "oops" : std::to_string(i % 19)) +
            "," + std::to_string(i % 2) + "\n";
  }
  const std::string proposal = ProposalFor(text, "y");
  EXPECT_THAT(proposal, HasSubstr("  missing: [\"?\", \"NA\", none]\n"));
  EXPECT_THAT(proposal, HasSubstr("20 missing: as if they were usual"));
  EXPECT_THAT(proposal, HasSubstr("334 missing: as if they were usual"));
  EXPECT_THAT(proposal, HasSubstr("most: {role: ignore}"));
  EXPECT_THAT(proposal, HasSubstr("# 666 of 1,000 missing"));
  EXPECT_THAT(proposal, HasSubstr("# 1 missing: as if they were usual"));
  EXPECT_THAT(proposal, HasSubstr("# 1 text such as 'oops': dead letters"));
  const Schema schema = SchemaOf(proposal);
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf({",NA,?,none,3,1"}), &rows);
  ASSERT_EQ(rows.rows, 1u) << rows.dead[0].reason;
}

TEST_F(InspectTest, WhatIsProposedIsWhatTheDecoderDoes) {
  std::string text = "zip;price;note;y\n";
  for (int i = 0; i < 300; ++i) {
    text += "0" + std::to_string(1000 + i % 5) + ";" +
            (i % 9 == 0 ? "NA" : std::to_string(i % 40) + "," + std::to_string(i % 10)) + ";'it''s;\n" +
            std::string(i % 2 ? "good" : "bad") + "';" + std::to_string(i % 2) + "\n";
  }
  const std::string proposal = ProposalFor(text, "y");
  EXPECT_THAT(proposal, HasSubstr("300 rows, 4 columns, with a header, delimiter ';', quote ', decimal ,\n"));
  EXPECT_THAT(proposal,
              HasSubstr("  delimiter: \";\"\n  quote: \"'\"\n  decimal: \",\"\n  missing: [\"NA\"]\n"));
  EXPECT_THAT(proposal, HasSubstr("zip: {type: category, values: [01000, 01001, 01002, 01003, 01004]}"));
  EXPECT_THAT(proposal, HasSubstr("zeros before the digits"));
  EXPECT_THAT(proposal, HasSubstr("price: {type: number, mean: "));
  Schema schema = SchemaOf(proposal);
  schema.UseColumns({"zip", "price", "note", "y"});
  std::vector<std::string> records;
  ForCsvRecords(text, schema.dialect(), [&](std::string_view record) { records.emplace_back(record); });
  ASSERT_EQ(records.size(), 301u);
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf({records.begin() + 1, records.end()}), &rows);
  EXPECT_EQ(rows.rows, 300u);
  ASSERT_EQ(schema.features(), 5u + 1u + 2u);
  for (size_t i = 0; i < rows.rows; ++i) {
    EXPECT_EQ(rows.features[i * 8 + i % 5], 1) << i;
    EXPECT_EQ(rows.features[i * 8 + 6 + (i % 2)], 1) << "bad comes before good";
  }
}

TEST_F(InspectTest, AMeanHasTheDigitsThatItsSpreadNeeds) {
  std::string text = "at,gone,lat,y\n";
  for (int64_t i = 0; i < 60; ++i)
    text += std::to_string(1712345678901 + i * 37 % 60 * 61) + "," +
            (i % 9 == 0 ? "NA" : std::to_string(20240000 + i % 13)) + ",48.8566" +
            std::to_string(10 + i * 7 % 60) + "," + std::to_string(i % 2) + "\n";
  Schema schema = SchemaOf(ProposalFor(text, "y"));
  schema.UseColumns({"at", "gone", "lat", "y"});
  std::vector<std::string> records;
  ForCsvRecords(text, schema.dialect(), [&](std::string_view record) { records.emplace_back(record); });
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf({records.begin() + 1, records.end()}), &rows);
  ASSERT_EQ(rows.rows, 60u);
  ASSERT_EQ(schema.features(), 3u);
  for (size_t f = 0; f < 3; ++f) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < 60; ++i) {
      const double x = rows.features[i * 3 + f];
      sum += x;
      squares += x * x;
    }
    EXPECT_NEAR(sum / 60, 0, 1e-3) << f;
    EXPECT_NEAR(squares / 60, 1, f == 1 ? 0.2 : 1e-3) << f;
  }
}

TEST_F(InspectTest, NullOfDatabasesIsMissingWhereTheyEscape) {
  std::string text = "n,note,y\n";
  for (int i = 0; i < 60; ++i)
    text += (i % 9 == 0 ? "\\N" : std::to_string(i * 7 % 50)) +
            (i % 2 ? ",\"say \\\"hi\\\", all\"," : ",plain,") + std::to_string(i % 2) + "\n";
  const std::string proposal = ProposalFor(text, "y");
  EXPECT_THAT(proposal, AllOf(HasSubstr("  escape: \"\\\\\"\n  missing: [\"\\\\N\"]\n"),
                              HasSubstr("n: {type: number, mean: ")));
  DecodedRows rows;
  MakeDecoder(SchemaOf(proposal))->Decode(BatchOf({"\\N,plain,1"}), &rows);
  ASSERT_EQ(rows.rows, 1u) << rows.dead[0].reason;
}

TEST_F(InspectTest, WhatIsToldIsNotDetected) {
  const Inspection made =
      Look("a;y\n'1,5';0\n'2,5';1\n", {.csv = {.quote = '\0', .escape = '^', .decimal = '.'}});
  EXPECT_EQ(made.quote, '\0');
  EXPECT_EQ(made.escape, '^');
  EXPECT_EQ(made.decimal, '.');
  EXPECT_THAT(made.columns[0].texts, ElementsAre(Pair("'1,5'", 1), Pair("'2,5'", 1)));
  EXPECT_THAT(Propose(made, {.path = "rows.csv"}),
              AllOf(HasSubstr(", quote none, escape ^\n"), HasSubstr("  quote: none\n  escape: \"^\"\n")));
  EXPECT_EQ(Look("1,5;2\n2,5;3\n", {.csv = {.decimal = ','}}).columns[0].mean, 2) << "nor does it divide";
  EXPECT_EQ(ErrorOf("a,y\n1,2\n", {.csv = {.delimiter = ';', .quote = ';'}}),
            "quote is ';', as delimiter is");
}

TEST_F(InspectTest, AWordIsMissingAmongNumbersAndAValueElsewhere) {
  std::string text = "age,size,job,y\nunknown,1,unknown,1\n";
  for (int i = 0; i < 60; ++i)
    text += std::to_string(20 + i * 7 % 41) + "," + std::to_string(i * 5 % 37) +
            (i % 2 > 0 ? ",clerk,0\n" : ",unknown,1\n");
  const std::string proposal = ProposalFor(text, "y");
  EXPECT_THAT(proposal, Not(HasSubstr("  missing: [")));
  EXPECT_THAT(proposal, HasSubstr("values: [clerk, unknown]"));
  const Schema schema = SchemaOf(proposal);
  EXPECT_TRUE(schema.fields[0].fallback.has_value());
  // Where other words are listed, it is a text among numbers.
  text += "30,NA,clerk,0\n";
  EXPECT_THAT(ProposalFor(text, "y"), HasSubstr("missing: [\"NA\"]"));
}

TEST_F(InspectTest, AConstantIsOneHoweverItIsSpelled) {
  const std::string proposal = ProposalFor("a,b,y\n1,5,0\n1.0,5,1\n1,5,0\n1.00,6,1\n", "y");
  EXPECT_THAT(proposal, HasSubstr("a: {role: ignore}"));
  EXPECT_THAT(proposal, HasSubstr("# constant: '1'"));
  EXPECT_THAT(proposal, Not(HasSubstr("too large")));
  EXPECT_THAT(MistakeIn("a,y\n1,2\n2,2.0\n", "y"), HasSubstr("all its values are the same"));
  EXPECT_THAT(ProposalFor("a,b,y\n1e308,1,0\n-1e308,2,1\n1e307,2,1\n", "y"), HasSubstr("too large"));
}

TEST_F(InspectTest, AValueIsOneHoweverItIsSpelled) {
  const auto spelled = [](const std::vector<std::string>& texts, bool json) {
    std::string text = json ? "" : "a,y\n";
    for (size_t i = 0; i < 60; ++i) {
      const std::string& y = texts[i % texts.size()];
      text += json ? "{\"a\":" + std::to_string(i * i) + ",\"y\":" + y + "}\n"
                   : std::to_string(i * i) + "," + y + "\n";
    }
    return text;
  };
  for (const bool json : {false, true}) {
    EXPECT_THAT(ProposalFor(spelled({"1", "1.0", "2", "1", "3", "3.0", "3.0"}, json), "y"),
                AllOf(HasSubstr("values: [1, 2, 3.0], role: label"), HasSubstr("3 units")));
    EXPECT_THAT(ProposalFor(spelled({"0", "1e0", "1", "1"}, json), "y"),
                AllOf(HasSubstr("y: {type: number, classes: 2, role: label}"), HasSubstr("2 units")));
  }
  const std::string booleans = spelled({"True", "TRUE", "FALSE", "False", "FALSE", "true", "True"}, false);
  EXPECT_THAT(ProposalFor(booleans, "y"),
              AllOf(HasSubstr("values: [FALSE, True], role: label"), HasSubstr("2 units")));
  EXPECT_THAT(ProposalFor(booleans, "a"),
              AllOf(HasSubstr("y: {type: category, values: [FALSE, True]}"), Not(HasSubstr("two values"))));
  EXPECT_THAT(ProposalFor(spelled({"yes", "Yes", "no"}, false), "y"),
              HasSubstr("'Yes' and 'yes' are two values"));
  EXPECT_THAT(ProposalFor(spelled({"01", "1", "02"}, false), "y"), HasSubstr("values: [01, 02, 1]"))
      << "zeros before digits make a code";
  EXPECT_THAT(ProposalFor("a;y\n1,5;2,5\n2,5;2,50\n7,5;3,5\n", "y"),
              HasSubstr("values: [\"2,5\", \"3,5\"], role"));
  Schema schema = SchemaOf(ProposalFor(booleans, "y"));
  schema.UseColumns({"a", "y"});
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf({"1,true", "1,TRUE", "1,False"}), &rows);
  EXPECT_THAT(rows.labels, ElementsAre(1, 1, 0));
}

TEST_F(InspectTest, TextOfAnotherEncodingNeedsItsName) {
  std::string text = "town,y\n";
  for (int i = 0; i < 30; ++i)
    text += (i % 2 ? "M\xe1laga,"
                   : "C\xe1"
                     "diz,") +
            std::to_string(i % 2) + "\n";
  EXPECT_THAT(ErrorOf(text), AllOf(HasSubstr(":2: is not UTF-8 (byte 0xe1 at 1)"),
                                   HasSubstr("--encoding latin-1"), HasSubstr("30 of 30 rows")));
  const Inspection made = Look(text, {.encoding = "latin-1"});
  EXPECT_THAT(made.columns[0].texts, ElementsAre(Pair("Cádiz", 15), Pair("Málaga", 15)));
  EXPECT_THAT(Propose(made, {.path = "rows.csv", .label = "y"}), HasSubstr("    encoding: latin-1\n"));
  EXPECT_THAT(ErrorOf("t\xe1,y\na,1\nb,2\n"), HasSubstr("the header is not UTF-8"));
}

TEST_F(InspectTest, FilesOfAnotherKindAreNamed) {
  EXPECT_THAT(
      ErrorOf("[{\"a\":0,\"c\":\"x\"},{\"a\":1,\"c\":\"y\"}]"),
      AllOf(HasSubstr("rows: is a JSON array; one object per line is needed"), HasSubstr("jq -c '.[]'")));
  EXPECT_THAT(ErrorOf("a,b\r1,2\r"), HasSubstr("CR alone"));
}

TEST_F(InspectTest, LinesThatNoDelimiterDividesAreNamed) {
  std::string blanks, pairs, words = "note\n", times = "t\n";
  for (int i = 0; i < 30; ++i) {
    const std::string number = std::to_string(i * 0.5);
    blanks += "   " + number + "  " + std::to_string(i % 2) + "\n";
    pairs += std::to_string(i % 2) + " 1:" + number + (i % 3 > 0 ? " 7:1\n" : "\n");
    words += "a word" + std::to_string(i % 5) + "\n";
    times += "2026-01-31 12:00:0" + std::to_string(i % 5) + "\n";
  }
  for (const std::string header : {"", "a y\n", "# a y\n"})
    EXPECT_THAT(ErrorOf(header + blanks), AllOf(HasSubstr("rows: has columns divided by blanks"),
                                                HasSubstr("awk '{$1 = $1} 1' OFS=, " + (dir_ / "rows"))));
  EXPECT_THAT(ErrorOf(pairs), HasSubstr("rows: has pairs INDEX:VALUE of libsvm"));
  EXPECT_EQ(ErrorOf(blanks, {.csv = {.delimiter = ','}}), "");
  EXPECT_EQ(ErrorOf(words), "");
  EXPECT_EQ(ErrorOf(times), "");
}

TEST_F(InspectTest, RarerDelimitersAreFoundWhereNoOtherDivides) {
  for (const std::string delimiter : {"^", "~", "\x01", "\x1f"}) {
    std::string rows;
    for (int i = 0; i < 30; ++i) rows += std::to_string(i * i) + delimiter + std::to_string(i % 2) + "\n";
    // zlib's files and those of ORC begin with some of these names, too.
    for (const char* name : {"a", "x", "ORC"}) {
      const std::string proposal = ProposalFor(name + delimiter + "y\n" + rows, "y");
      EXPECT_EQ(SchemaOf(proposal).delimiter, delimiter[0]) << proposal;
      EXPECT_THAT(proposal, Not(HasSubstr("\x01")));
    }
    EXPECT_EQ(Look("a^b,y\n1^2,3\n3^4,5\n").delimiter.character, ',');
  }
  EXPECT_THAT(MistakeIn("a:y\nu:v\nw:x\nz:t\nu:u\nw:v\na:a\nw:w\nv:v\n" + std::string("u:w\n") +
                            "b:b\nc:c\nd:d\ne:e\nf:f\ng:g\nh:h\ni:i\nj:j\nk:k\nl:l\n",
                        ""),
              HasSubstr("no delimiter was found among"));
}

TEST_F(InspectTest, LinesAboveTheHeaderAreNamed) {
  std::string table = "a,y\n";
  for (int i = 0; i < 12; ++i) table += std::to_string(i * i) + "," + std::to_string(i % 2) + "\n";
  EXPECT_THAT(ErrorOf("# made by x\n# on Friday\n" + table),
              AllOf(HasSubstr("rows: the names of the columns are in line 3"), HasSubstr("tail -n +3")));
  EXPECT_THAT(ErrorOf("Report of May\n\n\n" + table), HasSubstr("tail -n +4"));
  EXPECT_EQ(ErrorOf(table), "");
  EXPECT_EQ(ErrorOf("# made by x\n" + table, {.header = false}), "");
  EXPECT_TRUE(Look("#a,y\n1,0\n2,1\n").header);
  EXPECT_FALSE(Look("1\n" + std::string("1,0\n2,1\n2,1\n2,1\n2,1\n2,1\n2,1\n2,1\n2,1\n2,1\n")).header)
      << "a record that is cut";
}

TEST_F(InspectTest, NumbersThatAreSpelledInAnotherWayAreNamed) {
  const std::pair<std::string, std::string> spellings[] = {
      {"1,5", "with a decimal comma, such as '0,5', are texts; --decimal , reads them"},
      {"2,345", "with a comma, decimal or of thousands"},
      {"1.234,5", "with separators of thousands"},
      {"1,234.5", "with separators of thousands"},
      {"1.234.567", "with separators of thousands"},
      {"$5", "with a sign of currency"},
      {"-5,5 €", "with a sign of currency"},
      {"5%", "with a percent sign"},
      {"5\u00a0", "with a no-break space"},
      {"\u22125", "with the minus sign U+2212"},
      {"(5.1)", "in parentheses"},
      {"<5", "with < or >"},
      {"5.1 kg", "with a unit"},
      {"5K", "with a unit"},
      {"1_234", "with separators of thousands"},
      {"5.5D+02", "with D before the exponent"},
      {"5/1/2024", "of dates or times"},
      {"5:30", "of dates or times"},
  };
  for (const auto& [one, how] : spellings) {
    for (const int different : {9, 90}) {
      std::string text = "v;version;width;y\n";
      for (int i = 0; i < 90; ++i) {
        std::string value = one;
        value.replace(value.find_last_of("123456789"), 1, std::to_string(i % different % 9 + 1));
        if (different > 9) value.replace(value.find_first_of("0123456789"), 1, std::to_string(i + 10));
        if (different > 9 && how.starts_with("with a comma")) value = std::to_string(i + 10) + ",345";
        text += value + ";1." + std::to_string(i % 7) + ";0.5;" + std::to_string(i % 2) + "\n";
      }
      const std::string proposal = ProposalFor(text, "y");
      const std::string shown = different > 9 ? how.substr(0, how.find(',')) : how;
      EXPECT_THAT(proposal, AllOf(HasSubstr("90 numbers " +
                                            (different > 9 ? shown : how.substr(0, how.find(", such"))))))
          << one << "\n"
          << proposal;
      EXPECT_THAT(proposal, Not(HasSubstr("an id?")));
    }
  }
  std::string infinite = "v,b,y\n";
  for (int i = 0; i < 100; ++i)
    infinite += std::string(i % 20 == 0   ? "Infinity"
                            : i % 10 == 0 ? "-inf"
                                          : std::to_string(i)) +
                "," + std::to_string(i * i) + "," + std::to_string(i % 2) + "\n";
  EXPECT_THAT(ProposalFor(infinite, "y"),
              HasSubstr("10 numbers that are infinite or undefined, such as 'Infinity'"));
  std::string words = "v,y\n";
  for (int i = 0; i < 100; ++i) words += (i % 10 ? "a," : "5%,") + std::to_string(i % 2) + "\n";
  EXPECT_THAT(ProposalFor(words, "y"), Not(HasSubstr("percent")));
}

TEST_F(InspectTest, NoCategoryIsHashedFromNumbers) {
  const std::pair<std::string, std::string> columns[] = {
      {"0x1", "90 numbers in hexadecimal, such as '0x111'"},
      {"2024-01-01T00:00:", "90 numbers of dates or times"},
      {"0,", "90 numbers with a decimal comma"},
      {"1.5.", ""},
  };
  for (const auto& [begin, remark] : columns) {
    for (const int different : {55, 90}) {
      std::string text = "v;a;b;y\n";
      for (int i = 0; i < 90; ++i)
        text += begin + std::to_string(11 + i % different) + ";0.5;1." + std::to_string(i % 7) + ";" +
                std::to_string(i % 2) + "\n";
      const std::string proposal = ProposalFor(text, "y");
      EXPECT_THAT(proposal, HasSubstr(!remark.empty()   ? remark
                                      : different == 90 ? "an id?"
                                                        : "buckets: 128"))
          << begin;
      EXPECT_EQ(proposal.find("v: {role: ignore}") != proposal.npos, !remark.empty() || different == 90);
    }
  }
  std::string mixed = "v,y\n", label = "v,y\n";
  for (int i = 0; i < 100; ++i) {
    const std::string value = i % 8 == 3 ? "n.d." + std::to_string(i % 3) : std::to_string(i * 0.25);
    mixed += value + "," + std::to_string(i % 2) + "\n";
    label += std::to_string(i * 0.5) + "," + value + "\n";
  }
  const std::string remark = "13 texts such as 'n.d.0' among 87 numbers; leave them empty";
  EXPECT_THAT(MistakeIn(mixed, "y"), HasSubstr("'v' (" + remark + ")"));
  EXPECT_EQ(MistakeIn(label, "y"), "'y' cannot be the label: " + remark);
  EXPECT_THAT(ProposalFor("v,w,y\n1,1,0\n1,2,1\n2,3,0\nA,5,1\n", "y"),
              AllOf(HasSubstr("v: {type: category, values: [1, 2, A]}"), Not(HasSubstr("among"))))
      << "a category like any other";
}

TEST_F(InspectTest, DotsOfThousandsDoNotHideADecimalComma) {
  std::string text = "d;a;y\n";
  for (int i = 0; i < 90; ++i)
    text += std::to_string(10 + i) + ".763;0," + std::to_string(10 + i) + ";" + std::to_string(i % 2) + "\n";
  const std::string proposal = ProposalFor(text, "y");
  EXPECT_THAT(proposal, AllOf(HasSubstr("  decimal: \",\"\n"), HasSubstr("a: {type: number, mean: "),
                              HasSubstr("90 numbers with separators of thousands, such as '10.763'")));
  EXPECT_TRUE(SchemaOf(proposal).fields[0].role == Role::kIgnore);
}

TEST_F(InspectTest, NumbersInQuotesMayHaveBlanksAroundThem) {
  std::string text = "\"a\",\"b\",\"y\"\n", plain = "\"a\",\"b\",\"y\"\n";
  for (int i = 0; i < 60; ++i) {
    const std::string a = std::to_string(i * 37 % 60) + ".5", b = i % 9 ? std::to_string(i % 7) : "NA";
    text += "\"   " + a + "\",\" " + b + " \",\"  " + std::to_string(i % 2) + "\"\n";
    plain += a + "," + b + "," + std::to_string(i % 2) + "\n";
  }
  EXPECT_EQ(ProposalFor(text, "y"), ProposalFor(plain, "y"));
  EXPECT_THAT(ProposalFor(text, "a"), HasSubstr("a: {type: number, role: label}"));
  EXPECT_FALSE(Look(text.substr(text.find('\n') + 1)).header);
  Schema schema = SchemaOf(ProposalFor(text, "y"));
  schema.UseColumns({"a", "b", "y"});
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf({"\"   2.5\",\" NA \",\"  1\"", "\" 1\",\"  \",\"0 \""}), &rows);
  ASSERT_EQ(rows.rows, 2u) << rows.dead[0].reason;
  EXPECT_THAT(rows.labels, ElementsAre(1, 0));
}

TEST_F(InspectTest, SignsAreValuesBesideOthers) {
  std::string text = "n,strand,base,part,y\n", conflict;
  for (int i = 0; i < 60; ++i) {
    const auto row = [&](const char* n) {
      return std::string(n) + (i % 3 ? ",+" : ",-") +
             (i % 4 == 0   ? ",A"
              : i % 4 == 1 ? ",C"
                           : ",G") +
             (i % 5 ? ",main" : ",") + (i % 2 ? ",+\n" : ",-\n");
    };
    conflict += row(i % 7 ? "5" : "-");
    text += row(i % 7 ? "5.5" : "6");
  }
  const std::string proposal = ProposalFor(text, "y");
  EXPECT_THAT(proposal, AllOf(HasSubstr("strand: {type: category, values: [+, \"-\"]}"),
                              HasSubstr("y: {type: category, values: [+, \"-\"], role: label}"),
                              HasSubstr("constant: 'main' or missing"), Not(HasSubstr("missing: ["))));
  DecodedRows rows;
  Schema schema = SchemaOf(proposal);
  schema.UseColumns({"n", "strand", "base", "part", "y"});
  MakeDecoder(schema)->Decode(BatchOf({"5.5,-,A,main,+", "6,+,C,,-"}), &rows);
  ASSERT_EQ(rows.rows, 2u) << rows.dead[0].reason;
  EXPECT_THAT(rows.labels, ElementsAre(0, 1));
  EXPECT_THAT(MistakeIn("n,strand,base,part,y\n" + conflict, "y"), HasSubstr("all its values are the same"))
      << "a sign is missing in all columns, or in none";
  EXPECT_THAT(ProposalFor("{\"a\":1,\"y\":\"+\"}\n{\"a\":2,\"y\":\"-\"}\n", "y"),
              HasSubstr("y: {type: category, values: [+, \"-\"], role: label}"));
  std::string codes = "a,y\n";
  for (int i = 0; i < 90; ++i)
    codes += std::to_string(i * i) + "," + (i % 3 == 0 ? "na" : i % 3 == 1 ? "nb" : "nc") + "\n";
  EXPECT_THAT(ProposalFor(codes, "y"), HasSubstr("values: [na, nb, nc]"));
}

TEST_F(InspectTest, AHeaderMayBeRepeated) {
  std::string text = "a,b,y\n";
  for (int i = 0; i < 60; ++i)
    text += (i % 20 == 10 ? "a,b,y\n" : "") + std::to_string(i * i) + "," + std::to_string(i % 7 * 0.5) +
            "," + std::to_string(i % 2) + "\n";
  const Inspection made = Look(text);
  EXPECT_TRUE(made.header);
  EXPECT_EQ(made.bad_rows, 3u);
  EXPECT_THAT(made.first_bad, HasSubstr(":12: is the header again"));
  EXPECT_THAT(Propose(made, {.path = "rows.csv", .label = "y"}),
              HasSubstr("y: {type: number, classes: 2, role: label}"));
  EXPECT_EQ(MistakeIn("2019,2020\n1,0\n2,1\n", "2020"),
            "there is no column '2020'; there are 'c1', 'c2'; if the first line has the names, say --header");
}

TEST_F(InspectTest, NumbersThatJsonDoesNotHave) {
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += "{\"a\": " + (i % 4 ? std::to_string(i % 9) : "NaN") + ", \"b\": " +
            (i % 20   ? std::to_string(i) + ".5"
             : i % 40 ? "Infinity"
                      : "-Infinity") +
            ", \"c\": " + (i % 5 ? "2.5" : "Infinity") + ", \"o\": " + (i % 9 ? "{\"p\": " : "NaN") +
            (i % 9 ? std::to_string(i % 9) + "}" : "") + ", \"y\": " + std::to_string(i % 2) + "}\n";
  const std::string proposal = ProposalFor(text, "y");
  EXPECT_THAT(proposal,
              AllOf(HasSubstr("100 rows"), HasSubstr("25 missing: as if they were usual"),
                    HasSubstr("# 5 infinite: dead letters"), HasSubstr("c: {role: ignore}"),
                    HasSubstr("# 12 missing: as if they were usual"), Not(HasSubstr("rows would be"))));
  DecodedRows rows;
  MakeDecoder(SchemaOf(proposal))
      ->Decode(BatchOf({R"({"a":NaN,"b":1.5,"c":Infinity,"o":NaN,"y":1})", R"({"a":1,"b":-Infinity,"y":1})"}),
               &rows);
  EXPECT_EQ(rows.rows, 1u);
  ASSERT_EQ(rows.dead.size(), 1u);
  EXPECT_EQ(rows.dead[0].reason, "b: '-Infinity' is no JSON; write null, or leave it out");
  EXPECT_THAT(ErrorOf("{\"a\": None}\n"), HasSubstr(":1: a: 'None' is no JSON (1 of 1 rows"));
}

TEST_F(InspectTest, AnotherValueInTheObjectsPlaceIsADeadLetter) {
  const auto rows_with = [](int other) {
    std::string text;
    for (int i = 0; i < 100; ++i) {
      const std::string value = std::to_string(i * 7 % 100);
      text += "{\"a\": " + value + ", \"o\": ";
      text += i % 100 < other ? (i % 2 ? "\"n/a\"" : "3")
                              : "{\"p\": " + value + ", \"q\": " + value + ", \"r\": " + value + "}";
      text += ", \"y\": " + std::to_string(i % 2) + "}\n";
    }
    return text;
  };
  const std::string few = ProposalFor(rows_with(4), "y"), many = ProposalFor(rows_with(25), "y");
  for (const char* key : {"p", "q", "r"}) {
    EXPECT_THAT(few, HasSubstr("o." + std::string(key) + ": {type: number"));
    EXPECT_THAT(many, HasSubstr("o." + std::string(key) + ": {role: ignore}"));
  }
  EXPECT_THAT(few,
              AllOf(HasSubstr("# 'o' is no object in 4 records: dead letters"), Not(HasSubstr("missing"))));
  EXPECT_THAT(many, HasSubstr("# 'o' is no object in 25 records: too many dead letters"));
  EXPECT_THAT(
      ProposalFor(rows_with(25), "o.p"),
      HasSubstr("# mean 51.3333, std 29.1243; 'o' is no object in 25 records: dead letters; a job allows"));
  DecodedRows rows;
  MakeDecoder(SchemaOf(few))
      ->Decode(BatchOf({R"({"a":1,"o":3,"y":1})", R"({"a":1,"o":{"p":1,"q":1,"r":1},"y":1})"}), &rows);
  EXPECT_EQ(rows.rows, 1u);
}

TEST_F(InspectTest, NumbersInQuotesAreNoNumbersOfJson) {
  std::string few, many;
  for (int i = 0; i < 60; ++i) {
    const std::string rest =
        ",\"zip\":\"0" + std::to_string(i % 3) + "\",\"y\":" + std::to_string(i % 2) + "}\n";
    few += "{\"a\":\"" + std::to_string(i % 4) + ".5\"" + rest;
    many += "{\"a\":\"" + std::to_string(i) + ".5\"" + rest;
  }
  EXPECT_THAT(ProposalFor(few, "y"),
              HasSubstr("# 60 numbers in quotes, such as '0.5', are texts; write them without quotes"));
  EXPECT_THAT(ProposalFor(many, "y"),
              AllOf(HasSubstr("a: {role: ignore}"), HasSubstr("60 numbers in quotes")));
}

TEST_F(InspectTest, ReasonsNameWhatIsThere) {
  std::string odd = "a,b,y\n";
  for (int i = 0; i < 30; ++i)
    odd += (i == 3 ? "x," : std::to_string(i * i) + ",") + (i == 5 ? "z," : std::to_string(i * i % 7) + ",") +
           std::to_string(i % 2) + "\n";
  EXPECT_THAT(ProposalFor(odd, "y"),
              AllOf(HasSubstr("# 1 text such as 'x': too many dead letters of 30 records"),
                    Not(HasSubstr("missing"))));
  EXPECT_THAT(MistakeIn("a,a,y\n1,2,0\n2,1,1\n3,3,0\n", "y"),
              HasSubstr("'a' (another column has the same name), 'a' (another"));
  std::string text = "año,ort,y\n";
  for (int i = 0; i < 30; ++i)
    text += std::to_string(i * i) + (i % 3 ? ",Yes," : ",yes,") + (i % 2 ? "Cádiz\n" : "Köln\n");
  EXPECT_THAT(ProposalFor(text, ""), HasSubstr("'y' ('Cádiz', 'Köln')"));
  EXPECT_THAT(ProposalFor(text, "y"), HasSubstr("# 'Yes' and 'yes' are two values"));
  EXPECT_THAT(MistakeIn(text, "ano"), HasSubstr("'año'"));
}

TEST_F(InspectTest, NestedJsonHasPathsAndMissingValuesHaveDefaults) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += "{\"customer\":";
    text += i == 50 ? "null"
                    : "{\"address\":{\"country\":\"" + std::string(i % 2 ? "ES" : "MX") +
                          "\"},\"age\":" + (i % 4 ? std::to_string(20 + i % 7) : "null") +
                          ",\"a.b\":" + std::to_string(i % 9) +
                          (i % 10 == 0 ? ",\"rare\":" + std::to_string(i % 3) : "") + ",\"tags\":[1]}";
    text += ",\"y\":" + std::to_string(i % 2) + "}\n";
  }
  const std::string proposal = ProposalFor(text, "y");
  EXPECT_THAT(proposal,
              HasSubstr("customer.address.country: {type: category, values: [ES, MX], default: \"\", "
                        "path: customer.address.country}"));
  EXPECT_THAT(proposal, HasSubstr("customer.age: {type: number, mean: "));
  EXPECT_THAT(proposal, HasSubstr("26 missing: as if they were usual"));
  EXPECT_THAT(proposal, HasSubstr("path: [customer, a.b]}"));
  EXPECT_THAT(proposal, HasSubstr("customer.rare: {role: ignore}"));
  EXPECT_THAT(proposal, HasSubstr("customer.tags: {role: ignore}"));
  EXPECT_THAT(proposal, HasSubstr("customer: {role: ignore}"));
  const Schema schema = SchemaOf(proposal);
  DecodedRows rows;
  MakeDecoder(schema)->Decode(
      BatchOf({R"({"customer":{"address":{"country":"MX"},"age":23,"a.b":4},"y":1})", R"({"y":0})"}), &rows);
  ASSERT_EQ(rows.rows, 2u) << rows.dead[0].reason;
  ASSERT_EQ(schema.features(), 4u);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(rows.features[4 + i], 0, 1e-5) << "of a record that lacks all " << i;
}

TEST_F(InspectTest, ManyValuesAreHashed) {
  std::string text = "town,y\n";
  for (int i = 0; i < 1000; ++i) text += "t" + std::to_string(i % 100) + "," + std::to_string(i % 2) + "\n";
  EXPECT_THAT(ProposalFor(text, "y"), HasSubstr("town: {type: category, buckets: 256}"));
}

TEST_F(InspectTest, NamesThatAJobCannotHaveAreLeftOut) {
  const std::string long_name(200, 'n');
  const std::string proposal = ProposalFor(",a: b,x,x," + long_name + ",y\n5,1,2,3,4,0\n6,2,3,4,5,1\n", "y");
  EXPECT_THAT(proposal, HasSubstr("\"a: b\": {type: number"));
  EXPECT_THAT(proposal, HasSubstr("# column 1, '', is left out: it has no name"));
  for (const char* column : {"3", "4"})
    EXPECT_THAT(proposal, HasSubstr("# column " + std::string(column) +
                                    ", 'x', is left out: another column has the same name"));
  EXPECT_THAT(proposal, HasSubstr("is left out: its name has more than 128 bytes"));
  EXPECT_EQ(SchemaOf(proposal).fields.size(), 2u);
  EXPECT_THROW(ProposalFor("a,y,y\n1,0,1\n2,1,0\n", "y"), std::invalid_argument);
}

// For any contents of the file the proposal is valid YAML, with comments intact.
TEST_F(InspectTest, TextsOfTheFileCannotBreakTheProposal) {
  const std::string proposal = ProposalFor(
      "{\"a\\nb: c\": 1, \"s\": \"x\\ny\", \"y\": \"p\\\"q\"}\n"
      "{\"a\\nb: c\": 2, \"s\": \"#z\", \"y\": \"no\\u0007\"}\n");
  const Schema schema = SchemaOf(proposal);
  ASSERT_EQ(schema.fields.size(), 3u);
  EXPECT_EQ(schema.fields[0].name, "a\nb: c");
  EXPECT_THAT(schema.fields[1].values, ElementsAre("#z", "x\ny"));
  EXPECT_THAT(schema.fields[2].values, ElementsAre("no\a", "p\"q"));
  EXPECT_THAT(proposal, Not(HasSubstr("\nb: c")));
}

TEST(InspectTopic, RecordsOfAllPartitions) {
  std::vector<std::string> records;
  for (int i = 0; i < 3000; ++i)
    records.push_back("{\"x\": " + std::to_string(i) + ", \"yes\": " + std::to_string(i % 2) + "}");
  records[100] = "";  // a tombstone
  records[2000] = "oops";
  const auto topic = MakeMemorySource(records, 3);
  const auto found = Inspect("topic 't'", *topic, {});
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->format, Schema::Format::kJson);
  EXPECT_EQ(found->rows, 2998u);
  EXPECT_TRUE(found->whole_file);
  EXPECT_THAT(found->first_bad, HasSubstr("topic 't' partition 2 offset 0: is not a JSON object"));
  EXPECT_EQ(found->columns.at(0).max, 2999);
  const std::string yaml =
      Propose(*found, {.path = "topic 't'", .stream = "topic: t\nlog: d", .label = "yes"});
  EXPECT_THAT(yaml, HasSubstr("from topic 't': 2,998 rows, 2 keys\n"));
  EXPECT_THAT(yaml, HasSubstr("\nstream:\n  topic: t\n  log: d\nschema:\n  format: json\n"));

  const auto some = Inspect("topic 't'", *topic, {.rows = 30});
  ASSERT_TRUE(some.ok()) << some.status().ToString();
  EXPECT_EQ(some->rows + some->bad_rows, 30u);
  EXPECT_FALSE(some->whole_file);
  EXPECT_EQ(some->columns.at(0).max, 2009) << "of the last partition, too";
}

TEST(InspectTopic, WhatIsNoJsonIsNamed) {
  const std::string prefix("\0\0\0\1\2", 5);
  EXPECT_EQ(Inspect("t", *MakeMemorySource({prefix + "{\"a\":1}"}, 1), {}).status().message(),
            "t: its records are not text: the first begins with the 5 bytes of a schema registry, 0 and the "
            "id of schema 258; its producer needs a plain JSON serializer");
  EXPECT_THAT(Inspect("t", *MakeMemorySource({"{\"a\":1},", "{\"a\":2},"}, 1), {}).status().message(),
              HasSubstr("offset 0: is not a JSON object: ',' follows it"));
  EXPECT_EQ(Inspect("t", *MakeMemorySource({"1 2", "3 4", "5 6"}, 1), {}).status().message(),
            "t: has columns divided by blanks; write them as CSV, or say --delimiter , if it has one column");
}

TEST(InspectTopic, TheFirstRecordIsNoHeader) {
  const auto topic = MakeMemorySource({"a,b", "1,2", "3,4"}, 1);
  const auto found = Inspect("t", *topic, {});
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->rows, 3u);
  EXPECT_EQ(found->columns.at(0).name, "c1");
  EXPECT_EQ(Inspect("t", *MakeMemorySource(std::vector<std::string>(), 2), {}).status().message(),
            "t: has no records");
}

}  // namespace
}  // namespace leat::stream
