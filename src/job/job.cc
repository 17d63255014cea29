#include "job/job.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "base/rng.h"
#include "checkpoint/store.h"
#include "onnx/layer.h"
#include "stream/dead_letters.h"
#include "stream/decode/delimiter.h"
#include "stream/decode/text_hint.h"
#include "stream/log/log_layout.h"

namespace leat::train {
namespace {

constexpr const char* kResolved = "resolved";

// A path of the job file: as it is when absolute, else below `base`.
std::string Below(const std::string& base, const std::string& path) {
  if (base.empty() || std::filesystem::path(path).is_absolute()) return path;
  return (std::filesystem::path(base) / path).string();
}

// The same for every way to write it.
std::string Absolute(const std::string& path) {
  const auto normal = std::filesystem::absolute(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

// It becomes part of a path, and of lines on a screen.
std::string NameFrom(const Config& config) {
  const std::string name = config.String();
  const bool plain = std::ranges::none_of(
      name, [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (name.empty() || name.size() > 100 || name[0] == '.' || !plain) {
    config.Fail("a name has 1 to 100 characters, no slash among them, and does not begin with a dot");
  }
  return name;
}

// `sequence`: of text that does not say it itself; 0: it has to.
stream::FileSourceOptions FilesFrom(const Config& config, const std::string& data, uint32_t sequence = 0) {
  config.Allow({"format", "paths", "partitions", "header", "sequence", "stride", "part"});
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
  if (files.format != "text") return files;
  constexpr int64_t kMost = stream::Schema::kMaxSequence;
  files.sequence = static_cast<uint32_t>(config.Integer("sequence", sequence, 1, kMost));
  if (files.sequence == 0) (void)config.At("sequence");
  files.stride = static_cast<uint32_t>(config.Integer("stride", 0, 1, kMost));
  if (!config.Has("part")) return files;
  const Config part = config.At("part");
  if (!part.IsList() || part.size() != 2)
    part.Fail("part is a list of two, where it begins and ends: [0, 0.9]");
  files.part_begin = part[0].Number();
  files.part_end = part[1].Number();
  if (!(0 <= files.part_begin && files.part_begin < files.part_end && files.part_end <= 1)) {
    part.Fail("part is [" + part[0].String() + ", " + part[1].String() +
              "]; it goes from 0 or more to 1 or less, and begins before it ends");
  }
  return files;
}

StreamSpec StreamFrom(const Config& config, const std::string& data) {
  config.Allow(
      {"topic", "log", "partitions", "retention_mb", "retention_hours", "bots", "live", "files", "epochs"});
  StreamSpec stream;
  stream.epochs = static_cast<uint32_t>(config.Integer("epochs", 1, 1, 1'000'000));
  if (config.Has("files") == config.Has("topic")) {
    config.Fail("a stream has either a topic or files");
  }
  if (config.Has("files")) {
    for (const auto& key : config.Keys()) {
      if (key != "files" && key != "epochs")
        config.At(key).Fail("'" + key + "' is for a topic; this stream has files");
    }
    stream.files = FilesFrom(config.At("files"), data);
    return stream;
  }
  stream.topic = config.At("topic").String();
  if (const auto good = stream::CheckTopicName(stream.topic); !good.ok())
    config.At("topic").Fail(good.message());
  if (config.Has("log")) stream.log = Below(data, config.At("log").String());
  stream.live = config.Bool("live", false);
  stream.topic_options.partitions =
      static_cast<uint32_t>(config.Integer("partitions", 4, 1, stream::EmbeddedLog::kMaxPartitions));
  stream.topic_options.retention_bytes =
      static_cast<uint64_t>(config.Number("retention_mb", 0, 0, 1e9) * 1e6 / stream.topic_options.partitions);
  stream.topic_options.retention_time = FromSeconds(config.Number("retention_hours", 0, 0, 1e6) * 3600);
  if (config.Has("bots")) {
    stream.bots = stream::BotsConfig::FromConfig(config.At("bots"));
    if (stream.epochs != 1)
      config.At("epochs").Fail("a stream that bots write is read once; epochs must be 1");
  }
  return stream;
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) throw std::invalid_argument("cannot read " + path);
  return text.str();
}

std::string Resolved(const JobOverrides& overrides) {
  std::stringstream text;
  text << "\n" << kResolved << ":\n";
  text << "  directory: " << Quoted(overrides.directory) << "\n";
  text << "  data: " << Quoted(overrides.data) << "\n";
  if (overrides.workers > 0) text << "  workers: " << overrides.workers << "\n";
  if (overrides.servers > 0) text << "  ps: " << overrides.servers << "\n";
  if (overrides.max_servers > 0) text << "  max_ps: " << overrides.max_servers << "\n";
  if (overrides.rate) {
    text << "  rate: " << std::setprecision(std::numeric_limits<double>::max_digits10) << *overrides.rate
         << "\n";
  }
  if (overrides.events > 0) text << "  events: " << overrides.events << "\n";
  return text.str();
}

std::string ResolvedDelimiter(char delimiter) {
  return "  delimiter: " + (delimiter == '\t' ? "tab" : Quoted(std::string(1, delimiter))) + "\n";
}

// What the command line said when the job was started, and does not say now.
void KeepOverrides(const Job& saved, JobOverrides* overrides) {
  if (overrides->workers == 0) overrides->workers = saved.workers;
  if (overrides->servers == 0) overrides->servers = saved.servers;
  if (!saved.stream.bots) return;
  if (!overrides->rate) overrides->rate = saved.stream.bots->rate;
  if (overrides->events == 0) overrides->events = saved.stream.bots->events;
}

// The text goes first, so that line numbers stay those of the file. Where nothing can stand behind it (a map
// in braces, as JSON is, or an end of the document), the same tree does.
std::string WithResolved(const std::string& text, const std::string& name, const std::string& resolved) {
  try {
    Config::Parse(text + resolved, name);
  } catch (const std::invalid_argument&) {
    return Config::Parse(text, name).ToYaml() + resolved;
  }
  return text + resolved;
}

// The delimiter of CSV files, which all have the same; nothing when they cannot be read, which is said by
// whoever has to read them.
std::optional<stream::Delimiter> FindDelimiter(const stream::FileSourceOptions& files,
                                               const stream::Schema& schema) {
  std::optional<stream::Delimiter> first;
  for (const auto& path : files.paths) {
    const auto lines = stream::SampleLines(path);
    if (!lines.ok()) return std::nullopt;
    const auto found = stream::ChooseDelimiter(path, *lines, schema, files.header);
    if (!found.ok()) throw std::invalid_argument(found.status().message());
    if (!first) first = *found;
    if (first->character != found->character) {
      throw std::invalid_argument(path + ": its delimiter is " + stream::DelimiterName(found->character) +
                                  ", " + files.paths.front() + " has " +
                                  stream::DelimiterName(first->character));
    }
  }
  return first;
}

// The line of the `resolved:` section for a job whose schema does not say the delimiter of its CSV files;
// empty for others.
std::string DetectDelimiter(const std::string& text, const std::string& name, const std::string& data,
                            std::vector<std::string>* notes) {
  const Config config = Config::Parse(text, name);
  if (!config.IsMap() || !config.Has("stream") || !config.Has("schema")) return "";
  const StreamSpec stream = StreamFrom(config.At("stream"), data);
  if (stream.files.format != "csv") return "";
  const auto schema = stream::Schema::FromConfig(config.At("schema"));
  if (schema.format != stream::Schema::Format::kCsv || schema.delimiter_set) return "";
  const auto found = FindDelimiter(stream.files, schema);
  if (!found) return "";
  const std::string path = stream.files.paths.front();
  const std::string delimiter = stream::DelimiterName(found->character);
  notes->push_back(found->columns > 1 ? path + ": delimiter " + delimiter + " found, " +
                                            std::to_string(found->columns) + " columns"
                                      : path + ": no delimiter found; " + delimiter + " is assumed");
  return ResolvedDelimiter(found->character);
}

// The names of the columns of CSV files, which all have the same.
std::vector<std::string> HeaderOf(const stream::FileSourceOptions& files, char delimiter) {
  std::vector<std::string> first;
  for (const auto& path : files.paths) {
    const auto names = stream::ReadCsvHeader(path, delimiter);
    if (!names.ok()) throw std::invalid_argument(names.status().message());
    if (first.empty()) first = *names;
    if (*names != first)
      throw std::invalid_argument(path + ": names other columns than " + files.paths.front());
  }
  return first;
}

// As resolved when the job was loaded, since not every role can read its files.
std::vector<std::string> ColumnsOf(const Config& config, const stream::FileSourceOptions& files,
                                   char delimiter) {
  if (!config.Has(kResolved) || !config.At(kResolved).Has("columns")) return HeaderOf(files, delimiter);
  const Config columns = config.At(kResolved).At("columns");
  std::vector<std::string> names;
  for (size_t i = 0; i < columns.size(); ++i) names.push_back(columns[i].String());
  return names;
}

// A label that is no class of the model's is a dead letter, so the schema has to know the classes.
void FitLabels(const Config& config, const nn::Model& model, stream::Schema* schema) {
  if (model.task() == nn::Task::kNone) return;
  if (!schema->has_label())
    config.Fail("the loss " + std::string(nn::Name(model.loss().kind)) + " needs a field with role: label");
  if (model.classes() == 0) return;
  for (auto& field : schema->fields) {
    if (field.labels() == 0) continue;
    if (field.type == stream::Field::Type::kNumber && field.classes == 0) field.classes = model.classes();
    if (field.label_classes() != model.classes()) {
      throw std::invalid_argument(field.where + ": label '" + field.name + "' has " +
                                  std::to_string(field.label_classes()) + " classes, the model tells " +
                                  std::to_string(model.classes()) + " apart");
    }
  }
}

// What indexes a table of the model's is checked when a record is decoded, so the schema has to know its
// bounds.
void CheckIds(const nn::Model& model, const stream::Schema& schema) {
  if (model.feature_ids() == 0) return;
  for (const auto& field : schema.fields) {
    if (field.features() == 0) continue;
    const std::string wanted =
        "the model's first layer takes ids below " + std::to_string(model.feature_ids());
    if (field.ids() == 0) {
      throw std::invalid_argument(field.where + ": " + wanted + ", which '" + field.name +
                                  "' are not; {type: id, below: " + std::to_string(model.feature_ids()) +
                                  "}?");
    }
    if (field.ids() > model.feature_ids()) {
      throw std::invalid_argument(field.where + ": '" + field.name + "' makes ids below " +
                                  std::to_string(field.ids()) + "; " + wanted);
    }
  }
}

// Text is cut into records by the stream, and read by the schema alone.
void CheckText(const Config& config, const stream::FileSourceOptions& files, const stream::Schema& schema) {
  const bool text = schema.format == stream::Schema::Format::kText;
  if ((files.format == "text") == text) return;
  config.Fail(text ? "the schema's format is text, that of the files " + files.format
                   : "files of text need a schema of the format text");
}

// What a worker holds of the stream at a time are a few splits.
void CheckSplitSize(const Config& config, const Job& job) {
  constexpr double kMostBytes = 1 << 30;
  const double values = static_cast<double>(job.schema.features()) + job.schema.labels();
  const double bytes = values * sizeof(float) * job.batch_size * job.split_batches;
  if (bytes <= kMostBytes) return;
  config.Fail("a split of " + std::to_string(job.split_batches) + " batches of " +
              std::to_string(job.batch_size) + " rows takes " +
              std::to_string(static_cast<uint64_t>(bytes / 1e6)) +
              " MB decoded; at most 1073: lower train.split_batches");
}

// Comes last: how many workers and servers there are is the command line's last word.
void ReadStrategy(const Config& config, Job* job) {
  protocol::StrategyConfig& strategy = job->strategy;
  if (config.Has("strategy")) strategy = protocol::StrategyFromConfig(config.At("strategy"), job->workers);
  strategy.sum = job->model->loss().reduction == nn::Reduction::kSum;
  strategy.full_run = uint64_t{job->batch_size} * strategy.run();
  if (!strategy.on_servers()) {
    job->servers = 0;  // and what is said of their placement has no meaning
  } else if (job->servers == 0) {
    config.At("cluster").At("ps").Fail("ps is 0, and " + std::string(protocol::Name(strategy.kind)) +
                                       " trains with servers; allreduce alone has none");
  } else if (const Status good = protocol::Check(job->placement, job->servers); !good.ok()) {
    config.At("cluster").At("placement").Fail(good.message());
  }

  const bool averaging = strategy.kind == protocol::StrategyKind::kAveraging;
  if (averaging && job->optimizer.kind != optim::Kind::kSgd) {
    config.At("optimizer")
        .Fail("averaging goes with sgd: workers train by themselves, and what " +
              std::string(optim::Name(job->optimizer.kind)) +
              " keeps for each weight would be nowhere; the average has a momentum of its own (strategy: "
              "momentum)");
  }
  if (strategy.run() > job->split_batches) {
    config.At("strategy")
        .Fail(std::string(averaging ? "period" : "n_push") + " is " + std::to_string(strategy.run()) +
              " batches, more than the " + std::to_string(job->split_batches) +
              " that a worker leases at a time; raise train.split_batches");
  }
}

void ApplyResolved(const Config& config, Job* job) {
  config.Allow({"data", "directory", "workers", "ps", "max_ps", "rate", "events", "delimiter", "columns"});
  job->directory = config.String("directory", "");
  job->workers = static_cast<uint32_t>(config.Integer("workers", job->workers));
  job->servers = static_cast<uint32_t>(config.Integer("ps", job->servers));
  job->max_servers = static_cast<uint32_t>(config.Integer("max_ps", job->max_servers));
  if (job->stream.bots) {
    job->stream.bots->rate = config.Number("rate", job->stream.bots->rate);
    job->stream.bots->events = static_cast<uint64_t>(
        config.Integer("events", static_cast<int64_t>(job->stream.bots->events), 1, int64_t{1} << 50));
  }
}

}  // namespace

Job Job::FromConfig(const Config& config) {
  if (!config.IsMap()) config.Fail("a job is a map of sections");
  config.Allow({"name", "seed", "stream", "schema", "model", "optimizer", "strategy", "train", "compute",
                "cluster", "checkpoint", "metrics", "evaluate", "resolved"});
  Job job{.config = config};
  job.name = config.Has("name") ? NameFrom(config.At("name")) : "job";
  job.seed = static_cast<uint64_t>(config.Integer("seed", 1, 0, int64_t{1} << 62));
  if (config.Has("resolved")) job.data = config.At("resolved").String("data", "");

  job.stream = StreamFrom(config.At("stream"), job.data);
  job.schema = stream::Schema::FromConfig(config.At("schema"), job.stream.files.sequence);
  // Jobs made before there was a choice have commas, and say nothing.
  if (config.Has(kResolved) && config.At(kResolved).Has("delimiter") && !job.schema.delimiter_set)
    job.schema.delimiter = stream::DelimiterFrom(config.At(kResolved).At("delimiter"));
  if (!job.stream.files.format.empty())
    CheckText(config.At("stream").At("files"), job.stream.files, job.schema);
  if (job.stream.files.header)
    job.schema.UseColumns(ColumnsOf(config, job.stream.files, job.schema.delimiter));
  job.model = std::make_shared<const nn::Model>(
      nn::Model::FromConfig(config.At("model"), {.features = job.schema.features(),
                                                 .labels = job.schema.labels(),
                                                 .data = job.data,
                                                 .kinds = onnx::LayerKinds()}));
  FitLabels(config.At("schema"), *job.model, &job.schema);
  CheckIds(*job.model, job.schema);
  job.optimizer = optim::FromConfig(config.At("optimizer"));

  if (config.Has("train")) {
    const Config train = config.At("train");
    train.Allow({"batch_size", "split_batches", "shuffle", "max_dead_letter_rate", "precision"});
    job.batch_size = static_cast<uint32_t>(train.Integer("batch_size", job.batch_size, 1, 1 << 16));
    job.split_batches = static_cast<uint32_t>(train.Integer("split_batches", job.split_batches, 1, 1 << 14));
    job.shuffle = train.Bool("shuffle", true);
    if (train.Has("precision"))
      job.bf16 = train.At("precision").OneOf("precision", {"f32", "bf16"}) == "bf16";
    job.dead_letter_rate = train.Number("max_dead_letter_rate", job.dead_letter_rate, 0, 1);
    if (uint64_t{job.batch_size} * job.split_batches > protocol::Cut::kMaxEvents) {
      train.Fail("batch_size × split_batches is " +
                 std::to_string(uint64_t{job.batch_size} * job.split_batches) + "; a split has at most " +
                 std::to_string(protocol::Cut::kMaxEvents) + " events");
    }
  }
  if (config.Has("compute")) {
    const Config compute = config.At("compute");
    compute.Allow({"inter_op_threads", "intra_op_threads", "cpu_devices"});
    const auto read = [&](const char* key) { return static_cast<int>(compute.Integer(key, 1, 0, 1024)); };
    job.compute = {read("inter_op_threads"), read("intra_op_threads"), read("cpu_devices")};
  }
  if (config.Has("cluster")) {
    const Config cluster = config.At("cluster");
    cluster.Allow({"workers", "ps", "max_ps", "placement", "trusted_network"});
    job.workers = static_cast<uint32_t>(cluster.Integer("workers", job.workers, 1, 10'000));
    job.servers = static_cast<uint32_t>(cluster.Integer("ps", job.servers, 0, 1000));
    job.max_servers = static_cast<uint32_t>(cluster.Integer("max_ps", job.max_servers, 1, 1000));
    job.trusted_network = cluster.Bool("trusted_network", false);
    if (cluster.Has("placement")) job.placement = protocol::PlacementFromConfig(cluster.At("placement"));
  }
  if (config.Has("checkpoint")) {
    const Config checkpoint = config.At("checkpoint");
    checkpoint.Allow({"interval_s", "keep"});
    job.checkpoint_interval_s = checkpoint.Number("interval_s", job.checkpoint_interval_s, 0, 1e6);
    job.keep_checkpoints = static_cast<uint32_t>(checkpoint.Integer("keep", job.keep_checkpoints, 1, 1000));
  }
  if (config.Has("metrics")) {
    const Config metrics = config.At("metrics");
    metrics.Allow({"window"});
    job.metrics_window = static_cast<uint64_t>(metrics.Integer("window", 200'000, 1000, int64_t{1} << 40));
  }
  if (config.Has("evaluate")) {
    const Config evaluate = config.At("evaluate");
    evaluate.Allow({"files"});
    const bool text = job.schema.format == stream::Schema::Format::kText;
    job.evaluate = FilesFrom(evaluate.At("files"), job.data, text ? job.schema.features() : 0);
    CheckText(evaluate.At("files"), *job.evaluate, job.schema);
    if (text && job.evaluate->sequence != job.schema.features()) {
      evaluate.At("files")
          .At("sequence")
          .Fail("sequence is " + std::to_string(job.evaluate->sequence) + ", that of the schema " +
                std::to_string(job.schema.features()));
    }
  }
  CheckSplitSize(config.Has("train") ? config.At("train") : config, job);
  if (config.Has("resolved")) ApplyResolved(config.At("resolved"), &job);
  // But the slices of a job that is resumed stay as they were made.
  if (!config.Has("resolved") || !config.At("resolved").Has("max_ps"))
    job.max_servers = std::max(job.max_servers, job.servers);
  ReadStrategy(config, &job);
  return job;
}

Job Job::FromText(const std::string& yaml, const std::string& name) {
  return FromConfig(Config::Parse(yaml, name));
}

Job Job::Load(const JobSource& source, const JobOverrides& given) {
  JobOverrides overrides = given;
  std::vector<std::string> notes;
  std::string delimiter;
  std::string name = source.file.empty() ? "job" : source.file;
  std::string text = source.text;
  if (!source.file.empty()) {
    // Parsed by itself first: what is unreadable or too large is refused there.
    const Config file = Config::ParseFile(source.file);
    if (file.IsMap() && file.Has(kResolved)) {
      file.At(kResolved).Fail("'resolved' is Leat's own section; a job file has none");
    }
    text = ReadText(source.file);
  }
  if (!source.resume.empty()) {
    const std::string kept_name = source.resume + "/job.yaml";
    const auto kept = checkpoint::ReadJob(source.resume);
    if (!kept.ok()) throw std::invalid_argument(kept.status().message());
    const Job saved = FromText(*kept, kept_name);
    overrides.directory = source.resume;
    overrides.max_servers = saved.max_servers;
    if (overrides.data.empty()) overrides.data = saved.data;
    const bool csv = saved.schema.format == stream::Schema::Format::kCsv;
    if (csv && !saved.schema.delimiter_set) delimiter = ResolvedDelimiter(saved.schema.delimiter);
    if (text.empty()) {
      name = kept_name;
      text = kept->substr(0, kept->find("\n" + std::string(kResolved) + ":"));
      KeepOverrides(saved, &overrides);
    }
  }
  if (overrides.data.empty()) overrides.data = ".";
  overrides.data = Absolute(overrides.data);
  if (!overrides.directory.empty()) overrides.directory = Absolute(overrides.directory);
  if (source.resume.empty()) delimiter = DetectDelimiter(text, name, overrides.data, &notes);
  text = WithResolved(text, name, Resolved(overrides) + delimiter);
  Job job = FromText(text, name);
  job.notes = std::move(notes);
  if (!job.stream.files.header) return job;
  text += "  columns: [";
  for (size_t i = 0; i < job.schema.columns.size(); ++i)
    text += (i > 0 ? ", " : "") + Quoted(job.schema.columns[i]);
  Job with_columns = FromText(text + "]\n", name);
  with_columns.notes = std::move(job.notes);
  return with_columns;
}

engine::PlanOptions Job::Plan(engine::PlanOptions kernels) const {
  kernels.inter_op_threads = compute.inter_op_threads;
  kernels.intra_op_threads = compute.intra_op_threads;
  kernels.machine = engine::Discover({.cpu_devices = compute.cpu_devices});
  return kernels;
}

protocol::SliceTable Job::Slices() const {
  std::vector<optim::VariableSpec> variables(model->variables().begin(), model->variables().end());
  if (optim::NeedsWholeVariables(optimizer)) return protocol::MakeWholeSlices(std::move(variables), seed);
  return protocol::MakeSlices(std::move(variables), seed, max_servers);
}

protocol::CutRules Job::Cuts() const {
  protocol::CutRules rules;
  rules.batch_size = batch_size;
  rules.split_batches = split_batches;
  rules.shuffle_seed = shuffle ? Mix(seed, HashName("shuffle")) | 1 : 0;
  rules.epochs = stream.epochs;
  rules.run = strategy.run();
  // All that decides which events an index means.
  rules.hash = Mix(Mix(Mix(Mix(batch_size, split_batches), rules.run), rules.shuffle_seed), schema.hash());
  return rules;
}

optim::OptimizerConfig Job::ServerOptimizer() const {
  if (strategy.kind != protocol::StrategyKind::kAveraging) return optimizer;
  // A push is how far a lane has gone from the values that it started from: the mean of that is taken off
  // whole.
  auto average = optim::Defaults(strategy.momentum > 0 ? optim::Kind::kMomentum : optim::Kind::kSgd);
  average.learning_rate = 1;
  average.momentum = strategy.momentum;
  return average;
}

protocol::PlacementReport Job::PlacementPlan() const {
  const protocol::SliceTable table = Slices();
  const auto places = protocol::Place(table, placement, servers);
  if (!places.ok()) throw std::invalid_argument(places.status().message());
  return protocol::Describe(table, placement, *places, servers, optim::SlotNames(ServerOptimizer()).size());
}

protocol::ServerConfig Job::ServerConfig() const {
  return {.table = Slices(), .optimizer = ServerOptimizer(), .strategy = strategy};
}

std::string Job::LogDirectory() const {
  return stream.log.empty() ? Below(directory, "log") : stream.log;
}

Result<std::unique_ptr<stream::Source>> Job::OpenSource() const {
  if (stream.topic.empty()) return stream::OpenFiles(stream.files);
  return stream::EmbeddedLog::OpenSource(LogDirectory(), stream.topic);
}

stream::Schema Job::EvaluationSchema() const {
  auto columns = schema;
  if (!evaluate || evaluate->format != "csv") return columns;
  if (!schema.delimiter_set) {
    if (const auto found = FindDelimiter(*evaluate, schema); found && found->columns > 1)
      columns.delimiter = found->character;
  }
  if (evaluate->header) columns.UseColumns(HeaderOf(*evaluate, columns.delimiter));
  return columns;
}

std::vector<std::pair<std::string, std::string>> Job::Identity() const {
  std::string windows;
  if (const auto& files = stream.files; files.format == "text") {
    std::stringstream text;
    text << files.sequence << " " << files.stride << " " << std::setprecision(17) << files.part_begin << " "
         << files.part_end;
    windows = text.str();
  }
  std::string slots;
  for (const auto slot : optim::SlotNames(ServerOptimizer()))
    slots += (slots.empty() ? "" : ", ") + std::string(slot);
  return {{"seed", std::to_string(seed)},
          {"model", config.At("model").ToYaml()},
          {"schema", config.At("schema").ToYaml()},
          {"schema.delimiter", stream::DelimiterName(schema.delimiter)},
          {"stream.topic", stream.topic},
          {"stream.partitions",
           std::to_string(stream.topic.empty() ? stream.files.partitions : stream.topic_options.partitions)},
          {"stream.windows", windows},
          {"optimizer.type", std::string(optim::Name(optimizer.kind))},
          {"optimizer.slots", slots},
          // Where batches have no sequence, slices of a checkpoint are not of one step.
          {"strategy.stepped", strategy.stepped() ? "yes" : "no"},
          {"strategy.averaging", strategy.kind == protocol::StrategyKind::kAveraging ? "yes" : "no"},
          {"strategy.run", std::to_string(strategy.run())}};
}

uint64_t Job::Hash() const {
  uint64_t hash = 0;
  for (const auto& [part, value] : Identity()) hash = Mix(hash, HashName(value));
  return hash == 0 ? 1 : hash;
}

namespace {

// Files are there to be looked into: when the first records are so bad that the job would stop, or none of
// them fits, that is said at once.
void CheckFits(const Job& job, const stream::Schema& schema, stream::Source& source,
               const std::vector<stream::PartitionRange>& ranges, const std::string& path) {
  const uint64_t share = std::max<uint64_t>(1, (1 << 22) / (schema.features() + schema.labels()));
  const auto decoder = stream::MakeDecoder(schema);
  stream::DeadLetterRate rate(job.dead_letter_rate);
  stream::TextHint hint;
  stream::RecordBatch records;
  stream::DecodedRows rows;
  uint64_t seen = 0, dead = 0;
  std::string first;
  for (const auto& range : ranges) {
    for (uint64_t at = range.begin; at < range.end && seen < stream::DeadLetterRate::kWindow; at += share) {
      const uint64_t end = std::min({range.end, at + share, at + stream::DeadLetterRate::kWindow - seen});
      if (const auto read = source.Read(range.partition, at, end, &records); !read.ok())
        throw std::invalid_argument(read.message());
      rows.clear();
      decoder->Decode(records, &rows);
      if (dead == 0 && !rows.dead.empty()) {
        first = "partition " + std::to_string(range.partition) + " offset " +
                std::to_string(rows.dead[0].offset) + ": " + rows.dead[0].reason;
      }
      seen += end - at;
      for (const auto& letter : rows.dead) hint.See(letter);
      dead += rows.dead.size();
      rate.Count(end - at, rows.dead.size());
    }
  }
  if (!rate.exceeded() && (dead < seen || seen == 0)) return;
  job.config.At("schema").Fail(path + ": " + std::to_string(dead) + " of the first " + std::to_string(seen) +
                               " records do not fit the schema: " + first + hint.Describe());
}

// Devices that layers ask for have to be on this machine.
void CheckDevices(const Job& job) {
  const auto machine = job.Plan({}).machine;
  const graph::Graph graph = job.model->Build(1, false).graph;
  for (const graph::Node& node : graph.nodes()) {
    if (node.device.empty()) continue;
    try {
      machine->Find(node.device);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument((node.where.empty() ? "" : node.where + ": ") + e.what() +
                                  " (compute: cpu_devices divides the cores)");
    }
  }
}

}  // namespace

void CheckFits(const Job& job, stream::Source& source, const std::vector<stream::PartitionRange>& ranges) {
  if (job.stream.bots || !job.stream.topic.empty()) return;
  CheckFits(job, job.schema, source, ranges, job.stream.files.paths.front());
}

void CheckReadable(const Job& job) {
  CheckDevices(job);
  const auto ranges_of = [](stream::Source& source) {
    auto ranges = source.Ranges();
    if (!ranges.ok()) throw std::invalid_argument(ranges.status().message());
    return *ranges;
  };
  if (job.evaluate) {
    auto files = stream::OpenFiles(*job.evaluate);
    if (!files.ok()) throw std::invalid_argument(files.status().message());
    CheckFits(job, job.EvaluationSchema(), **files, ranges_of(**files), job.evaluate->paths.front());
  }
  if (job.stream.bots) return;
  auto source = job.OpenSource();
  if (!source.ok()) throw std::invalid_argument(source.status().message());
  const auto ranges = ranges_of(**source);
  CheckFits(job, **source, ranges);
  uint64_t records = 0;
  for (const auto& range : ranges) records += range.end - range.begin;
  if (records == 0 && !job.stream.live) {
    throw std::invalid_argument("topic '" + job.stream.topic + "' in " + job.LogDirectory() +
                                " is empty; a stream that is waited for says 'live: true'");
  }
}

}  // namespace leat::train
