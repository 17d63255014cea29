#include "serve/event_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "job/testing.h"
#include "serve/testing.h"

namespace leat::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kWidth;

constexpr const char* kReadEvent = R"({"amount": 5, "hour": 6, "country": "MX", "shop": 3})";
constexpr const char* kJson = "application/json";

class EventReaderTest : public ::testing::Test {
 protected:
  EventReader::Events& Read(const std::string& type, const std::string& body) {
    auto read = reader.Read(type, body);
    EXPECT_TRUE(read.ok()) << read.status().ToString();
    return **read;
  }
  std::string Refusal(const std::string& type, const std::string& body) {
    const auto read = reader.Read(type, body);
    return read.ok() ? "" : read.status().message();
  }
  const job::Job job = testing::Payments();
  EventReader reader{job, 3};
};

TEST_F(EventReaderTest, OneEvent) {
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "", "text/plain",
                           "application/x-www-form-urlencoded"}) {
    const auto& events = Read(type, kReadEvent);
    EXPECT_TRUE(events.single) << type;
    EXPECT_EQ(events.count, 1u);
    ASSERT_EQ(events.rows.rows, 1u);
    EXPECT_THAT(events.rows.features,
                ElementsAre(1, ::testing::FloatEq(1), ::testing::FloatNear(0, 1e-6), 0, 1, 0, 3));
  }
}

// Also a wrong label: what the event turns out to be is not known, and does not matter.
TEST_F(EventReaderTest, LabelsAreIgnored) {
  const std::string with = std::string(kReadEvent).substr(0, std::string(kReadEvent).size() - 1);
  const auto& events = Read(kJson, with + R"(, "fraud": "?", "p_fraud": null})");
  EXPECT_EQ(events.rows.rows, 1u);
  EXPECT_TRUE(events.rows.dead.empty());
}

// Clients do not spell numbers and booleans as the files that a job was trained on.
TEST(EventReader, JsonValuesAreTheCategoriesOfCsv) {
  const job::Job csv = job::Parse(
      "stream: {files: {format: csv, paths: [a.csv]}}\n"
      "schema: {format: csv, decimal: \",\", delimiter: \";\", columns: [k, b, h, y], fields: {k: {type: "
      "category, values: [\"1,0\", "
      "\"1,3\"]}, b: {type: category, values: [\"True\", \"False\"]}, h: {type: category, buckets: 99}, "
      "y: {type: number, role: label}}}\n"
      "model: {layers: [dense: {units: 1}], loss: squared_error}\noptimizer: {type: sgd, learning_rate: "
      "0.1}\n");
  EventReader events(csv, 3);
  const auto features = [&](const char* type, const std::string& body) {
    auto read = events.Read(type, body);
    EXPECT_TRUE(read.ok() && (*read)->rows.dead.empty()) << body;
    return (*read)->rows.features;
  };
  const auto trained = features("text/csv", "1,0;True;2,50;0");
  EXPECT_THAT(std::vector(trained.begin(), trained.begin() + 4), ElementsAre(1, 0, 1, 0));
  EXPECT_EQ(features(kJson, R"({"k":1,"b":true,"h":2.5})"), trained);
  EXPECT_EQ(features(kJson, R"({"k":1.0,"b":"TRUE","h":"2,5"})"), trained);
}

TEST_F(EventReaderTest, EachEventOfAListIsJudgedAlone) {
  const std::string bad = R"({"amount": "abc", "hour": 6, "country": "MX", "shop": 3})";
  for (const auto& [type, body] :
       {std::pair<std::string, std::string>{
            kJson, std::string("[") + kReadEvent + "," + bad + ", " + kReadEvent + "]"},
        {"application/x-ndjson", std::string(kReadEvent) + "\n\n" + bad + "\r\n" + kReadEvent + "\n"}}) {
    const auto& events = Read(type, body);
    EXPECT_FALSE(events.single);
    EXPECT_EQ(events.count, 3u);
    EXPECT_EQ(events.rows.rows, 2u);
    EXPECT_THAT(events.rows.index, ElementsAre(0, 2));
    ASSERT_EQ(events.rows.dead.size(), 1u);
    EXPECT_EQ(events.rows.dead[0].offset, 1u);
    EXPECT_THAT(events.rows.dead[0].reason, HasSubstr("amount"));
  }
}

TEST_F(EventReaderTest, ElementsThatAreNoObjectsAreJudgedAlone) {
  const std::string event = kReadEvent;
  EventReader many(job, 20);
  const std::vector<std::string> others = {
      "5",  "-1.5e3",          "99999999999999999999", "null", "true", "\"a, ]\"", "[]",
      "{}", "[" + event + "]", "[[1], {\"a\": [2]}]"};
  std::string array = "[", lines;
  for (const std::string& other : others) {
    array += (array.size() > 1 ? " , " : "") + other;
    lines += other + "\n";
  }
  const auto reasons = [](const EventReader::Events& events) {
    std::vector<std::string> all;
    for (const auto& dead : events.rows.dead) all.push_back(std::to_string(dead.offset) + " " + dead.reason);
    return all;
  };
  const auto as_lines = many.Read("application/x-ndjson", lines + event + "\n" + event);
  ASSERT_TRUE(as_lines.ok());
  const auto expected = reasons(**as_lines);
  ASSERT_EQ(expected.size(), others.size());
  const auto as_array = many.Read(kJson, array + ", " + event + ", " + event + "\n]");
  ASSERT_TRUE(as_array.ok()) << as_array.status().ToString();
  EXPECT_FALSE((*as_array)->single);
  EXPECT_EQ((*as_array)->count, others.size() + 2);
  EXPECT_THAT((*as_array)->rows.index, ElementsAre(others.size(), others.size() + 1));
  EXPECT_EQ(reasons(**as_array), expected);
  EXPECT_EQ(Read(kJson, "[1]").rows.dead.size(), 1u);
  EXPECT_EQ(Refusal(kJson, "[1, 2, 3, 4]"), "more than 3 events in a request");
  for (const char* before : {"[[1], [2]]", "[[1], [2],3]"}) {
    EXPECT_TRUE(reader.Read(kJson, before).ok());
    EXPECT_THAT(Refusal(kJson, "[[1], [2]"), HasSubstr("not JSON")) << "after " << before;
  }
}

TEST_F(EventReaderTest, TheReaderIsUsedAgain) {
  Read(kJson, std::string("[") + kReadEvent + "," + kReadEvent + "]");
  const auto& events = Read(kJson, kReadEvent);
  EXPECT_EQ(events.count, 1u);
  EXPECT_EQ(events.rows.rows, 1u);
  EXPECT_EQ(events.rows.features.size(), kWidth);
}

TEST_F(EventReaderTest, WhatIsNoListOfEvents) {
  const std::string event = kReadEvent;
  EXPECT_EQ(Refusal(kJson, ""), "no event in the body");
  EXPECT_EQ(Refusal(kJson, " \n"), "no event in the body");
  EXPECT_EQ(Refusal(kJson, "[]"), "no event in the body");
  EXPECT_EQ(Refusal("application/x-ndjson", "\n\n"), "no event in the body");
  for (const char* wrong :
       {"nope", "1x", "01", "-", "\"\x01\"", "[nope]", "[1}", "[[]", "x", "", "\"a\" \"b\"", "nul"}) {
    EXPECT_THAT(Refusal(kJson, "[" + event + ", " + wrong + "]"), HasSubstr("not JSON")) << wrong;
    EXPECT_THAT(Refusal(kJson, std::string("[") + wrong + ", " + event + "]"), HasSubstr("not JSON"))
        << wrong;
  }
  EXPECT_THAT(Refusal(kJson, "[" + event), HasSubstr("not JSON"));
  EXPECT_THAT(Refusal(kJson, "[" + event + "] [" + event + "]"), HasSubstr("not JSON"));
  EXPECT_EQ(Refusal(kJson, "[" + event + "," + event + "," + event + "," + event + "]"),
            "more than 3 events in a request");
  EXPECT_EQ(Refusal("application/x-ndjson", event + "\n" + event + "\n" + event + "\n" + event),
            "more than 3 events in a request");
  EXPECT_EQ(Refusal("text/csv", "1,2"), "the job's events are not csv");
}

TEST_F(EventReaderTest, AByteOrderMarkIsNoPartOfTheText) {
  const std::string mark = "\xEF\xBB\xBF", event = kReadEvent;
  EXPECT_EQ(Read(kJson, mark + event).rows.rows, 1u);
  EXPECT_EQ(Read("", mark + " " + event).rows.rows, 1u);
  EXPECT_EQ(Read(kJson, mark + "[" + event + "," + event + "]").rows.rows, 2u);
  EXPECT_EQ(Read("application/x-ndjson", mark + event + "\n" + event).rows.rows, 2u);
  EXPECT_EQ(Refusal(kJson, mark), "no event in the body");
  for (const char* utf16 : {"\xFF\xFE{\0", "\xFE\xFF\0{"}) {
    for (const char* type : {kJson, "application/x-ndjson"})
      EXPECT_EQ(Refusal(type, std::string(utf16, 4)), "the body is in UTF-16; send UTF-8");
  }
}

TEST_F(EventReaderTest, DeepNestingIsRefused) {
  for (const std::string open : {"[", "{\"a\":", "{\"amount\":["}) {
    std::string body;
    for (int i = 0; i < 200'000; ++i) body += open;
    for (const std::string& all : {body, "[" + body, "[" + std::string(kReadEvent) + "," + body}) {
      const auto read = reader.Read(kJson, all);
      EXPECT_TRUE(!read.ok() || (*read)->rows.rows == 0) << open;
    }
  }
}

TEST_F(EventReaderTest, ASingleEventThatDoesNotFit) {
  for (const char* body : {"{", "{}", "1", "null", "nonsense", "\x80\xff", R"({"amount": 1e999})"}) {
    const auto& events = Read(kJson, body);
    EXPECT_EQ(events.rows.rows, 0u) << body;
    EXPECT_EQ(events.rows.dead.size(), 1u) << body;
  }
}

TEST_F(EventReaderTest, Features) {
  std::vector<float> rows(2 * kWidth);
  EXPECT_TRUE(reader.CheckFeatures(rows).ok());
  rows[kWidth + 2] = NAN;
  EXPECT_EQ(reader.CheckFeatures(rows).message(), "row 1, feature 2 is not finite");
  rows[kWidth + 2] = 0;
  for (const float id : {-1.0f, 10.0f, 2.5f, 1e30f}) {
    rows[kWidth + 6] = id;
    EXPECT_THAT(reader.CheckFeatures(rows).message(),
                ::testing::AllOf(HasSubstr("row 1: shop: "), HasSubstr("is not a whole number from 0 to 9")));
  }
  rows[kWidth + 6] = 9;
  EXPECT_TRUE(reader.CheckFeatures(rows).ok());
}

TEST(EventReaderCsvTest, LinesAndObjects) {
  job::Job job = job::Parse(R"(
stream: {topic: t, bots: {events: 1}}
schema:
  format: csv
  fields: {x: {type: number}, y: {type: number, role: label}, z: {type: category, values: [a, b]}}
model: {layers: [dense: {units: 1}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 0.1}
)");
  EventReader reader(job, 100);
  // As in the stream, with the label's column, which may be empty.
  auto lines = reader.Read("text/csv", "1,5,a\n2,,b\nx,1,a\n");
  ASSERT_TRUE(lines.ok());
  EXPECT_EQ((*lines)->count, 3u);
  EXPECT_THAT((*lines)->rows.features, ElementsAre(1, 1, 0, 2, 0, 1));
  EXPECT_EQ((*lines)->rows.dead.size(), 1u);
  lines = reader.Read("text/csv", "1,5,\"a\n\"\r\n\r\n2,,\"b\"\n");
  ASSERT_TRUE(lines.ok());
  EXPECT_EQ((*lines)->count, 2u) << "a record may have several lines";
  EXPECT_THAT((*lines)->rows.features, ElementsAre(1, 0, 0, 2, 0, 1));
  auto objects = reader.Read(kJson, R"([{"x": 3, "z": "b"}])");
  ASSERT_TRUE(objects.ok());
  EXPECT_THAT((*objects)->rows.features, ElementsAre(3, 0, 1));
}

TEST(EventReaderTextTest, OneRecord) {
  const job::Job job = job::Parse(job::kTextJob);
  EventReader reader(job, 100);
  EXPECT_THAT(reader.Read(kJson, "{}").status().message(), HasSubstr("application/octet-stream"));
  const auto read = reader.Read("", "abcdabc");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE((*read)->single);
  EXPECT_THAT((*read)->rows.features, ElementsAre(0, 1, 2, 3, 0, 1));
}

TEST(EventReaderKeysTest, KeysAndHeadersAreFields) {
  const job::Job job = job::Parse(R"(
stream: {kafka: {bootstrap.servers: "localhost:9092"}, topic: t}
schema:
  format: json
  fields:
    x: {type: number, path: a.b}
    card: {type: category, values: [k, l], from: key}
    shop: {type: id, below: 50, from: {header: shop}}
    y: {type: number, role: label}
model: {layers: [dense: {units: 1}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 0.1}
)");
  EventReader reader(job, 100);
  const auto read = reader.Read(kJson, R"({"a": {"b": 2}, "card": "l", "shop": 7})");
  ASSERT_TRUE(read.ok());
  ASSERT_TRUE((*read)->rows.dead.empty()) << (*read)->rows.dead[0].reason;
  EXPECT_THAT((*read)->rows.features, ElementsAre(2, 0, 1, 7));
}

}  // namespace
}  // namespace leat::serve
