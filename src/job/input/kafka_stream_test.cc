#include "job/input/kafka_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/testing.h"
#include "job/testing.h"

namespace leat::job {
namespace {

using ::testing::HasSubstr;

constexpr const char* kStream = R"(topic: payments
kafka: {bootstrap.servers: "127.0.0.1:1", client.id: leat}
)";

AnyStream ReadKafka(const std::string& text) {
  return StreamFromConfig(Config::Parse(text, "job.yaml"), {});
}

std::string MistakeOf(const std::string& text) {
  return Mistake([&] { ReadKafka(text); });
}

TEST(KafkaStream, ReadsSettings) {
  const AnyStream stream = ReadKafka(std::string(kStream) + "start: latest\nlive: true\n");
  const auto* kafka = As<KafkaStream>(stream);
  ASSERT_NE(kafka, nullptr);
  EXPECT_EQ(stream->Describe(), "Kafka topic 'payments'");
  EXPECT_EQ(kafka->options.topic, "payments");
  EXPECT_EQ(kafka->options.settings.at("bootstrap.servers"), "127.0.0.1:1");
  EXPECT_EQ(kafka->options.settings.at("client.id"), "leat");
  EXPECT_EQ(kafka->start, "latest");
  EXPECT_TRUE(kafka->live);
  EXPECT_EQ(stream->bots(), nullptr);
  EXPECT_EQ(ReadKafka(std::string(kStream) + "bots: {events: 7}\n")->bots()->events, 7u);
}

TEST(KafkaStream, MistakesNameTheLineAndTheValue) {
  const auto with = [](const std::string& line) { return MistakeOf(kStream + line); };
  const auto set = [](const std::string& setting) {
    return MistakeOf("topic: payments\nkafka:\n  bootstrap.servers: a:1\n  " + setting + "\n");
  };
  EXPECT_EQ(with("live: true"), "");
  EXPECT_EQ(with("start: noon"),
            "job.yaml:3: start is 'noon'; it is earliest, latest, or a time such as 2026-01-31T12:00:00Z");
  EXPECT_EQ(with("retention_mb: 5"),
            "job.yaml:3: 'retention_mb' is for a topic; this stream has a Kafka topic");
  EXPECT_EQ(MistakeOf("topic: t\nstart: latest"),
            "job.yaml:2: 'start' is for a Kafka topic; this stream has a topic");
  EXPECT_EQ(with("files: {format: csv, paths: [a]}"), "job.yaml:1: a stream has either a topic or files");
  EXPECT_THAT(with("partitions: 3"), HasSubstr("job.yaml:3: only a topic that bots write"));
  EXPECT_THAT(with("bots: {events: 1}\nbounded: true"),
              HasSubstr("job.yaml:4: a topic that bots write ends"));
  EXPECT_THAT(MistakeOf("topic: t\nkafka: {client.id: x}"),
              HasSubstr("job.yaml:2: 'bootstrap.servers' is missing"));
  EXPECT_EQ(set("group.id: mine"),
            "job.yaml:4: 'group.id' is set by Leat, which keeps the offsets of the job itself");
  EXPECT_EQ(set("fetch.min.byte: 1"), "job.yaml:4: librdkafka has no setting 'fetch.min.byte'");
  EXPECT_THAT(set("sasl.password: open-sesame"), HasSubstr("job.yaml:4: 'sasl.password' is a secret"));
  EXPECT_THAT(set("sasl.password: open-sesame"), ::testing::Not(HasSubstr("open-sesame")));
  EXPECT_THAT(set("sasl.password: {env: A, file: b}"), HasSubstr("{env: NAME} or {file: PATH}"));
  EXPECT_THAT(set("group.id: {env: A}"), HasSubstr("'group.id' is set by Leat"));
}

TEST(KafkaStream, ASecretIsReadWhenTheTopicIsOpened) {
  const TempDir folder;
  const auto open = [](const std::string& from) {
    return ReadKafka("topic: t\nkafka: {bootstrap.servers: \"127.0.0.1:1\", ssl.key.pem: " + from + "}\n")
        ->Open()
        .status();
  };
  EXPECT_EQ(open("{env: LEAT_NO_SUCH_VARIABLE}").message(),
            "'ssl.key.pem': the environment has no variable LEAT_NO_SUCH_VARIABLE");
  const std::string path = folder.path() + "/key";
  EXPECT_EQ(open("{file: " + path + "}").message(), "'ssl.key.pem': " + path + ": No such file or directory");
  std::ofstream(path) << "\n";
  EXPECT_EQ(open("{file: " + path + "}").message(), "'ssl.key.pem': " + path + " is empty");
}

TEST(KafkaStream, AWorkerReadsFromTheBrokersOfItsZone) {
  const std::string kafka =
      Replaced(kSmallJob, "{topic: events,", "{topic: events, kafka: {bootstrap.servers: \"b:9092\"},");
  const auto rack = [](const Job& job, const std::string& zone) {
    const auto settings = As<KafkaStream>(job.StreamIn(zone))->options.settings;
    const auto at = settings.find("client.rack");
    return at == settings.end() ? "" : at->second;
  };
  EXPECT_EQ(rack(Parse(kafka), "a"), "a");
  EXPECT_EQ(rack(Parse(kafka), ""), "");
  const Job own = Parse(Replaced(kafka, "\"b:9092\"", "\"b:9092\", client.rack: r1"));
  EXPECT_EQ(rack(own, "a"), "r1");
  EXPECT_EQ(Parse(kSmallJob).StreamIn("a")->Describe(), "topic 'events'");
}

TEST(KafkaStream, Times) {
  EXPECT_EQ(ParseTime("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(ParseTime("2026-01-31T12:00:00Z"), 1'769'860'800'000);
  EXPECT_EQ(ParseTime("2026-01-31T12:00:00.25Z"), 1'769'860'800'250);
  EXPECT_EQ(ParseTime("2026-01-31T12:00:00.123456Z"), 1'769'860'800'123);
  EXPECT_EQ(ParseTime("2026-01-31T14:00:00+02:00"), 1'769'860'800'000);
  EXPECT_EQ(ParseTime("2026-01-31T06:30:00-05:30"), 1'769'860'800'000);
  for (const char* none : {"", "noon", "2026-01-31", "2026-01-31T12:00:00", "2026-01-31T12:00:00+2",
                           "2026-13-31T12:00:00Z", "2026-01-31T12:00:00Zulu"})
    EXPECT_FALSE(ParseTime(none)) << none;
}

}  // namespace
}  // namespace leat::job
