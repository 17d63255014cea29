#include "job/input/stream_spec.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "stream/file/file_reader.h"
#include "stream/identity.h"
#include "stream/log/log_layout.h"
#include "stream/log/log_writer.h"
#include "stream/schema.h"

namespace leat::job {
namespace {

// A path of the job file: as it is when absolute, else below `base`.
std::string Below(const std::string& base, const std::string& path) {
  if (base.empty() || std::filesystem::path(path).is_absolute()) return path;
  return (std::filesystem::path(base) / path).string();
}

void ReadTextWindows(const Config& config, uint32_t sequence, stream::FileSourceOptions* files) {
  constexpr int64_t kMax = stream::Schema::kMaxSequence;
  files->sequence = static_cast<uint32_t>(config.Integer("sequence", sequence, 1, kMax));
  if (files->sequence == 0) (void)config.At("sequence");
  files->stride = static_cast<uint32_t>(config.Integer("stride", 0, 1, kMax));
  if (!config.Has("part")) return;
  const Config part = config.At("part");
  if (!part.IsList() || part.size() != 2)
    part.Fail("part is a list of two, where it begins and ends: [0, 0.9]");
  files->part_begin = part[0].Number();
  files->part_end = part[1].Number();
  if (!(0 <= files->part_begin && files->part_begin < files->part_end && files->part_end <= 1)) {
    part.Fail("part is [" + part[0].String() + ", " + part[1].String() +
              "]; it goes from 0 or more to 1 or less, and begins before it ends");
  }
}

StreamSpec::Source ReadFileStream(const Config& config, const StreamPaths& paths) {
  return FileStream{FilesFromConfig(config.At("files"), paths.data)};
}

StreamSpec::Source ReadLogStream(const Config& config, const StreamPaths& paths) {
  LogStream log;
  log.topic = config.At("topic").String();
  if (const auto good = stream::CheckTopicName(log.topic); !good.ok())
    config.At("topic").Fail(good.message());
  log.directory =
      config.Has("log") ? Below(paths.data, config.At("log").String()) : Below(paths.directory, "log");
  log.live = config.Bool("live", false);
  log.fail_on_data_loss = config.Bool("fail_on_data_loss", true);
  if (config.Has("errors_tolerance"))
    log.quarantine = config.At("errors_tolerance").OneOf("errors_tolerance", {"none", "all"}) == "all";
  log.options.partitions =
      static_cast<uint32_t>(config.Integer("partitions", 4, 1, stream::EmbeddedLog::kMaxPartitions));
  log.options.retention_bytes =
      static_cast<uint64_t>(config.Number("retention_mb", 0, 0, 1e9) * 1e6 / log.options.partitions);
  log.options.retention_time = FromSeconds(config.Number("retention_hours", 0, 0, 1e6) * 3600);
  if (config.Has("bots")) log.bots = stream::BotsConfig::FromConfig(config.At("bots"));
  return log;
}

StreamSpec::Source ReadKafka(const Config& config, const StreamPaths&) {
  return ReadKafkaStream(config);
}

StreamSpec::Source ReadOwnStream(const Config& config, const StreamPaths& paths) {
  const Config source = config.At("source");
  const auto& sources = OwnExtensions().sources;
  if (!source.IsScalar() && (!source.IsMap() || source.Keys().size() != 1))
    source.Fail("source is the name of one of the program's own, with its settings: {ticks: {rate: 100}}");
  const std::string name = source.IsScalar() ? source.String() : source.Keys()[0];
  std::vector<std::string> names;
  for (const auto& [known, open] : sources) names.push_back(known);
  const Config place = source.IsScalar() ? source : source.At(name);
  if (names.empty())
    place.Fail("unknown source '" + name +
               "': this program has none of its own; run the one that defines it");
  const auto at = sources.find(name);
  if (at == sources.end()) place.FailUnknown("source", name, names);
  const bool bare = source.IsScalar() || place.IsNull();
  return OwnStream{name, {bare ? place.WithoutSettings() : place, paths.data}, at->second};
}

// A kind of source: the key that chooses it, which comes first, and its other settings.
struct Kind {
  const char* name;  // as messages call it
  std::vector<std::string> keys;
  StreamSpec::Source (*read)(const Config& config, const StreamPaths& paths);

  const std::string& key() const { return keys.front(); }
  bool Has(const std::string& key) const { return std::ranges::find(keys, key) != keys.end(); }
};

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kKinds = {
      {"a topic",
       {"topic", "log", "partitions", "retention_mb", "retention_hours", "bots", "live", "fail_on_data_loss",
        "errors_tolerance"},
       ReadLogStream},
      {"files", {"files"}, ReadFileStream},
      {"a Kafka topic",
       {"kafka", "topic", "start", "bounded", "partitions", "max_partitions", "bots", "live",
        "fail_on_data_loss", "dead_letters", "labels"},
       ReadKafka},
      {"a source of its own", {"source"}, ReadOwnStream},
  };
  return kKinds;
}

// Settings belong to one kind of source; only `epochs` is for all.
const Kind& KindOf(const Config& config) {
  std::vector<std::string> known = {"epochs"};
  const Kind* chosen = nullptr;
  bool both = false;
  for (const Kind& kind : Kinds()) {
    known.insert(known.end(), kind.keys.begin(), kind.keys.end());
    if (!config.Has(kind.key())) continue;
    // A topic is Kafka's if the stream says so.
    both = both || (chosen != nullptr && !kind.Has(chosen->key()));
    chosen = &kind;
  }
  config.Allow(known);
  if (chosen == nullptr || both) config.Fail("a stream has either a topic or files");
  for (const auto& key : config.Keys()) {
    if (key == "epochs" || chosen->Has(key)) continue;
    const auto other = std::ranges::find_if(Kinds(), [&](const Kind& kind) { return kind.Has(key); });
    config.At(key).Fail("'" + key + "' is for " + other->name + "; this stream has " + chosen->name);
  }
  return *chosen;
}

}  // namespace

stream::FileSourceOptions FilesFromConfig(const Config& config, const std::string& data, uint32_t sequence) {
  config.Allow({"format", "paths", "partitions", "header", "encoding", "sequence", "stride", "part"});
  stream::FileSourceOptions files;
  files.format = config.At("format").OneOf("format", {"idx", "csv", "json", "text"});
  for (const auto& [key, format] : {std::pair{"header", "csv"}, std::pair{"sequence", "text"},
                                    std::pair{"stride", "text"}, std::pair{"part", "text"}}) {
    if (config.Has(key) && files.format != format)
      config.At(key).Fail(std::string(key) + " is for the format " + format);
  }
  const Config paths = config.At("paths");
  if (!paths.IsList() || paths.size() == 0) paths.Fail("paths must be a list of files");
  for (size_t i = 0; i < paths.size(); ++i) files.paths.push_back(Below(data, paths[i].String()));
  if (files.format == "idx" && files.paths.size() != 2) {
    paths.Fail("idx takes two paths, images and labels; here are " + std::to_string(files.paths.size()));
  }
  files.partitions = static_cast<uint32_t>(config.Integer("partitions", 1, 1, 1024));
  files.header = config.Bool("header", false);
  if (config.Has("encoding")) {
    const Config encoding = config.At("encoding");
    if (files.format != "csv" && files.format != "json")
      encoding.Fail("encoding is for the formats csv and json");
    files.encoding = encoding.String();
    if (const std::string why = stream::WhyNoEncoding(files.encoding); !why.empty()) encoding.Fail(why);
  }
  if (files.format == "text") ReadTextWindows(config, sequence, &files);
  return files;
}

StreamSpec StreamFromConfig(const Config& config, const StreamPaths& paths) {
  const Kind& kind = KindOf(config);
  StreamSpec stream;
  stream.epochs = static_cast<uint32_t>(config.Integer("epochs", 1, 1, 1'000'000));
  stream.source = kind.read(config, paths);
  if (stream.bots() != nullptr && stream.epochs != 1)
    config.At("epochs").Fail("a stream that bots write is read once; epochs must be 1");
  if (stream.kafka() != nullptr && stream.kafka()->labels && stream.epochs != 1)
    config.At("epochs").Fail("events whose labels come later are read once; epochs must be 1");
  return stream;
}

// ---- files

std::string FileStream::Describe() const {
  const size_t more = options.paths.size() - 1;
  return "file " + options.paths.front() + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

SourceIdentity FileStream::Identity() const {
  SourceIdentity identity{.topic = "", .partitions = options.partitions, .windows = ""};
  if (options.format != "text") {
    identity.windows = options.encoding;
    return identity;
  }
  std::stringstream windows;
  windows << options.sequence << " " << options.stride << " " << std::setprecision(17) << options.part_begin
          << " " << options.part_end;
  identity.windows = windows.str();
  return identity;
}

Result<std::vector<std::string>> FileStream::Identify() const {
  std::vector<std::string> identities;
  for (const std::string& path : options.paths) {
    LEAT_ASSIGN_OR_RETURN(const stream::FileIdentity identity, stream::IdentifyFile(path));
    identities.push_back(stream::ToString(identity));
  }
  return identities;
}

Result<std::unique_ptr<stream::Source>> FileStream::Open() const {
  return stream::OpenFiles(options);
}

Status FileStream::CheckEmpty() const {
  return {Code::kInvalidArgument, Describe() + ": has no records"};
}

Result<std::unique_ptr<stream::TopicWriter>> FileStream::OpenWriter() const {
  return Status(Code::kFailedPrecondition, Describe() + ": nothing is appended to files");
}

// ---- the embedded log

std::string LogStream::Describe() const {
  return "topic '" + topic + "'";
}

SourceIdentity LogStream::Identity() const {
  return {.topic = topic, .partitions = options.partitions, .windows = ""};
}

Result<std::vector<std::string>> LogStream::Identify() const {
  LEAT_ASSIGN_OR_RETURN(const uint64_t id, stream::EmbeddedLog::ReadId(directory, topic));
  if (id == 0) return std::vector<std::string>();
  return std::vector<std::string>{"topic:" + std::to_string(id)};
}

Status LogStream::Prepare() const {
  return bots ? stream::EmbeddedLog::Create(directory, topic, options) : Status();
}

Result<std::unique_ptr<stream::Source>> LogStream::Open() const {
  return stream::EmbeddedLog::OpenSource(directory, topic, {.quarantine = quarantine});
}

Status LogStream::CheckEmpty() const {
  if (bots || live) return {};
  return {Code::kInvalidArgument,
          Describe() + " in " + directory + " is empty; a stream that is waited for says 'live: true'"};
}

Result<std::unique_ptr<stream::TopicWriter>> LogStream::OpenWriter() const {
  LEAT_ASSIGN_OR_RETURN(auto writer, stream::LogWriter::Open(directory, topic));
  return std::unique_ptr<stream::TopicWriter>(std::move(writer));
}

Status LogStream::Create(uint32_t count) const {
  // An existing topic may have another number of partitions.
  if (stream::EmbeddedLog::OpenSource(directory, topic).status().code() != Code::kNotFound) return {};
  stream::TopicOptions made = options;
  if (count > 0) made.partitions = count;
  return stream::EmbeddedLog::Create(directory, topic, made);
}

// ---- the program's own

std::string OwnStream::Describe() const {
  return "source '" + name + "'";
}

// How many partitions there are follows from the settings.
SourceIdentity OwnStream::Identity() const {
  return {.topic = "source " + name + ": " + request.settings.ToYaml(), .partitions = 0, .windows = ""};
}

Result<std::unique_ptr<stream::Source>> OwnStream::Open() const {
  try {
    auto source = open(request);
    if (source != nullptr) return source;
    return Status(Code::kInvalidArgument, Describe() + ": its function returned none");
  } catch (const std::invalid_argument& error) {
    return Status(Code::kInvalidArgument, error.what());  // names the place
  } catch (const std::exception& error) {
    return Status(Code::kUnavailable, Describe() + ": " + error.what());
  }
}

Result<std::unique_ptr<stream::TopicWriter>> OwnStream::OpenWriter() const {
  return Status(Code::kFailedPrecondition, Describe() + ": nothing is appended to it");
}

// ---- whichever it is

const stream::BotsConfig* StreamSpec::bots() const {
  if (log() != nullptr) return log()->bots ? &*log()->bots : nullptr;
  if (kafka() != nullptr) return kafka()->bots ? &*kafka()->bots : nullptr;
  return nullptr;
}

stream::BotsConfig* StreamSpec::bots() {
  return const_cast<stream::BotsConfig*>(std::as_const(*this).bots());  // NOLINT: this object is not const
}

Status StreamSpec::Create(uint32_t count) const {
  if (log() != nullptr) return log()->Create(count);
  if (kafka() != nullptr) return kafka()->Create(count);
  return {Code::kFailedPrecondition,
          Describe() + ": nothing is appended to " + (own() != nullptr ? "it" : "files")};
}

}  // namespace leat::job
