// From the user's file and the command line, or the directory of an earlier run, to the tree that every role
// builds its parts from: the parsed file, with what else was set or found as its section `resolved`.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/exit_status.h"
#include "base/path/paths.h"
#include "base/text.h"
#include "job/input/input_files.h"
#include "job/job.h"
#include "job/resume.h"
#include "stream/files.h"

namespace leat::job {
namespace {

// The same for every way to write it.
std::string Absolute(const std::string& path) {
  const auto normal = std::filesystem::path(AbsolutePathOrThrow(path)).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

// A job continues in its own directory.
void CheckResumedDirectory(const std::string& resume, const std::string& directory) {
  std::error_code ignored;
  if (directory.empty() || Absolute(directory) == Absolute(resume) ||
      std::filesystem::equivalent(directory, resume, ignored))
    return;
  throw std::invalid_argument("--resume " + resume + " continues in that directory; --directory " +
                              directory + " is another one");
}

// The user's file or text, if there is one.
std::optional<Config> ParseSource(const JobSource& source) {
  if (source.file.empty() && source.text.empty()) return std::nullopt;
  Config config = source.file.empty() ? Config::Parse(source.text, "job") : Config::ParseFile(source.file);
  if (!config.IsMap()) config.Fail("a job is a map of sections");
  if (config.Has(kResolved))
    config.At(kResolved).Fail("'resolved' is Leat's own section; a job file has none");
  return config;
}

Config Resolved(const JobOverrides& overrides) {
  Config resolved =
      Config::EmptyMap("command line").With("directory", overrides.directory).With("data", overrides.data);
  const auto set = [&](const char* key, uint64_t value) {
    if (value > 0) resolved = resolved.With(key, static_cast<int64_t>(value));
  };
  const protocol::WorkerRange workers{overrides.workers, std::max(overrides.workers, overrides.max_workers)};
  if (workers.fixed()) {
    set("workers", overrides.workers);
  } else {
    resolved = resolved.With("workers", ToString(workers));
  }
  set("ps", overrides.servers);
  set("max_ps", overrides.max_servers);
  if (overrides.rate) resolved = resolved.With("rate", *overrides.rate);
  set("events", overrides.events);
  return resolved;
}

// Keeps the settings of the command line that started the job, unless they are given anew.
void KeepOverrides(const Job& saved, JobOverrides* overrides) {
  if (overrides->workers == 0) {
    overrides->workers = saved.workers;
    overrides->max_workers = saved.max_workers;
  }
  if (overrides->servers == 0) overrides->servers = saved.servers;
  const stream::BotsConfig* bots = saved.stream->bots();
  if (bots == nullptr) return;
  if (!overrides->rate) overrides->rate = bots->rate;
  if (overrides->events == 0) overrides->events = bots->events;
}

// The delimiter of a job whose schema does not say that of its CSV files; nothing for others.
std::optional<char> DetectDelimiter(const Config& config, const std::string& data,
                                    std::vector<std::string>* notes) {
  if (!config.Has("stream") || !config.Has("schema")) return std::nullopt;
  const AnyStream stream = StreamFromConfig(config.At("stream"), {.data = data, .directory = ""});
  const stream::FileSourceOptions* files = stream->files();
  if (files == nullptr || files->format != "csv") return std::nullopt;
  const auto schema = stream::Schema::FromConfig(config.At("schema"));
  if (schema.format != stream::Schema::Format::kCsv || schema.delimiter_set) return std::nullopt;
  const auto found = FindDelimiter(*files, schema);
  if (!found) return std::nullopt;
  const std::string path = files->paths.front();
  const std::string delimiter = stream::DelimiterName(found->character);
  notes->push_back(found->columns > 1
                       ? StrCat(path, ": delimiter ", delimiter, " found, ", found->columns, " columns")
                       : path + ": no delimiter found; " + delimiter + " is assumed");
  return found->character;
}

// State that Load begins with.
struct Start {
  Config config = Config::EmptyMap("job");
  JobOverrides overrides;
  std::optional<char> delimiter;     // the resumed job's
  std::vector<Asset> assets;         // the resumed job's
  StreamBounds bounds;               // the resumed job's
  stream::Schema schema;             // the resumed job's: its files' content, and additions to its folder
  uint32_t lanes = 0;                // the resumed job's; 0: it has none
  std::optional<Config> readings;    // the resumed job's list in its section `resolved`
  std::optional<Config> columns;     // the resumed job's, without a new job file: its data may be gone by now
  std::vector<std::string> trained;  // identities of the files that the resumed job has read
};

// The schemas of a job that is resumed stay as they were, but a folder may have got more.
void AddToFolder(const Config& config, const std::string& data, stream::AvroTexts* texts) {
  if (texts->empty()) return;
  const auto schema = stream::Schema::FromConfig(config.At("schema"));
  if (schema.avro.folder.empty() ||
      !std::filesystem::exists(std::filesystem::path(data) / schema.avro.folder))
    return;
  texts->merge(ReadAvroFiles(schema.avro, data));
}

Start Read(const JobSource& source, const JobOverrides& given) {
  std::optional<Config> config = ParseSource(source);
  Start start{.overrides = given};
  JobOverrides& overrides = start.overrides;
  if (!source.resume.empty()) {
    CheckResumedDirectory(source.resume, overrides.directory);
    const Job saved = ReadStoredWithoutModel(source.resume);
    const Config resolved = saved.config.At(kResolved);
    overrides.directory = source.resume;
    overrides.max_servers = saved.max_servers;
    if (overrides.data.empty()) overrides.data = saved.data;
    const bool csv = saved.schema.format == stream::Schema::Format::kCsv;
    if (csv && !saved.schema.delimiter_set) start.delimiter = saved.schema.delimiter;
    start.assets = saved.assets;
    start.schema = saved.schema;
    if (saved.strategy.stepped())
      start.lanes = saved.made_lanes > 0 ? saved.made_lanes : saved.strategy.lanes;
    start.bounds = saved.stream->bounds();
    if (resolved.Has("readings")) start.readings = resolved.At("readings");
    start.trained = saved.inputs;
    if (!config) {
      if (resolved.Has("columns")) start.columns = resolved.At("columns");
      config = saved.config.Without(kResolved);
      KeepOverrides(saved, &overrides);
    }
  }
  if (!config) throw std::invalid_argument("job: there is neither a file nor a directory to resume");
  start.config = *config;
  if (overrides.data.empty()) overrides.data = ".";
  overrides.data = Absolute(overrides.data);
  if (!overrides.directory.empty()) overrides.directory = Absolute(overrides.directory);
  AddToFolder(*config, overrides.data, &start.schema.avro.texts);
  return start;
}

Config WithAssets(const Config& resolved, const std::vector<Asset>& assets) {
  if (assets.empty()) return resolved;
  Config all = Config::EmptyMap("assets");
  for (const Asset& asset : assets) all = all.With(asset.path, asset.identity);
  return resolved.With("assets", all);
}

Config WithDelimiter(const Config& resolved, char delimiter) {
  return resolved.With("delimiter", delimiter == '\t' ? "tab" : std::string(1, delimiter));
}

Config WithLanes(const Config& resolved, uint32_t lanes) {
  return lanes > 0 ? resolved.With("lanes", static_cast<int64_t>(lanes)) : resolved;
}

// The section `resolved` of a job that begins so.
Config ResolvedOf(const Start& start) {
  Config resolved = WithSchemaFiles(
      WithStreamBounds(WithAssets(WithLanes(Resolved(start.overrides), start.lanes), start.assets),
                       start.bounds),
      start.schema);
  if (start.readings) resolved = resolved.With("readings", *start.readings);
  if (start.columns) resolved = resolved.With("columns", *start.columns);
  return start.delimiter ? WithDelimiter(resolved, *start.delimiter) : resolved;
}

constexpr const char* kFound[] = {"delimiter", "columns",  "avro",  "descriptor",
                                  "inputs",    "readings", "assets"};

Config CopyFound(const Config& from, Config to) {
  for (const char* key : kFound) {
    if (from.Has(key)) to = to.With(key, from.At(key));
  }
  return to;
}

Config WithFound(const Config& resolved, const std::string& found) {
  return found.empty() ? resolved : CopyFound(Config::Parse(found, "what a feed has found"), resolved);
}

// Completes the section `resolved`, which other hosts build the job from: they may have no files, or other
// ones, and a new job keeps its number of lanes, however many workers it has later. `notes`: what was
// detected before.
void Store(Job* job, const std::vector<std::string>& notes) {
  Config resolved = job->config.At(kResolved);
  if (const stream::FileSourceOptions* files = job->stream->files(); files != nullptr && files->header)
    resolved = resolved.With("columns", job->schema.columns);
  resolved = WithSchemaFiles(resolved, job->schema);
  const nn::LayerFiles files{.data = job->data};
  for (const std::string& path : AssetPaths(job->config)) {
    if (std::ranges::find(job->assets, path, &Asset::path) != job->assets.end()) continue;
    const std::string file = files.Locate(path);
    const auto identity = OrThrow(stream::IdentifyFile(file));
    job->assets.push_back({path, stream::ToString(identity), file});
  }
  resolved = WithAssets(resolved, job->assets);
  if (job->made_lanes == 0 && job->strategy.stepped()) resolved = WithLanes(resolved, job->strategy.lanes);
  job->config = job->config.With(kResolved, resolved);
  job->notes.insert(job->notes.begin(), notes.begin(), notes.end());
}

void NoteLanes(const Job& job, std::vector<std::string>* notes) {
  const uint32_t lanes = job.strategy.total_lanes();
  if (!job.strategy.stepped() || job.strategy.auto_lanes || job.max_workers <= lanes) return;
  notes->push_back(StrCat("the job was created with ", lanes, " lanes; of its ", job.max_workers, " workers ",
                          job.max_workers - lanes, " will have none until others are lost"));
}

}  // namespace

Job Job::Load(const JobSource& source, const JobOverrides& given) {
  Start start = Read(source, given);
  std::vector<std::string> notes;
  if (start.config.Has("strategy")) notes = protocol::OldNames(start.config.At("strategy"));
  if (source.resume.empty() && given.found.empty())
    start.delimiter = DetectDelimiter(start.config, start.overrides.data, &notes);
  Job job = FromConfig(start.config.With(kResolved, WithFound(ResolvedOf(start), given.found)));
  NoteLanes(job, &notes);
  Store(&job, notes);
  return job;
}

std::string Job::WithoutFiles(const JobSource& source, const JobOverrides& given) {
  const Start start = Read(source, given);
  Config resolved = WithFound(ResolvedOf(start), given.found);
  if (!start.trained.empty() && given.found.empty()) resolved = resolved.With("trained", start.trained);
  return start.config.With(kResolved, resolved).ToYaml();
}

Job Job::FromFiles(const std::string& yaml, const std::string& name, const std::string& data) {
  const Config config = Config::Parse("\n" + yaml, name);
  Config resolved = config.At(kResolved);
  if (!data.empty()) resolved = resolved.With("data", data);
  std::vector<std::string> trained;
  if (resolved.Has("trained")) {
    const Config list = resolved.At("trained");
    for (size_t i = 0; i < list.size(); ++i) trained.push_back(list[i].String());
    resolved = resolved.Without("trained");
  }
  std::vector<std::string> notes;
  const auto delimiter =
      resolved.Has("delimiter") ? std::nullopt : DetectDelimiter(config, resolved.String("data", ""), &notes);
  if (delimiter) resolved = WithDelimiter(resolved, *delimiter);
  Job job = WithTrained(FromConfig(config.With(kResolved, resolved)), trained);
  Store(&job, notes);
  return job;
}

std::string Job::Found() const {
  return CopyFound(config.At(kResolved), Config::EmptyMap("found")).ToYaml();
}

}  // namespace leat::job
