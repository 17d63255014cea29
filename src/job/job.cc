#include "job/job.h"

#include <algorithm>
#include <stdexcept>

#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "compute/ops/passes.h"
#include "job/input/input_files.h"
#include "stream/csv/csv_settings.h"

namespace leat::job {

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
  rules.epochs = stream->epochs;
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

AnyStream Job::StreamIn(const std::string& zone) const {
  AnyStream near = stream;
  if (!zone.empty()) near->ReadNear(zone);
  return near;
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

stream::Schema Job::EvaluationSchema() const {
  auto columns = schema.WithLabelsInRecord();
  using Format = stream::Schema::Format;
  if (schema.format == Format::kAvro || schema.format == Format::kProtobuf) columns.format = Format::kJson;
  if (!evaluate || evaluate->format != "csv") return columns;
  columns.delimiter = EvaluationFiles().csv.delimiter;
  if (evaluate->header) UseHeader(*evaluate, ReadHeader(*evaluate, columns.dialect()), &columns);
  return columns;
}

stream::FileSourceOptions Job::EvaluationFiles() const {
  stream::FileSourceOptions files = *evaluate;
  if (files.format != "csv") return files;
  files.csv = schema.dialect();
  if (schema.delimiter_set) return files;
  const auto found = FindDelimiter(files, schema.WithLabelsInRecord());
  if (found && found->columns > 1) files.csv.delimiter = found->character;
  return files;
}

engine::PlanOptions WithPrecision(const Job& job, engine::PlanOptions options) {
  if (!job.bf16) return options;
  if (std::ranges::any_of(options.tables, [](const auto* table) { return table->fast_bf16; })) {
    options.passes.push_back(ops::UseBf16());
  } else {
    spdlog::warn("train.precision is bf16, which this machine is not fast at: computing in f32");
  }
  return options;
}

using protocol::WorkerRange;

Result<WorkerRange> ParseWorkerRange(std::string_view text) {
  const size_t colon = text.find(':');
  const auto least = ToNumber<uint32_t>(text.substr(0, colon));
  const auto most = colon == std::string_view::npos ? least : ToNumber<uint32_t>(text.substr(colon + 1));
  const std::string quoted = "'" + std::string(text) + "'";
  if (!least || !most)
    return Status(Code::kInvalidArgument, quoted + " is not a number of workers, or a range such as 2:8");
  const WorkerRange workers{*least, *most};
  if (workers.valid()) return workers;
  return Status(Code::kInvalidArgument,
                workers.least > workers.most
                    ? quoted + ": the least number of workers is above the largest"
                    : StrCat(quoted, ": a job has 1 to ", WorkerRange::kMost, " workers"));
}

// Identity of a job: the parts that two jobs must share so that one can resume from the other's checkpoints.
// The hash depends on the order and spelling of the parts, so they never change.
std::vector<std::pair<std::string, std::string>> Job::Identity() const {
  const SourceIdentity source = stream->Identity();
  const std::string slots = Joined(optim::SlotNames(ServerOptimizer()));
  // Schemas have the same ids wherever their registry is.
  Config written = config.At("schema");
  if (schema.avro.registry) written = written.With("avro", written.At("avro").Without("registry"));
  return {{"seed", std::to_string(seed)},
          {"model", config.At("model").ToYaml()},
          {"schema", written.ToYaml()},
          {"schema.delimiter", stream::DelimiterName(schema.delimiter)},
          {"stream.topic", source.topic},
          {"stream.partitions", std::to_string(source.partitions)},
          {"stream.windows", source.windows},
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

}  // namespace leat::job
