// Commands for topics: leat peek, publish, schema and log.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config/config.h"
#include "base/exit_status.h"
#include "base/text.h"
#include "base/threads/thread.h"
#include "cli/commands.h"
#include "job/input/stream_spec.h"
#include "job/job.h"
#include "job/model.h"
#include "run/launcher/signals.h"
#include "show/report/display.h"
#include "stream/csv/csv_settings.h"
#include "stream/inspect/inspect.h"
#include "stream/inspect/peek.h"
#include "stream/log/log.h"
#include "stream/publish/publish.h"
#include "stream/schema.h"

namespace leat {
namespace {

using report::Grouped;

// ---- the topic: its name and where it is, or a job that reads it

struct TopicOptions {
  // The option of a kind of source (job::TopicOption), and the settings beside it. Without a value: not
  // given.
  struct Place {
    const job::StreamKind* kind;
    std::string value;
    std::vector<std::string> settings;
  };
  std::string topic, job;
  std::vector<Place> places;  // filled by AddTopicOptions, whose options refer to the elements
};

// Returns the options that name a topic.
std::vector<CLI::Option*> AddTopicOptions(CLI::App* command, TopicOptions* options) {
  for (const job::StreamKind* kind : job::TopicKinds()) options->places.push_back({kind, {}, {}});
  std::vector<CLI::Option*> named = {command->add_option("--topic", options->topic, "name of the topic")};
  for (TopicOptions::Place& place : options->places) {
    const job::TopicOption& topic = *place.kind->topic;
    CLI::Option* option = command->add_option(topic.name(), place.value, topic.help);
    if (topic.setting != nullptr) {
      command->add_option(topic.setting, place.settings, topic.setting_help)
          ->allow_extra_args(false)
          ->needs(option);
    }
    for (size_t i = 1; i < named.size(); ++i) option->excludes(named[i]);
    named.push_back(option);
  }
  auto* job = command->add_option("--job", options->job, "the topic is the one that this job file reads");
  job->check(CLI::ExistingFile);
  for (CLI::Option* option : named) job->excludes(option);
  named.push_back(job);
  return named;
}

// The options that say where a topic is, as a message lists them: "--kafka or --log".
std::string PlaceOptions() {
  std::string names;
  for (const job::StreamKind* kind : job::TopicKinds())
    names += (names.empty() ? "" : " or ") + kind->topic->name();
  return names;
}

// The settings of `stream:` that the options stand for. Throws std::invalid_argument if they do not say where
// the topic is, or say it twice.
Config StreamConfig(const TopicOptions& options) {
  if (!options.job.empty()) return Config::ParseFile(options.job).At("stream");
  const auto place =
      std::ranges::find_if(options.places, [](const auto& option) { return !option.value.empty(); });
  if (place == options.places.end()) {
    std::string all;
    for (const auto& [kind, value, settings] : options.places)
      all += (all.empty() ? "" : ", ") + kind->topic->name() + " " + kind->topic->value;
    throw std::invalid_argument("where is the topic? " + all + " or --job FILE");
  }
  RefuseIf(options.topic.empty(), "which topic? --topic NAME");
  const Config stream = Config::EmptyMap("command line").With("topic", options.topic);
  return place->kind->topic->add(stream, place->value, place->settings);
}

// A topic. Throws std::invalid_argument, also for a job that reads files.
job::AnyStream ReadTopic(const TopicOptions& options) {
  job::StreamPaths paths;
  const Config stream = StreamConfig(options);
  if (!options.job.empty()) {
    // The job file in a job's directory says where that is.
    const Config job = Config::ParseFile(options.job);
    if (job.Has(job::kResolved)) {
      const Config resolved = job.At(job::kResolved);
      paths = {.data = resolved.String("data", ""), .directory = resolved.String("directory", "")};
    }
    if (stream.Has("files")) stream.Fail("this stream is files; a topic is needed");
    const bool placed = std::ranges::any_of(job::TopicKinds(),
                                            [&](const auto* kind) { return stream.Has(kind->topic->key); });
    if (!placed && paths.directory.empty())
      stream.Fail("its topic is in the job's directory: take the job.yaml there, or --log and --topic");
  }
  job::AnyStream topic = job::StreamFromConfig(stream, paths);
  topic->DropLateLabels();  // a command reads the events alone
  return topic;
}

// ---- leat peek: records of a topic, as they are and as the decoder sees them

constexpr size_t kWidth = 120;           // where there is no terminal
constexpr uint64_t kReadAtOnce = 1'000;  // records

struct PeekOptions {
  TopicOptions topic;
  int64_t partition = -1;
  std::string offset;
  uint64_t count = 10;
  std::string schema;
  bool json = false;
};

stream::PeekOptions Plan(const PeekOptions& a) {
  stream::PeekOptions plan{.partition = std::nullopt, .count = a.count, .offset = std::nullopt};
  if (a.partition >= 0) plan.partition = static_cast<uint32_t>(a.partition);
  plan.latest = a.offset == "latest";
  if (a.offset.empty() || a.offset == "earliest" || plan.latest) return plan;
  plan.offset = ToNumber<uint64_t>(a.offset);
  RefuseIf(!plan.offset, "--offset is '" + a.offset + "'; it is a number, earliest or latest");
  return plan;
}

size_t ScreenWidth() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kWidth;
}

// A job's own schema, unless there is another.
std::optional<stream::Schema> ReadSchema(const PeekOptions& a) {
  const std::string& file = a.schema.empty() ? a.topic.job : a.schema;
  if (file.empty()) return std::nullopt;
  const Config job = Config::ParseFile(file);
  if (a.schema.empty() && !job.Has("schema")) return std::nullopt;
  std::string without_model;
  auto schema = job::DecodingSchema(job, &without_model);
  if (!without_model.empty()) {
    std::fprintf(stderr, "labels are not compared with the classes of the model: %s\n",
                 without_model.c_str());
  }
  return schema;
}

int RunPeek(const PeekOptions& a) {
  const job::AnyStream topic = ReadTopic(a.topic);
  const std::optional<stream::Schema> schema = ReadSchema(a);
  const auto source = OrThrow(topic->Open());
  const auto there = OrThrow(source->Ranges());
  stream::RecordPrinter::Options look{.json = a.json, .width = ScreenWidth()};
  uint64_t records = 0;
  for (const auto& range : there) {
    records += range.end - range.begin;
    look.last_offset = std::max(look.last_offset, range.end);
  }
  auto plan = stream::PlanPeek(there, Plan(a));
  RefuseIf(!plan.ok(), topic->Describe() + ": " + plan.status().message());
  if (!a.json) {
    std::printf("%s: %s, %s records\n%s", topic->Describe().c_str(),
                Plural(there.size(), "partition").c_str(), Grouped(records).c_str(),
                plan->empty() ? "" : "\n");
  }
  stream::RecordPrinter printer(schema ? &*schema : nullptr, look);
  stream::RecordBatch batch;
  batch.wanted = printer.wanted();
  for (const auto& range : *plan) {
    for (uint64_t at = range.begin; at < range.end; at += kReadAtOnce) {
      const Status read = source->Read(range.partition, at, std::min(range.end, at + kReadAtOnce), &batch);
      ThrowIfError(read);
      std::string text;
      printer.Print(batch, &text);
      std::fputs(text.c_str(), stdout);
    }
  }
  return 0;
}

// ---- leat publish: files, replayed into a topic

struct PublishOptions {
  TopicOptions topic;
  stream::RowsOptions rows;
  std::string delimiter;
  bool header = false, no_header = false;
  uint32_t partitions = 0;
  double rate = 0;
  bool shuffle = false;
  uint64_t seed = 1;
};

std::string BytesText(uint64_t bytes) {
  return bytes < 1'000'000 ? Formatted("%.1f kB", static_cast<double>(bytes) / 1e3)
                           : Formatted("%.1f MB", static_cast<double>(bytes) / 1e6);
}

// The line of a terminal that says how far it is.
class Progress {
 public:
  Progress(uint64_t total, const Clock& clock)
      : total_(total),
        clock_(clock),
        begin_(clock.Now()),
        shown_(begin_),
        live_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() { Clear(); }
  void Show(const stream::Published& done) {
    constexpr Duration kInterval = std::chrono::milliseconds(200);
    const Time now = clock_.Now();
    if (!live_ || now - shown_ < kInterval) return;
    shown_ = now;
    std::fprintf(
        stderr, "\r\x1b[K%s of %s records  %.0f%%  %s/s", Grouped(done.records).c_str(),
        Grouped(total_).c_str(), 100 * static_cast<double>(done.records) / static_cast<double>(total_),
        Grouped(static_cast<uint64_t>(static_cast<double>(done.records) / Seconds(now - begin_))).c_str());
  }
  void Clear() {
    if (live_) std::fputs("\r\x1b[K", stderr);
  }

 private:
  const uint64_t total_;
  const Clock& clock_;
  const Time begin_;
  Time shown_;
  const bool live_;
};

std::unique_ptr<stream::TopicWriter> OpenWriter(const PublishOptions& a, const job::AnyStream& topic) {
  const Status made = topic->Create(a.partitions);
  // A user who may not create topics may write to an existing one.
  if (!made.ok() && made.code() != Code::kPermissionDenied) Throw(made);
  auto writer = OrThrow(topic->OpenWriter());
  RefuseIf(a.partitions > 0 && writer->partitions() != a.partitions,
           topic->Describe() + " has " + std::to_string(writer->partitions()) + " partitions, not " +
               std::to_string(a.partitions) + "; go without --partitions");
  return writer;
}

int RunPublish(PublishOptions a) {
  launcher::BlockSignals();
  if (!a.delimiter.empty()) {
    a.rows.delimiter = stream::ParseDelimiter(a.delimiter);
    if (!a.rows.delimiter) throw std::invalid_argument("--" + stream::WhyNoDelimiter(a.delimiter));
  }
  if (a.header || a.no_header) a.rows.header = a.header;
  const job::AnyStream topic = ReadTopic(a.topic);
  const stream::Rows rows = OrThrow(stream::OpenRows(a.rows));
  const auto writer = OpenWriter(a, topic);
  if (!rows.columns.empty()) {
    std::fprintf(stderr, "%s: the header is not published; for the job's schema: columns: [%s]\n",
                 a.rows.paths.front().c_str(), Joined(rows.columns).c_str());
  }

  const uint64_t total = rows.source->Ranges()->at(0).end;
  const MonotonicClock clock;
  StopEvent stopped;
  // The second time, Ctrl-C ends the process.
  const launcher::SignalWatch signals([&stopped](int) {
    if (stopped.is_set()) _exit(ExitStatus::kInterrupted);
    stopped.Set();
  });
  Progress progress(total, clock);
  stream::Published done;
  const Time begin = clock.Now();
  const Status status = stream::Publish(
      *rows.source, *writer,
      {.rate = a.rate, .shuffle = a.shuffle ? std::optional(a.seed) : std::nullopt, .key = rows.key},
      {.clock = clock,
       .wait = [&](Duration time) { (void)stopped.Await(time); },
       .stopped = [&] { return stopped.is_set(); },
       .progress = [&](const stream::Published& now) { progress.Show(now); }},
      &done);
  const double seconds = Seconds(clock.Now() - begin);
  progress.Clear();
  if (done.without_key > 0) {
    std::fprintf(stderr, "%s records have no '%s': they are published without a key, round robin\n",
                 Grouped(done.without_key).c_str(), a.rows.key.c_str());
  }
  const bool all = done.records == total;
  std::printf(
      "%spublished %s%s records, %s, in %.1f s (%s/s) to %s, %u partitions\n",
      status.ok() && !all ? "interrupted: " : "", Grouped(done.records).c_str(),
      all ? "" : (" of " + Grouped(total)).c_str(), BytesText(done.bytes).c_str(), seconds,
      Grouped(static_cast<uint64_t>(static_cast<double>(done.records) / std::max(seconds, 1e-3))).c_str(),
      topic->Describe().c_str(), writer->partitions());
  std::fflush(stdout);
  ThrowIfError(status);
  return all ? 0 : ExitStatus::kInterrupted;
}

// ---- leat schema: proposes the stream and schema sections of a job from a data file or a topic

constexpr uint64_t kRowsOfATopic = 100'000;

struct SchemaOptions {
  std::string file, label, encoding;
  stream::CsvTexts csv;
  TopicOptions topic;
  uint64_t rows = 0;
  bool header = false, no_header = false;
};

Result<stream::Inspection> InspectTopic(const TopicOptions& options, stream::InspectOptions inspect,
                                        stream::ProposeOptions* proposal) {
  const job::AnyStream topic = ReadTopic(options);
  LEAT_ASSIGN_OR_RETURN(const auto source, topic->Open());
  if (inspect.rows == 0) inspect.rows = kRowsOfATopic;
  proposal->path = topic->Describe();
  proposal->stream = StreamConfig(options).Without("labels").ToYaml();
  return stream::Inspect(topic->Describe(), *source, inspect);
}

int RunSchema(const SchemaOptions& a) {
  stream::InspectOptions options{.rows = a.rows, .encoding = a.encoding};
  options.csv = stream::KnownFrom(a.csv, "--");
  if (a.header || a.no_header) options.header = a.header;
  RefuseIf(a.file.empty() && a.topic.topic.empty() && a.topic.job.empty(),
           "schema needs a file, or --topic with " + PlaceOptions());
  stream::ProposeOptions proposal{.path = a.file, .stream = "", .label = a.label};
  const auto inspection =
      a.file.empty() ? InspectTopic(a.topic, options, &proposal) : stream::Inspect(a.file, options);
  if (!inspection.ok()) Throw(inspection.status());
  try {
    std::fputs(stream::Propose(*inspection, proposal).c_str(), stdout);
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(proposal.path + ": " + e.what());
  }
  return 0;
}

// ---- leat log: the topics of an embedded log, and pins of jobs that no longer exist

// Whether the job that owns a pin, "name@directory", no longer exists: its directory has no job file. Nothing
// is known of a directory that is no absolute path.
bool Gone(const std::string& owner) {
  const size_t at = owner.find("@/");
  if (at == std::string::npos) return false;
  std::error_code error;
  return !std::filesystem::exists(owner.substr(at + 1) + "/job.yaml", error) && !error;
}

std::string Mebibytes(uint64_t bytes) {
  return Formatted("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

void Show(const std::string& directory, const stream::TopicInfo& topic, bool release) {
  std::printf("%s  %u partitions  %llu records  %s, %s on disk%s\n", topic.topic.c_str(), topic.partitions,
              static_cast<unsigned long long>(topic.records), Mebibytes(topic.bytes).c_str(),
              Mebibytes(topic.disk_bytes).c_str(), topic.sealed ? "  sealed" : "");
  for (const auto& pin : topic.pins) {
    const bool gone = Gone(pin.owner);
    if (gone && release)
      ThrowIfError(OrThrow(stream::EmbeddedLog::OpenSource(directory, topic.topic))->Unpin(pin.owner));
    const char* note = !gone     ? ""
                       : release ? "  (the job no longer exists: released)"
                                 : "  (the job no longer exists)";
    std::printf("  pin of %s: %llu records%s\n", pin.owner.c_str(),
                static_cast<unsigned long long>(pin.retained), note);
  }
}

struct LogOptions {
  std::string directory;
  bool release = false;
};

int RunLog(const LogOptions& a) {
  const auto topics = OrThrow(stream::EmbeddedLog::List(a.directory));
  if (topics.empty()) std::printf("no topics in %s\n", a.directory.c_str());
  for (const auto& topic : topics) Show(a.directory, topic, a.release);
  return 0;
}

}  // namespace

void AddPeekCommand(CLI::App& app, int* result) {
  const auto [command, a] =
      AddCommand(app, result, "peek", "show records of a topic, and what a schema makes of them", RunPeek);
  AddTopicOptions(command, &a->topic);
  command->add_option("--partition", a->partition, "of this partition only")->check(CLI::Range(0, 1 << 20));
  command->add_option("--offset", a->offset,
                      "the first record of each partition: its offset, or earliest; latest: the last records "
                      "(default: earliest)");
  command->add_option("--count", a->count, "number of records in all")->capture_default_str();
  command
      ->add_option("--schema", a->schema,
                   "job file with a `schema:`: show features and labels, or why a record is a dead letter "
                   "(default: the schema of --job, if it has one)")
      ->check(CLI::ExistingFile);
  command->add_flag("--json", a->json, "print one JSON object per record, with the whole record");
}

void AddPublishCommand(CLI::App& app, int* result) {
  const auto [command, a] =
      AddCommand(app, result, "publish", "replay idx, CSV or JSON-lines files into a topic", RunPublish);
  command
      ->add_option("files", a->rows.paths,
                   "files, optionally gzip-compressed, one after the other; idx: images, then labels")
      ->required();
  AddTopicOptions(command, &a->topic);
  AddNumber(command, "--partitions", &a->partitions, "of the topic, if it does not exist yet (default: 4)", 1,
            1024);
  AddNumber(command, "--rate", &a->rate, "records per second (default, or 0: as fast as possible)", 0, 1e9);
  command->add_flag("--shuffle", a->shuffle, "in random order (default: the order of the files)");
  command->add_option("--seed", a->seed, "of the random order")->capture_default_str();
  command->add_option("--key", a->rows.key,
                      "the field, such as customer.id, that is the record's key and chooses its partition "
                      "(default: no key, round robin)");
  command->add_option("--format", a->rows.format, "of the files (default: by their contents)")
      ->check(CLI::IsMember({"idx", "csv", "json"}));
  auto* header = command->add_flag("--header", a->header,
                                   "CSV: the first line has the column names and is not published "
                                   "(default: detected)");
  command->add_flag("--no-header", a->no_header, "CSV: the first line is a record")->excludes(header);
  command->add_option("--delimiter", a->delimiter, "CSV: one character, or `tab` (default: detected)");
  command->add_option(
      "--encoding", a->rows.encoding,
      "of CSV and JSON files, such as latin-1; records are published as UTF-8 (default: utf-8)");
}

void AddSchemaCommand(CLI::App& app, int* result) {
  const auto [command, a] =
      AddCommand(app, result, "schema",
                 "propose the stream and schema sections of a job from a data file or a topic", RunSchema);
  auto* file = command->add_option("file", a->file, "CSV or JSON-lines file, optionally gzip-compressed");
  for (CLI::Option* topic : AddTopicOptions(command, &a->topic)) topic->excludes(file);
  command->add_option("--label", a->label, "column to predict (default: the proposal lists candidates)");
  AddNumber(command, "--rows", &a->rows,
            "number of rows to read (default: the whole file; of a topic, 100000)", uint64_t{1},
            uint64_t{1} << 40);
  command->add_option("--delimiter", a->csv.delimiter,
                      "CSV delimiter: one character, or `tab` (default: detected)");
  command->add_option("--quote", a->csv.quote, "CSV: one character, or `none` (default: detected)");
  command->add_option("--escape", a->csv.escape, "CSV: one character, or `none` (default: detected)");
  command->add_option("--decimal", a->csv.decimal, "CSV: the decimal point, . or , (default: detected)");
  auto* header = command->add_flag("--header", a->header,
                                   "CSV: the first line has the column names (default: detected)");
  command->add_flag("--no-header", a->no_header, "CSV: the first line is a record")->excludes(header);
  command->add_option("--encoding", a->encoding, "of the file, such as latin-1 or utf-16 (default: utf-8)")
      ->needs(file);
}

void AddLogCommand(CLI::App& app, int* result) {
  const auto [command, a] =
      AddCommand(app, result, "log", "list the topics, sizes and retention pins of an embedded log", RunLog);
  command
      ->add_option("directory", a->directory,
                   "directory of the log: the job's `log:`, or `log` in the job's directory")
      ->required();
  command->add_flag("--release-pins", a->release, "remove the pins of jobs whose directory no longer exists");
}

}  // namespace leat
