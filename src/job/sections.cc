// From the parsed file to the job: one function for each section.
#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

#include "base/text.h"
#include "job/extensions/extensions.h"
#include "job/input/input_files.h"
#include "job/input/stream_spec.h"
#include "job/job.h"
#include "job/model.h"
#include "job/resume.h"

namespace leat::job {
namespace {

// It becomes part of a path, and of lines on a screen.
std::string NameFrom(const Config& config) {
  const std::string name = config.String();
  const bool plain = std::ranges::none_of(
      name, [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (name.empty() || name.size() > 100 || name[0] == '.' || !plain)
    config.Fail("a name has 1 to 100 characters, no slash among them, and does not begin with a dot");
  return name;
}

// A setting in seconds.
Duration TimeFrom(const Config& section, const char* key, Duration usual, double least,
                  double most = 86'400) {
  return FromSeconds(section.Number(key, Seconds(usual), least, most));
}

std::vector<std::string> Texts(const Config& list) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < list.size(); ++i) texts.push_back(list[i].String());
  return texts;
}

// As resolved when the job was loaded, since not every role can read its files.
std::vector<std::string> ColumnsOf(const Config& resolved, const stream::FileSourceOptions& files,
                                   const stream::CsvDialect& csv) {
  if (!resolved.Has("columns")) return ReadHeader(files, csv);
  return Texts(resolved.At("columns"));
}

// Text is cut into records by the stream, and read by the schema alone.
void CheckText(const Config& config, const stream::FileSourceOptions& files, const stream::Schema& schema) {
  const bool text = schema.format == stream::Schema::Format::kText;
  if ((files.format == "text") == text) return;
  config.Fail(text ? "the schema's format is text, that of the files " + files.format
                   : "files of text need a schema of the format text");
}

// A worker holds a few splits of the stream at a time, so their size is limited.
void CheckSplitSize(const Config& config, const Job& job) {
  constexpr double kMaxBytes = 1 << 30;
  const double values = static_cast<double>(job.schema.features()) + job.schema.labels();
  const double bytes = values * sizeof(float) * job.batch_size * job.split_batches;
  if (bytes <= kMaxBytes) return;
  config.Fail(StrCat("a split of ", job.split_batches, " batches of ", job.batch_size, " rows takes ",
                     static_cast<uint64_t>(bytes / 1e6),
                     " MB decoded; at most 1073: lower train.split_batches"));
}

// The records of some sources alone have keys, timestamps and headers.
void CheckAttributes(const Job& job) {
  for (const auto& field : job.schema.fields) {
    if (!field.from || field.is_late()) continue;
    const std::string begin = field.where + ": field '" + field.name + "' is not in the record's bytes; ";
    if (!job.stream->traits().attributes) {
      throw std::invalid_argument(begin + "only records of " + ProductsWith(&StreamTraits::attributes) +
                                  " have keys, timestamps and headers");
    }
    if (job.config.Has("evaluate"))
      throw std::invalid_argument(begin + "the records of evaluation files have nothing else");
  }
}

// A stream of labels and the fields that come from it belong together.
void TakeLateLabels(const Config& config, Job* job) {
  if (const auto* const records = job->stream->late_labels(); records != nullptr) {
    job->schema.label_records = *records;
    if (!job->schema.has_late_labels()) {
      config.At("stream").At("labels").Fail(
          "no field of the schema takes its labels; a label that comes later has 'from: labels'");
    }
  }
  (void)job->schema.LateLabels();
}

// Class 0 is the negative one of two.
void CheckNegative(const Config& config, const Job& job) {
  if (!job.schema.label_records || !job.schema.label_records->negative) return;
  for (const auto& field : job.schema.fields) {
    if (!field.is_late() || field.label_classes() == 2) continue;
    const std::string has =
        field.label_classes() == 0 ? "may be any number" : StrCat("has ", field.label_classes(), " classes");
    config.At("stream")
        .At("labels")
        .At("unjoined")
        .Fail("unjoined: negative is for labels of two classes; '" + field.name + "' " + has);
  }
}

// Only records of a topic are binary, and bots write JSON.
void CheckBinary(const Config& config, const Job& job) {
  using Format = stream::Schema::Format;
  const Format format = job.schema.format;
  if (format != Format::kAvro && format != Format::kProtobuf && format != Format::kTensor) return;
  const std::string is = "the schema's format is " + config.At("schema").At("format").String();
  if (job.stream->files() != nullptr)
    config.At("stream").At("files").Fail(is + ", which is for the records of topics");
  if (job.stream->bots() != nullptr) config.At("schema").At("format").Fail(is + ", and bots write JSON");
}

// The columns and the delimiter are the files', unless the schema sets them.
void ReadSchema(const Config& config, const Config& resolved, Job* job) {
  stream::FileSourceOptions* const files = job->stream->files();
  job->schema = stream::Schema::FromConfig(config.At("schema"), files != nullptr ? files->sequence : 0);
  CheckAttributes(*job);
  TakeLateLabels(config, job);
  // Jobs made before there was a choice have commas, and say nothing.
  if (resolved.Has("delimiter") && !job->schema.delimiter_set)
    job->schema.delimiter = stream::DelimiterFrom(resolved.At("delimiter"));
  CheckBinary(config, *job);
  for (const std::string& unfit : ReadSchemaFiles(resolved, job->data, &job->schema))
    job->notes.push_back(unfit);
  if (files == nullptr) return;
  CheckText(config.At("stream").At("files"), *files, job->schema);
  if (files->header) UseHeader(*files, ColumnsOf(resolved, *files, job->schema.dialect()), &job->schema);
  files->csv = job->schema.dialect();
}

void ReadModel(const Config& config, const nn::LayerFiles::Copies& copies, Job* job) {
  job->model = BuildModel(config, LayerFilesOf(job->data, copies, &job->assets), job->seed, &job->schema);
  CheckNegative(config, *job);
}

void ReadTrain(const Config& train, Job* job) {
  train.Allow({"batch_size", "split_batches", "shuffle", "max_dead_letter_rate", "precision"});
  job->batch_size = static_cast<uint32_t>(train.Integer("batch_size", job->batch_size, 1, 1 << 16));
  job->split_batches = static_cast<uint32_t>(train.Integer("split_batches", job->split_batches, 1, 1 << 14));
  job->shuffle = train.Bool("shuffle", true);
  if (train.Has("precision")) job->bf16 = train.At("precision").OneOf("precision", {"f32", "bf16"}) == "bf16";
  job->dead_letter_rate = train.Number("max_dead_letter_rate", job->dead_letter_rate, 0, 1);
  if (uint64_t{job->batch_size} * job->split_batches > protocol::Cut::kMaxEvents) {
    train.Fail(StrCat("batch_size × split_batches is ", uint64_t{job->batch_size} * job->split_batches,
                      "; a split has at most ", protocol::Cut::kMaxEvents, " events"));
  }
}

void ReadCompute(const Config& compute, Job* job) {
  compute.Allow({"inter_op_threads", "intra_op_threads", "cpu_devices"});
  const auto read = [&](const char* key) { return static_cast<int>(compute.Integer(key, 1, 0, 1024)); };
  job->compute = {read("inter_op_threads"), read("intra_op_threads"), read("cpu_devices")};
}

// "3", or a range "2:8", if the section has it.
void ReadWorkers(const Config& section, Job* job) {
  if (!section.Has("workers")) return;
  const Config workers = section.At("workers");
  if (!workers.IsScalar() || workers.String().find(':') == std::string::npos) {
    job->workers = static_cast<uint32_t>(section.Integer("workers", 0, 1, protocol::WorkerRange::kMost));
    job->max_workers = job->workers;
    return;
  }
  const auto range = ParseWorkerRange(workers.String());
  if (!range.ok()) workers.Fail("workers: " + range.status().message());
  job->workers = range->least;
  job->max_workers = range->most;
}

void ReadCluster(const Config& cluster, Job* job) {
  cluster.Allow({"workers", "standby", "ps", "max_ps", "replicas", "placement", "trusted_network",
                 "heartbeat_interval_s", "heartbeat_timeout_s", "lease_timeout_s", "stuck_timeout_s"});
  ReadWorkers(cluster, job);
  job->standby = static_cast<uint32_t>(cluster.Integer("standby", 0, 0, 1000));
  job->servers = static_cast<uint32_t>(cluster.Integer("ps", job->servers, 0, 1000));
  job->max_servers = static_cast<uint32_t>(cluster.Integer("max_ps", job->max_servers, 1, 1000));
  job->replicas = static_cast<uint32_t>(cluster.Integer("replicas", 1, 1, 2));
  job->trusted_network = cluster.Bool("trusted_network", false);
  job->heartbeat_timeout = TimeFrom(cluster, "heartbeat_timeout_s", job->heartbeat_timeout, 0.5, 3600);
  job->leases.first = TimeFrom(cluster, "lease_timeout_s", job->leases.first, 1);
  job->stuck_timeout = TimeFrom(cluster, "stuck_timeout_s", job->stuck_timeout, 1);
  job->heartbeat_interval = std::min(job->heartbeat_interval, job->heartbeat_timeout / 4);
  if (cluster.Has("heartbeat_interval_s")) {
    job->heartbeat_interval = FromSeconds(cluster.Number("heartbeat_interval_s", 0.5, 0.01, 900));
    if (4 * job->heartbeat_interval > job->heartbeat_timeout) {
      cluster.At("heartbeat_interval_s")
          .Fail("a heartbeat every " + cluster.At("heartbeat_interval_s").String() +
                " s: at most a quarter of heartbeat_timeout_s, so that one may be lost");
    }
  }
  if (cluster.Has("placement"))
    job->placement = protocol::PlacementFromConfig(cluster.At("placement"), OwnExtensions().placements);
}

void ReadSecurity(const Config& security, Job* job) {
  job->tls = security.OneOf("security", {"tls"}) == "tls";
  if (job->trusted_network)
    security.Fail("security: tls, and cluster: trusted_network: true; a job has one of them");
  if (job->strategy.mpi) security.Fail("MPI does not encrypt; security: tls needs strategy: transport: auto");
}

std::optional<object_store::Settings> ReadBucket(const Config& checkpoint) {
  constexpr std::array kOfBucket = {"endpoint", "region", "path_style", "ca", "connections", "part_mb"};
  if (!checkpoint.Has("to")) {
    for (const char* key : kOfBucket)
      if (checkpoint.Has(key)) checkpoint.At(key).Fail(std::string(key) + " needs to: s3://BUCKET/PREFIX");
    return std::nullopt;
  }
  const Config to = checkpoint.At("to");
  auto parsed = object_store::ParseLocation(to.String());
  if (!parsed.ok()) to.Fail(parsed.status().message());
  object_store::Settings settings = std::move(*parsed);
  settings.endpoint = checkpoint.String("endpoint", "");
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (checkpoint.Has("endpoint")) {
    const Status valid = object_store::CheckEndpoint(settings.endpoint);
    if (!valid.ok()) checkpoint.At("endpoint").Fail(valid.message());
  }
  settings.region = checkpoint.String("region", "");
  if (checkpoint.Has("path_style")) settings.path_style = checkpoint.Bool("path_style", false);
  settings.ca = checkpoint.String("ca", "");
  settings.connections =
      static_cast<uint32_t>(checkpoint.Integer("connections", settings.connections, 1, 64));
  // S3 refuses smaller parts, but for the last one, and larger ones than 5 GiB.
  settings.part_bytes =
      static_cast<uint64_t>(checkpoint.Integer("part_mb", settings.part_bytes >> 20, 5, 1024)) << 20;
  return settings;
}

void ReadCheckpoint(const Config& checkpoint, Job* job) {
  checkpoint.Allow({"interval_s", "keep", "timeout_s", "copy_mb", "to", "endpoint", "region", "path_style",
                    "ca", "connections", "part_mb"});
  job->checkpoint_to = ReadBucket(checkpoint);
  job->checkpoint_interval_s = checkpoint.Number("interval_s", job->checkpoint_interval_s, 0, 1e6);
  job->keep_checkpoints = static_cast<uint32_t>(checkpoint.Integer("keep", job->keep_checkpoints, 1, 1000));
  job->checkpoint_timeout = TimeFrom(checkpoint, "timeout_s", job->checkpoint_timeout, 1);
  job->checkpoint_copy_bytes =
      static_cast<uint64_t>(checkpoint.Integer("copy_mb", job->checkpoint_copy_bytes >> 20, 0, 1 << 30))
      << 20;
}

void ReadAutoscale(const Config& autoscale, Job* job) {
  autoscale.Allow({"command", "timeout_s", "lag_s", "cool_down_s"});
  AutoscaleSpec& spec = job->autoscale;
  if (autoscale.Has("command")) {
    const Config command = autoscale.At("command");
    if (!command.IsList() || command.size() == 0)
      command.Fail("command is a list of a program and its arguments; no shell reads it");
    spec.command = Texts(command);
    if (spec.command[0].empty()) command[0].Fail("command begins with an empty name of a program");
  }
  spec.timeout = TimeFrom(autoscale, "timeout_s", spec.timeout, 0.1);
  spec.lag = TimeFrom(autoscale, "lag_s", spec.lag, 0.5);
  spec.cool_down = TimeFrom(autoscale, "cool_down_s", spec.cool_down, 1);
}

void ReadDebug(const Config& debug, Job* job) {
  debug.Allow({"step_ms", "init_ms", "hang_after", "die_at", "die_after"});
  job->debug.step = std::chrono::milliseconds(debug.Integer("step_ms", 0, 0, 3'600'000));
  job->debug.init = std::chrono::milliseconds(debug.Integer("init_ms", 0, 0, 3'600'000));
  job->debug.hang_after = static_cast<uint32_t>(debug.Integer("hang_after", 0, 0, 1'000'000));
  // In the order of DiePoint, from its second on.
  const std::vector<std::string> points = {"push",           "apply",       "shard",        "manifest",
                                           "move_ordered",   "move_frozen", "move_arrived", "move_made",
                                           "move_journaled", "forwarded",   "taken",        "acknowledged"};
  if (debug.Has("die_at")) {
    const std::string name = debug.At("die_at").OneOf("die_at", points);
    job->debug.die_at = static_cast<DiePoint>(1 + (std::ranges::find(points, name) - points.begin()));
  }
  job->debug.die_after = static_cast<uint32_t>(debug.Integer("die_after", 1, 1, 1'000'000));
}

void ReadMetrics(const Config& metrics, Job* job) {
  metrics.Allow({"window", "fading", "drift"});
  job->metrics_window = static_cast<uint64_t>(metrics.Integer("window", 200'000, 1000, int64_t{1} << 40));
  if (metrics.Has("fading")) job->fading = metrics.Number("fading", 0, 0, 1 - 1e-9);
  if (!metrics.Has("drift")) return;
  const Config drift = metrics.At("drift");
  job->drift = metrics::DriftConfig::FromConfig(drift);
  if (job->model == nullptr) return;
  const nn::Task task = job->model->task();
  using On = metrics::DriftConfig::On;
  if (job->drift->on == On::kError && task != nn::Task::kBinary && task != nn::Task::kClasses)
    drift.At("on").Fail("drift on error needs a loss that predicts classes");
  if (job->drift->on == On::kAbsoluteError && task != nn::Task::kRegression)
    drift.At("on").Fail("drift on absolute_error needs a loss that predicts a number");
}

void ReadPredictions(const Config& predictions, Job* job) {
  predictions.Allow({"topic", "max_unpublished"});
  job->predictions.topic = predictions.At("topic").String();
  job->predictions.max_unpublished = static_cast<uint64_t>(predictions.Integer(
      "max_unpublished", static_cast<int64_t>(job->predictions.max_unpublished), 1, int64_t{1} << 30));
  const std::string& topic = job->predictions.topic;
  if (topic.empty()) predictions.At("topic").Fail("topic is empty");
  if (!job->stream->traits().predictions) {
    predictions.Fail("predictions are published for a stream that is a topic of " +
                     ProductsWith(&StreamTraits::predictions));
  }
  if (job->stream->epochs > 1) predictions.Fail("each event has one prediction; epochs must be 1");
  const std::vector<std::string> used = job->stream->topics();
  if (std::ranges::find(used, topic) != used.end())
    predictions.At("topic").Fail("predictions need another topic than '" + topic +
                                 "', which the stream uses");
}

void ReadEvaluate(const Config& evaluate, Job* job) {
  evaluate.Allow({"files"});
  const Config files = evaluate.At("files");
  const bool text = job->schema.format == stream::Schema::Format::kText;
  job->evaluate = FilesFromConfig(files, job->data, text ? job->schema.features() : 0);
  CheckText(files, *job->evaluate, job->schema);
  using Format = stream::Schema::Format;
  const Format format = job->schema.format;
  const std::string is = "the schema's format is " + job->config.At("schema").At("format").String();
  if (format == Format::kTensor) files.Fail(is + ", which is for the records of topics");
  if ((format == Format::kAvro || format == Format::kProtobuf) && job->evaluate->format != "json")
    files.Fail(is + "; files that its model is evaluated on have the format json");
  if (text && job->evaluate->sequence != job->schema.features()) {
    files.At("sequence")
        .Fail(
            StrCat("sequence is ", job->evaluate->sequence, ", that of the schema ", job->schema.features()));
  }
}

// Offsets by partition; empty if there are none.
std::vector<uint64_t> Offsets(const Config& resolved, const char* key) {
  std::vector<uint64_t> offsets;
  if (!resolved.Has(key)) return offsets;
  const Config list = resolved.At(key);
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string text = list[i].String();
    const auto offset = ToNumber<uint64_t>(text);
    if (!offset) list[i].Fail("'" + text + "' is no offset");
    offsets.push_back(*offset);
  }
  return offsets;
}

// How many records of each file earlier runs have read. The job may have got more files since.
std::vector<std::vector<uint64_t>> Readings(const Config& resolved, size_t files) {
  std::vector<std::vector<uint64_t>> readings;
  if (!resolved.Has("readings")) return readings;
  const Config list = resolved.At("readings");
  for (size_t i = 0; i < list.size(); ++i) {
    std::istringstream counts(list[i].String());
    auto& reading = readings.emplace_back();
    for (uint64_t count = 0; counts >> count;) reading.push_back(count);
    if (!counts.eof()) list[i].Fail("'" + list[i].String() + "' are no numbers of records");
    reading.resize(std::max(reading.size(), files));
  }
  return readings;
}

// Reads the section `resolved`, whose settings beat the file's. The delimiter and the columns are read with
// the schema, the directories with the stream.
void ReadResolved(const Config& resolved, Job* job) {
  resolved.Allow({"data", "directory", "workers", "ps", "max_ps", "lanes", "rate", "events", "delimiter",
                  "columns", "avro", "descriptor", "inputs", "readings", "assets", "start", "end"});
  if (resolved.Has("inputs")) job->inputs = Texts(resolved.At("inputs"));
  ReadWorkers(resolved, job);
  job->servers = static_cast<uint32_t>(resolved.Integer("ps", job->servers));
  job->max_servers = static_cast<uint32_t>(resolved.Integer("max_ps", job->max_servers));
  // But the slices of a job that is resumed stay as they were made.
  if (!resolved.Has("max_ps")) job->max_servers = std::max(job->max_servers, job->servers);
  job->made_lanes =
      static_cast<uint32_t>(resolved.Integer("lanes", 0, 0, protocol::StrategyConfig::kMaxLanes));
  job->stream->SetBounds({.start = Offsets(resolved, "start"), .end = Offsets(resolved, "end")});
  if (auto* files = job->stream->files(); files != nullptr)
    files->readings = Readings(resolved, files->paths.size());
  stream::BotsConfig* bots = job->stream->bots();
  if (bots == nullptr) return;
  bots->rate = resolved.Number("rate", bots->rate);
  bots->events = static_cast<uint64_t>(
      resolved.Integer("events", static_cast<int64_t>(bots->events), 1, int64_t{1} << 50));
}

// The optimizer and the splits have to suit the strategy.
void CheckStrategy(const Config& config, const Job& job) {
  const protocol::StrategyConfig& strategy = job.strategy;
  const bool averaging = strategy.kind == protocol::StrategyKind::kAveraging;
  if (averaging && job.optimizer.kind != optim::Kind::kSgd) {
    config.At("optimizer")
        .Fail("averaging goes with sgd: workers train by themselves, and what " +
              std::string(optim::Name(job.optimizer.kind)) +
              " keeps for each weight would be nowhere; the average has a momentum of its own (strategy: "
              "momentum)");
  }
  if (strategy.run() > job.split_batches) {
    config.At("strategy")
        .Fail(StrCat(averaging ? "period" : "n_push", " is ", strategy.run(), " batches, more than the ",
                     job.split_batches, " that a worker leases at a time; raise train.split_batches"));
  }
}

// With a range of workers, a step has a lane for each of the most, and the least have to suit the strategy,
// too.
void CheckRange(const Config& strategy, const Job& job) {
  if (job.max_workers == job.workers) return;
  const std::string range = ToString(protocol::WorkerRange{job.workers, job.max_workers});
  if (job.strategy.mpi)
    strategy.At("transport").Fail("mpirun starts a fixed number of workers, not " + range);
  if (const Status good = protocol::Check(job.strategy, job.workers, job.made_lanes > 0); !good.ok())
    strategy.Fail(good.message() + " (workers: " + range + ")");
}

// Comes last: how many workers and servers there are is the command line's last word.
void ReadStrategy(const Config& config, Job* job) {
  protocol::StrategyConfig& strategy = job->strategy;
  if (config.Has("strategy")) {
    const Config section = config.At("strategy");
    strategy = protocol::StrategyFromConfig(section, job->max_workers, job->made_lanes);
    // These follow the workers from the start.
    if (strategy.auto_lanes) strategy = protocol::StrategyFromConfig(section, job->workers, job->made_lanes);
    CheckRange(section, *job);
  }
  if (job->model != nullptr) strategy.sum = job->model->loss().reduction == nn::Reduction::kSum;
  strategy.full_run = uint64_t{job->batch_size} * strategy.run();
  const auto fail = [&](const char* key, const std::string& why) { config.At("cluster").At(key).Fail(why); };
  const std::string kind(protocol::Name(strategy.kind));
  if (!strategy.on_servers()) {
    job->servers = 0;  // settings of their placement have no meaning
  } else if (job->servers == 0) {
    fail("ps", "ps is 0, and " + kind + " trains with servers; allreduce alone has none");
  } else if (const Status good = protocol::Check(job->placement, job->servers); !good.ok()) {
    fail("placement", good.message());
  }
  if (job->replicas > 1 && !strategy.on_servers())
    fail("replicas", "replicas is 2, and " + kind + " has no servers: every worker has all parameters");
  if (job->replicas > 1 && job->servers < 2) {
    fail("replicas",
         "replicas is 2, and the job has 1 server; a replica is on another server than its slice");
  }
  if (strategy.mpi && job->standby > 0)
    fail("standby", StrCat("standby is ", job->standby, "; with MPI all workers take part from the start"));
  CheckStrategy(config, *job);
  if (strategy.deterministic && job->drift && job->drift->alarm == metrics::DriftConfig::Alarm::kRaiseRate) {
    config.At("metrics").At("drift").At("alarm").Fail(
        "raise_rate raises the rate when workers report, which differs from run to run; the strategy has "
        "deterministic: true");
  }
}

// `copies`: null for a job without its model.
Job ReadJob(const Config& config, const nn::LayerFiles::Copies* copies) {
  if (!config.IsMap()) config.Fail("a job is a map of sections");
  config.Allow({"name", "seed", "stream", "schema", "model", "optimizer", "strategy", "train", "compute",
                "cluster", "security", "checkpoint", "metrics", "predictions", "evaluate", "autoscale",
                "topology", "debug", kResolved});
  const Config resolved = config.Has(kResolved) ? config.At(kResolved) : Config::EmptyMap(kResolved);
  const auto read = [&](const char* section, void (*reader)(const Config&, Job*), Job* job) {
    if (config.Has(section)) reader(config.At(section), job);
  };
  Job job(config);
  job.name = config.Has("name") ? NameFrom(config.At("name")) : "job";
  job.seed = static_cast<uint64_t>(config.Integer("seed", 1, 0, int64_t{1} << 62));
  job.data = resolved.String("data", "");
  job.directory = resolved.String("directory", "");
  job.stream = StreamFromConfig(config.At("stream"), {.data = job.data, .directory = job.directory});
  ReadSchema(config, resolved, &job);
  job.assets = ReadAssets(resolved);
  if (copies != nullptr) ReadModel(config, *copies, &job);
  job.optimizer = optim::FromConfig(config.At("optimizer"));
  read("train", ReadTrain, &job);
  read("compute", ReadCompute, &job);
  read("cluster", ReadCluster, &job);
  read("checkpoint", ReadCheckpoint, &job);
  read("metrics", ReadMetrics, &job);
  read("predictions", ReadPredictions, &job);
  read("autoscale", ReadAutoscale, &job);
  if (config.Has("topology")) job.topology = topology::TopologyFromConfig(config.At("topology"));
  read("debug", ReadDebug, &job);
  read("evaluate", ReadEvaluate, &job);
  CheckSplitSize(config.Has("train") ? config.At("train") : config, job);
  ReadResolved(resolved, &job);
  ReadStrategy(config, &job);
  read("security", ReadSecurity, &job);
  return job;
}

}  // namespace

std::optional<object_store::Settings> CheckpointBucket(const Config& config) {
  return config.IsMap() && config.Has("checkpoint") ? ReadBucket(config.At("checkpoint")) : std::nullopt;
}

Job Job::FromConfig(const Config& config, const nn::LayerFiles::Copies& copies) {
  return ReadJob(config, &copies);
}

Job Job::WithoutModel(const std::string& yaml, const std::string& name) {
  return ReadJob(Config::Parse("\n" + yaml, name), nullptr);
}

Job Job::FromText(const std::string& yaml, const std::string& name) {
  return FromConfig(Config::Parse(yaml, name));
}

Job Job::FromResolved(const std::string& yaml, const std::string& name, const std::string& data,
                      const nn::LayerFiles::Copies& copies) {
  const Config config = Config::Parse("\n" + yaml, name);
  if (data.empty() || !config.IsMap() || !config.Has(kResolved)) return FromConfig(config, copies);
  return FromConfig(config.With(kResolved, config.At(kResolved).With("data", data)), copies);
}

}  // namespace leat::job
