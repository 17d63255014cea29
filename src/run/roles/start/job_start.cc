#include "run/roles/start/job_start.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/exit_status.h"
#include "base/log.h"
#include "base/path/paths.h"
#include "job/input/input_files.h"
#include "job/resume.h"
#include "net/address.h"
#include "net/security/private_file.h"
#include "run/launcher/signals.h"
#include "run/roles/feed/job_feeds.h"
#include "run/roles/role.h"
#include "run/roles/standby/standby.h"
#include "show/tensorboard/events.h"
#include "show/tensorboard/job_graph.h"

namespace leat::roles {
namespace {

// For a former coordinator's process to end that was killed, and between two looks.
constexpr Duration kFormerEnds = std::chrono::seconds(3);
constexpr Duration kFormerPause = std::chrono::milliseconds(50);
// Time limit of a coordinator's request to the bucket.
constexpr Duration kBucketDeadline = std::chrono::seconds(60);

// Null: the job's checkpoints are in its directory alone.
Result<std::unique_ptr<checkpoint::Bucket>> MakeBucket(const job::Job& job, uint64_t term,
                                                       observe::RoleMetrics* metrics) {
  if (!job.checkpoint_to) return std::unique_ptr<checkpoint::Bucket>();
  object_store::StoreOptions options;
  options.retries.deadline = kBucketDeadline;
  if (metrics != nullptr) options.metrics = &metrics->registry();
  LEAT_ASSIGN_OR_RETURN(auto store, object_store::OpenS3(*job.checkpoint_to, options));
  std::string owner = std::to_string(term) + " " + net::RandomHex(16) + "\n";
  return std::make_unique<checkpoint::Bucket>(std::move(store), protocol::NumberOf(term), std::move(owner));
}

Result<JournalShipping> MakeJournalShipping(const StartedJob& started, bool elected,
                                            const std::vector<NodeId>& electors) {
  JournalShipping made{{.term = started.store->term(), .elected = elected},
                       protocol::Electorate(protocol::ElectorRole(started.job.strategy))};
  LEAT_ASSIGN_OR_RETURN(made.config.coordinator, checkpoint::CoordinatorNumber(started.store->directory()));
  for (const auto& record : started.restored.journal) {
    made.electorate.OnRecord(0, record);
    made.config.marked |= std::holds_alternative<protocol::JournalAgreed>(record);
  }
  made.electorate.OnAgreedElectors(electors);
  return made;
}

// Settings of the state machine, without what the stream tells: feeds, partitions, and their places. Reads
// the job that the directory has.
protocol::CoordinatorConfig MakeCoordinatorConfig(const job::Job& job, const CoordinatorOptions& options,
                                                  uint64_t term) {
  protocol::CoordinatorConfig config;
  config.SetRules(job);
  config.table = job.Slices();
  config.servers = job.servers;
  config.max_servers = job.max_servers;
  config.workers = job.workers;
  config.wanted_workers = {job.workers, job.max_workers};
  config.cuts = job.Cuts();
  config.late_labels = job.schema.has_late_labels();
  config.checkpoint_interval = FromSeconds(job.checkpoint_interval_s);
  config.pause_at = options.pause_at;
  config.pool = options.pool;
  if (job.predictions.enabled()) config.max_unpublished = job.predictions.max_unpublished;
  if (job.drift && job.drift->alarm == metrics::DriftConfig::Alarm::kRaiseRate)
    config.raise = protocol::RateRaise{.factor = job.drift->factor, .events = job.drift->events};
  config.job = job.config.ToYaml();
  config.term = term;
  config.take_over = options.resume && !options.new_members && job::SameAsStored(job);
  config.keep_scale = options.keep_scale || config.take_over;
  config.version = ProgramVersion();
  config.network = net::NetworkId();
  config.job_hash = job.Hash();
  return config;
}

// The writer of TensorBoard's files; null if nobody has asked for it. Throws for errors of the user.
std::unique_ptr<tensorboard::RunWriter> StartTensorboard(const job::Job& job,
                                                         const CoordinatorOptions& options) {
  if (options.tensorboard.empty()) return nullptr;
  namespace fs = std::filesystem;
  const fs::path directory = AbsolutePathOrThrow(job.directory);
  const auto name = (directory / "").lexically_normal().parent_path().filename();
  const fs::path folder = AbsolutePathOrThrow(options.tensorboard);
  auto file = tensorboard::EventFile::Create((folder / name).string(), net::HostName(), options.resume);
  if (!file.ok()) Throw(file.status().With("--tensorboard"));
  spdlog::info("tensorboard: {}", file->path());
  return std::make_unique<tensorboard::RunWriter>(
      tensorboard::RunWriter::Options{
          .make_graph =
              [model = job.model, batch = job.batch_size,
               optimizer = optim::Name(job.optimizer.kind)](const auto& placement) {
                return tensorboard::JobGraph(model->Build(batch), model->variables(), placement, optimizer);
              },
          .table = job.Slices()},
      [to = std::make_shared<tensorboard::EventFile>(std::move(*file))](const auto& events) {
        return to->Append(events);
      });
}

std::unique_ptr<feed::ServerThread> StartFeed(const job::Job& job, const CoordinatorOptions& options,
                                              PublisherService* publisher) {
  auto feed = feed::ServerThread::Start(
      OnHostOf(options.listen, options.feed_port), {.token = options.token, .tls = options.tls},
      {.id = job.InputsHash(),
       .open = [stream = job.StreamIn(ZoneOf(job, options.place))] { return stream->Open(); },
       .assets = ServedAssets(job),
       .description = "",
       .on_scores = publisher != nullptr ? TakeScores(*publisher) : nullptr});
  if (feed.ok()) return std::move(*feed);
  spdlog::warn("no feed on this host: {}", feed.status().ToString());
  return nullptr;
}

// The job is that of a coordinator with another directory, whose place in the stream this one takes.
void UnpinFormer(const job::Job& job, stream::Source& source) {
  const job::Job former = job::ReadStoredWithoutModel(job.directory);
  if (former.PinOwner() == job.PinOwner()) return;
  if (const Status unpinned = source.Unpin(former.PinOwner()); !unpinned.ok())
    spdlog::warn("unpin: {}", unpinned.ToString());
}

// Not ok: the stream cannot be asked at present.
Status CheckSameTopic(const job::Job& job, stream::Source& source,
                      const std::vector<protocol::Fingerprint>& fingerprints) {
  const Status same = CheckFingerprints(source, fingerprints);
  if (same.code() == Code::kDataLoss) Throw(same.With(job.stream->Describe()));
  if (ExitStatusOf(same.code()) == ExitStatus::kMayHeal) return same;
  if (!same.ok()) spdlog::warn("{}", same.ToString());
  return {};
}

// A former coordinator that was killed may hold the directory for a moment more.
Result<std::unique_ptr<checkpoint::Store>> OpenStore(const job::Job& job, const CoordinatorOptions& options,
                                                     uint64_t term) {
  const MonotonicClock clock;
  const Time until = clock.Now() + kFormerEnds;
  while (true) {
    auto store = checkpoint::Store::Open(job.directory, options.resume, options.take_over, term);
    const bool held = options.resume && store.status().code() == Code::kFailedPrecondition;
    if (!held || clock.Now() >= until) return store;
    std::this_thread::sleep_for(kFormerPause);
  }
}

// Steps of a start, in this order.
class JobStart {
 public:
  JobStart(const job::Job& job, const CoordinatorOptions& options) : options_(options), made_(job) {}

  Status FindJob();
  Status OpenDirectory();
  Status OpenStream();
  Status BeginReading();
  StartedJob Take() { return std::move(made_); }

 private:
  // A job whose members are alive goes on, whatever becomes of the bucket.
  bool goes_on() const { return options_.resume && !options_.new_members; }
  Status TryPatiently(const std::function<Status()>& attempt) const;
  Status TryStream(const job::Job& prepared);

  const CoordinatorOptions& options_;
  StartedJob made_;
  uint64_t first_term_ = 0;  // by the bucket
  uint64_t elected_ = 0;     // the term for which the members have elected this coordinator; 0: they have not
  std::vector<stream::PartitionRange> ranges_;
  std::optional<Time> short_since_;
};

Status JobStart::TryPatiently(const std::function<Status()>& attempt) const {
  const Status status =
      options_.resume ? launcher::AwaitHealing({.on_wait = options_.on_wait}, attempt) : attempt();
  if (ExitStatusOf(status.code()) == ExitStatus::kBadInput) Throw(status);
  return status;
}

// State that the job has left, and the election among its coordinators.
Status JobStart::FindJob() {
  job::Job& job = made_.job;
  LEAT_RETURN_IF_ERROR(TryPatiently([&] {
    if (!goes_on()) first_term_ = job::CheckBucket(job, options_.resume);
    return Status();
  }));
  if (options_.resume) {
    made_.intact = job::CheckResumable(job);
    if (options_.feed.empty()) {
      LEAT_RETURN_IF_ERROR(TryPatiently([&] {
        job = job::WithTrained(job, job::ReadStoredWithoutModel(job.directory).inputs);
        return Status();
      }));
    }
  }
  elected_ = options_.term;
  if (goes_on() && elected_ == 0) {
    LEAT_ASSIGN_OR_RETURN(elected_,
                          ElectRestarted(job.directory, protocol::ElectorRole(job.strategy), options_));
  }
  return {};
}

Status JobStart::OpenDirectory() {
  LEAT_ASSIGN_OR_RETURN(made_.store, OpenStore(made_.job, options_, elected_ != 0 ? elected_ : first_term_));
  LEAT_RETURN_IF_ERROR(job::KeepAssets(&made_.job));
  LEAT_ASSIGN_OR_RETURN(made_.bucket, MakeBucket(made_.job, made_.store->term(), options_.metrics.get()));
  if (made_.bucket != nullptr && !goes_on())
    LEAT_RETURN_IF_ERROR(TryPatiently([&] { return made_.bucket->Claim(); }));
  if (!options_.resume) return {};
  LEAT_ASSIGN_OR_RETURN(made_.restored, made_.store->Restore(made_.intact.damaged));
  if (auto& manifest = made_.restored.manifest)
    manifest->directory = made_.store->directory() + "/" + manifest->directory;
  return {};
}

Status JobStart::OpenStream() {
  const job::Job prepared = made_.job;
  LEAT_RETURN_IF_ERROR(TryPatiently([&] { return TryStream(prepared); }));
  // Workers would find out one after the other, and only once they have been started.
  for (const std::string& warning : job::CheckFits(made_.job, *made_.streams.source, ranges_))
    spdlog::warn("{}", warning);
  return {};
}

Status JobStart::TryStream(const job::Job& prepared) {
  job::Job& job = made_.job;
  made_.streams = CoordinatorStreams();
  job = prepared;
  if (options_.feed.empty()) {
    LEAT_RETURN_IF_ERROR(PrepareStream(options_.resume, &job));
    if (job.inputs.empty()) {
      LEAT_ASSIGN_OR_RETURN(auto inputs, job.stream->Identify());
      job = job.WithInputs(std::move(inputs));
    }
    LEAT_ASSIGN_OR_RETURN(made_.streams, OpenOnThisHost(job));
    // A file that is written to at this moment differs from its identity.
    if (job.stream->files() != nullptr) LEAT_RETURN_IF_ERROR(job.CheckInputs());
  } else {
    made_.streams = OpenAtFeed(job, options_);
  }
  stream::Source& source = *made_.streams.source;
  LEAT_ASSIGN_OR_RETURN(ranges_, source.Ranges());
  Status same;
  if (options_.resume) {
    const protocol::RecoveredState& restored = made_.restored;
    WithDamage(made_.intact, [&] {
      job::CheckNoDataLoss(job, restored, source, MonotonicClock().Now(), &short_since_, &ranges_);
      if (restored.manifest) same = CheckSameTopic(job, source, restored.manifest->fingerprints);
    });
  }
  return same;
}

Status JobStart::BeginReading() {
  const job::Job& job = made_.job;
  protocol::CoordinatorConfig& config = made_.config;
  stream::Source& source = *made_.streams.source;
  config = MakeCoordinatorConfig(job, options_, made_.store->term());
  // With a feed on another host, it is that host that reaches the brokers.
  if (options_.feed.empty()) {
    made_.publisher = MakePublisher(job);
    made_.feed = StartFeed(job, options_, made_.publisher.get());
    config.partition_places = FindPartitionPlaces(job);
  }
  if (made_.feed != nullptr) {
    const std::string& address = made_.feed->address();
    config.feeds = {address.substr(address.rfind(':'))};
  }
  for (const auto& range : ranges_) config.partitions.push_back(range.partition);
  LEAT_RETURN_IF_ERROR(TryPatiently([&]() -> Status {
    const Status pinned = PinStream(job, source, made_.restored, ranges_);
    if (pinned.ok()) return pinned;
    return {pinned.code(), checkpoint::NoneLeft(made_.intact.damaged, pinned.message())};
  }));
  if (elected_ != 0) UnpinFormer(job, source);
  if (!options_.resume) job::CheckNotEmpty(job, ranges_);
  for (const std::string& note : job.notes) spdlog::info(note);
  made_.tensorboard = StartTensorboard(job, options_);
  LEAT_ASSIGN_OR_RETURN(made_.shipping, MakeJournalShipping(made_, elected_ != 0, options_.electors));
  return {};
}

}  // namespace

Result<StartedJob> StartJob(const job::Job& job, const CoordinatorOptions& options) {
  if (options.scaler != nullptr && !job.autoscale.command.empty()) {
    throw std::invalid_argument(
        "--scaler: the job has a command that carries out its scaling (autoscale: command); remove one of "
        "the two");
  }
  const auto place = topology::PlaceOf(job.topology, net::HostName(), options.place);
  if (!place.ok()) Throw(place.status());
  JobStart start(job, options);
  LEAT_RETURN_IF_ERROR(start.FindJob());
  LEAT_RETURN_IF_ERROR(start.OpenDirectory());
  LEAT_RETURN_IF_ERROR(start.OpenStream());
  LEAT_RETURN_IF_ERROR(start.BeginReading());
  return start.Take();
}

Status SetDamagedAside(const StartedJob& started) {
  for (const auto& damaged : started.intact.damaged)
    LEAT_RETURN_IF_ERROR(started.store->SetAside(damaged.id));
  if (!started.intact.damaged.empty()) spdlog::warn("{}", job::DamageNote(started.job, started.intact));
  return {};
}

}  // namespace leat::roles
