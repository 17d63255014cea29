// As a user starts a job, and as roles are sent it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "job/input/input_files.h"
#include "job/input/log_stream.h"
#include "job/job.h"
#include "job/resume.h"
#include "job/testing.h"
#include "storage/checkpoint/store.h"

namespace leat::job {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
       << s->epochs << "\n";
  if (const auto* log = As<LogStream>(s); log != nullptr) {
    text << log->topic << " " << log->where << " " << log->options.partitions << " "
         << log->options.retention_bytes << " " << log->options.retention_time.count() << " " << log->live
         << "\n";
  }
  if (s->files() != nullptr) files(*s->files());
  if (const auto* bots = s->bots(); bots != nullptr)
    text << bots->events << " " << bots->rate << " " << bots->customers << " " << bots->seed << "\n";
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

class LoadTest : public ::testing::Test {
 protected:
  // Expects that the text which roles are sent is the same job.
  static void ExpectRoundTrip(const Job& job) {
    const std::string yaml = job.config.ToYaml();
    const Job again = Job::FromText(yaml, "job");
    EXPECT_EQ(Described(again), Described(job));
    EXPECT_EQ(again.config.ToYaml(), yaml);
  }
  // As the coordinator leaves it.
  static void Keep(const Job& job) { KeepText(job.directory, job.config.ToYaml()); }

  static void KeepText(const std::string& directory, const std::string& yaml) {
    auto store = checkpoint::Store::Open(directory, false);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    ASSERT_TRUE((*store)->WriteJob(yaml).ok());
  }
  // Expects that the message begins with "file:N: ", and line N of the file has the word.
  static void ExpectSaysItsLine(const std::string& message, const std::string& file,
                                const std::string& word) {
    ASSERT_THAT(message, StartsWith(file + ":"));
    const int number = std::atoi(message.c_str() + file.size() + 1);
    std::istringstream text(ReadAll(file));
    std::string line;
    for (int i = 0; i < number; ++i) std::getline(text, line);
    EXPECT_THAT(line, HasSubstr(word)) << message;
  }

  TempDir directory_;
};

TEST_F(LoadTest, RolesAreSentTheSameJob) {
  const std::string file = directory_.Write("job.yaml", kFullJob);
  const Job job = Job::Load({.file = file}, {.directory = directory_ / "j"});
  EXPECT_EQ(job.directory, directory_ / "j");
  ExpectRoundTrip(job);
  ExpectRoundTrip(Job::Load({.text = kSmallJob}, {}));
  ExpectRoundTrip(
      Job::Load({.text = std::string(kSmallJob) + "compute: {inter_op_threads: 2, intra_op_threads: 0}\n"
                                                  "strategy: {type: ssp, staleness: 2, lanes: 4}\n"},
                {}));
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
  EXPECT_EQ(job.stream->bots()->rate, 1234567.25);
  EXPECT_EQ(job.stream->bots()->events, 98765u);
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(job.directory, (here / "here").string());
  EXPECT_EQ(job.data, (here / "data").string());
  EXPECT_EQ(job.evaluate->paths[0], (here / "data/a.csv").string());
  EXPECT_EQ(job.stream->directory(), (here / "data/elsewhere").string());
  EXPECT_EQ(Job::Load({.text = kFullJob}, {.rate = 0}).stream->bots()->rate, 0) << "as fast as it goes";
}

TEST_F(LoadTest, PathsAreThoseOfTheMomentItWasStarted) {
  const Job job = Job::Load({.text = kFullJob}, {});
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(job.data, here.string());
  EXPECT_EQ(job.evaluate->paths[1], (here / "b.csv").string());
  EXPECT_EQ(Job::Load({.text = kSmallJob}, {.directory = directory_.path()}).stream->directory(),
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

// A job in braces has nothing behind it, and a file may end in a comment: neither moves a line.
TEST_F(LoadTest, WhatTheCommandLineSetsDoesNotMoveLines) {
  const JobOverrides overrides{.directory = directory_ / "j", .workers = 5};
  const std::string file = directory_.Write("flow.yaml", "{\n# a comment\n\nstream: {topic: t},\nmodl: 3}");
  EXPECT_THAT(Mistake([&] { Job::Load({.file = file}, overrides); }),
              StartsWith(file + ":5: unknown key 'modl'"));
  EXPECT_THAT(
      Mistake([&] { Job::Load({.text = std::string(kFullJob) + "resolved: {workers: 3}\n"}, overrides); }),
      AllOf(StartsWith("job:31: "), HasSubstr("resolved")));
}

TEST_F(LoadTest, MistakesOfTheCommandLineSaySo) {
  EXPECT_THAT(Mistake([&] { Job::Load({.text = kFullJob}, {.events = uint64_t{1} << 51}); }),
              StartsWith("command line: events is 2251799813685248; must be between 1 and"));
}

TEST_F(LoadTest, NothingToLoadIsAMistake) {
  EXPECT_NE(Mistake([] { Job::Load({}, {}); }), "");
  const std::string file = directory_.Write("empty.yaml", "");
  EXPECT_EQ(Mistake([&] { Job::Load({.file = file}, {}); }), file + ":1: a job is a map of sections");
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
  EXPECT_EQ(other.stream->bots()->rate, 0);
  EXPECT_EQ(other.stream->bots()->events, 888u);
  EXPECT_EQ(other.Slices(), first.Slices()) << "slices are fixed when the job is created";
  EXPECT_EQ(Job::Load({.resume = where}, {.servers = 30}).Slices(), first.Slices());
  ExpectRoundTrip(other);
}

TEST_F(LoadTest, ProcessesGoOnWithAResumedJobIfItIsTheSame) {
  const std::string where = directory_ / "j";
  Keep(Job::Load({.text = kFullJob}, {.data = "/somewhere", .directory = where}));
  EXPECT_TRUE(SameAsStored(Job::Load({.resume = where}, {})));
  {
    auto store = checkpoint::Store::Open(where, true);
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE((*store)->WriteJob(Job::Load({.resume = where}, {}).config.ToYaml()).ok());
  }
  EXPECT_TRUE(SameAsStored(Job::Load({.resume = where}, {}))) << "also the second time";
  EXPECT_FALSE(SameAsStored(Job::Load({.resume = where}, {.workers = 1})));
  EXPECT_FALSE(SameAsStored(Job::Load({.resume = where}, {.rate = 1})));
  const std::string file =
      directory_.Write("job.yaml", Replaced(kFullJob, "learning_rate: 0.01", "learning_rate: 0.5"));
  EXPECT_FALSE(SameAsStored(Job::Load({.file = file, .resume = where}, {})));
}

TEST_F(LoadTest, AResumedJobHasTheLanesThatItWasCreatedWith) {
  const std::string where = directory_ / "j";
  const std::string sync = Replaced(kFullJob, "strategy: async", "strategy: sync");
  const Job first = Job::Load({.text = sync}, {.directory = where, .workers = 4});
  EXPECT_EQ(first.strategy.lanes, 4u);
  EXPECT_THAT(first.notes, ElementsAre());
  Keep(first);
  const Job smaller = Job::Load({.resume = where}, {.workers = 2});
  EXPECT_EQ(smaller.strategy.lanes, 4u);
  EXPECT_THAT(smaller.notes, ElementsAre());
  ExpectRoundTrip(smaller);
  std::filesystem::remove_all(where);
  Keep(smaller);
  const Job larger = Job::Load({.resume = where}, {.workers = 7});
  EXPECT_EQ(larger.strategy.lanes, 4u);
  EXPECT_THAT(larger.notes, ElementsAre("the job was created with 4 lanes; of its 7 workers 3 will have none "
                                        "until others are lost"));
  ExpectRoundTrip(larger);
  const Job written = Job::Load(
      {.text = Replaced(sync, "strategy: sync", "strategy: {type: sync, lanes: 6}"), .resume = where}, {});
  EXPECT_EQ(written.strategy.lanes, 6u);
  const std::string follows = Replaced(sync, "strategy: sync", "strategy: {type: sync, lanes: auto}");
  const Job automatic = Job::Load({.text = follows, .resume = where}, {.workers = 7});
  EXPECT_EQ(automatic.strategy.lanes, 4u) << "the learning rate is scaled relative to these";
  EXPECT_THAT(automatic.notes, ElementsAre());
}

TEST_F(LoadTest, ARangeOfWorkersIsKept) {
  const std::string where = directory_ / "j";
  const Job first =
      Job::Load({.text = kFullJob}, {.directory = where, .workers = 2, .max_workers = 8, .servers = 2});
  EXPECT_EQ(first.workers, 2u);
  EXPECT_EQ(first.max_workers, 8u);
  ExpectRoundTrip(first);
  Keep(first);
  const Job same = Job::Load({.resume = where}, {});
  EXPECT_TRUE(SameAsStored(same));
  EXPECT_FALSE(SameAsStored(Job::Load({.resume = where}, {.workers = 2, .max_workers = 9})));
  EXPECT_EQ(same.workers, 2u);
  EXPECT_EQ(same.max_workers, 8u);
  const Job fixed = Job::Load({.resume = where}, {.workers = 3, .max_workers = 3});
  EXPECT_EQ(fixed.workers, 3u);
  EXPECT_EQ(fixed.max_workers, 3u);
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
  EXPECT_EQ(job.stream->bots()->rate, 1000);
  EXPECT_EQ(job.directory, where);
  EXPECT_EQ(job.data, "/somewhere") << "its data has not moved";
  EXPECT_EQ(job.Slices(), first.Slices());
}

// The text of the user's file with the section behind it, or the whole tree written again.
TEST_F(LoadTest, DirectoriesOfEarlierVersionsAreResumed) {
  const std::string user = "# of the user\n" + std::string(kFullJob) + "# the end";
  const std::string section =
      "\nresolved:\n  directory: \"/elsewhere\"\n  data: \"/data\"\n  workers: 5\n  ps: 6\n  max_ps: 7\n"
      "  rate: 12.5\n  events: 777\n";
  size_t number = 0;
  for (const std::string& text : {user + section, Config::Parse(user + section, "job").ToYaml()}) {
    const std::string where = directory_ / std::to_string(number++);
    KeepText(where, text);
    const Job job = Job::Load({.resume = where}, {});
    EXPECT_EQ(job.directory, where);
    EXPECT_EQ(job.data, "/data");
    EXPECT_EQ(job.workers, 5u);
    EXPECT_EQ(job.servers, 6u);
    EXPECT_EQ(job.max_servers, 7u);
    EXPECT_EQ(job.stream->bots()->rate, 12.5);
    EXPECT_EQ(job.stream->bots()->events, 777u);
    EXPECT_EQ(job.Identity(), Parse(kFullJob).Identity());
    CheckResumable(job);
    ExpectRoundTrip(job);
  }
}

TEST_F(LoadTest, TheOldNameOfASettingIsNotedAndResumed) {
  const auto with = [](const std::string& name) {
    return Replaced(kFullJob, "strategy: async", "strategy:\n  type: sync\n  " + name + ": 6");
  };
  const std::string file = directory_.Write("my.yaml", with("virtual_workers"));
  const Job job = Job::Load({.file = file}, {.directory = directory_ / "j", .workers = 4});
  EXPECT_EQ(job.strategy, Job::Load({.text = with("lanes")}, {.workers = 4}).strategy);
  EXPECT_EQ(job.strategy.lanes, 6u);
  EXPECT_THAT(job.notes,
              ElementsAre(file + ":26: 'virtual_workers' is called 'lanes' now; the old name still works"));
  EXPECT_THAT(Job::Load({.text = with("lanes")}, {}).notes, ElementsAre());
  ExpectRoundTrip(job);

  Keep(job);
  const Job resumed = Job::Load({.resume = directory_ / "j"}, {});
  CheckResumable(resumed);
  EXPECT_EQ(Described(resumed), Described(Job::Load({.text = with("lanes"), .resume = directory_ / "j"},
                                                    {.workers = 4, .servers = 2})));
  ASSERT_EQ(resumed.notes.size(), 1u);
  ExpectSaysItsLine(resumed.notes[0], directory_ / "j/job.yaml", "virtual_workers");
}

TEST_F(LoadTest, AResumedJobHasOneDirectory) {
  const std::string where = directory_ / "j", link = directory_ / "link";
  Keep(Job::Load({.text = kFullJob}, {.directory = where}));
  std::filesystem::create_directory_symlink(where, link);
  for (const std::string& same : {where, where + "/", directory_ / "./x/../j", link})
    EXPECT_EQ(Job::Load({.resume = where}, {.directory = same}).directory, where) << same;
  for (const std::string& other : {directory_ / "x1", directory_.path()}) {
    const auto load = [&] { Job::Load({.text = kFullJob, .resume = where}, {.directory = other}); };
    EXPECT_EQ(Mistake(load),
              "--resume " + where + " continues in that directory; --directory " + other + " is another one");
  }
}

// Roles and resumed jobs name lines of job.yaml in the job's directory.
TEST_F(LoadTest, LinesAreThoseOfTheStoredFile) {
  const std::string where = directory_ / "j";
  const Job job = Job::Load({.text = kFullJob}, {.directory = where});
  const std::string wrong = Replaced(job.config.ToYaml(), "type: adam", "type: adm");
  KeepText(where, wrong);
  const std::string resumed = Mistake([&] { Job::Load({.resume = where}, {}); });
  ExpectSaysItsLine(resumed, where + "/job.yaml", "adm");
  const std::string role = Mistake([&] { Job::FromResolved(wrong, where + "/job.yaml"); });
  EXPECT_EQ(role, resumed);
}

TEST_F(LoadTest, WhatIsNoJobCannotBeResumed) {
  EXPECT_THAT(Mistake([&] { Job::Load({.resume = directory_.path()}, {}); }), HasSubstr(directory_.path()));
  EXPECT_THAT(Mistake([&] { Job::Load({.resume = directory_ / "none"}, {}); }), HasSubstr("none"));
  const Job job = Job::Load({.text = kSmallJob}, {.directory = directory_ / "j"});
  Keep(job);
  std::string text = ReadAll(directory_ / "j/job.yaml");
  text[text.size() / 2] ^= 1;
  directory_.Write("j/job.yaml", text);
  EXPECT_THAT(Mistake([&] { Job::Load({.resume = directory_ / "j"}, {}); }), HasSubstr("job.yaml"));
}

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

  // A job that was made before there was a choice has commas.
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

constexpr const char* kAvroJob = R"(
stream: {topic: events, live: true}
schema:
  format: avro
  avro: {schema: p.avsc}
  fields: {y: {type: number, role: label}, x: {type: number}, more: {type: number, default: 0}}
model: {layers: [dense: {units: 2}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
)";
std::string PaymentSchema(const std::string& more) {
  return R"({"type": "record", "name": "P", "fields": [{"name": "x", "type": "double"},)" + more +
         R"( {"name": "y", "type": "int"}]})";
}
const std::string kMore = R"({"name": "more", "type": "int"}, )";

TEST_F(LoadTest, AnAvroSchemaIsReadOnceAndKept) {
  directory_.Write("p.avsc", PaymentSchema(kMore));
  const JobOverrides overrides{.data = directory_.path(), .directory = directory_ / "j"};
  const Job job = Job::Load({.text = kAvroJob}, overrides);
  EXPECT_THAT(job.schema.avro.texts.at(0), StartsWith(R"({"type":"record","name":"P")")) << "without blanks";
  EXPECT_THAT(job.Found(), HasSubstr("avro:"));
  ExpectRoundTrip(job);
  Keep(job);
  // Roles, and the job when it is resumed, do not need the file.
  const uint64_t hash = job.Cuts().hash;
  std::filesystem::remove(directory_ / "p.avsc");
  ExpectRoundTrip(job);
  EXPECT_EQ(Job::Load({.resume = directory_ / "j"}, {}).Cuts().hash, hash);
  EXPECT_EQ(Job::Load({.text = kAvroJob, .resume = directory_ / "j"}, {}).Cuts().hash, hash);
  CheckResumable(Job::Load({.resume = directory_ / "j"}, {}));
  EXPECT_EQ(Mistake([&] { Job::Load({.text = kAvroJob}, overrides); }),
            "job:5: " + (directory_ / "p.avsc") + ": there is no such file");
  directory_.Write("p.avsc", PaymentSchema(kMore + R"({"name": "other", "type": "int"},)"));
  EXPECT_NE(Job::Load({.text = kAvroJob}, overrides).Cuts().hash, hash);
  // A feed finds it for a coordinator that does not have it.
  const std::string text = Job::WithoutFiles({.text = kAvroJob}, {.data = "/nowhere"});
  const Job feed = Job::FromFiles(text, "job", directory_.path());
  EXPECT_EQ(Job::Load({.text = kAvroJob}, {.data = "/nowhere", .found = feed.Found()}).Cuts().hash,
            feed.Cuts().hash);
}

TEST_F(LoadTest, AFolderOfAvroSchemasMayGrow) {
  const std::string text = Replaced(kAvroJob, "{schema: p.avsc}", "{registry: all}");
  const JobOverrides overrides{.data = directory_.path(), .directory = directory_ / "j"};
  EXPECT_THAT(Mistake([&] { Job::Load({.text = text}, overrides); }), HasSubstr("No such file"));
  std::filesystem::create_directory(directory_ / "all");
  EXPECT_THAT(Mistake([&] { Job::Load({.text = text}, overrides); }),
              HasSubstr("has no schemas; their names are ID.avsc"));
  directory_.Write("all/3.avsc", PaymentSchema(kMore));
  directory_.Write("all/4.avsc", R"({"type": "record", "name": "Q", "fields": []})");
  directory_.Write("all/readme.txt", "no schema");
  const Job job = Job::Load({.text = text}, overrides);
  EXPECT_EQ(job.schema.avro.texts.size(), 1u);
  EXPECT_THAT(job.notes, ElementsAre(HasSubstr("all/4.avsc: field 'y' is not in the Avro schema")));
  ExpectRoundTrip(job);
  Keep(job);
  directory_.Write("all/3.avsc", "damaged meanwhile");
  directory_.Write("all/5.avsc", PaymentSchema(""));
  EXPECT_THAT(Mistake([&] { Job::Load({.resume = directory_ / "j"}, {}); }),
              HasSubstr("3.avsc: is not JSON"));
  directory_.Write("all/3.avsc", PaymentSchema(""));
  const auto texts = Job::Load({.resume = directory_ / "j"}, {}).schema.avro.texts;
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts.at(3), job.schema.avro.texts.at(3));
}

TEST_F(LoadTest, ARegistryMayMove) {
  const auto load = [&](const std::string& avro) {
    return Job::Load({.text = Replaced(kAvroJob, "{schema: p.avsc}", avro)}, {});
  };
  const Job job = load("{registry: http://here}");
  ExpectRoundTrip(job);
  EXPECT_EQ(job.Hash(), load("{registry: {url: https://there, timeout_s: 3}}").Hash());
  directory_.Write("p.avsc", PaymentSchema(kMore));
  EXPECT_NE(job.Hash(), Job::Load({.text = kAvroJob}, {.data = directory_.path()}).Hash());
}

TEST_F(LoadTest, SaysWhereAvroHasNoPlace) {
  directory_.Write("p.avsc", PaymentSchema(kMore));
  const auto error = [&](const std::string& from, const std::string& to) {
    return Mistake([&] { Job::Load({.text = Replaced(kAvroJob, from, to)}, {.data = directory_.path()}); });
  };
  EXPECT_THAT(error("{topic: events, live: true}", "{files: {format: json, paths: [a]}}"),
              HasSubstr("is avro, which is for the records of topics"));
  EXPECT_THAT(error("live: true", "bots: {events: 5}"), HasSubstr("is avro, and bots write JSON"));
  EXPECT_THAT(error("optimizer:", "evaluate: {files: {format: csv, paths: [a.csv]}}\noptimizer:"),
              HasSubstr("have the format json"));
  EXPECT_EQ(error("x: {type", "xx: {type"),
            "job:6: p.avsc: field 'xx' is not in the Avro schema: the record 'P' has no "
            "field 'xx'; did you mean 'x'?");
  const Job job = Job::Load(
      {.text = Replaced(kAvroJob, "optimizer:", "evaluate: {files: {format: json, paths: [a]}}\noptimizer:")},
      {.data = directory_.path()});
  EXPECT_EQ(job.EvaluationSchema().format, stream::Schema::Format::kJson);
  directory_.Write("p.avsc", PaymentSchema(R"({"name": "more", "type": "int", "doc": ")" +
                                           std::string(300'000, 'x') + "\"},"));
  EXPECT_THAT(Mistake([&] { Job::Load({.text = kAvroJob}, {.data = directory_.path()}); }),
              HasSubstr("at most 262144"));
}

// A set of one file, p.proto: message P {int32 y = 1; double x = 2;}, in the wire format.
const std::string kDescriptor(
    "\x0a\x2d\x0a\x07\x70\x2e\x70\x72\x6f\x74\x6f\x22\x1a\x0a\x01\x50\x12\x09\x0a\x01\x79\x18\x01\x20"
    "\x01\x28\x05\x12\x0a\x0a\x02\x78\x78\x18\x02\x20\x01\x28\x01\x62\x06\x70\x72\x6f\x74\x6f\x33",
    47);
constexpr const char* kProtobufJob = R"(
stream: {topic: events, live: true}
schema:
  format: protobuf
  protobuf: {descriptor: p.pb, message: P}
  fields: {y: {type: number, role: label}, xx: {type: number}}
model: {layers: [dense: {units: 2}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
)";

TEST_F(LoadTest, AProtobufDescriptorIsReadOnceAndKept) {
  directory_.Write("p.pb", kDescriptor);
  const JobOverrides overrides{.data = directory_.path(), .directory = directory_ / "j"};
  const Job job = Job::Load({.text = kProtobufJob}, overrides);
  EXPECT_FALSE(job.schema.protobuf.descriptor.empty());
  EXPECT_THAT(job.Found(), HasSubstr("descriptor:"));
  ExpectRoundTrip(job);
  const std::string text = Job::WithoutFiles({.text = kProtobufJob}, {.data = "/nowhere"});
  const Job feed = Job::FromFiles(text, "job", directory_.path());
  EXPECT_EQ(Job::Load({.text = kProtobufJob}, {.data = "/nowhere", .found = feed.Found()}).Cuts().hash,
            job.Cuts().hash);
  // Roles, and the job when it is resumed, do not need the file.
  Keep(job);
  std::filesystem::remove(directory_ / "p.pb");
  ExpectRoundTrip(job);
  EXPECT_EQ(Job::Load({.resume = directory_ / "j"}, {}).Cuts().hash, job.Cuts().hash);
  EXPECT_EQ(Mistake([&] { Job::Load({.text = kProtobufJob}, overrides); }),
            "job:5: " + (directory_ / "p.pb") + ": there is no such file");
  directory_.Write("p.pb", kDescriptor);
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string changed = kProtobufJob;
    changed.replace(changed.find(from), from.size(), to);
    return Mistake([&] { Job::Load({.text = changed}, overrides); });
  };
  EXPECT_EQ(error(" xx:", " xxx:"), "job:6: 'xxx': P has no field 'xxx'; did you mean 'xx'?");
  EXPECT_THAT(error("{topic: events, live: true}", "{files: {format: json, paths: [a]}}"),
              HasSubstr("is protobuf, which is for the records of topics"));
  EXPECT_THAT(error("live: true", "bots: {events: 5}"), HasSubstr("is protobuf, and bots write JSON"));
  EXPECT_THAT(error("optimizer:", "evaluate: {files: {format: csv, paths: [a.csv]}}\noptimizer:"),
              HasSubstr("have the format json"));
}

}  // namespace
}  // namespace leat::job
