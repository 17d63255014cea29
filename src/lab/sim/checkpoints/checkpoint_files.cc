#include "lab/sim/checkpoints/checkpoint_files.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

void CheckpointFiles::Execute(const CoordinatorPtr& c, const PrepareCheckpoint& a) {
  ScheduleIn(c, DiskTakes(), [this, c, id = a.id] {
    Result<CheckpointOrder> order = Status(Code::kResourceExhausted, "the disk is full");
    if (!Chance(options_.faults.full_disk))
      order = all_.disk.Prepare(id, c->own ? std::to_string(c->address) + "/" : "");
    all_.coordinators.Execute(c, c->machine->OnCheckpointPrepared(now(), id, std::move(order)));
  });
}

void CheckpointFiles::Execute(const CoordinatorPtr& c, const CommitManifest& a) {
  ScheduleIn(c, DiskTakes(), [this, c, manifest = a.manifest] {
    if (all_.faults.CoordinatorDiesAt(DeathPoint::kBeforeManifest, c)) return;
    const Faults& faults = options_.faults;
    Status status;
    if (Chance(faults.full_disk)) status = Status(Code::kResourceExhausted, "the disk is full");
    // A failed one may be complete on disk all the same.
    if (status.ok() || rng_.Chance(0.5)) {
      if (c->own) {
        all_.hosts.CommitManifest(*c, manifest);
      } else if (!all_.disk.Commit(c->term, manifest)) {
        return all_.coordinators.OnReplaced(c);
      }
      if (options_.check) Check(manifest);
      ++result_.checkpoints;
      if (Chance(faults.damaged)) all_.disk.DamageNewest();
    }
    if (all_.faults.CoordinatorDiesAt(DeathPoint::kManifestSaved, c)) return;
    // A crash in between leaves a checkpoint that was never announced.
    ScheduleIn(c, DiskTakes(), [this, c, id = manifest.id, status] {
      all_.coordinators.Execute(c, c->machine->OnManifestCommitted(now(), id, status));
    });
  });
}

void CheckpointFiles::Execute(const CoordinatorPtr& c, const DropCheckpoints& a) {
  if (!c->own && !all_.disk.Drop(c->term, a.oldest_kept, a.watermark)) all_.coordinators.OnReplaced(c);
}

void CheckpointFiles::Execute(const CoordinatorPtr& c, const RemoveCheckpoint& a) {
  if (!c->own && !all_.disk.Remove(c->term, a.id)) all_.coordinators.OnReplaced(c);
}

void CheckpointFiles::Execute(const CoordinatorPtr& c, const VerifyCheckpoint& a) {
  ScheduleIn(c, DiskTakes(), [this, c, id = a.id] {
    const Status status = c->own ? Status() : all_.disk.Verify(c->term, id);
    if (status.code() == Code::kStale) return all_.coordinators.OnReplaced(c);
    all_.coordinators.Execute(c, c->machine->OnCheckpointVerified(now(), id, status));
  });
}

Duration CheckpointFiles::TransferTime(uint64_t bytes) const {
  const double rate = options_.disk_bytes_per_s;
  return rate > 0 ? FromSeconds(static_cast<double>(bytes) / rate) : Duration(0);
}

void CheckpointFiles::Execute(const ProcessPtr& p, const LoadSlices& a) {
  result_.loads += a.orders.size();
  Duration read{0};
  for (const SliceOrder& order : a.orders) {
    if (!order.file.empty()) read += TransferTime(world_.slice_ranges[order.slice.value].bytes());
    ScheduleIn(p, read + DiskTakes(), [this, p, incarnation = p->incarnation, order] {
      if (incarnation != p->incarnation) return;
      Result<Slice> slice = Status(Code::kUnavailable, "the disk does not answer");
      if (!Chance(options_.faults.unreadable))
        slice = all_.disk.Read(order.directory, order.file, order.slice);
      if (options_.check && slice.ok())
        all_.slice_check.OnLoaded(order.slice, order.incarnation, slice->ledger.partitions());
      if (p->group_member)
        return all_.members.ExecuteAll(p, p->group_member->machine->OnSliceLoaded(order, std::move(slice)));
      p->server->OnSliceLoaded(order, std::move(slice));
      all_.servers.Advance(p);
      all_.members.MaybeSendHeartbeat(p);
    });
  }
}

void CheckpointFiles::Execute(const ProcessPtr& p, const SaveShard& a) {
  uint64_t bytes = 0;
  for (const auto& slice : a.slices) bytes += world_.slice_ranges[slice->id.value].bytes();
  ScheduleIn(p, TransferTime(bytes) + 3 * DiskTakes(), [this, p, incarnation = p->incarnation, a] {
    if (incarnation != p->incarnation || all_.faults.DiesAt(DeathPoint::kBeforeShard, p)) return;
    ShardReport report;
    report.checkpoint = a.order.id;
    report.file = "shard-" + ToString(p->node);
    if (Chance(options_.faults.full_disk)) {
      report.status = Status(Code::kResourceExhausted, "the disk is full");
    } else {
      all_.disk.Write(a.order.directory, report.file, a.slices);
    }
    if (all_.faults.DiesAt(DeathPoint::kShardSaved, p)) return;
    if (p->server) {
      p->server->OnShardSaved(std::move(report));
    } else {
      p->group_member->machine->OnShardSaved(std::move(report));
    }
    all_.members.MaybeSendHeartbeat(p);
  });
}

void CheckpointFiles::Check(const Manifest& manifest) {
  std::vector<uint32_t> copies(options_.table.slices.size(), 0);
  const auto wrong = [&](const std::string& what) {
    Violate(Invariant::kCheckpointsWhole, manifest.directory + ": " + what);
  };
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      const auto slice = all_.disk.Read(manifest.directory, shard.file, incarnation.slice);
      if (!slice.ok()) return wrong(slice.status().ToString());
      if (incarnation.slice.value < copies.size()) ++copies[incarnation.slice.value];
      if (auto lacks = Lacks(slice->ledger.partitions(), manifest.watermark); !lacks.empty())
        return wrong(NameOf(incarnation.slice) + ": " + lacks);
    }
  }
  for (uint32_t i = 0; i < copies.size(); ++i) {
    if (copies[i] != 1)
      return wrong(NameOf(SliceId(i)) + " is there " + std::to_string(copies[i]) + " times");
  }
}

bool CheckpointFiles::Saved(std::vector<float>* values) const {
  values->assign(world_.elements, 0);
  const Manifest* newest = all_.disk.newest();
  if (newest == nullptr || world_.modelled) return false;
  for (const ManifestShard& shard : newest->shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      const auto slice = all_.disk.Read(newest->directory, shard.file, incarnation.slice);
      if (!slice.ok()) return false;
      const ElementRange& range = world_.slice_ranges[incarnation.slice.value];
      std::ranges::copy(slice->values(), values->begin() + static_cast<std::ptrdiff_t>(range.begin));
    }
  }
  return true;
}

}  // namespace leat::sim
