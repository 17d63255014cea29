// A job: everything that a user describes, parsed and checked completely.
//
// docs/jobs.md has the grammar of the file. Settings of the command line (JobOverrides) are stored in the
// job's `resolved:` section, so that every role builds its parts from the same text. Sources: sections.cc
// (FromConfig), resolve.cc (Load), job.cc (the rest).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/config/config.h"
#include "base/metrics/drift.h"
#include "base/status.h"
#include "compute/engine/plan.h"
#include "compute/nn/model.h"
#include "compute/optim/optimizer.h"
#include "job/input/stream_spec.h"
#include "protocol/coordinator/job_rules.h"
#include "protocol/messages_control.h"
#include "protocol/placement.h"
#include "protocol/slices/server/hosted_slices.h"
#include "storage/object_store/settings.h"
#include "stream/files.h"
#include "stream/schema.h"

namespace leat::job {

// The section of a stored job with everything that is not in the user's file; a user's file must not have it.
inline constexpr const char* kResolved = "resolved";

// Settings of the command line. Empty or 0: the file's setting applies.
struct JobOverrides {
  std::string data;  // directory that the job's relative paths refer to; empty: the current one
  // The job's checkpoints, journal, embedded log and logs of the roles. A job that is resumed has no other
  // one than JobSource::resume.
  std::string directory;
  uint32_t workers = 0;
  uint32_t max_workers = 0;  // with `workers`; 0: as many
  uint32_t servers = 0;
  uint32_t max_servers = 0;    // set by Load for a resumed job
  std::optional<double> rate;  // the bots' rate
  uint64_t events = 0;         // published by the bots
  std::string found;           // a feed's findings in its files (Job::Found)
};

// The source of a job: a file, a text, or (if both are empty) the directory of an earlier run to resume.
struct JobSource {
  std::string file;
  std::string text;
  std::string resume;  // directory of an earlier run, or empty
};

// Threads and devices of each worker. 0: all cores, or one device per NUMA node.
struct ComputeSpec {
  int inter_op_threads = 1;
  int intra_op_threads = 1;
  int cpu_devices = 1;
};

// A file that the model is built from: that of an onnx layer.
struct Asset {
  std::string path;      // as in the job file
  std::string identity;  // stream::ToString of a FileIdentity
  std::string file;      // where this host has it, or would have it
};

// The topic that the scores of all events go to, in the cluster of the job's stream.
struct PredictionsSpec {
  std::string topic;                     // empty: they are not published
  uint64_t max_unpublished = 1'000'000;  // events of all partitions together whose scores may wait
  bool enabled() const { return !topic.empty(); }
};

// When the autoscaler acts, and the command that is told what numbers of workers and servers are wanted.
struct AutoscaleSpec {
  std::vector<std::string> command;  // program and arguments; empty: none
  Duration timeout = std::chrono::seconds(30);
  Duration lag = std::chrono::seconds(5);
  Duration cool_down = std::chrono::seconds(10);
};

// Where a process dies as by kill -9.
enum class DiePoint : uint8_t {
  kNone = 0,
  kPush = 1,           // a worker, before it pushes a gradient
  kApply = 2,          // a server, between applying a push and acknowledging it
  kShard = 3,          // a server, when it is to save its slices
  kManifest = 4,       // the coordinator, when all shards are saved
  kMoveOrdered = 5,    // a server, when it is to hand slices over
  kMoveFrozen = 6,     // the same server, before it sends them
  kMoveArrived = 7,    // the other server, when they have arrived
  kMoveMade = 8,       // the coordinator, when it has decided, before anybody knows
  kMoveJournaled = 9,  // the coordinator, when the decision is on disk
  kForwarded = 10,     // a server, when a push is on its way to a replica
  kTaken = 11,         // the server of the replica, before it answers
  kAcknowledged = 12,  // the first server, before it answers the worker
};

// For tests of slow and dying roles; no job needs it.
struct DebugSpec {
  Duration step{0};         // each batch takes this much longer
  Duration init{0};         // a server's start takes this much longer
  uint32_t hang_after = 0;  // the batch after so many of a process takes an hour longer; 0: none does
  // The first process that has come to the point so many times dies, once in the job.
  DiePoint die_at = DiePoint::kNone;
  uint32_t die_after = 1;
};

struct Job : protocol::JobRules {
  explicit Job(Config tree) : config(std::move(tree)) {}

  std::string name;
  uint64_t seed = 1;
  AnyStream stream;
  stream::Schema schema;
  std::shared_ptr<const nn::Model> model;
  optim::OptimizerConfig optimizer;
  uint32_t batch_size = 128;
  uint32_t split_batches = 64;
  bool shuffle = true;
  bool bf16 = false;  // matrix products convert their operands to bf16
  ComputeSpec compute;
  uint32_t workers = 2;
  uint32_t max_workers = 2;      // above `workers`: the autoscaler chooses
  uint32_t standby = 0;          // workers that stand by, started by the local runner
  uint32_t servers = 1;          // 0: the strategy has no servers
  uint32_t max_servers = 8;      // the number that slices are made for
  uint32_t made_lanes = 0;       // strategy.lanes when the job was created; 0: it is new, or has no lanes
  bool trusted_network = false;  // tensors may travel by RDMA, without authentication
  bool tls = false;              // every role needs a certificate; not with trusted_network
  double checkpoint_interval_s = 30;
  std::optional<object_store::Settings> checkpoint_to;   // none: checkpoints are in the directory alone
  uint64_t checkpoint_copy_bytes = uint64_t{256} << 20;  // a server with no more may copy all its slices
  double dead_letter_rate = 0.1;      // the job stops if a larger share of the last events fails
  uint64_t metrics_window = 200'000;  // events that live loss, accuracy and AUC cover
  std::optional<double> fading;       // factor of the figures with forgetting
  std::optional<metrics::DriftConfig> drift;
  std::optional<stream::FileSourceOptions> evaluate;  // files that the trained model is evaluated on
  PredictionsSpec predictions;
  AutoscaleSpec autoscale;
  DebugSpec debug;
  // Identities of what the stream is read from (StreamSpec::Identify), on the host that the job was started
  // on. Empty: unknown, then copies are not compared.
  std::vector<std::string> inputs;
  std::vector<Asset> assets;  // with the identities that the job's files have where it was started
  std::string directory;
  std::string data;
  std::vector<std::string> notes;  // detections of Load, a line each, to show to the user
  Config config;                   // the whole tree, including `resolved:`

  // All throw std::invalid_argument with the line and the values.
  // `copies`: where this host has files of the model, by their paths in the job.
  static Job FromConfig(const Config& config, const nn::LayerFiles::Copies& copies = {});
  static Job FromText(const std::string& yaml, const std::string& name);
  // The job that the coordinator sends to roles: the text of job.yaml in the job's directory after its first
  // line, a checksum. Line numbers in messages count that line.
  // `data`: where this host has copies of the job's files, if not where the job says.
  static Job FromResolved(const std::string& yaml, const std::string& name, const std::string& data = "",
                          const nn::LayerFiles::Copies& copies = {});
  // The same for a host that may lack the model's files: `model` is null, and what depends on it (the labels
  // that the loss takes, `strategy.sum`) is not set.
  static Job WithoutModel(const std::string& yaml, const std::string& name);
  // The assets of such a text, which can be found before the model is built.
  static std::vector<Asset> AssetsIn(const std::string& yaml, const std::string& name,
                                     const std::string& data = "");
  // The job that a user starts. Parses the file once; `config` is its tree plus the section `resolved`.
  static Job Load(const JobSource& source, const JobOverrides& overrides);
  // The same where the job's files are on another host: the text that a feed there builds the job from
  // (FromFiles), and then the job with what the feed has found (JobOverrides::found). A feed's own files must
  // be those that the text names by identity, and may have grown as WithTrained allows.
  static std::string WithoutFiles(const JobSource& source, const JobOverrides& overrides);
  static Job FromFiles(const std::string& yaml, const std::string& name, const std::string& data);
  // The delimiter, the columns, what the schema's files contain, the inputs and the assets, as YAML; for a
  // job of FromFiles or Load.
  std::string Found() const;

  // The stream, read from the copies in this zone if its source knows where copies are (a topic of Kafka
  // whose brokers have racks named as zones), unless the job says where to read from. Empty: from the
  // leaders.
  AnyStream StreamIn(const std::string& zone) const;
  // Workers report the scores of every batch.
  bool reports_batches() const { return fading || drift; }
  // `kernels` with this machine's devices and the job's threads. Throws if the job needs more devices than
  // this machine has cores.
  engine::PlanOptions Plan(engine::PlanOptions kernels) const;
  protocol::SliceTable Slices() const;
  protocol::CutRules Cuts() const;
  // The optimizer that servers apply: the job's, except with averaging, where workers apply it.
  optim::OptimizerConfig ServerOptimizer() const;
  protocol::ServerConfig ServerConfig() const;
  // The share of each server; only for jobs with servers.
  protocol::PlacementReport PlacementPlan() const;
  // The schema of the `evaluate:` files, whose columns may be in another order. Reads their headers; throws
  // as above.
  stream::Schema EvaluationSchema() const;
  // The `evaluate:` files, to be opened: with their own delimiter. Only if there are any; throws as above.
  stream::FileSourceOptions EvaluationFiles() const;
  // The job with these identities, also in its tree.
  Job WithInputs(std::vector<std::string> identities) const;
  // The job with these bounds of its stream, also in its tree.
  Job WithBounds(const StreamBounds& bounds) const;
  // Returns ok if this host has the stream's input, with the job's identities. Otherwise kNotFound or
  // kPermissionDenied with the missing input, or kFailedPrecondition with the difference.
  Status CheckInputs() const;
  // A hash of the job's inputs; 0 if they are unknown.
  uint64_t InputsHash() const;
  // The owner of the pins that protect the job's unread records from retention.
  std::string PinOwner() const { return name + "@" + directory; }
  // Names and values of everything that must be equal to resume from a checkpoint: model, schema, stream,
  // kind and slots of the optimizer, seed, and the strategy's versions and runs.
  std::vector<std::pair<std::string, std::string>> Identity() const;
  // The hash of Identity. Jobs with different hashes cannot resume each other's checkpoints. Never 0.
  uint64_t Hash() const;
};

// The `resolved` section with these bounds.
Config WithStreamBounds(Config resolved, const StreamBounds& bounds);
// The assets that the `resolved` section of a job names: the copies in its directory, if they are there.
std::vector<Asset> ReadAssets(const Config& resolved);
// The paths of the files that a model is built from, in a job that FromConfig has accepted.
std::vector<std::string> AssetPaths(const Config& config);
// Returns ok if this host has the file, with the job's identity. Errors as of Job::CheckInputs.
Status CheckAsset(const Asset& asset);
// The name of a copy of a file.
std::string AssetFileName(const std::string& identity);
// Where the job's directory keeps its copy, which the job is built from whatever becomes of the file.
std::string KeptAsset(const std::string& directory, const std::string& identity);
// Makes the copies that job.directory lacks, and names them in job->assets. kFailedPrecondition if a file has
// changed since the job was built.
Status KeepAssets(Job* job);

// The precision of a job's matrix products.

// Returns `options` for the job's `train: {precision: ...}`. With bf16, products convert their operands if
// one of the kernel tables is fast in bf16; otherwise the job computes in f32 and a line in the log says so.
engine::PlanOptions WithPrecision(const Job& job, engine::PlanOptions options);

// The number of workers of a job as users write it.

// Reads "4" or "2:8". The error, kInvalidArgument, quotes the text.
Result<protocol::WorkerRange> ParseWorkerRange(std::string_view text);

}  // namespace leat::job
