#include "lab/sim/checkpoints/coordinator_checkpoints.h"

#include <string>
#include <utility>

#include "lab/sim/checkpoints/disk.h"
#include "lab/sim/checkpoints/shard_files.h"
#include "lab/sim/faults/fault_injector.h"
#include "lab/sim/succession/coordinator_hosts.h"

namespace leat::sim {

using namespace protocol;

void CoordinatorCheckpoints::Execute(const CoordinatorPtr& c, const PrepareCheckpoint& a) {
  world_.ScheduleIn(c, world_.DiskTakes(), [this, c, id = a.id] {
    Result<CheckpointOrder> order = Status(Code::kResourceExhausted, "the disk is full");
    if (!world_.Chance(world_.options.faults.full_disk))
      order = disk_.Prepare(id, c->own ? std::to_string(c->address) + "/" : "");
    coordinators_.Execute(c, c->machine->OnCheckpointPrepared(world_.now(), id, std::move(order)));
  });
}

void CoordinatorCheckpoints::Execute(const CoordinatorPtr& c, const CommitManifest& a) {
  world_.ScheduleIn(c, world_.DiskTakes(), [this, c, manifest = a.manifest] {
    if (faults_.CoordinatorDiesAt(DeathPoint::kBeforeManifest, c)) return;
    const Faults& faults = world_.options.faults;
    Status status;
    if (world_.Chance(faults.full_disk)) status = Status(Code::kResourceExhausted, "the disk is full");
    // A failed one may be complete on disk all the same.
    if (status.ok() || world_.rng.Chance(0.5)) {
      if (!Commit(*c, manifest)) return coordinators_.OnReplaced(c);
      if (world_.options.check) shards_.Check(manifest);
      ++checkpoints_;
      if (world_.Chance(faults.damaged)) disk_.DamageNewest();
    }
    if (faults_.CoordinatorDiesAt(DeathPoint::kManifestSaved, c)) return;
    // A crash in between leaves a checkpoint that was never announced.
    world_.ScheduleIn(c, world_.DiskTakes(), [this, c, id = manifest.id, status] {
      coordinators_.Execute(c, c->machine->OnManifestCommitted(world_.now(), id, status));
    });
  });
}

bool CoordinatorCheckpoints::Commit(const CoordinatorProcess& c, const Manifest& manifest) {
  if (!c.own) return disk_.Commit(c.term, manifest);
  hosts_.CommitManifest(c, manifest);
  return true;
}

void CoordinatorCheckpoints::Execute(const CoordinatorPtr& c, const DropCheckpoints& a) {
  if (!c->own && !disk_.Drop(c->term, a.oldest_kept, a.watermark)) coordinators_.OnReplaced(c);
}

void CoordinatorCheckpoints::Execute(const CoordinatorPtr& c, const RemoveCheckpoint& a) {
  if (!c->own && !disk_.Remove(c->term, a.id)) coordinators_.OnReplaced(c);
}

void CoordinatorCheckpoints::Execute(const CoordinatorPtr& c, const VerifyCheckpoint& a) {
  world_.ScheduleIn(c, world_.DiskTakes(), [this, c, id = a.id] {
    const Status status = c->own ? Status() : disk_.Verify(c->term, id);
    if (status.code() == Code::kStale) return coordinators_.OnReplaced(c);
    coordinators_.Execute(c, c->machine->OnCheckpointVerified(world_.now(), id, status));
  });
}

}  // namespace leat::sim
