#include "stream/inspect/peek.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

PartitionRange Range(uint32_t partition, uint64_t begin, uint64_t end) {
  return {partition, begin, end, false};
}

std::vector<PartitionRange> Plan(const std::vector<PartitionRange>& topic, const PeekOptions& options) {
  const auto plan = PlanPeek(topic, options);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return plan.ok() ? *plan : std::vector<PartitionRange>();
}

TEST(PlanPeek, TakesEvenlyFromThePartitions) {
  const std::vector<PartitionRange> topic = {Range(0, 100, 200), Range(1, 5, 6), Range(2, 7, 7),
                                             Range(3, 0, 50)};
  EXPECT_THAT(Plan(topic, {.count = 4}), ElementsAre(Range(0, 100, 102), Range(1, 5, 6), Range(3, 0, 1)));
  EXPECT_THAT(Plan(topic, {.count = 7, .latest = true}),
              ElementsAre(Range(0, 197, 200), Range(1, 5, 6), Range(3, 47, 50)));
  EXPECT_THAT(Plan(topic, {.partition = 3, .count = 9}), ElementsAre(Range(3, 0, 9)));
  EXPECT_THAT(Plan(topic, {.count = 1000}), ElementsAre(Range(0, 100, 200), Range(1, 5, 6), Range(3, 0, 50)));
  EXPECT_THAT(Plan(topic, {.count = 0}), ElementsAre());
  EXPECT_THAT(Plan({Range(0, 0, 0)}, {}), ElementsAre());
}

TEST(PlanPeek, FromAnOffset) {
  const std::vector<PartitionRange> topic = {Range(0, 10, 100), Range(1, 0, 50)};
  EXPECT_THAT(Plan(topic, {.count = 4, .offset = 60}), ElementsAre(Range(0, 60, 64)));
  EXPECT_THAT(Plan(topic, {.count = 4, .offset = 2}), ElementsAre(Range(0, 10, 12), Range(1, 2, 4)));
  EXPECT_THAT(Plan(topic, {.partition = 1, .count = 4, .offset = 48}), ElementsAre(Range(1, 48, 50)));
  EXPECT_EQ(PlanPeek(topic, {.offset = 100}).status().message(),
            "there is no offset 100: partition 0 has [10, 100), partition 1 has [0, 50)");
  EXPECT_EQ(PlanPeek(topic, {.partition = 1, .offset = 60}).status().message(),
            "there is no offset 60: partition 1 has [0, 50)");
  EXPECT_EQ(PlanPeek(topic, {.partition = 2}).status().message(), "there is no partition 2; there are 2");
}

std::string Shown(const std::string& record, size_t width) {
  return ShownRecord(AsBytes(record), width);
}

TEST(ShownRecord, TextOrHexadecimalDigits) {
  EXPECT_EQ(Shown("abc", 3), "abc");
  EXPECT_EQ(Shown("abcd", 3), "ab…");
  EXPECT_EQ(Shown("", 3), "");
  EXPECT_EQ(Shown("añoñoñ", 5), "añoñ…") << "characters, not bytes";
  EXPECT_EQ(Shown("añoño", 5), "añoño");
  EXPECT_EQ(Shown("\x1b[2J\n\x7f", 40), "\\x1b[2J\\x0a\\x7f");
  EXPECT_EQ(Shown("a\xc2\x9b"
                  "b",
                  40),
            "a\\x9bb")
      << "a control character of terminals";
  EXPECT_EQ(Shown("\\x1b", 40), "\\x1b");
  EXPECT_EQ(Shown("ab\x1b", 5), "ab…") << "no part of an escape";
  EXPECT_EQ(Shown(std::string("\0\xff\x10", 3), 40), "0x00ff10");
  EXPECT_EQ(Shown(std::string(1'000'000, '\xff'), 10), "0xfffffff…");
  std::string long_text;
  for (int i = 0; i < 1000; ++i) long_text += "\u20ac";
  EXPECT_EQ(Shown(long_text, 3), "\u20ac\u20ac…");
}

TEST(ShownTime, InRfc3339) {
  EXPECT_EQ(ShownTime(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(ShownTime(1'769'860'800'250), "2026-01-31T12:00:00.250Z");
  EXPECT_EQ(ShownTime(-1), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(ShownTime(253'402'300'800'000), "253402300800000");
  EXPECT_EQ(ShownTime(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
}

constexpr const char* kPeekSchema = R"(
format: json
fields:
  amount: {type: number, mean: 1, std: 2}
  hour: {type: number, period: 24}
  country: {type: category, values: [ES, MX]}
  card: {type: category, buckets: 1}
  items: {type: id, below: 50, length: 3, pad: 9}
  churned: {type: category, values: [no, yes], role: label}
  p: {type: number, role: truth}
  note: {role: ignore}
)";

std::vector<std::string> Records() {
  return {
      R"({"amount": 2, "hour": 6, "country": "MX", "card": "x", "items": [4, 5], "churned": "yes", "p": 0.5})",
      R"({"amount": "many"})",
      R"({"amount": 0, "hour": 0, "country": "US", "card": "x", "items": [], "churned": "no", "p": 0.25})"};
}

class RecordPrinterTest : public ::testing::Test {
 protected:
  static std::string Print(const RecordBatch& batch, bool schema, const RecordPrinter::Options& options) {
    const Schema made = Schema::FromConfig(Config::Parse(kPeekSchema, "job.yaml"));
    RecordPrinter printer(schema ? &made : nullptr, options);
    std::string out;
    printer.Print(batch, &out);
    return out;
  }
};

TEST_F(RecordPrinterTest, ATableWithoutASchema) {
  RecordBatch batch = BatchOf({"first", "", "third"}, 99'999'999);
  batch.partition = 12;
  batch.absent = {{1, 2}};
  EXPECT_EQ(Print(batch, false, {.width = 60, .last_offset = 200'000'000}),
            "partition     offset  record\n"
            "       12   99999999  first\n"
            "       12  100000001  third\n");
}

// With the keys and times of a topic of Kafka.
RecordBatch Keyed(const std::vector<std::string>& records, const std::vector<const char*>& keys) {
  RecordBatch batch = BatchOf(records, 7);
  batch.wanted = RecordPrinter(nullptr, {}).wanted();
  batch.attributes.resize(batch.wanted.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const int64_t ms = 1'769'860'800'250 + static_cast<int64_t>(i);
    for (size_t a = 0; a < batch.wanted.size(); ++a) {
      if (batch.wanted[a].kind == Attribute::Kind::kTimestamp) {
        batch.attributes[a].Append(ByteView(reinterpret_cast<const std::byte*>(&ms), sizeof(ms)));
      } else {
        batch.attributes[a].Append(keys[i] != nullptr ? std::optional(AsBytes(keys[i])) : std::nullopt);
      }
    }
  }
  return batch;
}

TEST_F(RecordPrinterTest, KeysAndTimesHaveColumns) {
  const RecordBatch batch =
      Keyed({"first", "a record that is too long", "third"}, {"k1", nullptr, "a key of 17 bytes\x1b"});
  EXPECT_EQ(Print(batch, false, {.width = 80}),
            "partition  offset  key           time                      record\n"
            "        0       7  k1            2026-01-31T12:00:00.250Z  first\n"
            "        0       8                2026-01-31T12:00:00.251Z  a record that is too…\n"
            "        0       9  a key of 17…  2026-01-31T12:00:00.252Z  third\n");
  const std::string shown = Print(batch, true, {.width = 80});
  EXPECT_THAT(shown,
              HasSubstr("partition 0  offset 7  key k1  2026-01-31T12:00:00.250Z  5 bytes\n  first\n"));
  EXPECT_THAT(shown, HasSubstr("partition 0  offset 8  2026-01-31T12:00:00.251Z  25 bytes\n"));
  std::stringstream lines(Print(batch, false, {.json = true}));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(Json::parse(line), Json({{"partition", 0},
                                     {"offset", 7},
                                     {"key", "k1"},
                                     {"time", "2026-01-31T12:00:00.250Z"},
                                     {"record", "first"}}));
  std::getline(lines, line);
  EXPECT_FALSE(Json::parse(line).contains("key"));
  std::stringstream binary(Print(Keyed({"x"}, {"\xff"}), false, {.json = true}));
  std::getline(binary, line);
  EXPECT_EQ(Json::parse(line)["key_hex"], "ff");
}

TEST_F(RecordPrinterTest, LabelsThatComeLaterAreNamed) {
  const Schema schema =
      Schema::FromConfig(Config::Parse("format: json\nfields:\n  x: {type: number, from: key}\n"
                                       "  y: {type: number, role: label, from: labels}\n",
                                       "job.yaml"));
  RecordPrinter printer(&schema, {.width = 80});
  EXPECT_THAT(printer.wanted(),
              ElementsAre(Attribute{Attribute::Kind::kKey, ""}, Attribute{Attribute::Kind::kTimestamp, ""}));
  std::string out;
  printer.Print(Keyed({"{}"}, {"5"}), &out);
  EXPECT_EQ(out,
            "partition 0  offset 7  key 5  2026-01-31T12:00:00.250Z  2 bytes\n"
            "  {}\n"
            "    x 5\n"
            "  label y comes later\n");
}

TEST_F(RecordPrinterTest, WhatASchemaMakesOfThem) {
  EXPECT_EQ(
      Print(BatchOf(Records(), 7), true, {.width = 80}),
      "partition 0  offset 7  99 bytes\n"
      "  {\"amount\": 2, \"hour\": 6, \"country\": \"MX\", \"card\": \"x\", \"items\": [4, 5], \"chur…\n"
      "    amount   0.5           hour.sin 1             hour.cos -4.3711e-08\n"
      "    country  MX            card     bucket 0      items    4 5 9\n"
      "  label churned 1 (yes)\n"
      "  truth p 0.5\n"
      "\n"
      "partition 0  offset 8  18 bytes\n"
      "  {\"amount\": \"many\"}\n"
      "  dead letter: amount: 'many' is not a number\n"
      "\n"
      "partition 0  offset 9  95 bytes\n"
      "  {\"amount\": 0, \"hour\": 0, \"country\": \"US\", \"card\": \"x\", \"items\": [], \"churned\"…\n"
      "    amount   -0.5          hour.sin 0             hour.cos 1\n"
      "    country  (no value)    card     bucket 0      items    9 9 9\n"
      "  label churned 0 (no)\n"
      "  truth p 0.25\n");
}

TEST_F(RecordPrinterTest, ObjectsForPrograms) {
  std::vector<std::string> records = Records();
  records.emplace_back("\xff\x01");
  std::stringstream lines(Print(BatchOf(records, 7), true, {.json = true}));
  std::vector<Json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(Json::parse(line));
  ASSERT_EQ(objects.size(), 4u);
  EXPECT_EQ(objects[0]["offset"], 7);
  EXPECT_EQ(objects[0]["partition"], 0);
  EXPECT_EQ(objects[0]["record"], records[0]);
  EXPECT_EQ(objects[0]["features"]["amount"], 0.5);
  EXPECT_EQ(objects[0]["features"]["hour.sin"], 1);
  EXPECT_EQ(objects[0]["features"]["country"], "MX");
  EXPECT_EQ(objects[0]["features"]["items"], Json({4, 5, 9}));
  EXPECT_EQ(objects[0]["labels"]["churned"], 1);
  EXPECT_EQ(objects[0]["truth"]["p"], 0.5);
  EXPECT_EQ(objects[1]["dead_letter"], "amount: 'many' is not a number");
  EXPECT_FALSE(objects[1].contains("features"));
  EXPECT_TRUE(objects[2]["features"]["country"].is_null());
  EXPECT_EQ(objects[3]["record_hex"], "ff01");
  EXPECT_FALSE(objects[3].contains("record"));
}

TEST_F(RecordPrinterTest, ManyFeaturesOfAField) {
  const Schema schema =
      Schema::FromConfig(Config::Parse("format: idx\nfields: {image: {type: bytes, width: 100, mean: 0, std: "
                                       "2}, digit: {type: number, role: label}}",
                                       "job.yaml"));
  RecordPrinter printer(&schema, {.width = 40});
  std::string record(101, '\4');
  record[50] = '\6';
  std::string out;
  printer.Print(BatchOf({record}), &out);
  EXPECT_THAT(out, HasSubstr("\n    image 100 numbers from 2 to 3\n  label digit 4\n"));
}

}  // namespace
}  // namespace leat::stream
