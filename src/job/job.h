// A job: everything that a user describes, read once and checked whole.
//
// The file's grammar is docs/jobs.md. Settings that a command line may change are kept apart (JobOverrides)
// and travel with the job as its `resolved:` section, so that every role builds its parts from one text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "engine/plan.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/placement.h"
#include "protocol/server/server.h"
#include "protocol/strategy.h"
#include "stream/bots/bots.h"
#include "stream/files.h"
#include "stream/log/log.h"
#include "stream/schema.h"

namespace leat::train {

// What the command line says beside the file. Empty or 0: the file's own word.
struct JobOverrides {
  std::string data;       // directory that the job's paths are looked up in; else the current one
  std::string directory;  // of the job: checkpoints, journal, embedded log, logs of the roles
  uint32_t workers = 0;
  uint32_t servers = 0;
  uint32_t max_servers = 0;    // of a job that is resumed: Load sees to it
  std::optional<double> rate;  // of the bots
  uint64_t events = 0;         // that the bots publish
};

// Where a job comes from: a file, a text, or (both empty) the directory of an earlier run that is to be
// resumed.
struct JobSource {
  std::string file;
  std::string text;
  std::string resume;  // directory of an earlier run, or empty
};

struct StreamSpec {
  // The embedded log (topic not empty) or files.
  std::string topic;
  std::string log;  // directory; empty: "log" in the job's directory
  stream::TopicOptions topic_options;
  std::optional<stream::BotsConfig> bots;
  bool live = false;  // a topic without bots that is empty at the start is waited for
  stream::FileSourceOptions files;
  uint32_t epochs = 1;
};

// What each worker computes with, on whatever machine it is; 0 means all cores, or a device for each NUMA
// node.
struct ComputeSpec {
  int inter_op_threads = 1;
  int intra_op_threads = 1;
  int cpu_devices = 1;
};

struct Job {
  std::string name;
  uint64_t seed = 1;
  StreamSpec stream;
  stream::Schema schema;
  std::shared_ptr<const nn::Model> model;
  optim::OptimizerConfig optimizer;
  protocol::StrategyConfig strategy;
  uint32_t batch_size = 128;
  uint32_t split_batches = 64;
  bool shuffle = true;
  bool bf16 = false;  // products take their operands in bf16
  ComputeSpec compute;
  uint32_t workers = 2;
  uint32_t servers = 1;          // 0: the strategy needs none
  uint32_t max_servers = 8;      // slices are made for so many
  bool trusted_network = false;  // tensors may travel by RDMA, where everybody is believed
  protocol::Placement placement;
  double checkpoint_interval_s = 30;
  uint32_t keep_checkpoints = 2;
  double dead_letter_rate = 0.1;                      // above this share of the last events a job stops
  uint64_t metrics_window = 200'000;                  // events that live loss, accuracy and AUC look back on
  std::optional<stream::FileSourceOptions> evaluate;  // files to measure the trained model on, at the end
  std::string directory;
  std::string data;
  std::vector<std::string> notes;  // by Load: what it found that the file does not say, for people
  Config config;                   // the whole text, the `resolved:` section in it

  // All throw std::invalid_argument with place and values.
  static Job FromConfig(const Config& config);
  // A job as roles are sent it, its `resolved:` section in it.
  static Job FromText(const std::string& yaml, const std::string& name);
  // A job as a user starts it.
  static Job Load(const JobSource& source, const JobOverrides& overrides);

  // `kernels` with this machine's devices and the job's threads. Throws when it has fewer cores than the job
  // wants devices.
  engine::PlanOptions Plan(engine::PlanOptions kernels) const;
  protocol::SliceTable Slices() const;
  protocol::CutRules Cuts() const;
  // What servers do with what is pushed: the job's optimizer, but for averaging, where the workers have it.
  optim::OptimizerConfig ServerOptimizer() const;
  protocol::ServerConfig ServerConfig() const;
  // What each server is to carry; only where there are servers.
  protocol::PlacementReport PlacementPlan() const;
  // The stream, opened for reading; errors name files or directory and topic.
  Result<std::unique_ptr<stream::Source>> OpenSource() const;
  std::string LogDirectory() const;
  // How the `evaluate:` files are read: their columns may stand in another order. Reads their headers; throws
  // as above.
  stream::Schema EvaluationSchema() const;
  // The name under which its place in the stream is kept from retention.
  std::string PinOwner() const { return name + "@" + directory; }
  // The parts that a checkpoint cannot be resumed without (model, schema, stream, optimizer's kind and slots,
  // seed, what a version and a run are to the strategy), by name.
  std::vector<std::pair<std::string, std::string>> Identity() const;
  // Of all of them: two jobs that differ in it cannot go on from each other. Never 0.
  uint64_t Hash() const;
};

// Opens everything that the job reads, and looks whether the devices of its layers are there, so that what is
// missing or damaged, or does not fit the schema, is said before anything is started: throws
// std::invalid_argument with path and values.
void CheckReadable(const Job& job);
// The part of it that can be said wherever the stream can be read, if that is of files: that their records,
// in these ranges, fit the schema.
void CheckFits(const Job& job, stream::Source& source, const std::vector<stream::PartitionRange>& ranges);

}  // namespace leat::train
