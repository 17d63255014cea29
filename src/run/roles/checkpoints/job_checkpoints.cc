#include "run/roles/checkpoints/job_checkpoints.h"

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "net/address.h"
#include "net/frames/messages.h"
#include "net/transports.h"
#include "storage/checkpoint/safetensors.h"

namespace leat::roles {
namespace {

// The coordinator is decided without the bucket.
Status NotStale(const Status& status) {
  return status.code() == Code::kStale ? Status(Code::kFailedPrecondition, status.message()) : status;
}

// Limit for a checkpoint in which every slice is saved twice, because it moves while it is made.
uint64_t MostBytes(const job::Job& job) {
  const auto slots =
      std::max(optim::SlotNames(job.ServerOptimizer()).size(), optim::SlotNames(job.optimizer).size());
  uint64_t bytes = checkpoint::SafetensorsHeader::kMaxBytes * 16;
  for (const auto& slice : job.Slices().slices) bytes += 2 * slice.elements() * sizeof(float) * (1 + slots);
  return bytes;
}

}  // namespace

JobCheckpoints::JobCheckpoints(const Parts& parts, Callbacks callbacks)
    : parts_(parts),
      job_(parts.started.job),
      store_(*parts.started.store),
      bucket_(parts.started.bucket.get()),
      callbacks_(std::move(callbacks)),
      checkpoints_(parts.metrics.counter("leat_job_checkpoints_total", "Complete checkpoints.")),
      last_checkpoint_(parts.metrics.gauge(
          "leat_job_last_checkpoint_time_seconds",
          "When the last checkpoint was complete, since 1970; 0: none was since the start.")) {}

Status JobCheckpoints::StartService(const CoordinatorOptions& options,
                                    const std::optional<protocol::Manifest>& restored) {
  const net::TransportOptions transport{
      .token = options.token, .port = wire::TransferPort(), .tls = options.tls, .metrics = &parts_.metrics};
  LEAT_ASSIGN_OR_RETURN(service_,
                        ShardService::Start({.directory = store_.directory(),
                                             .listen = OnHostOf(options.listen, options.transfer_port),
                                             .advertise = options.advertise,
                                             .max_bytes = MostBytes(job_),
                                             .make_transport = [transport](net::Loop& loop) {
                                               return net::MakeTcpTransport(loop, transport);
                                             }}));
  return restored ? service_->OnComplete(restored->directory, *restored) : Status();
}

void JobCheckpoints::Execute(const protocol::PrepareCheckpoint& action) {
  begun_ = {action.id, Now()};
  parts_.stream.TakeFingerprints(action.watermark);
  if (bucket_ == nullptr) return Prepare(action.id, action.bytes);
  // Otherwise members would upload shards that nobody removes.
  parts_.work.Post(
      bucket_thread_, [this] { return bucket_->CheckTerm(); },
      [this, id = action.id, bytes = action.bytes](const Status& newest) {
        if (newest.ok()) return Prepare(id, bytes);
        callbacks_.commit(parts_.machine.OnCheckpointPrepared(Now(), id, NotStale(newest)));
      });
}

void JobCheckpoints::Prepare(uint64_t id, uint64_t bytes) {
  parts_.work.Post(
      parts_.background,
      [this, id, bytes] {
        auto order = store_.Prepare(id, bytes);
        if (order.ok()) service_->OnPrepared(*order);
        return order;
      },
      [this, id](Result<protocol::CheckpointOrder> order) {
        if (order.status().code() == Code::kStale) return callbacks_.replaced(order.status());
        callbacks_.commit(parts_.machine.OnCheckpointPrepared(Now(), id, std::move(order)));
      });
}

void JobCheckpoints::Execute(const protocol::CommitManifest& action) {
  parts_.kill_point.Pass(job::DiePoint::kManifest);
  const std::string directory = action.manifest.directory;
  // On disk a checkpoint is named by its place in the job's directory, so that the whole can be moved.
  auto manifest = action.manifest;
  manifest.fingerprints = parts_.stream.fingerprints();
  manifest.directory = std::filesystem::path(directory).filename().string();
  const OnDone done = [this, manifest = action.manifest](const Status& status) {
    if (status.code() == Code::kStale) return callbacks_.replaced(status);
    if (status.ok()) OnComplete(manifest);
    callbacks_.commit(parts_.machine.OnManifestCommitted(Now(), manifest.id, status));
  };
  if (bucket_ != nullptr) return CommitWithBucket(manifest, directory, done);
  parts_.work.Post(
      parts_.background, [this, manifest, directory] { return Commit(manifest, directory); }, done);
}

void JobCheckpoints::CommitWithBucket(const protocol::Manifest& manifest, const std::string& directory,
                                      const OnDone& done) {
  const auto put = [this, manifest, done](Result<std::vector<protocol::JournalRecord>> records) {
    if (!records.ok()) return done(records.status());
    checkpoint::BucketManifest whole{.term = protocol::NumberOf(store_.term()),
                                     .manifest = manifest,
                                     .job = job_.config.ToYaml(),
                                     .records = std::move(*records)};
    parts_.work.Post(
        bucket_thread_, [this, whole = std::move(whole)] { return bucket_->Commit(whole); },
        [done](const Status& committed) { done(NotStale(committed)); });
  };
  const auto commit = [this, manifest, directory]() -> Result<std::vector<protocol::JournalRecord>> {
    LEAT_RETURN_IF_ERROR(Commit(manifest, directory));
    return store_.ReadJournal();
  };
  parts_.work.Post(
      bucket_thread_, [this, manifest, directory] { return bucket_->FetchMissing(manifest, directory); },
      [this, commit, put, done](const Status& fetched) {
        if (!fetched.ok()) return done(NotStale(fetched));
        parts_.work.Post(parts_.background, commit, put);
      });
}

// In the job's directory.
Status JobCheckpoints::Commit(const protocol::Manifest& manifest, const std::string& directory) {
  LEAT_RETURN_IF_ERROR(store_.Commit(manifest));
  // A checkpoint is complete, whether others can read it or not.
  if (const Status published = service_->OnComplete(directory, manifest); !published.ok())
    spdlog::warn("checkpoint {} cannot be published: {}", manifest.id, published.ToString());
  std::vector<uint64_t> offsets;
  for (const auto& position : manifest.watermark) offsets.push_back(position.offset);
  if (const Status told = parts_.started.streams.for_background().CommitOffsets(job_.name, offsets);
      !told.ok())
    spdlog::warn("commit of offsets: {}", told.ToString());
  return {};
}

void JobCheckpoints::OnComplete(const protocol::Manifest& manifest) {
  spdlog::info("checkpoint {} of {} events is complete", manifest.id, manifest.events);
  callbacks_.complete(manifest, begun_.first == manifest.id ? std::optional(begun_.second) : std::nullopt);
  checkpoints_.Add();
  durable_ = manifest.id;
  last_checkpoint_.Set(Seconds(UnixTime()));
}

void JobCheckpoints::Execute(const protocol::DropCheckpoints& action) {
  if (bucket_ != nullptr) {
    bucket_thread_.Post([this, oldest_kept = action.oldest_kept, newest = durable_] {
      if (const Status dropped = bucket_->Drop(oldest_kept, newest); !dropped.ok())
        spdlog::warn("old checkpoints stay in the bucket: {}", dropped.ToString());
    });
  }
  files_thread_.Post([this, action] {
    const Status dropped = store_.DropCheckpoints(action.oldest_kept);
    parts_.background.Post([this, action, dropped] { ReleaseBefore(action.watermark, dropped); });
  });
}

// Old checkpoints have been dropped.
void JobCheckpoints::ReleaseBefore(const std::vector<protocol::Position>& watermark, Status dropped) {
  if (dropped.ok()) dropped = store_.CompactJournal(watermark);
  if (!dropped.ok()) spdlog::warn("{}", dropped.ToString());
  // The needs of another coordinator are its own business. With more epochs to come, every event will be
  // wanted again.
  if (dropped.code() == Code::kStale || job_.stream->epochs > 1) return;
  const std::vector<uint32_t>& partitions = parts_.stream.partitions();
  for (size_t i = 0; i < partitions.size() && i < watermark.size(); ++i) {
    const Status pinned =
        parts_.started.streams.for_background().Pin(job_.PinOwner(), partitions[i], watermark[i].offset);
    if (!pinned.ok()) spdlog::warn("pin: {}", pinned.ToString());
  }
}

void JobCheckpoints::Execute(const protocol::RemoveCheckpoint& action) {
  if (bucket_ == nullptr) return Remove(action.id);
  // After it has been made.
  parts_.work.Post(
      bucket_thread_, [] { return Status(); }, [this, id = action.id](const Status&) { Remove(id); });
}

void JobCheckpoints::Remove(uint64_t id) {
  parts_.background.Post([this, id] {
    service_->OnRemoved(id);
    files_thread_.Post([this, id] {
      if (auto status = store_.Remove(id); !status.ok()) spdlog::warn("{}", status.ToString());
    });
  });
}

void JobCheckpoints::Execute(const protocol::VerifyCheckpoint& action) {
  parts_.work.Post(
      files_thread_,
      [directory = store_.directory(), action] {
        Verified verified{checkpoint::VerifyCheckpoint(directory, action.id)};
        verified.has_other = verified.status.code() == Code::kDataLoss && action.before &&
                             checkpoint::VerifyCheckpoint(directory, action.before->id).ok();
        return verified;
      },
      [this, action](const Verified& verified) {
        parts_.work.Post(
            parts_.background, [this, action, verified] { return SetAside(action, verified); },
            [this, id = action.id](const Status& status) {
              if (status.code() == Code::kStale) return callbacks_.replaced(status);
              callbacks_.commit(parts_.machine.OnCheckpointVerified(Now(), id, status));
            });
      });
}

Status JobCheckpoints::SetAside(const protocol::VerifyCheckpoint& action, const Verified& verified) {
  const Status& status = verified.status;
  if (status.code() != Code::kDataLoss) return status;
  // If the checkpoint before cannot take its place, the job ends and says so.
  if (!verified.has_other) {
    spdlog::error("checkpoint {} is damaged: {}", action.id, status.message());
    return status;
  }
  const protocol::Manifest& before = *action.before;
  service_->OnRemoved(action.id);
  if (const Status published = service_->OnComplete(before.directory, before); !published.ok())
    spdlog::warn("checkpoint {} cannot be published: {}", before.id, published.ToString());
  const Status aside = store_.SetAside(action.id);
  if (aside.code() == Code::kStale) return aside;
  spdlog::warn("{}; checkpoint {} is used instead; {}", status.message(), before.id,
               aside.ok() ? "kept aside as " + store_.directory() + "/" + checkpoint::AsideName(action.id)
                          : "it cannot be kept aside: " + aside.message());
  return status;
}

void JobCheckpoints::End(const protocol::JobEnded& ended, std::function<bool()> agreed,
                         std::function<void(const Status& unpinned)> done) {
  const auto nothing = [] { return true; };
  const auto end = [this, ended, agreed, done](bool) {
    parts_.work.Post(
        parts_.background,
        [this, told = agreed(), finished = ended.finished, left = ended.left] {
          return EndInDirectory(told, finished, left);
        },
        done);
  };
  // The threads one after the other: the first ones have work for the others.
  const auto end_files = [this, nothing, end](bool) { parts_.work.Post(files_thread_, nothing, end); };
  const auto end_journal = [this, nothing, end_files](bool) {
    parts_.work.Post(parts_.background, nothing, end_files);
  };
  bucket_ == nullptr ? end_journal(true) : parts_.work.Post(bucket_thread_, nothing, end_journal);
}

Status JobCheckpoints::EndInDirectory(bool agreed, bool finished, const protocol::MembersLeft& left) {
  // If it cannot be written, the next coordinator waits for them for a while.
  if (agreed && !left.nodes.empty()) (void)store_.AppendJournal(left);
  if (const Status over = agreed ? store_.End() : Status(); !over.ok())
    spdlog::warn("standbys may not learn that the job is over: {}", over.ToString());
  // A job that was trained to its end needs no event any more; a stopped one can be resumed.
  return finished ? parts_.started.streams.for_background().Unpin(job_.PinOwner()) : Status();
}

void JobCheckpoints::MeasureSaving(const protocol::CoordinatorStatus& status) {
  if (!status.saving || status.saving->id != saving_) saved_bytes_ = 0;
  saving_ = status.saving ? status.saving->id : 0;
  if (!status.saving || status.saving->directory.empty() || measures_saving_) return;
  measures_saving_ = true;
  parts_.work.Post(
      parts_.background, [directory = status.saving->directory] { return SavedBytes(directory); },
      [this, id = saving_](uint64_t bytes) {
        measures_saving_ = false;
        if (id == saving_) saved_bytes_ = bytes;
      });
}

}  // namespace leat::roles
