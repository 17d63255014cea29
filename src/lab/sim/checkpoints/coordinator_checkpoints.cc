#include "lab/sim/checkpoints/coordinator_checkpoints.h"

#include <string>
#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

void CoordinatorCheckpoints::Execute(const CoordinatorPtr& c, const PrepareCheckpoint& a) {
  ScheduleIn(c, DiskTakes(), [this, c, id = a.id] {
    Result<CheckpointOrder> order = Status(Code::kResourceExhausted, "the disk is full");
    if (!Chance(options_.faults.full_disk))
      order = all_.disk.Prepare(id, c->own ? std::to_string(c->address) + "/" : "");
    all_.coordinators.Execute(c, c->machine->OnCheckpointPrepared(now(), id, std::move(order)));
  });
}

void CoordinatorCheckpoints::Execute(const CoordinatorPtr& c, const CommitManifest& a) {
  ScheduleIn(c, DiskTakes(), [this, c, manifest = a.manifest] {
    if (all_.faults.CoordinatorDiesAt(DeathPoint::kBeforeManifest, c)) return;
    const Faults& faults = options_.faults;
    Status status;
    if (Chance(faults.full_disk)) status = Status(Code::kResourceExhausted, "the disk is full");
    // A failed one may be complete on disk all the same.
    if (status.ok() || rng_.Chance(0.5)) {
      if (!Commit(*c, manifest)) return all_.coordinators.OnReplaced(c);
      if (options_.check) all_.shards.Check(manifest);
      ++checkpoints_;
      if (Chance(faults.damaged)) all_.disk.DamageNewest();
    }
    if (all_.faults.CoordinatorDiesAt(DeathPoint::kManifestSaved, c)) return;
    // A crash in between leaves a checkpoint that was never announced.
    ScheduleIn(c, DiskTakes(), [this, c, id = manifest.id, status] {
      all_.coordinators.Execute(c, c->machine->OnManifestCommitted(now(), id, status));
    });
  });
}

bool CoordinatorCheckpoints::Commit(const CoordinatorProcess& c, const Manifest& manifest) {
  if (!c.own) return all_.disk.Commit(c.term, manifest);
  all_.hosts.CommitManifest(c, manifest);
  return true;
}

void CoordinatorCheckpoints::Execute(const CoordinatorPtr& c, const DropCheckpoints& a) {
  if (!c->own && !all_.disk.Drop(c->term, a.oldest_kept, a.watermark)) all_.coordinators.OnReplaced(c);
}

void CoordinatorCheckpoints::Execute(const CoordinatorPtr& c, const RemoveCheckpoint& a) {
  if (!c->own && !all_.disk.Remove(c->term, a.id)) all_.coordinators.OnReplaced(c);
}

void CoordinatorCheckpoints::Execute(const CoordinatorPtr& c, const VerifyCheckpoint& a) {
  ScheduleIn(c, DiskTakes(), [this, c, id = a.id] {
    const Status status = c->own ? Status() : all_.disk.Verify(c->term, id);
    if (status.code() == Code::kStale) return all_.coordinators.OnReplaced(c);
    all_.coordinators.Execute(c, c->machine->OnCheckpointVerified(now(), id, status));
  });
}

}  // namespace leat::sim
