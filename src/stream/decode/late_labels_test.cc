#include "stream/decode/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/testing.h"
#include "stream/schema.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = Attribute::Kind;
using Labels = std::vector<std::optional<std::string>>;

constexpr const char* kFields = R"(
fields:
  amount: {type: number}
  fraud:  {type: number, classes: 2, role: label, from: labels}
  hour:   {type: number, from: timestamp}
  seen:   {type: number, classes: 2, role: label}
  paid:   {type: category, values: [no, yes], role: label, from: labels}
)";

Schema MakeLate(const std::string& yaml, const Schema::LabelRecords& records = {}) {
  Schema schema = Schema::FromConfig(Config::Parse(yaml, "job.yaml"));
  schema.label_records = records;
  return schema;
}

std::string MistakeIn(const std::string& field, const std::string& format = "json") {
  const std::string x = format == "tensor" ? "{type: number, dtype: f32}" : "{type: number}";
  return Mistake([&] {
    MakeLate("format: " + format + "\nfields:\n  x: " + x + "\n  y: {" + field + "}\n").LateLabels();
  });
}

// Events, and the record of each one's label, whose offset is 1000 more than the event's place.
RecordBatch Joined(const Schema& schema, const std::vector<std::string>& events, const Labels& labels) {
  RecordBatch batch = BatchOf(events, 100);
  batch.wanted = schema.attributes();
  batch.attributes.resize(batch.wanted.size());
  for (size_t i = 0; i < events.size(); ++i) {
    for (size_t a = 0; a < batch.wanted.size(); ++a) {
      const bool label = batch.wanted[a].kind == Kind::kLabel;
      const uint64_t number = label ? 1000 + i : 1000;
      std::string value(reinterpret_cast<const char*>(&number), sizeof(number));
      if (label && labels[i]) value += *labels[i];
      batch.attributes[a].Append(label && !labels[i] ? std::nullopt : std::optional(AsBytes(value)));
    }
  }
  return batch;
}

std::vector<std::string> Dead(const DecodedRows& rows) {
  std::vector<std::string> dead;
  for (const auto& letter : rows.dead) dead.push_back(std::to_string(letter.offset) + " " + letter.reason);
  return dead;
}

TEST(LateLabels, AreReadFromTheirOwnRecords) {
  for (const bool json : {true, false}) {
    const Schema schema =
        MakeLate(std::string("format: json") + kFields,
                 json ? Schema::LabelRecords()
                      : Schema::LabelRecords{Schema::Format::kCsv, ';', {"x", "paid", "fraud"}});
    EXPECT_THAT(schema.attributes(),
                ElementsAre(Attribute{Kind::kLabel, ""}, Attribute{Kind::kTimestamp, ""}));
    EXPECT_EQ(schema.labels(), 3u);
    const std::string event = R"({"amount": 7, "seen": 1})";
    const auto label = [json](const std::string& fraud, const std::string& paid) {
      return json ? "{\"fraud\": " + fraud + ", \"x\": 0, \"paid\": \"" + paid + "\"}"
                  : "0;" + paid + ";" + fraud;
    };
    const auto batch =
        Joined(schema, {event, event, "{}", event, event, event},
               {label("1", "no"), std::nullopt, label("1", "no"), label("2", "no"), label("0", "yes"), "?"});
    DecodedRows rows;
    const auto decoder = MakeDecoder(schema);
    decoder->Decode(batch, &rows);
    decoder->Decode(batch, &rows);
    EXPECT_THAT(rows.index, ElementsAre(0, 4, 0, 4));
    EXPECT_THAT(rows.features, ElementsAre(7, 1, 7, 1, 7, 1, 7, 1));
    EXPECT_THAT(rows.labels, ElementsAre(1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1));
    EXPECT_EQ(rows.unjoined, 2u);
    const auto dead = Dead(rows);
    ASSERT_EQ(dead.size(), 6u);
    EXPECT_EQ(dead[0], "102 amount: is missing");
    EXPECT_EQ(dead[1], "103 label at offset 1003: fraud: 2 is not a whole number from 0 to 1");
    EXPECT_THAT(dead[2], HasSubstr("105 label at offset 1005: "));
    EXPECT_EQ(rows.dead[1].record, event);
    EXPECT_EQ(dead[3], dead[0]);
    rows.clear();
    EXPECT_EQ(rows.unjoined, 0u);
  }
}

TEST(LateLabels, AnEventWithoutALabelCanBeNegative) {
  const Schema schema = MakeLate(std::string("format: csv") + kFields, {.negative = true});
  const auto batch = Joined(schema, {"5,1", "6,0", "?,0", "7,1"},
                            {std::nullopt, R"({"fraud": 1, "paid": "yes"})", std::nullopt, std::nullopt});
  DecodedRows rows;
  MakeDecoder(schema)->Decode(batch, &rows);
  EXPECT_THAT(rows.index, ElementsAre(0, 1, 3));
  EXPECT_THAT(rows.labels, ElementsAre(0, 1, 0, 1, 0, 1, 0, 1, 0));
  EXPECT_EQ(rows.unjoined, 2u);
  EXPECT_EQ(rows.dead.size(), 1u);
}

TEST(LateLabels, EventsThatDoNotExistHaveNone) {
  const Schema schema = MakeLate(std::string("format: json") + kFields);
  auto batch =
      Joined(schema, {"", R"({"amount": 1, "seen": 0})", ""}, {std::nullopt, std::nullopt, std::nullopt});
  batch.absent = {{0, 1}, {2, 3}};
  DecodedRows rows;
  MakeDecoder(schema)->Decode(batch, &rows);
  EXPECT_EQ(rows.rows, 0u);
  EXPECT_THAT(rows.labels, IsEmpty());
  EXPECT_THAT(rows.dead, IsEmpty());
  EXPECT_EQ(rows.unjoined, 1u);
}

// As a peer might send it.
TEST(LateLabels, AValueThatIsTooShortIsADeadLetter) {
  const Schema schema =
      MakeLate("format: csv\nfields: {x: {type: number}, y: {type: number, role: label, from: labels}}");
  RecordBatch batch = BatchOf({"1", "2", "3"});
  batch.wanted = schema.attributes();
  batch.attributes.resize(1);
  for (const std::string& value :
       {std::string("short"), std::string(), std::string("\0\0\0\0\0\0\0\0{\"y\":5}", 15)})
    batch.attributes[0].Append(AsBytes(value));
  DecodedRows rows;
  MakeDecoder(schema)->Decode(batch, &rows);
  EXPECT_THAT(Dead(rows), ElementsAre("0 a label without its offset", "1 a label without its offset"));
  EXPECT_THAT(rows.index, ElementsAre(2));
  EXPECT_THAT(rows.labels, ElementsAre(5));
}

TEST(LateLabels, MayBeNestedOrMissing) {
  const Schema schema = MakeLate(
      "format: csv\nfields: {x: {type: number}, y: {type: number, role: label, from: labels, path: "
      "case.result, "
      "default: 3}}");
  const auto batch = Joined(schema, {"1", "2", "4"}, {R"({"case": {"result": 5}})", "{}", "?"});
  DecodedRows rows;
  MakeDecoder(schema)->Decode(batch, &rows);
  EXPECT_THAT(rows.features, ElementsAre(1, 2));
  EXPECT_THAT(rows.labels, ElementsAre(5, 3));
}

TEST(LateLabels, MistakesNameTheLineAndTheField) {
  EXPECT_EQ(MistakeIn("type: number, role: label, from: labels"), "");
  EXPECT_EQ(MistakeIn("type: number, role: label, from: labels, path: a.b", "tensor"), "");
  EXPECT_EQ(MistakeIn("type: number, from: labels"),
            "job.yaml:4: 'y' is no label, and only labels may come later (role: label)");
  EXPECT_EQ(MistakeIn("role: ignore, from: labels"),
            "job.yaml:4: 'y' is no label, and only labels may come later (role: label)");
  EXPECT_EQ(MistakeIn("type: number, role: label, from: labels, dtype: f32", "tensor"),
            "job.yaml:4: 'y' is not in the record's bytes: it has no dtype");
  EXPECT_THAT(MistakeIn("type: number, role: label, from: labesl"), HasSubstr("did you mean 'labels'?"));
  const std::string fields = "format: json\nfields:\n  x: {type: number}\n";
  const std::string label = "  y: {type: number, role: label, from: labels, path: a}\n";
  EXPECT_EQ(Mistake([&] {
              MakeLate(fields + label + "  z: {type: number, role: label, from: labels, path: a}\n");
            }),
            "job.yaml:5: 'z' has the path a, as 'y' has");
  EXPECT_EQ(Mistake([&] { MakeLate(fields + label, {.format = Schema::Format::kCsv}).LateLabels(); }),
            "job.yaml:4: 'y' has a path, and the labels are csv: it is the column with its name");
  const std::string fraud = "  fraud: {type: number, role: label, from: labels}\n";
  const Schema::LabelRecords columns{.format = Schema::Format::kCsv, .columns = {"key", "frud"}};
  EXPECT_EQ(Mistake([&] { MakeLate(fields + fraud, columns).LateLabels(); }),
            "job.yaml:4: field 'fraud' is not among the columns; did you mean 'frud'?");
  Schema none = MakeLate(fields + label);
  none.label_records.reset();
  EXPECT_EQ(Mistake([&] { (void)MakeDecoder(none); }),
            "job.yaml:4: 'y' comes from labels, and the stream has none (stream: labels:)");
}

TEST(LateLabels, TheSameSchemaWithoutThem) {
  const Schema schema = MakeLate(std::string("format: json") + kFields);
  const Schema without = schema.WithoutLateLabels();
  EXPECT_EQ(without.labels(), 1u);
  EXPECT_FALSE(without.has_late_labels());
  EXPECT_THAT(without.attributes(), ElementsAre(Attribute{Kind::kTimestamp, ""}));
  const Schema inside = schema.WithLabelsInRecord();
  EXPECT_EQ(inside.labels(), 3u);
  EXPECT_FALSE(inside.has_late_labels());
  const Schema nested = MakeLate(
      "format: json\nfields: {x: {type: number}, y: {type: number, role: label, from: labels, path: a.b}}");
  EXPECT_EQ(nested.WithLabelsInRecord().fields[1].path_text(), "y") << "the path is that in a label's record";
  std::set<uint64_t> hashes = {schema.hash(), without.hash(), inside.hash()};
  const std::string text = std::string("format: json") + kFields;
  hashes.insert(MakeLate(text, {.negative = true}).hash());
  hashes.insert(MakeLate(text, {.format = Schema::Format::kCsv}).hash());
  hashes.insert(MakeLate(text, {.delimiter = ';'}).hash());
  hashes.insert(MakeLate(text, {.columns = {"a"}}).hash());
  EXPECT_EQ(hashes.size(), 7u) << "a record may become other numbers";
}

}  // namespace
}  // namespace leat::stream
