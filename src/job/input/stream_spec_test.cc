#include "job/input/stream_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "job/input/log_stream.h"
#include "job/testing.h"

namespace leat::job {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Stream, FilesAsAStream) {
  const Job job = Parse(R"(
stream: {epochs: 3, files: {format: idx, paths: [images, /labels], partitions: 5}}
schema: {format: idx, fields: {image: {type: bytes, width: 4}, digit: {type: number, role: label}}}
model: {layers: [dense: {units: 10}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
resolved: {data: /somewhere, directory: /jobs/j}
)");
  EXPECT_EQ(job.stream->epochs, 3u);
  EXPECT_EQ(job.Cuts().epochs, 3u);
  EXPECT_EQ(job.stream->files()->partitions, 5u);
  EXPECT_THAT(job.stream->files()->paths, ElementsAre("/somewhere/images", "/labels"));
  EXPECT_EQ(job.schema.classes(), 10u) << "as the model has";
}

TEST(Stream, SettingsOfATopicDoNotGoWithFiles) {
  const std::string job = R"(
stream:
  live: true
  files: {format: csv, paths: [a]}
schema: {format: csv, fields: {x: {type: number}}}
model: {layers: [bias: {units: 1}], loss: negative_sum}
optimizer: {type: sgd, learning_rate: 0.1}
)";
  EXPECT_THAT(MistakeIn(job), AllOf(StartsWith("job.yaml:3: "), HasSubstr("'live' is for a topic")));
  EXPECT_EQ(MistakeIn(Replaced(job, "live: true", "epochs: 4")), "");
}

TEST(Stream, EachSettingBelongsToOneKindOfSource) {
  const auto mistake = [](const std::string& stream) {
    return Mistake([&] { StreamFromConfig(Config::Parse(stream, "job.yaml"), {}); });
  };
  EXPECT_EQ(mistake("files: {format: csv, paths: [a]}\nepochs: 2"), "");
  EXPECT_EQ(mistake("topic: t\nepochs: 2"), "");
  EXPECT_EQ(mistake("files: {format: csv, paths: [a]}\nretention_mb: 5"),
            "job.yaml:2: 'retention_mb' is for a topic; this stream has files");
  for (const char* none_or_both : {"epochs: 2", "topic: t\nfiles: {format: csv, paths: [a]}"})
    EXPECT_EQ(mistake(none_or_both), "job.yaml:1: a stream has either a topic or files");
  EXPECT_THAT(mistake("topics: t"), HasSubstr("did you mean 'topic'"));
  EXPECT_EQ(mistake("topic: t\nbots: {events: 10}\nepochs: 2"),
            "job.yaml:3: a stream that bots write is read once; epochs must be 1");
}

TEST(Stream, SaysWhatToDoAboutDamage) {
  const auto read = [](const std::string& settings) {
    return *As<LogStream>(StreamFromConfig(Config::Parse("topic: t" + settings, "job.yaml"), {}));
  };
  EXPECT_TRUE(read("").fail_on_data_loss);
  EXPECT_FALSE(read("").quarantine);
  EXPECT_FALSE(read("\nfail_on_data_loss: false").fail_on_data_loss);
  EXPECT_TRUE(read("\nerrors_tolerance: all").quarantine);
  EXPECT_FALSE(read("\nerrors_tolerance: none").quarantine);
  EXPECT_THAT(Mistake([&] { read("\nerrors_tolerance: some"); }), StartsWith("job.yaml:2: "));
}

TEST(Stream, ACopyHasItsOwnSettings) {
  AnyStream stream = StreamFromConfig(Config::Parse("topic: t\nbots: {events: 10}", "job.yaml"), {});
  const AnyStream copy = stream;
  stream->bots()->events = 20;
  EXPECT_EQ(copy->bots()->events, 10u);
  stream = copy;
  EXPECT_EQ(stream->bots()->events, 10u);
  AnyStream none;
  const AnyStream empty = none;
  none = copy;
  EXPECT_EQ(none->Describe(), "topic 't'");
  none = StreamFromConfig(Config::Parse("files: {format: csv, paths: [a]}", "job.yaml"), {});
  EXPECT_EQ(none->Describe(), "file a");
}

// Callers ask for what a source can do, never for its kind.
TEST(Stream, KindsDeclareWhatTheyCanDo) {
  EXPECT_THAT(ProductsWith(&StreamTraits::attributes), HasSubstr("Kafka"));
  std::vector<std::string> options;
  for (const StreamKind* kind : TopicKinds()) options.push_back(kind->topic->name());
  EXPECT_THAT(options, ::testing::Contains("--kafka"));
  EXPECT_EQ(options.back(), "--log");
  const AnyStream files = StreamFromConfig(Config::Parse("files: {format: csv, paths: [a]}", "job.yaml"), {});
  EXPECT_EQ(files->Create(4), files->OpenWriter().status());
  EXPECT_THAT(files->Create(4).message(), HasSubstr("file a: nothing is appended to files"));
  EXPECT_EQ(files->OpenPredictions("scores", "job", 0).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(*files->OpenDeadLetters(), nullptr);
  EXPECT_TRUE(files->FindBounds()->start.empty());
  EXPECT_TRUE(files->Replicas()->empty());
  for (const StreamKind* kind : StreamKinds())
    EXPECT_EQ(kind->traits.remote, !std::string(kind->traits.product).empty()) << kind->name;
}

TEST(Stream, OfFilesIsOpened) {
  const TempDir directory;
  directory.Write("a.csv", "1,2\n3,4\n5,6\n");
  const auto stream =
      StreamFromConfig(Config::Parse("files: {format: csv, paths: [a.csv], partitions: 2}", "job.yaml"),
                       {.data = directory.path()});
  ASSERT_NE(stream->files(), nullptr);
  EXPECT_EQ(stream->bots(), nullptr);
  EXPECT_EQ(stream->Describe(), "file " + (directory / "a.csv"));
  EXPECT_EQ(stream->Identity().topic, "");
  EXPECT_EQ(stream->Identity().partitions, 2u);
  EXPECT_TRUE(stream->Prepare().ok());
  EXPECT_THAT(stream->CheckEmpty().message(), HasSubstr("has no records"));
  const auto source = stream->Open();
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ((*source)->Ranges()->size(), 2u);
}

TEST(Stream, OfATopicIsMadeForItsBotsAlone) {
  const TempDir directory;
  const auto stream = [&](const std::string& more) {
    return StreamFromConfig(Config::Parse("topic: t\npartitions: 3\n" + more, "job.yaml"),
                            {.data = "/data", .directory = directory.path()});
  };
  const AnyStream without = stream("");
  EXPECT_EQ(without->files(), nullptr);
  EXPECT_EQ(without->directory(), directory / "log");
  EXPECT_EQ(stream("log: mine")->directory(), "/data/mine");
  EXPECT_EQ(without->Describe(), "topic 't'");
  EXPECT_EQ(without->Identity().topic, "t");
  EXPECT_EQ(without->Identity().partitions, 3u);
  EXPECT_TRUE(without->Prepare().ok());
  EXPECT_EQ(without->Open().status().code(), Code::kNotFound);
  EXPECT_THAT(without->CheckEmpty().message(),
              AllOf(HasSubstr("topic 't' in " + (directory / "log")), HasSubstr("live: true")));
  EXPECT_TRUE(stream("live: true")->CheckEmpty().ok());

  const AnyStream with = stream("bots: {events: 10}");
  ASSERT_NE(with->bots(), nullptr);
  EXPECT_TRUE(with->CheckEmpty().ok());
  ASSERT_TRUE(with->Prepare().ok());
  const auto source = with->Open();
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ((*source)->Ranges()->size(), 3u);
}

}  // namespace
}  // namespace leat::job
