#include "job/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/store.h"
#include "job/testing.h"

namespace leat::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kFullJob;
using testing::kSmallJob;
using testing::Mistake;
using testing::Replaced;
using ::testing::StartsWith;
using testing::TempDir;

Job Parse(const std::string& yaml) {
  return Job::FromText(yaml, "job.yaml");
}
std::string MistakeIn(const std::string& yaml) {
  return Mistake([&] { Parse(yaml); });
}

// All that a role builds its parts from.
std::string Described(const Job& job) {
  std::stringstream text;
  const auto files = [&](const stream::FileSourceOptions& f) {
    text << f.format << " " << f.partitions << " " << f.header << " " << f.sequence << " " << f.stride << " "
         << f.part_begin << " " << f.part_end;
    for (const auto& path : f.paths) text << " " << path;
    text << "\n";
  };
  const auto& s = job.stream;
  const auto& g = job.strategy;
  text << job.name << " " << job.seed << " " << Name(g.kind) << " " << g.lanes << " " << g.backup << " "
       << g.staleness << " " << g.staleness_aware << " " << g.n_push << " " << g.n_fetch << " " << g.period
       << " " << g.momentum << " " << g.sum << " " << g.deterministic << " " << g.mpi << "\n"
       << s.topic << " " << job.LogDirectory() << " " << s.topic_options.partitions << " "
       << s.topic_options.retention_bytes << " " << s.topic_options.retention_time.count() << " " << s.live
       << " " << s.epochs << "\n";
  files(s.files);
  if (s.bots)
    text << s.bots->events << " " << s.bots->rate << " " << s.bots->customers << " " << s.bots->seed << "\n";
  text << job.schema.hash() << " " << job.schema.features() << " " << job.schema.classes() << " "
       << job.schema.labels() << "\n"
       << job.model->ToString() << "\n"
       << optim::Name(job.optimizer.kind) << " " << job.optimizer.learning_rate << "\n"
       << job.batch_size << " " << job.split_batches << " " << job.shuffle << " " << job.dead_letter_rate
       << "\n"
       << job.compute.inter_op_threads << " " << job.compute.intra_op_threads << " "
       << job.compute.cpu_devices << "\n"
       << job.workers << " " << job.servers << " " << job.max_servers << " "
       << static_cast<int>(job.placement.kind) << " " << job.trusted_network << "\n"
       << job.checkpoint_interval_s << " " << job.keep_checkpoints << " " << job.metrics_window << "\n"
       << job.directory << " " << job.data << " " << job.PinOwner() << "\n"
       << job.Cuts().hash << " " << job.Cuts().shuffle_seed << " " << job.Slices().slices.size() << "\n";
  if (job.evaluate) files(*job.evaluate);
  for (const auto& [name, value] : job.Identity()) text << name << "=" << value << "\n";
  return text.str();
}

// ---- parsing

TEST(Job, EverySectionIsRead) {
  const Job job = Parse(kFullJob);
  EXPECT_EQ(job.name, "fraud");
  EXPECT_EQ(job.seed, 7u);
  EXPECT_EQ(job.stream.topic, "payments");
  EXPECT_EQ(job.stream.log, "elsewhere");
  EXPECT_EQ(job.stream.topic_options.partitions, 3u);
  EXPECT_EQ(job.stream.topic_options.retention_bytes, 100'000'000u) << "of a partition";
  EXPECT_EQ(job.stream.topic_options.retention_time, std::chrono::hours(2));
  ASSERT_TRUE(job.stream.bots.has_value());
  EXPECT_EQ(job.stream.bots->events, 5000u);
  EXPECT_EQ(job.stream.bots->rate, 1000);
  EXPECT_EQ(job.stream.bots->customers, 50u);
  EXPECT_EQ(job.stream.bots->seed, 9u);
  EXPECT_EQ(job.schema.features(), 1u + 2u + 2u);
  EXPECT_TRUE(job.schema.has_truth());
  EXPECT_EQ(job.model->inputs(), 5u);
  EXPECT_EQ(job.model->task(), nn::Task::kBinary);
  EXPECT_EQ(job.optimizer.kind, optim::Kind::kAdam);
  EXPECT_FLOAT_EQ(job.optimizer.learning_rate, 0.01f);
  EXPECT_EQ(job.strategy.kind, protocol::StrategyKind::kAsync);
  EXPECT_EQ(job.batch_size, 32u);
  EXPECT_EQ(job.split_batches, 4u);
  EXPECT_FALSE(job.shuffle);
  EXPECT_EQ(job.Cuts().shuffle_seed, 0u);
  EXPECT_EQ(job.dead_letter_rate, 0.5);
  EXPECT_EQ(job.workers, 3u);
  EXPECT_EQ(job.servers, 2u);
  EXPECT_EQ(job.max_servers, 4u);
  EXPECT_EQ(job.placement.kind, protocol::Placement::kRoundRobin);
  EXPECT_TRUE(job.trusted_network);
  EXPECT_EQ(job.checkpoint_interval_s, 5);
  EXPECT_EQ(job.keep_checkpoints, 3u);
  EXPECT_EQ(job.metrics_window, 4000u);
  ASSERT_TRUE(job.evaluate.has_value());
  EXPECT_THAT(job.evaluate->paths, ElementsAre("a.csv", "b.csv"));
}

TEST(Job, WhatIsLeftOutHasADefault) {
  const Job job = Parse(R"(
stream: {topic: t}
schema: {format: json, fields: {x: {type: number}, y: {type: number, role: label}}}
model: {layers: [dense: {units: 1}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 0.1}
)");
  EXPECT_EQ(job.name, "job");
  EXPECT_EQ(job.seed, 1u);
  EXPECT_FALSE(job.stream.bots.has_value());
  EXPECT_FALSE(job.stream.live);
  EXPECT_EQ(job.stream.topic_options, stream::TopicOptions());
  EXPECT_EQ(job.strategy.kind, protocol::StrategyKind::kAsync);
  EXPECT_EQ(job.batch_size, 128u);
  EXPECT_TRUE(job.shuffle);
  EXPECT_NE(job.Cuts().shuffle_seed, 0u);
  EXPECT_EQ(job.workers, 2u);
  EXPECT_EQ(job.servers, 1u);
  EXPECT_EQ(job.placement.kind, protocol::Placement::kGreedy);
  EXPECT_FALSE(job.trusted_network);
  EXPECT_FALSE(job.evaluate.has_value());
}

TEST(Job, FilesAsAStream) {
  const Job job = Parse(R"(
stream: {epochs: 3, files: {format: idx, paths: [images, /labels], partitions: 5}}
schema: {format: idx, fields: {image: {type: bytes, width: 4}, digit: {type: number, role: label}}}
model: {layers: [dense: {units: 10}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
resolved: {data: /somewhere, directory: /jobs/j}
)");
  EXPECT_EQ(job.stream.epochs, 3u);
  EXPECT_EQ(job.Cuts().epochs, 3u);
  EXPECT_EQ(job.stream.files.partitions, 5u);
  EXPECT_THAT(job.stream.files.paths, ElementsAre("/somewhere/images", "/labels"));
  EXPECT_EQ(job.schema.classes(), 10u) << "as the model has";
}

TEST(Job, EveryMistakeIsSaidWithItsLine) {
  struct Case {
    const char* old;
    const char* by;
    const char* where;
    const char* what;
  };
  const Case cases[] = {
      {"name: fraud", "nam: fraud", "job.yaml:1: ", "did you mean 'name'"},
      {"name: fraud", "name: ../fraud", "job.yaml:1: ", "slash"},
      {"name: fraud", "name: .fraud", "job.yaml:1: ", "dot"},
      {"name: fraud", "name: \"a\\x1b[31mb\"", "job.yaml:1: ", "name"},
      {"name: fraud", "name: [a]", "job.yaml:1: ", "name"},
      {"seed: 7", "seed: -7", "job.yaml:2: ", "-7"},
      {"seed: 7", "seed: x", "job.yaml:2: ", "whole number"},
      {"  topic: payments\n", "", "job.yaml:3: ", "either a topic or files"},
      {"  topic: payments", "  topic: pay/ments", "job.yaml:4: ", "pay/ments"},
      {"  topic: payments", "  topic: payments\n  files: {format: csv, paths: [a]}",
       "job.yaml:3: ", "either a topic or files"},
      {"  log: elsewhere", "  logs: elsewhere", "job.yaml:5: ", "did you mean 'log'"},
      {"partitions: 3", "partitions: 0", "job.yaml:6: ", "between 1 and 1024"},
      {"retention_mb: 300", "retention_mb: -1", "job.yaml:7: ", "-1"},
      {"retention_hours: 2", "retention_hours: soon", "job.yaml:8: ", "soon"},
      {"events: 5000", "events: 0", "job.yaml:9: ", "events"},
      {"rate: 1000", "rte: 1000", "job.yaml:9: ", "did you mean 'rate'"},
      {"bots: {", "epochs: 2\n  bots: {", "job.yaml:9: ", "must be 1"},
      {"format: json", "format: jason", "job.yaml:11: ", "did you mean 'json'"},
      {"type: category", "type: categry", "job.yaml:15: ", "did you mean 'category'"},
      {"role: label", "role: lable", "job.yaml:16: ", "did you mean 'label'"},
      {", role: label", "", "job.yaml:10: ", "role: label"},
      {"dense: {units: 8", "dens: {units: 8", "job.yaml:20: ", "did you mean 'dense'"},
      {"fraud: {type: number, role: label}", "fraud: {type: number, role: label, classes: 5}",
       "job.yaml:16: ", "5 classes"},
      {"loss: softmax_cross_entropy", "loss: softmax", "job.yaml:22: ", "softmax_cross_entropy"},
      {"type: adam", "type: adm", "job.yaml:23: ", "did you mean 'adam'"},
      {"learning_rate: 0.01", "learning_rate: nan", "job.yaml:23: ", "learning_rate"},
      {"learning_rate: 0.01", "learning_rate: 0.01, beta3: 1", "job.yaml:23: ", "beta3"},
      {"strategy: async", "strategy: asinc", "job.yaml:24: ", "did you mean 'async'"},
      {"batch_size: 32", "batch_size: 0", "job.yaml:25: ", "batch_size is 0"},
      {"batch_size: 32, split_batches: 4", "batch_size: 65536, split_batches: 16384",
       "job.yaml:25: ", "1073741824"},
      {"shuffle: false", "shuffle: no", "job.yaml:25: ", "true or false"},
      {"max_dead_letter_rate: 0.5", "max_dead_letter_rate: 1.5", "job.yaml:25: ", "1.5"},
      {"workers: 3", "workers: 0", "job.yaml:26: ", "workers is 0"},
      {"ps: 2", "ps: 1001", "job.yaml:26: ", "ps is 1001"},
      {"placement: round_robin", "placement: round", "job.yaml:26: ", "round_robin"},
      {"trusted_network: true", "trusted_network: rdma", "job.yaml:26: ", "true or false"},
      {"trusted_network: true", "trusted_networks: true", "job.yaml:26: ", "did you mean 'trusted_network'"},
      {"interval_s: 5", "interval_s: -5", "job.yaml:27: ", "interval_s is -5"},
      {"keep: 3", "keep: 0", "job.yaml:27: ", "keep is 0"},
      {"window: 4000", "window: 10", "job.yaml:28: ", "window is 10"},
      {"  files: {format: csv", "  file: {format: csv", "job.yaml:30: ", "did you mean 'files'"},
      {"paths: [a.csv, b.csv]", "paths: a.csv", "job.yaml:30: ", "list"},
      {"paths: [a.csv, b.csv]", "paths: []", "job.yaml:30: ", "list"},
      {"format: csv, paths: [a.csv, b.csv]", "format: idx, paths: [a]", "job.yaml:30: ", "two paths"},
      {"format: csv, paths", "format: cvs, paths", "job.yaml:30: ", "did you mean 'csv'"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(MistakeIn(Replaced(kFullJob, c.old, c.by)), AllOf(StartsWith(c.where), HasSubstr(c.what)))
        << c.by;
  }
  for (const char* section : {"stream", "schema", "model", "optimizer"}) {
    const std::string lacking = Replaced(kFullJob, std::string("\n") + section + ":", "\nname2:");
    EXPECT_NE(MistakeIn(lacking), "") << section;
  }
  EXPECT_THAT(MistakeIn("just a text"), HasSubstr("map of sections"));
  EXPECT_THAT(MistakeIn(""), HasSubstr("map of sections"));
  EXPECT_THAT(MistakeIn("name: x"), HasSubstr("stream"));
}

TEST(Job, SettingsOfATopicDoNotGoWithFiles) {
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

TEST(Job, AModelWithoutLabelNeedsNone) {
  const Job job = Parse(R"(
stream: {topic: t}
schema: {format: json, fields: {x: {type: number}}}
model: {layers: [bias: {units: 1}], loss: negative_sum}
optimizer: {type: sgd, learning_rate: 0.1}
)");
  EXPECT_EQ(job.model->task(), nn::Task::kNone);
}

TEST(Job, ACategoryMayBeTheLabel) {
  const std::string job = R"(
stream: {topic: t}
schema: {format: json, fields: {x: {type: number}, y: {type: category, values: [a, b, c], role: label}}}
model: {layers: [dense: {units: 3}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
)";
  EXPECT_EQ(Parse(job).schema.classes(), 3u);
  EXPECT_THAT(MistakeIn(Replaced(job, "units: 3", "units: 4")),
              AllOf(HasSubstr("3 classes"), HasSubstr("4")));
}

// ---- text, ids and labels of any number

constexpr const char* kTextJob = R"(
stream: {files: {format: text, paths: [input.txt], sequence: 6, stride: 3, part: [0, 0.9]}}
schema: {format: text, fields: {text: {type: characters, alphabet: abcd}}}
model:
  layers:
    - reshape: {shape: [6, 1]}
    - dense: {units: 4}
  loss: softmax_cross_entropy
optimizer: {type: sgd, learning_rate: 0.1}
evaluate:
  files: {format: text, paths: [input.txt], part: [0.9, 1]}
resolved: {data: /somewhere}
)";

TEST(Job, TextIsCutByTheStreamAndReadByTheSchema) {
  const Job job = Parse(kTextJob);
  EXPECT_EQ(job.stream.files.format, "text");
  EXPECT_EQ(job.stream.files.sequence, 6u);
  EXPECT_EQ(job.stream.files.stride, 3u);
  EXPECT_EQ(job.stream.files.part_end, 0.9);
  EXPECT_EQ(job.schema.features(), 6u);
  EXPECT_EQ(job.schema.labels(), 6u);
  EXPECT_EQ(job.model->labels(), 6u);
  EXPECT_EQ(job.model->outputs(), 4u);
  ASSERT_TRUE(job.evaluate.has_value());
  EXPECT_EQ(job.evaluate->sequence, 6u) << "as the stream's";
  EXPECT_EQ(job.evaluate->part_begin, job.stream.files.part_end);
  EXPECT_EQ(job.evaluate->part_end, 1);
}

TEST(Job, MistakesInJobsOnTextAreSaidWithTheirLine) {
  const auto mistake = [](const char* old, const char* by) { return MistakeIn(Replaced(kTextJob, old, by)); };
  EXPECT_THAT(mistake("sequence: 6, ", ""), AllOf(StartsWith("job.yaml:2: "), HasSubstr("sequence")));
  EXPECT_THAT(mistake("sequence: 6", "sequence: 0"),
              AllOf(StartsWith("job.yaml:2: "), HasSubstr("sequence is 0")));
  EXPECT_THAT(mistake("stride: 3", "stride: 0"), AllOf(StartsWith("job.yaml:2: "), HasSubstr("stride is 0")));
  EXPECT_THAT(mistake("part: [0, 0.9]", "part: [0.9, 0.9]"),
              AllOf(StartsWith("job.yaml:2: "), HasSubstr("[0.9, 0.9]")));
  EXPECT_THAT(mistake("part: [0, 0.9]", "part: [0, 1.1]"), HasSubstr("1 or less"));
  EXPECT_THAT(mistake("part: [0, 0.9]", "part: 0.9"), HasSubstr("list of two"));
  EXPECT_THAT(mistake("part: [0, 0.9]", "part: [0, 0.9], header: true"),
              HasSubstr("header is for the format csv"));
  EXPECT_THAT(
      mistake("format: text, paths: [input.txt], sequence", "format: csv, paths: [input.txt], sequence"),
      HasSubstr("sequence is for the format text"));
  EXPECT_THAT(mistake("{format: text, fields: {text: {type: characters, alphabet: abcd}}}",
                      "{format: csv, fields: {x: {type: number}, y: {type: number, role: label}}}"),
              AllOf(StartsWith("job.yaml:2: "), HasSubstr("files of text need a schema of the format text")));
  EXPECT_THAT(mistake("files: {format: text, paths: [input.txt], part: [0.9, 1]}",
                      "files: {format: csv, paths: [a]}"),
              AllOf(StartsWith("job.yaml:11: "), HasSubstr("that of the files csv")));
  EXPECT_THAT(mistake("part: [0.9, 1]", "sequence: 5"),
              AllOf(StartsWith("job.yaml:11: "), HasSubstr("is 5")));
  EXPECT_THAT(mistake("alphabet: abcd", "alphabet: abcde"),
              AllOf(StartsWith("job.yaml:3: "), HasSubstr("5 classes"), HasSubstr("4 apart")));
  EXPECT_THAT(mistake("shape: [6, 1]", "shape: [3, 2]"), HasSubstr("job.yaml:8"))
      << "a distribution for each of six labels, not of three";
}

TEST(Job, WhatWindowsOfTextAreIsPartOfTheIdentity) {
  const auto identity = Parse(kTextJob).Identity();
  for (const auto& [old, by] : {std::pair{"stride: 3", "stride: 2"}, {"part: [0, 0.9]", "part: [0, 0.8]"}})
    EXPECT_NE(Parse(Replaced(kTextJob, old, by)).Identity(), identity) << by;
  EXPECT_EQ(Parse(Replaced(kTextJob, "part: [0.9, 1]", "part: [0.5, 1]")).Identity(), identity);
}

TEST(Job, SeveralNumbersMayBePredicted) {
  const std::string job = R"(
stream: {topic: t}
schema:
  format: json
  fields: {x: {type: number}, y: {type: number, role: label}, z: {type: number, role: label}}
model: {layers: [dense: {units: 2}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 0.1}
)";
  EXPECT_EQ(Parse(job).model->labels(), 2u);
  EXPECT_EQ(Parse(job).model->task(), nn::Task::kRegression);
  EXPECT_THAT(MistakeIn(Replaced(job, "units: 2", "units: 1")), HasSubstr("each of 2 labels"));
  EXPECT_NE(Parse(job).Cuts().hash, Parse(Replaced(job, "z: {type: number, role: label}",
                                                   "z: {role: ignore}, w: {type: number, role: label}"))
                                        .Cuts()
                                        .hash);
}

// A model whose first layer looks ids up.
std::string IdsJob(const std::string& fields) {
  return "stream: {topic: t}\nschema:\n  format: json\n  fields:\n    y: {type: number, role: label}\n    "
         "x: " +
         fields +
         "\nmodel:\n  layers:\n    - embedding: {size: 50, units: 4}\n    - flatten\n    - dense: {units: "
         "1}\n"
         "  loss: squared_error\noptimizer: {type: sgd, learning_rate: 0.1}\n";
}

TEST(Job, WhatIndexesATableIsCheckedBeforeAnythingIsStarted) {
  EXPECT_EQ(MistakeIn(IdsJob("{type: id, below: 50}")), "");
  EXPECT_EQ(MistakeIn(IdsJob("{type: id, below: 20, length: 5, pad: 19}")), "");
  EXPECT_EQ(MistakeIn(IdsJob("{type: id, below: 51}")),
            "job.yaml:6: 'x' makes ids below 51; the model's first layer takes ids below 50");
  EXPECT_THAT(MistakeIn(IdsJob("{type: number}")),
              AllOf(StartsWith("job.yaml:6: "), HasSubstr("{type: id, below: 50}?")));
  EXPECT_THAT(MistakeIn(IdsJob("{type: category, buckets: 5}")), StartsWith("job.yaml:6: "));
  EXPECT_THAT(MistakeIn(IdsJob("{type: id, below: 5}\n    z: {type: number}")), StartsWith("job.yaml:7: "));
}

TEST(Job, ASplitFitsIntoMemory) {
  const std::string job = R"(
stream: {files: {format: text, paths: [a], sequence: 65536, stride: 1}}
schema: {format: text, fields: {text: {type: characters}}}
model: {layers: [bias: {units: 1}], loss: negative_sum}
optimizer: {type: sgd, learning_rate: 0.1}
train: {batch_size: 512, split_batches: 4}
)";
  EXPECT_EQ(MistakeIn(job), "");
  EXPECT_THAT(MistakeIn(Replaced(job, "split_batches: 4", "split_batches: 5")),
              AllOf(StartsWith("job.yaml:6: "), HasSubstr("split_batches")));
}

TEST(Job, TheIdentityIsWhatAResumedJobMustShare) {
  const std::string base =
      Replaced(kFullJob, "evaluate:\n  files: {format: csv, paths: [a.csv, b.csv]}\n", "");
  const auto identity = Parse(base).Identity();
  const auto differs = [&](const char* old, const char* by) {
    const auto other = Parse(Replaced(base, old, by)).Identity();
    EXPECT_EQ(other.size(), identity.size());
    std::string names;
    for (size_t i = 0; i < identity.size(); ++i) {
      EXPECT_EQ(other[i].first, identity[i].first);
      if (other[i].second != identity[i].second) names += identity[i].first + " ";
    }
    return names;
  };
  EXPECT_EQ(differs("seed: 7", "seed: 8"), "seed ");
  EXPECT_EQ(differs("units: 8", "units: 9"), "model ");
  EXPECT_EQ(differs("mean: 3.5", "mean: 3"), "schema ");
  EXPECT_EQ(differs("topic: payments", "topic: others"), "stream.topic ");
  EXPECT_EQ(differs("partitions: 3", "partitions: 4"), "stream.partitions ");
  EXPECT_EQ(differs("type: adam", "type: sgd"), "optimizer.type optimizer.slots ");
  EXPECT_EQ(differs("type: adam", "type: adamw"), "optimizer.type ");
  for (const auto& [old, by] : {std::pair{"name: fraud", "name: other"},
                                {"batch_size: 32", "batch_size: 64"},
                                {"learning_rate: 0.01", "learning_rate: 1"},
                                {"learning_rate: 0.01", "weight_decay: 0.1, clip_norm: 1, beta1: 0.8"},
                                {"learning_rate: 0.01", "schedule: {type: cosine, steps: 900}"},
                                {"workers: 3", "workers: 9"},
                                {"ps: 2", "ps: 3"},
                                {"events: 5000", "events: 9000"},
                                {"keep: 3", "keep: 1"}}) {
    EXPECT_EQ(differs(old, by), "") << by;
  }
}

// Whether versions are steps, how many batches a run has and what a push brings decide whether one strategy
// can go on with what another has left.
TEST(Job, ACheckpointIsGoneOnWithByAStrategyOfTheSameKind) {
  const auto identity = [](const std::string& strategy) {
    std::string text = Replaced(kFullJob, "strategy: async", "strategy: " + strategy);
    return Parse(Replaced(text, "type: adam", "type: sgd")).Identity();
  };
  const auto sync = identity("sync");
  EXPECT_EQ(identity("{type: ssp, staleness: 5}"), sync);
  EXPECT_EQ(identity("{type: sync, backup: 1}"), sync);
  EXPECT_EQ(identity("{type: sync, lanes: 9}"), sync);
  EXPECT_EQ(identity("allreduce"), sync);
  const auto async = identity("async");
  EXPECT_NE(async, sync) << "versions are not steps";
  EXPECT_EQ(identity("{type: ssp, staleness: -1}"), async);
  EXPECT_EQ(identity("{type: downpour, n_push: 1, n_fetch: 3}"), async);
  EXPECT_NE(identity("{type: downpour, n_push: 2}"), async) << "runs of several batches are open";
  const auto averaging = identity("{type: averaging, period: 2}");
  EXPECT_EQ(identity("{type: averaging, period: 2, lanes: 4}"), averaging);
  EXPECT_NE(identity("{type: averaging, period: 3}"), averaging);
  EXPECT_NE(identity("{type: averaging, period: 2, momentum: 0.5}"), averaging) << "servers keep a velocity";
  EXPECT_NE(identity("{type: averaging, period: 1}"), sync) << "other pushes";
}

TEST(Job, StrategiesAreCheckedWithTheWorkersThatThereAre) {
  const auto with = [](const std::string& strategy) {
    return Replaced(kFullJob, "strategy: async", "strategy: " + strategy);
  };
  const Job sync = Parse(with("sync"));
  EXPECT_EQ(sync.strategy.kind, protocol::StrategyKind::kSync);
  EXPECT_EQ(sync.strategy.lanes, 3u) << "as many as workers";
  EXPECT_FALSE(sync.strategy.sum);
  EXPECT_EQ(sync.ServerOptimizer(), sync.optimizer);
  EXPECT_EQ(sync.ServerConfig().strategy, sync.strategy);
  const std::string more = with("sync") + "resolved: {workers: 5}\n";
  EXPECT_EQ(Parse(more).strategy.lanes, 5u) << "the command line has the last word";
  const std::string named = with("{type: sync, lanes: 4}");
  EXPECT_EQ(Parse(named).strategy.lanes, 4u);
  EXPECT_THAT(MistakeIn(named + "resolved: {workers: 5}\n"),
              AllOf(StartsWith("job.yaml:24: "), HasSubstr("fewer than the 5 workers")));
  EXPECT_THAT(MistakeIn(with("{type: sync, backup: 3}")),
              AllOf(StartsWith("job.yaml:24: "), HasSubstr("backup is 3 with 3 workers")));
  EXPECT_THAT(MistakeIn(with("{type: sync, staleness: 1}")),
              AllOf(StartsWith("job.yaml:24: "), HasSubstr("ssp")));
  EXPECT_EQ(Parse(with("allreduce")).servers, 0u) << "workers keep everything";
  EXPECT_EQ(Parse(with("allreduce")).Slices(), sync.Slices());
  const std::string none = Replaced(kSmallJob, "ps: 2, placement: partitioned", "ps: 0");
  EXPECT_THAT(MistakeIn(none), AllOf(StartsWith("job.yaml:7: "), HasSubstr("ps is 0, and async")));
  EXPECT_EQ(Parse(Replaced(none, "train:", "strategy: allreduce\ntrain:")).servers, 0u);
  EXPECT_THAT(MistakeIn(with("allreduce") + "resolved: {workers: 1}\n"), HasSubstr("ring of one"));
  EXPECT_TRUE(Parse(Replaced(kSmallJob, "train:", "strategy: sync\ntrain:")).strategy.sum);
}

TEST(Job, RunsFitIntoSplits) {
  const auto with = [](const std::string& strategy) {
    return Replaced(Replaced(kFullJob, "strategy: async", "strategy: " + strategy), "type: adam",
                    "type: sgd");
  };
  EXPECT_EQ(Parse(with("{type: averaging, period: 4}")).Cuts().run, 4u);
  EXPECT_EQ(Parse(with("{type: downpour, n_push: 3}")).Cuts().run, 3u);
  EXPECT_EQ(Parse(with("sync")).Cuts().run, 1u);
  EXPECT_THAT(MistakeIn(with("{type: averaging, period: 5}")),
              AllOf(StartsWith("job.yaml:24: "), HasSubstr("period is 5"), HasSubstr("than the 4 "),
                    HasSubstr("raise train.split_batches")));
  EXPECT_THAT(MistakeIn(with("{type: downpour, n_push: 5}")),
              AllOf(StartsWith("job.yaml:24: "), HasSubstr("n_push is 5")));
}

TEST(Job, AveragingLeavesTheOptimizerToTheWorkers) {
  const std::string job =
      Replaced(Replaced(kFullJob, "strategy: async", "strategy: {type: averaging, period: 2}"),
               "{type: adam, learning_rate: 0.01}",
               "{type: sgd, learning_rate: 0.5, weight_decay: 0.1, clip_norm: 1, "
               "schedule: {type: step, every: 5}}");
  auto expected = optim::Defaults(optim::Kind::kSgd);
  expected.learning_rate = 1;
  auto rule = Parse(job).ServerOptimizer();
  rule.momentum = expected.momentum;  // of no meaning to sgd
  EXPECT_EQ(rule, expected) << "neither schedule nor decay nor clipping";
  EXPECT_EQ(Parse(job).optimizer.learning_rate, 0.5f);

  rule = Parse(Replaced(job, "period: 2}", "period: 2, momentum: 0.7}")).ServerOptimizer();
  EXPECT_EQ(rule.kind, optim::Kind::kMomentum);
  EXPECT_EQ(rule.learning_rate, 1);
  EXPECT_EQ(rule.momentum, 0.7f);
  for (const char* other : {"momentum", "adam", "lamb"}) {
    EXPECT_THAT(MistakeIn(Replaced(job, "type: sgd", std::string("type: ") + other)),
                AllOf(StartsWith("job.yaml:23: "), HasSubstr("averaging goes with sgd"), HasSubstr(other)));
  }
}

// What each element keeps beside its value may not change; how it changes may.
TEST(Job, TheSlotsOfAnOptimizerAreOfTheIdentity) {
  const auto slots = [](const char* optimizer) {
    const std::string text = Replaced(kFullJob, "{type: adam, learning_rate: 0.01}", optimizer);
    for (const auto& [name, value] : Parse(text).Identity()) {
      if (name == "optimizer.slots") return value;
    }
    return std::string("none");
  };
  EXPECT_EQ(slots("{type: sgd}"), "");
  EXPECT_EQ(slots("{type: rmsprop}"), "square");
  EXPECT_EQ(slots("{type: rmsprop, alpha: 0.5}"), "square");
  EXPECT_EQ(slots("{type: rmsprop, momentum: 0.9}"), "square, velocity");
  EXPECT_EQ(slots("{type: rmsprop, momentum: 0.9, centered: true}"), "square, mean, velocity");
}

TEST(Job, LambHasWholeVariables) {
  const auto table = Parse(Replaced(kFullJob, "type: adam", "type: lamb")).Slices();
  EXPECT_EQ(table.slices.size(), table.variables.size());
  EXPECT_GT(Parse(kFullJob).Slices().slices.size(), table.variables.size());
}

TEST(Job, TheCutHashCoversWhatAnIndexMeans) {
  const uint64_t hash = Parse(kFullJob).Cuts().hash;
  for (const auto& [old, by] : {std::pair{"batch_size: 32", "batch_size: 33"},
                                {"split_batches: 4", "split_batches: 5"},
                                {"shuffle: false", "shuffle: true"},
                                {"mean: 3.5", "mean: 3.6"}}) {
    EXPECT_NE(Parse(Replaced(kFullJob, old, by)).Cuts().hash, hash) << by;
  }
  for (const auto& [old, by] : {std::pair{"workers: 3", "workers: 4"}, {"units: 8", "units: 9"}}) {
    EXPECT_EQ(Parse(Replaced(kFullJob, old, by)).Cuts().hash, hash) << by;
  }
}

// ---- as a user starts it, and as roles are sent it

class LoadTest : public ::testing::Test {
 protected:
  // That what roles are sent is the same job.
  static void ExpectRoundTrip(const Job& job) {
    const std::string yaml = job.config.ToYaml();
    const Job again = Job::FromText(yaml, "job");
    EXPECT_EQ(Described(again), Described(job));
    EXPECT_EQ(again.config.ToYaml(), yaml);
  }
  // As the coordinator leaves it.
  static void Keep(const Job& job) {
    auto store = checkpoint::Store::Open(job.directory, false);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    ASSERT_TRUE((*store)->WriteJob(job.config.ToYaml()).ok());
  }

  TempDir directory_;
};

TEST_F(LoadTest, RolesAreSentTheSameJob) {
  const std::string file = directory_.Write("job.yaml", kFullJob);
  const Job job = Job::Load({.file = file}, {.directory = directory_ / "j"});
  EXPECT_EQ(job.directory, directory_ / "j");
  ExpectRoundTrip(job);
  ExpectRoundTrip(Job::Load({.text = kSmallJob}, {}));
  ExpectRoundTrip(Job::Load({.text = kSmallJob}, {.directory = "/a \"b\" \\c: #d/日本",
                                                  .workers = 7,
                                                  .servers = 12,
                                                  .rate = 1234567.25,
                                                  .events = 98765}));
}

TEST_F(LoadTest, WhatTheCommandLineSaysGoesFirst) {
  const Job job = Job::Load({.text = kFullJob}, {.data = "data",
                                                 .directory = "jobs/../here",
                                                 .workers = 7,
                                                 .servers = 6,
                                                 .rate = 1234567.25,
                                                 .events = 98765});
  EXPECT_EQ(job.workers, 7u);
  EXPECT_EQ(job.servers, 6u);
  EXPECT_EQ(job.max_servers, 6u) << "slices for all of them";
  EXPECT_EQ(job.stream.bots->rate, 1234567.25);
  EXPECT_EQ(job.stream.bots->events, 98765u);
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(job.directory, (here / "here").string());
  EXPECT_EQ(job.data, (here / "data").string());
  EXPECT_EQ(job.evaluate->paths[0], (here / "data/a.csv").string());
  EXPECT_EQ(job.LogDirectory(), (here / "data/elsewhere").string());
  EXPECT_EQ(Job::Load({.text = kFullJob}, {.rate = 0}).stream.bots->rate, 0) << "as fast as it goes";
}

TEST_F(LoadTest, PathsAreThoseOfTheMomentItWasStarted) {
  const Job job = Job::Load({.text = kFullJob}, {});
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(job.data, here.string());
  EXPECT_EQ(job.evaluate->paths[1], (here / "b.csv").string());
  EXPECT_EQ(Job::Load({.text = kSmallJob}, {.directory = directory_.path()}).LogDirectory(),
            directory_ / "log");
}

TEST_F(LoadTest, ADirectoryHasOneNameHoweverItIsWritten) {
  const std::string name = directory_ / "j";
  for (const std::string& way :
       {name, name + "/", name + "//", directory_ / "./j/.", directory_ / "x/../j/"}) {
    const Job job = Job::Load({.text = kSmallJob}, {.directory = way});
    EXPECT_EQ(job.directory, name) << way;
    EXPECT_EQ(job.PinOwner(), "small@" + name) << way;
  }
  EXPECT_EQ(Job::Load({.text = kSmallJob}, {.data = "/"}).data, "/");
}

TEST_F(LoadTest, MistakesKeepTheLinesOfTheFile) {
  const std::string file = directory_.Write("my.yaml", Replaced(kFullJob, "batch_size: 32", "batch_size: 0"));
  EXPECT_THAT(Mistake([&] { Job::Load({.file = file}, {}); }), StartsWith(file + ":25: batch_size is 0"));
  EXPECT_THAT(Mistake([&] { Job::Load({.file = directory_ / "none.yaml"}, {}); }), HasSubstr("none.yaml"));
  const std::string own = directory_.Write("own.yaml", std::string(kFullJob) + "resolved: {directory: /x}\n");
  EXPECT_THAT(Mistake([&] { Job::Load({.file = own}, {}); }),
              AllOf(StartsWith(own + ":31"), HasSubstr("resolved")));
}

TEST_F(LoadTest, AnyStyleOfYamlWillDo) {
  const std::string flow = R"({"name": "j", "stream": {"topic": "t"},
 "schema": {"format": "json", "fields": {"x": {"type": "number"}}},
 "model": {"layers": [{"bias": {"units": 1}}], "loss": "negative_sum"},
 "optimizer": {"type": "sgd", "learning_rate": 1}})";
  const std::string job =
      "name: j\nstream: {topic: t}\nschema: {format: json, fields: {x: {type: number}}}\n"
      "model: {layers: [bias: {units: 1}], loss: negative_sum}\n"
      "optimizer: {type: sgd, learning_rate: 1}";
  for (const std::string& text :
       {flow, job, "---\n" + job + "\n...\n", job + "\n# the end", job + "\n\n\n"}) {
    const std::string file = directory_.Write("job.yaml", text);
    const Job loaded = Job::Load({.file = file}, {.directory = directory_ / "j", .workers = 5});
    EXPECT_EQ(loaded.directory, directory_ / "j") << text;
    EXPECT_EQ(loaded.workers, 5u) << text;
    ExpectRoundTrip(loaded);
  }
}

TEST_F(LoadTest, AResumedJobIsAsItWasUnlessSaidOtherwise) {
  const std::string where = directory_ / "j";
  const Job first = Job::Load(
      {.text = kFullJob},
      {.data = "/somewhere", .directory = where, .workers = 5, .servers = 9, .rate = 250, .events = 777});
  Keep(first);
  EXPECT_EQ(first.max_servers, 9u);
  const Job same = Job::Load({.resume = where}, {});
  EXPECT_EQ(Described(same), Described(first));
  ExpectRoundTrip(same);

  const Job other = Job::Load({.resume = where}, {.workers = 1, .servers = 2, .rate = 0, .events = 888});
  EXPECT_EQ(other.workers, 1u);
  EXPECT_EQ(other.servers, 2u);
  EXPECT_EQ(other.stream.bots->rate, 0);
  EXPECT_EQ(other.stream.bots->events, 888u);
  EXPECT_EQ(other.Slices(), first.Slices()) << "slicing is for the job's life";
  EXPECT_EQ(Job::Load({.resume = where}, {.servers = 30}).Slices(), first.Slices());
  ExpectRoundTrip(other);
}

TEST_F(LoadTest, AFileBesideAResumedJobHasTheWord) {
  const std::string where = directory_ / "j";
  const Job first =
      Job::Load({.text = kFullJob}, {.data = "/somewhere", .directory = where, .servers = 9, .rate = 250});
  Keep(first);
  const std::string file =
      directory_.Write("job.yaml", Replaced(kFullJob, "learning_rate: 0.01", "learning_rate: 0.5"));
  const Job job = Job::Load({.file = file, .resume = where}, {});
  EXPECT_EQ(job.optimizer.learning_rate, 0.5f);
  EXPECT_EQ(job.servers, 2u);
  EXPECT_EQ(job.stream.bots->rate, 1000);
  EXPECT_EQ(job.directory, where);
  EXPECT_EQ(job.data, "/somewhere") << "its data has not moved";
  EXPECT_EQ(job.Slices(), first.Slices());
}

TEST(Job, ItsHashIsOfWhatCannotChange) {
  const uint64_t hash = Parse(kFullJob).Hash();
  EXPECT_NE(hash, 0u);
  EXPECT_EQ(Parse(Parse(kFullJob).config.ToYaml()).Hash(), hash) << "as roles are sent it";
  for (const auto& [old, by] : {std::pair("units: 8", "units: 9"),
                                {"seed: 7", "seed: 8"},
                                {"type: adam", "type: sgd"},
                                {"topic: payments", "topic: others"},
                                {"mean: 3.5", "mean: 3"},
                                {"strategy: async", "strategy: sync"}}) {
    EXPECT_NE(Parse(Replaced(kFullJob, old, by)).Hash(), hash) << by;
  }
  for (const auto& [old, by] : {std::pair("rate: 0.01", "rate: 0.5"),
                                {"workers: 3", "workers: 4"},
                                {"strategy: async", "strategy: {type: downpour, n_push: 1}"}}) {
    EXPECT_EQ(Parse(Replaced(kFullJob, old, by)).Hash(), hash) << by;
  }
}

TEST_F(LoadTest, WhatIsNoJobCannotBeResumed) {
  EXPECT_THAT(Mistake([&] { Job::Load({.resume = directory_.path()}, {}); }), HasSubstr(directory_.path()));
  EXPECT_THAT(Mistake([&] { Job::Load({.resume = directory_ / "none"}, {}); }), HasSubstr("none"));
  const Job job = Job::Load({.text = kSmallJob}, {.directory = directory_ / "j"});
  Keep(job);
  std::string text = testing::ReadAll(directory_ / "j/job.yaml");
  text[text.size() / 2] ^= 1;
  directory_.Write("j/job.yaml", text);
  EXPECT_THAT(Mistake([&] { Job::Load({.resume = directory_ / "j"}, {}); }), HasSubstr("job.yaml"));
}

// ---- columns of CSV files

constexpr const char* kCsvJob = R"(
stream: {files: {format: csv, paths: [a.csv, b.csv], header: true}}
schema: {format: csv, fields: {y: {type: number, role: label}, x: {type: number}}}
model: {layers: [dense: {units: 1}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 0.1}
evaluate: {files: {format: csv, paths: [c.csv], header: true}}
)";

TEST_F(LoadTest, ColumnsAreFoundByNameAndKeptForRolesThatHaveNoFiles) {
  directory_.Write("a.csv", "x, other ,\"y\"\n1,2,3\n");
  directory_.Write("b.csv", "x,other,y\n4,5,6\n");
  directory_.Write("c.csv", "y,x\n3,1\n");
  Job job = Job::Load({.text = kCsvJob}, {.data = directory_.path()});
  EXPECT_THAT(job.schema.columns, ElementsAre("x", "other", "y"));
  EXPECT_THAT(job.EvaluationSchema().columns, ElementsAre("y", "x"));
  CheckReadable(job);
  std::filesystem::remove(directory_ / "a.csv");
  ExpectRoundTrip(job);
}

TEST_F(LoadTest, ADelimiterThatIsNotSaidIsFoundSaidAndKept) {
  directory_.Write("a.csv", "x;y\n1.5;2\n");
  directory_.Write("b.csv", "x;y\n2.5;3\n");
  directory_.Write("c.csv", "y,x\n3,1\n");
  const JobOverrides overrides{.data = directory_.path(), .directory = directory_ / "j"};
  const Job job = Job::Load({.text = kCsvJob}, overrides);
  EXPECT_EQ(job.schema.delimiter, ';');
  EXPECT_THAT(job.schema.columns, ElementsAre("x", "y"));
  EXPECT_THAT(job.notes, ElementsAre((directory_ / "a.csv") + ": delimiter ';' found, 2 columns"));
  EXPECT_EQ(job.EvaluationSchema().delimiter, ',');
  CheckReadable(job);
  ExpectRoundTrip(job);

  // The directory of a job keeps it, whatever has become of the files.
  Keep(job);
  for (const char* name : {"a.csv", "b.csv"}) directory_.Write(name, "x|y|q;x;y\n1|2|3;4;5\n");
  EXPECT_EQ(Job::Load({.resume = directory_ / "j"}, {}).schema.delimiter, ';');
  EXPECT_THAT(Job::Load({.resume = directory_ / "j"}, {}).notes, ElementsAre());
  EXPECT_EQ(Job::Load({.text = kCsvJob, .resume = directory_ / "j"}, {}).schema.delimiter, ';');
  EXPECT_THAT(Mistake([&] { Job::Load({.text = kCsvJob}, overrides); }), HasSubstr("divide the lines alike"));

  // One made before there was a choice has commas.
  for (const char* name : {"a.csv", "b.csv"}) directory_.Write(name, "x,y,q;x;y\n1,2,3;4;5\n");
  Job old = Job::FromText(Replaced(job.config.ToYaml(), "  delimiter: \";\"\n", ""), "job");
  old.directory = directory_ / "old";
  Keep(old);
  EXPECT_EQ(Job::Load({.resume = directory_ / "old"}, {}).schema.delimiter, ',');
}

TEST_F(LoadTest, ADelimiterThatIsSaidIsTaken) {
  const std::string without =
      Replaced(Replaced(kCsvJob, "paths: [a.csv, b.csv], header: true", "paths: [a.csv]"),
               "evaluate: {files: {format: csv, paths: [c.csv], header: true}}", "");
  const auto load = [&](const std::string& more) {
    return Job::Load({.text = Replaced(without, "{format: csv, fields", "{format: csv, " + more + "fields")},
                     {.data = directory_.path()});
  };
  directory_.Write("a.csv", "1,5;2\n2,5;3\n");
  EXPECT_THAT(Mistake([&] { load(""); }),
              HasSubstr("',' (2 columns) and ';' (2 columns) divide the lines alike"));
  const Job said = load("delimiter: \";\", ");
  EXPECT_EQ(said.schema.delimiter, ';');
  EXPECT_THAT(said.notes, ElementsAre());
  directory_.Write("a.csv", "1 2\n2 3\n");
  EXPECT_THAT(load("").notes, ElementsAre((directory_ / "a.csv") + ": no delimiter found; ',' is assumed"));
  EXPECT_THAT(Mistake([&] { CheckReadable(load("")); }), HasSubstr("has 1 columns instead of 2"));
}

TEST_F(LoadTest, FilesOfOneStreamHaveOneDelimiter) {
  directory_.Write("a.csv", "x;y\n1.5;2\n");
  directory_.Write("b.csv", "x,y\n2.5,3\n");
  directory_.Write("c.csv", "y,x\n3,1\n");
  EXPECT_EQ(Mistake([&] { Job::Load({.text = kCsvJob}, {.data = directory_.path()}); }),
            (directory_ / "b.csv") + ": its delimiter is ',', " + (directory_ / "a.csv") + " has ';'");
}

TEST_F(LoadTest, DevicesAndThreadsOfWorkers) {
  for (const char* name : {"a.csv", "b.csv", "c.csv"}) directory_.Write(name, "x,y\n1,2\n");
  const auto load = [&](const std::string& layer, const std::string& more) {
    const std::string text = Replaced(kCsvJob, "dense: {units: 1}", layer) + more;
    return Job::Load({.text = text}, {.data = directory_.path()});
  };
  const Job job =
      load("dense: {units: 1, device: \"cpu:0\"}", "compute: {inter_op_threads: 2, intra_op_threads: 0}");
  CheckReadable(job);
  ExpectRoundTrip(job);
  const engine::PlanOptions plan = job.Plan({});
  EXPECT_EQ(plan.inter_op_threads, 2);
  EXPECT_EQ(plan.intra_op_threads, 0);
  EXPECT_EQ(plan.machine->DeviceNames(), "cpu:0");
  EXPECT_EQ(Mistake([&] { CheckReadable(load("dense: {units: 1, device: \"gpu:0\"}", "")); }),
            "job:4: there is no device \"gpu:0\"; there is cpu:0 (compute: cpu_devices divides the cores)");
  EXPECT_THAT(Mistake([&] { load("dense: {units: 1}", "compute: {inter_op_threads: -1}"); }),
              HasSubstr("inter_op_threads is -1; must be between 0 and 1024"));
  EXPECT_THAT(Mistake([&] { CheckReadable(load("dense: {units: 1}", "compute: {cpu_devices: 1024}")); }),
              HasSubstr("1024 CPU devices for"));
}

TEST_F(LoadTest, FilesThatDoNotFitTheSchemaAreSaid) {
  std::string text(2000, 'a');
  for (size_t i = 0; i < text.size(); ++i) text[i] = "abcd"[i * i % 7 % 4];
  const auto mistake = [&](const std::string& job) {
    directory_.Write("input.txt", text);
    return Mistake([&] { CheckReadable(Job::Load({.text = job}, {.data = directory_.path()})); });
  };
  const std::string job = Replaced(kTextJob, "resolved: {data: /somewhere}\n", "");
  EXPECT_EQ(mistake(job), "");
  const std::string other = Replaced(job, "alphabet: abcd", "alphabet: wxyz");
  EXPECT_THAT(mistake(other), AllOf(StartsWith("job:3: "), HasSubstr("input.txt: 33 of the first 33 records"),
                                    HasSubstr("partition 0 offset 0"), HasSubstr("not in the alphabet")))
      << "of the evaluation, which is looked at first";
  // So few that they are dead letters, or so many that the job would stop.
  text[700] = 'x';
  EXPECT_EQ(mistake(job), "");
  text.assign(20'000, 'a');
  std::fill_n(text.begin(), 8000, 'x');
  EXPECT_THAT(mistake(job), AllOf(StartsWith("job:3: "),
                                  HasSubstr("2667 of the first 5998 records do not fit the schema")));
  EXPECT_EQ(mistake(job + "train: {max_dead_letter_rate: 0.5}\n"), "");
}

TEST_F(LoadTest, HeadersThatDoNotFitAreSaid) {
  const auto mistake = [&] {
    return Mistake([&] { CheckReadable(Job::Load({.text = kCsvJob}, {.data = directory_.path()})); });
  };
  EXPECT_THAT(mistake(), HasSubstr("a.csv"));
  directory_.Write("a.csv", "x,y\n1,2\n");
  EXPECT_THAT(mistake(), HasSubstr("b.csv"));
  directory_.Write("b.csv", "y,x\n1,2\n");
  EXPECT_THAT(mistake(), AllOf(HasSubstr("b.csv"), HasSubstr("a.csv")));
  directory_.Write("b.csv", "x,y\n1,2\n");
  EXPECT_THAT(mistake(), HasSubstr("c.csv"));
  directory_.Write("c.csv", "x,z\n1,2\n");
  EXPECT_THAT(mistake(), HasSubstr("y"));
  directory_.Write("c.csv", "x,z,y\n1,2,3\n");
  EXPECT_EQ(mistake(), "");
  directory_.Write("a.csv", "x,z\n1,2\n");
  directory_.Write("b.csv", "x,z\n1,2\n");
  EXPECT_THAT(mistake(), HasSubstr("y"));
}

// ---- what is there to read

TEST_F(LoadTest, AStreamThatCannotBeReadIsSaid) {
  const std::string topic = Replaced(kSmallJob, ", bots: {events: 4000, customers: 100}", ", log: mylog");
  const auto mistake = [&](const std::string& text) {
    return Mistake([&] { CheckReadable(Job::Load({.text = text}, {.data = directory_.path()})); });
  };
  EXPECT_THAT(mistake(topic), AllOf(HasSubstr("events"), HasSubstr("mylog"))) << "no such topic";
  ASSERT_TRUE(stream::EmbeddedLog::Create(directory_ / "mylog", "events", {.partitions = 2}).ok());
  EXPECT_THAT(mistake(topic), AllOf(HasSubstr("is empty"), HasSubstr("live: true")));
  EXPECT_EQ(mistake(Replaced(topic, "log: mylog", "log: mylog, live: true")), "");
  auto writer = stream::LogWriter::Open(directory_ / "mylog", "events");
  ASSERT_TRUE(writer.ok());
  const std::vector<std::string_view> records{"{}"};
  ASSERT_TRUE((*writer)->Append(1, records).ok());
  EXPECT_EQ(mistake(topic), "");
  EXPECT_EQ(mistake(kSmallJob), "") << "bots will write it";
  EXPECT_THAT(mistake(std::string(kSmallJob) + "evaluate: {files: {format: csv, paths: [none.csv]}}"),
              HasSubstr("none.csv"));
}

}  // namespace
}  // namespace leat::train
