// Identity of a job: the parts that two jobs must share so that one can resume from the other's checkpoints.
// The hash depends on the order and spelling of the parts, so they never change.
#include "base/rng.h"
#include "base/text.h"
#include "job/job.h"
#include "stream/csv/delimiter.h"

namespace leat::job {

namespace {

// Schemas have the same ids wherever their registry is.
Config WithoutRegistry(const Config& schema, const stream::Schema& parsed) {
  if (!parsed.avro.registry) return schema;
  return schema.With("avro", schema.At("avro").Without("registry"));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> Job::Identity() const {
  const SourceIdentity source = stream->Identity();
  const std::string slots = Joined(optim::SlotNames(ServerOptimizer()));
  return {{"seed", std::to_string(seed)},
          {"model", config.At("model").ToYaml()},
          {"schema", WithoutRegistry(config.At("schema"), schema).ToYaml()},
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
