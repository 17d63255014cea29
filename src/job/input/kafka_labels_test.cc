#include "job/input/kafka_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/testing.h"
#include "job/testing.h"

namespace leat::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Format = stream::Schema::Format;

// Line 5 is that of the labels.
constexpr const char* kLateJob = R"(name: late
stream:
  topic: payments
  kafka: {bootstrap.servers: "127.0.0.1:1"}
  labels: {topic: chargebacks, window_s: 3600}
schema:
  format: json
  fields:
    amount: {type: number}
    fraud: {type: number, role: label, from: labels}
model: {layers: [dense: {units: 1}], loss: sigmoid_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
)";

std::string With(const std::string& labels) {
  return Replaced(kLateJob, "window_s: 3600", "window_s: 3600, " + labels);
}

LabelTopic ReadLabelTopic(const std::string& text) {
  return *As<KafkaStream>(Parse(text).stream)->labels;
}

TEST(LabelTopic, ReadsSettings) {
  const LabelTopic usual = ReadLabelTopic(kLateJob);
  EXPECT_EQ(usual.topic, "chargebacks");
  EXPECT_EQ(usual.window_ms, 3'600'000);
  EXPECT_EQ(ReadLabelTopic(Replaced(kLateJob, "3600", "1.001")).window_ms, 1001);
  EXPECT_EQ(usual.idle, std::chrono::seconds(60));
  EXPECT_EQ(usual.records, stream::Schema::LabelRecords());
  EXPECT_EQ(usual.topic, "chargebacks");

  const std::string text =
      With("idle_s: 2.5, unjoined: negative, format: csv, delimiter: tab, columns: [id, fraud]");
  const LabelTopic full = ReadLabelTopic(text);
  EXPECT_EQ(full.idle, std::chrono::milliseconds(2500));
  EXPECT_TRUE(full.records.negative);
  EXPECT_EQ(full.records.format, Format::kCsv);
  EXPECT_EQ(full.records.delimiter, '\t');
  EXPECT_THAT(full.records.columns, ElementsAre("id", "fraud"));
  const Job job = Parse(text);
  EXPECT_EQ(job.schema.label_records, full.records);
  EXPECT_EQ(job.schema.classes(), 2u) << "as the loss says";
  EXPECT_EQ(Parse(job.config.ToYaml()).schema.hash(), job.schema.hash()) << "as roles are sent it";
}

TEST(LabelTopic, MistakesNameTheLineAndTheValue) {
  const auto with = [](const std::string& labels) { return MistakeIn(With(labels)); };
  const auto instead = [](const std::string& old, const std::string& by) {
    return MistakeIn(Replaced(kLateJob, old, by));
  };
  EXPECT_EQ(with("unjoined: skip"), "");
  EXPECT_EQ(with("window: 3"), "job.yaml:5: unknown key 'window' in labels; did you mean 'window_s'?");
  EXPECT_THAT(instead(", window_s: 3600", ""), HasSubstr("job.yaml:5: "));
  EXPECT_THAT(instead(", window_s: 3600", ""), HasSubstr("window_s"));
  EXPECT_THAT(instead("window_s: 3600", "window_s: 0"), HasSubstr("job.yaml:5: window_s is 0"));
  EXPECT_THAT(instead("window_s: 3600", "window_s: 1e8"), HasSubstr("job.yaml:5: window_s is"));
  EXPECT_THAT(with("idle_s: 0"), HasSubstr("job.yaml:5: idle_s is 0"));
  EXPECT_EQ(with("unjoined: skp"), "job.yaml:5: unknown unjoined 'skp'; did you mean 'skip'?");
  EXPECT_THAT(with("format: avro"), HasSubstr("job.yaml:5: unknown format 'avro'"));
  EXPECT_EQ(with("delimiter: \";\""), "job.yaml:5: delimiter is for the format csv");
  EXPECT_EQ(with("columns: [fraud]"), "job.yaml:5: columns are for the format csv");
  EXPECT_EQ(with("format: csv, columns: [a, a]"), "job.yaml:5: 'a' is in columns twice");
  EXPECT_EQ(with("format: csv, columns: []"), "job.yaml:5: columns must be a list of one or more");
  EXPECT_EQ(with("format: csv, columns: [frad]"),
            "job.yaml:10: field 'fraud' is not among the columns; did you mean 'frad'?");
  EXPECT_EQ(instead("topic: chargebacks", "topic: payments"),
            "job.yaml:5: labels need another topic than 'payments', which the stream uses");
  EXPECT_EQ(instead("  labels:", "  dead_letters: chargebacks\n  labels:"),
            "job.yaml:6: labels need another topic than 'chargebacks', which the stream uses");
  EXPECT_EQ(instead("topic: chargebacks", "topic: \"\""), "job.yaml:5: topic is empty");
  EXPECT_THAT(instead("  labels:", "  bots: {events: 5}\n  labels:"),
              HasSubstr("job.yaml:6: bots write labels into their events"));
  EXPECT_EQ(instead("  labels:", "  epochs: 2\n  labels:"),
            "job.yaml:5: events whose labels come later are read once; epochs must be 1");
  EXPECT_EQ(instead("name: late", "predictions: {topic: chargebacks}"),
            "job.yaml:1: predictions need another topic than 'chargebacks', which the stream uses");
  EXPECT_EQ(instead("  kafka: {bootstrap.servers: \"127.0.0.1:1\"}\n", ""),
            "job.yaml:4: 'labels' is for a Kafka topic; this stream has a topic");
}

TEST(LabelTopic, LabelsAndTheirFieldsBelongTogether) {
  EXPECT_EQ(
      MistakeIn(Replaced(kLateJob, ", from: labels", "")),
      "job.yaml:5: no field of the schema takes its labels; a label that comes later has 'from: labels'");
  EXPECT_EQ(MistakeIn(Replaced(kLateJob, "  labels: {topic: chargebacks, window_s: 3600}\n", "")),
            "job.yaml:9: 'fraud' comes from labels, and the stream has none (stream: labels:)");
  EXPECT_EQ(MistakeIn(Replaced(Replaced(kLateJob, "  labels: {topic: chargebacks, window_s: 3600}\n", ""),
                               "  kafka: {bootstrap.servers: \"127.0.0.1:1\"}\n", "")),
            "job.yaml:8: 'fraud' comes from labels, and the stream has none (stream: labels:)");
}

TEST(LabelTopic, NegativeIsOneOfTwoClasses) {
  const std::string negative = With("unjoined: negative");
  const std::string loss = "loss: sigmoid_cross_entropy", layer = "dense: {units: 1}";
  EXPECT_EQ(MistakeIn(negative), "");
  const auto model = [&](const std::string& units, const std::string& with) {
    return Replaced(Replaced(negative, layer, "dense: {units: " + units + "}"), loss, "loss: " + with);
  };
  EXPECT_EQ(MistakeIn(model("2", "softmax_cross_entropy")), "");
  EXPECT_EQ(MistakeIn(model("3", "softmax_cross_entropy")),
            "job.yaml:5: unjoined: negative is for labels of two classes; 'fraud' has 3 classes");
  EXPECT_EQ(MistakeIn(model("1", "squared_error")),
            "job.yaml:5: unjoined: negative is for labels of two classes; 'fraud' may be any number");
  EXPECT_EQ(MistakeIn(Replaced(negative, "{type: number, role", "{type: category, values: [no, yes], role")),
            "");
}

TEST(LabelTopic, AreOfTheIdentity) {
  const auto topic = [](const std::string& text) {
    for (const auto& [name, value] : Parse(text).Identity()) {
      if (name == "stream.topic") return value;
    }
    return std::string();
  };
  EXPECT_EQ(topic(kLateJob), "kafka:payments, labels of chargebacks within 3600 s");
  EXPECT_EQ(topic(Replaced(kLateJob, "3600", "0.5")), "kafka:payments, labels of chargebacks within 0.5 s");
  EXPECT_EQ(topic(With("idle_s: 5, unjoined: negative")), topic(kLateJob)) << "may change";
}

TEST(LabelTopic, EvaluationFilesHaveTheLabelInTheRecord) {
  const TempDir data;
  const std::string path = data.Write("test.csv", "amount,fraud\n5,1\n");
  const Job job = Parse(Replaced(kLateJob, "format: json", "format: csv") +
                        "evaluate: {files: {format: csv, header: true, paths: [" + path + "]}}\n");
  const stream::Schema schema = job.EvaluationSchema();
  EXPECT_FALSE(schema.has_late_labels());
  EXPECT_EQ(schema.labels(), 1u);
  EXPECT_THAT(schema.columns, ElementsAre("amount", "fraud"));
}

}  // namespace
}  // namespace leat::job
