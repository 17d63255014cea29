// From the parsed file to the job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "job/input/log_stream.h"
#include "job/job.h"
#include "job/testing.h"

namespace leat::job {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Sections, TimeoutsOfRoles) {
  const Job usual = Parse(kSmallJob);
  EXPECT_EQ(usual.heartbeat_interval, std::chrono::milliseconds(500));
  EXPECT_EQ(usual.heartbeat_timeout, std::chrono::seconds(2));
  EXPECT_EQ(usual.leases.first, std::chrono::minutes(15));
  EXPECT_EQ(usual.stuck_timeout, std::chrono::minutes(15));
  const Job job =
      Parse(Replaced(kSmallJob, "placement: partitioned}",
                     "placement: partitioned, heartbeat_interval_s: 0.5, heartbeat_timeout_s: 20, "
                     "lease_timeout_s: 60, stuck_timeout_s: 600}\n"
                     "debug: {step_ms: 30, init_ms: 40, hang_after: 50, die_at: move_made, die_after: 60}"));
  EXPECT_EQ(job.heartbeat_interval, std::chrono::milliseconds(500));
  EXPECT_EQ(job.heartbeat_timeout, std::chrono::seconds(20));
  EXPECT_EQ(job.leases.first, std::chrono::seconds(60));
  EXPECT_EQ(job.stuck_timeout, std::chrono::minutes(10));
  EXPECT_EQ(job.debug.step, std::chrono::milliseconds(30));
  EXPECT_EQ(job.debug.init, std::chrono::milliseconds(40));
  EXPECT_EQ(job.debug.hang_after, 50u);
  EXPECT_EQ(job.debug.die_at, DiePoint::kMoveMade);
  EXPECT_EQ(job.debug.die_after, 60u);
  EXPECT_EQ(Parse(std::string(kSmallJob) + "debug: {die_at: push}\n").debug.die_at, DiePoint::kPush);
}

TEST(Sections, WorkersMayBeARange) {
  const Job range = Parse(Replaced(kFullJob, "workers: 3", "workers: 2:8"));
  EXPECT_EQ(range.workers, 2u);
  EXPECT_EQ(range.max_workers, 8u);
  EXPECT_EQ(Parse(kFullJob).max_workers, 3u);
  const Job none = Parse(std::string(kFullJob) + "resolved: {workers: 4}\n");
  EXPECT_EQ(none.workers, 4u);
  EXPECT_EQ(none.max_workers, 4u);
  const Job resolved = Parse(std::string(kFullJob) + "resolved: {workers: \"4:6\"}\n");
  EXPECT_EQ(resolved.workers, 4u);
  EXPECT_EQ(resolved.max_workers, 6u);
  const std::string sync = Replaced(range.config.ToYaml(), "strategy: async", "strategy: sync");
  EXPECT_EQ(Parse(sync).strategy.lanes, 8u) << "a lane for each of the most";
  const std::string follows = Replaced(sync, "strategy: sync", "strategy: {type: sync, lanes: auto}");
  EXPECT_EQ(Parse(follows).strategy.lanes, 2u) << "more when there are more";
  const auto allreduce = [](const char* strategy, const char* workers) {
    return MistakeIn(Replaced(Replaced(kFullJob, "strategy: async", strategy), "workers: 3", workers));
  };
  EXPECT_EQ(allreduce("strategy: allreduce", "workers: 2:8"), "");
  EXPECT_THAT(allreduce("strategy: allreduce", "workers: 1:8"),
              AllOf(StartsWith("job.yaml:24: "), HasSubstr("allreduce with 1 worker"), HasSubstr("1:8")));
  EXPECT_THAT(
      allreduce("strategy: {type: allreduce, transport: mpi}", "workers: 2:8"),
      AllOf(StartsWith("job.yaml:24: "), HasSubstr("mpirun starts a fixed number of workers, not 2:8")));
}

TEST(Sections, TheAutoscalerAndItsHook) {
  const Job usual = Parse(kSmallJob);
  EXPECT_TRUE(usual.autoscale.command.empty());
  EXPECT_EQ(usual.autoscale.timeout, std::chrono::seconds(30));
  EXPECT_EQ(usual.autoscale.lag, std::chrono::seconds(5));
  EXPECT_EQ(usual.autoscale.cool_down, std::chrono::seconds(10));
  const auto with = [](const std::string& settings) {
    return std::string(kSmallJob) + "autoscale: {" + settings + "}\n";
  };
  const Job job =
      Parse(with("command: [kubectl, scale, \"--replicas={workers}\"], timeout_s: 2.5, lag_s: 60, "
                 "cool_down_s: 120"));
  EXPECT_THAT(job.autoscale.command, ElementsAre("kubectl", "scale", "--replicas={workers}"));
  EXPECT_EQ(job.autoscale.timeout, std::chrono::milliseconds(2500));
  EXPECT_EQ(job.autoscale.lag, std::chrono::minutes(1));
  EXPECT_EQ(job.autoscale.cool_down, std::chrono::minutes(2));
  for (const auto& [settings, part] : {std::pair{"command: kubectl scale", "no shell reads it"},
                                       {"command: []", "no shell reads it"},
                                       {"command: [\"\", a]", "empty name of a program"},
                                       {"timeout_s: 0", "timeout_s is 0"},
                                       {"lag_s: 0.1", "lag_s is 0.1"},
                                       {"lag_s: soon", "lag_s"},
                                       {"cool_down_s: 0", "cool_down_s is 0"},
                                       {"cooldown_s: 5", "did you mean 'cool_down_s'"}}) {
    EXPECT_THAT(MistakeIn(with(settings)), AllOf(StartsWith("job.yaml:"), HasSubstr(part)));
  }
}

TEST(Sections, EverySectionIsRead) {
  const Job job = Parse(kFullJob);
  EXPECT_EQ(job.name, "fraud");
  EXPECT_EQ(job.seed, 7u);
  const auto& log = *As<LogStream>(job.stream);
  EXPECT_EQ(log.topic, "payments");
  EXPECT_EQ(log.where, "elsewhere");
  EXPECT_EQ(log.options.partitions, 3u);
  EXPECT_EQ(log.options.retention_bytes, 100'000'000u) << "of a partition";
  EXPECT_EQ(log.options.retention_time, std::chrono::hours(2));
  ASSERT_NE(job.stream->bots(), nullptr);
  EXPECT_EQ(job.stream->bots()->events, 5000u);
  EXPECT_EQ(job.stream->bots()->rate, 1000);
  EXPECT_EQ(job.stream->bots()->customers, 50u);
  EXPECT_EQ(job.stream->bots()->seed, 9u);
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
  EXPECT_EQ(job.replicas, 1u);
  EXPECT_EQ(Parse(Replaced(kFullJob, "ps: 2,", "ps: 2, replicas: 2,")).replicas, 2u);
  EXPECT_EQ(job.placement.kind, protocol::Placement::kRoundRobin);
  EXPECT_TRUE(job.trusted_network);
  EXPECT_FALSE(job.tls);
  EXPECT_EQ(job.checkpoint_interval_s, 5);
  EXPECT_EQ(job.keep_checkpoints, 3u);
  EXPECT_EQ(job.checkpoint_timeout, std::chrono::seconds(60));
  EXPECT_EQ(Parse(Replaced(kFullJob, "keep: 3", "keep: 3, timeout_s: 600")).checkpoint_timeout,
            std::chrono::minutes(10));
  EXPECT_THAT(MistakeIn(Replaced(kFullJob, "keep: 3", "keep: 3, timeout_s: 0.5")),
              HasSubstr("timeout_s is 0.5"));
  EXPECT_EQ(job.checkpoint_copy_bytes, uint64_t{256} << 20);
  EXPECT_EQ(Parse(Replaced(kFullJob, "keep: 3", "keep: 3, copy_mb: 2")).checkpoint_copy_bytes,
            uint64_t{2} << 20);
  EXPECT_EQ(job.metrics_window, 4000u);
  ASSERT_TRUE(job.evaluate.has_value());
  EXPECT_THAT(job.evaluate->paths, ElementsAre("a.csv", "b.csv"));
}

TEST(Sections, CheckpointsMayBeInABucket) {
  EXPECT_FALSE(Parse(kFullJob).checkpoint_to.has_value());
  const Job job =
      Parse(Replaced(kFullJob, "keep: 3",
                     "keep: 3, to: s3://bucket/jobs/1, endpoint: \"https://store:9000/\", region: eu, "
                     "path_style: false, ca: ca.pem, connections: 8, part_mb: 64"));
  const object_store::Settings expected{.bucket = "bucket",
                                        .prefix = "jobs/1",
                                        .endpoint = "https://store:9000",
                                        .region = "eu",
                                        .path_style = false,
                                        .ca = "ca.pem",
                                        .connections = 8,
                                        .part_bytes = 64 << 20};
  EXPECT_EQ(job.checkpoint_to, expected);
  EXPECT_EQ(Parse(job.config.ToYaml()).checkpoint_to, expected);
}

TEST(Sections, WhatIsLeftOutHasADefault) {
  const Job job = Parse(R"(
stream: {topic: t}
schema: {format: json, fields: {x: {type: number}, y: {type: number, role: label}}}
model: {layers: [dense: {units: 1}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 0.1}
)");
  EXPECT_EQ(job.name, "job");
  EXPECT_EQ(job.seed, 1u);
  EXPECT_EQ(job.stream->bots(), nullptr);
  EXPECT_FALSE(As<LogStream>(job.stream)->live);
  EXPECT_EQ(As<LogStream>(job.stream)->options, stream::TopicOptions());
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

TEST(Sections, EveryMistakeIsSaidWithItsLine) {
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
      {"period: 24", "period: 24, scale: running", "job.yaml:14: ", "a period, which goes without"},
      {"role: label", "role: label, scale: running", "job.yaml:16: ", "scale is for features"},
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
      {"workers: 3", "workers: 3, standby: -1", "job.yaml:26: ", "standby is -1"},
      {"workers: 3", "workers: 8:2", "job.yaml:26: ", "workers: '8:2': the least number"},
      {"workers: 3", "workers: 0:2", "job.yaml:26: ", "1 to 10000"},
      {"workers: 3", "workers: a:2", "job.yaml:26: ", "'a:2' is not a number"},
      {"ps: 2", "ps: 1001", "job.yaml:26: ", "ps is 1001"},
      {"placement: round_robin", "placement: round", "job.yaml:26: ", "round_robin"},
      {"cluster: {", "security: ssl\ncluster: {", "job.yaml:26: ", "tls"},
      {"cluster: {", "security: tls\ncluster: {", "job.yaml:26: ", "a job has one of them"},
      {"trusted_network: true", "trusted_network: rdma", "job.yaml:26: ", "true or false"},
      {"trusted_network: true", "heartbeat_timeout_s: 0.1", "job.yaml:26: ", "heartbeat_timeout_s"},
      {"trusted_network: true", "heartbeat_interval_s: 2",
       "job.yaml:26: ", "at most a quarter of heartbeat_timeout_s"},
      {"trusted_network: true", "lease_timeout_s: 0", "job.yaml:26: ", "lease_timeout_s"},
      {"trusted_network: true", "stuck_timeout_s: forever", "job.yaml:26: ", "stuck_timeout_s"},
      {"trusted_network: true", "trusted_networks: true", "job.yaml:26: ", "did you mean 'trusted_network'"},
      {"interval_s: 5", "interval_s: -5", "job.yaml:27: ", "interval_s is -5"},
      {"keep: 3", "keep: 0", "job.yaml:27: ", "keep is 0"},
      {"keep: 3", "keep: 3, to: gs://bucket/x", "job.yaml:27: ", "'gs://bucket/x' is not s3://BUCKET/PREFIX"},
      {"keep: 3", "keep: 3, part_mb: 8", "job.yaml:27: ", "part_mb needs to: s3://BUCKET/PREFIX"},
      {"keep: 3", "keep: 3, to: s3://bucket/x, part_mb: 4", "job.yaml:27: ", "part_mb is 4"},
      {"keep: 3", "keep: 3, to: s3://bucket/x, connections: 0", "job.yaml:27: ", "connections is 0"},
      {"keep: 3", "keep: 3, to: s3://bucket/x, endpoint: store:9000",
       "job.yaml:27: ", "'store:9000' is not http://"},
      {"keep: 3", "keep: 3, to: s3://bucket/x, regoin: eu", "job.yaml:27: ", "did you mean 'region'"},
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

TEST(Sections, FiguresWithForgettingAndDriftAreAskedFor) {
  const Job usual = Parse(kFullJob);
  EXPECT_FALSE(usual.fading || usual.drift || usual.reports_batches());
  const auto with = [](const char* more) {
    return Replaced(kFullJob, "window: 4000", std::string("window: 4000, ") + more);
  };
  const Job fading = Parse(with("fading: 0.99"));
  EXPECT_EQ(fading.fading, 0.99);
  EXPECT_TRUE(fading.reports_batches() && !fading.drift);
  const Job drift = Parse(with("drift: {detector: page_hinkley, on: error, alarm: checkpoint}"));
  EXPECT_TRUE(drift.reports_batches() && !drift.fading);
  EXPECT_EQ(drift.drift, (metrics::DriftConfig{.detector = metrics::PageHinkleyOptions(),
                                               .on = metrics::DriftConfig::On::kError,
                                               .alarm = metrics::DriftConfig::Alarm::kCheckpoint}));
  for (const auto& [more, said] : {std::pair{"fading: 1", "fading is 1"},
                                   {"drift: adwn", "did you mean 'adwin'"},
                                   {"drift: {detector: adwin, on: absolute_error}", "predicts a number"}}) {
    EXPECT_THAT(MistakeIn(with(more)), AllOf(StartsWith("job.yaml:28: "), HasSubstr(said)));
  }
  EXPECT_THAT(MistakeIn(R"(
stream: {topic: t}
schema: {format: json, fields: {x: {type: number}, y: {type: number, role: label}}}
model: {layers: [dense: {units: 1}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 0.1}
metrics: {drift: {detector: adwin, on: error}}
)"),
              AllOf(StartsWith("job.yaml:6: "), HasSubstr("predicts classes")));
}

TEST(Sections, AnAlarmRaisesTheRateUnlessTheJobIsDeterministic) {
  const auto with = [](const char* strategy) {
    return std::string(R"(
stream: {topic: t}
schema: {format: json, fields: {x: {type: number}, y: {type: number, role: label}}}
model: {layers: [dense: {units: 1}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 0.1}
metrics: {drift: {detector: adwin, alarm: raise_rate, factor: 10, events: 2000}}
)") + strategy;
  };
  const Job job = Parse(with("strategy: allreduce"));
  EXPECT_EQ(job.drift->alarm, metrics::DriftConfig::Alarm::kRaiseRate);
  EXPECT_EQ(job.drift->factor, 10);
  EXPECT_EQ(job.drift->events, 2000u);
  EXPECT_THAT(MistakeIn(with("strategy: {type: allreduce, deterministic: true}")),
              AllOf(StartsWith("job.yaml:6: "), HasSubstr("deterministic: true")));
}

TEST(Sections, AModelWithoutLabelNeedsNone) {
  const Job job = Parse(R"(
stream: {topic: t}
schema: {format: json, fields: {x: {type: number}}}
model: {layers: [bias: {units: 1}], loss: negative_sum}
optimizer: {type: sgd, learning_rate: 0.1}
)");
  EXPECT_EQ(job.model->task(), nn::Task::kNone);
}

TEST(Sections, ACategoryMayBeTheLabel) {
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

TEST(Sections, TextIsCutByTheStreamAndReadByTheSchema) {
  const Job job = Parse(kTextJob);
  EXPECT_EQ(job.stream->files()->format, "text");
  EXPECT_EQ(job.stream->files()->sequence, 6u);
  EXPECT_EQ(job.stream->files()->stride, 3u);
  EXPECT_EQ(job.stream->files()->part_end, 0.9);
  EXPECT_EQ(job.schema.features(), 6u);
  EXPECT_EQ(job.schema.labels(), 6u);
  EXPECT_EQ(job.model->labels(), 6u);
  EXPECT_EQ(job.model->outputs(), 4u);
  ASSERT_TRUE(job.evaluate.has_value());
  EXPECT_EQ(job.evaluate->sequence, 6u) << "as the stream's";
  EXPECT_EQ(job.evaluate->part_begin, job.stream->files()->part_end);
  EXPECT_EQ(job.evaluate->part_end, 1);
}

TEST(Sections, MistakesInJobsOnTextAreSaidWithTheirLine) {
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

TEST(Sections, SeveralNumbersMayBePredicted) {
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
  EXPECT_THAT(MistakeIn(Replaced(job, "units: 2", "units: 1")), HasSubstr("each of the 2 labels"));
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

TEST(Sections, WhatIndexesATableIsCheckedBeforeAnythingIsStarted) {
  EXPECT_EQ(MistakeIn(IdsJob("{type: id, below: 50}")), "");
  EXPECT_EQ(MistakeIn(IdsJob("{type: id, below: 20, length: 5, pad: 19}")), "");
  EXPECT_EQ(MistakeIn(IdsJob("{type: id, below: 51}")),
            "job.yaml:6: 'x' makes ids below 51; the model's first layer takes ids below 50");
  EXPECT_THAT(MistakeIn(IdsJob("{type: number}")),
              AllOf(StartsWith("job.yaml:6: "), HasSubstr("{type: id, below: 50}?")));
  EXPECT_THAT(MistakeIn(IdsJob("{type: category, buckets: 5}")), StartsWith("job.yaml:6: "));
  EXPECT_THAT(MistakeIn(IdsJob("{type: id, below: 5}\n    z: {type: number}")), StartsWith("job.yaml:7: "));
}

TEST(Sections, ASplitFitsIntoMemory) {
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

TEST(Sections, StrategiesAreCheckedWithTheWorkersThatThereAre) {
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
  EXPECT_THAT(MistakeIn(with("allreduce") + "resolved: {workers: 1}\n"), HasSubstr("it needs 2 or more"));
  EXPECT_TRUE(Parse(Replaced(kSmallJob, "train:", "strategy: sync\ntrain:")).strategy.sum);
}

TEST(Sections, RunsFitIntoSplits) {
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

TEST(Sections, Topology) {
  const std::string text = Replaced(
      kSmallJob, "name: small", "name: small\ntopology: {servers: {site: north}, workers: {class: cores}}");
  const Job job = Parse(text);
  EXPECT_EQ(job.topology.server_site, "north");
  EXPECT_EQ(job.topology.worker_class, "cores");
  EXPECT_EQ(Parse(kSmallJob).topology, topology::TopologySettings());
  EXPECT_EQ(job.Hash(), Parse(kSmallJob).Hash()) << "checkpoints do not depend on places";
  EXPECT_THAT(MistakeIn(Replaced(text, "site: north", "site: n/a")), HasSubstr("site 'n/a' is no name"));
}

TEST(Sections, Predictions) {
  const std::string kafka =
      Replaced(Replaced(kSmallJob, "{topic: events,",
                        "{topic: events, kafka: {bootstrap.servers: \"b:9092\"}, dead_letters: dead,"),
               "name: small", "name: small\npredictions: {topic: scores, max_unpublished: 5000}");
  const Job job = Parse(kafka);
  EXPECT_TRUE(job.predictions.enabled());
  EXPECT_EQ(job.predictions.topic, "scores");
  EXPECT_EQ(job.predictions.max_unpublished, 5000u);
  const auto refused = [&](const std::string& text, const std::string& why) {
    EXPECT_THAT(MistakeIn(text), HasSubstr(why));
  };
  refused(Replaced(kafka, "topic: scores", "topic: events"), "predictions need another topic than 'events'");
  refused(Replaced(kafka, "topic: scores", "topic: dead"), "predictions need another topic than 'dead'");
  refused(Replaced(kafka, "max_unpublished: 5000", "max_unpublished: 0"), "max_unpublished");
  refused(Replaced(kSmallJob, "name: small", "name: small\npredictions: {topic: scores}"),
          "a topic of Kafka");
}

}  // namespace
}  // namespace leat::job
