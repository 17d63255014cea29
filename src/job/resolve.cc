// From the user's file and the command line, or the directory of an earlier run, to the tree that every role
// builds its parts from: the parsed file, with what else was set or found as its section `resolved`.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "base/exit_status.h"
#include "base/path/paths.h"
#include "job/input/input_files.h"
#include "job/job.h"
#include "job/resume.h"
#include "stream/identity.h"

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
  notes->push_back(found->columns > 1 ? path + ": delimiter " + delimiter + " found, " +
                                            std::to_string(found->columns) + " columns"
                                      : path + ": no delimiter found; " + delimiter + " is assumed");
  return found->character;
}

// State that Load begins with.
struct Start {
  Config config;
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
  JobOverrides overrides = given;
  std::optional<char> delimiter;
  std::vector<Asset> assets;
  StreamBounds bounds;
  stream::Schema schema;
  uint32_t lanes = 0;
  std::optional<Config> readings, columns;
  std::vector<std::string> trained;
  if (!source.resume.empty()) {
    CheckResumedDirectory(source.resume, overrides.directory);
    const Job saved = ReadStoredWithoutModel(source.resume);
    overrides.directory = source.resume;
    overrides.max_servers = saved.max_servers;
    if (overrides.data.empty()) overrides.data = saved.data;
    const bool csv = saved.schema.format == stream::Schema::Format::kCsv;
    if (csv && !saved.schema.delimiter_set) delimiter = saved.schema.delimiter;
    assets = saved.assets;
    schema = saved.schema;
    if (saved.strategy.stepped()) lanes = saved.made_lanes > 0 ? saved.made_lanes : saved.strategy.lanes;
    bounds = saved.stream->bounds();
    if (saved.config.At(kResolved).Has("readings")) readings = saved.config.At(kResolved).At("readings");
    trained = saved.inputs;
    if (!config) {
      if (saved.config.At(kResolved).Has("columns")) columns = saved.config.At(kResolved).At("columns");
      config = saved.config.Without(kResolved);
      KeepOverrides(saved, &overrides);
    }
  }
  if (!config) throw std::invalid_argument("job: there is neither a file nor a directory to resume");
  if (overrides.data.empty()) overrides.data = ".";
  overrides.data = Absolute(overrides.data);
  if (!overrides.directory.empty()) overrides.directory = Absolute(overrides.directory);
  AddToFolder(*config, overrides.data, &schema.avro.texts);
  return {*config, overrides, delimiter, assets, bounds, schema, lanes, readings, columns, trained};
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

Config WithFound(Config resolved, const std::string& found) {
  if (found.empty()) return resolved;
  const Config all = Config::Parse(found, "what a feed has found");
  for (const char* key : kFound) {
    if (all.Has(key)) resolved = resolved.With(key, all.At(key));
  }
  return resolved;
}

// The columns are stored, since roles on other machines may not have the files.
void StoreColumns(Job* job) {
  const stream::FileSourceOptions* files = job->stream->files();
  if (files == nullptr || !files->header) return;
  job->config = job->config.With(kResolved, job->config.At(kResolved).With("columns", job->schema.columns));
}

// The identities of the model's files, since other hosts may have other files.
void StoreAssets(Job* job) {
  const nn::LayerFiles files{.data = job->data};
  for (const std::string& path : AssetPaths(job->config)) {
    if (std::ranges::find(job->assets, path, &Asset::path) != job->assets.end()) continue;
    const std::string file = files.Locate(path);
    const auto identity = OrThrow(stream::IdentifyFile(file));
    job->assets.push_back({path, stream::ToString(identity), file});
  }
  job->config = job->config.With(kResolved, WithAssets(job->config.At(kResolved), job->assets));
}

// A new job keeps its number of lanes, however many workers it has later.
void StoreLanes(Job* job) {
  if (job->made_lanes > 0 || !job->strategy.stepped()) return;
  job->config = job->config.With(kResolved, WithLanes(job->config.At(kResolved), job->strategy.lanes));
}

// Completes the section `resolved`, which other hosts build the job from. `notes`: what was detected before.
void Store(Job* job, const std::vector<std::string>& notes) {
  StoreColumns(job);
  job->config = job->config.With(kResolved, WithSchemaFiles(job->config.At(kResolved), job->schema));
  StoreAssets(job);
  StoreLanes(job);
  job->notes.insert(job->notes.begin(), notes.begin(), notes.end());
}

void NoteLanes(const Job& job, std::vector<std::string>* notes) {
  const uint32_t lanes = job.strategy.total_lanes();
  if (!job.strategy.stepped() || job.strategy.auto_lanes || job.max_workers <= lanes) return;
  notes->push_back("the job was created with " + std::to_string(lanes) + " lanes; of its " +
                   std::to_string(job.max_workers) + " workers " + std::to_string(job.max_workers - lanes) +
                   " will have none until others are lost");
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
  Config found = Config::EmptyMap("found");
  const Config resolved = config.At(kResolved);
  for (const char* key : kFound) {
    if (resolved.Has(key)) found = found.With(key, resolved.At(key));
  }
  return found.ToYaml();
}

}  // namespace leat::job
