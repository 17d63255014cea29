#include "lab/sim/checkpoints/shard_files.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

void ShardFiles::Execute(const ProcessPtr& p, const LoadSlices& a) {
  loads_ += a.orders.size();
  Duration read{0};
  for (const SliceOrder& order : a.orders) {
    if (!order.file.empty()) read += world_.DiskTransfer(world_.slice_ranges[order.slice.value].bytes());
    ScheduleIn(p, read + DiskTakes(), [this, p, incarnation = p->incarnation, order] {
      if (incarnation != p->incarnation) return;
      Result<Slice> slice = Status(Code::kUnavailable, "the disk does not answer");
      if (!Chance(options_.faults.unreadable))
        slice = all_.disk.Read(order.directory, order.file, order.slice);
      if (options_.check && slice.ok())
        all_.push_check.OnLoaded(order.slice, order.incarnation, slice->ledger.partitions());
      if (p->group_member)
        return all_.executor.Execute(p, p->group_member->machine->OnSliceLoaded(order, std::move(slice)));
      p->server->OnSliceLoaded(order, std::move(slice));
      all_.servers.Advance(p);
      all_.members.MaybeSendHeartbeat(p);
    });
  }
}

void ShardFiles::Execute(const ProcessPtr& p, const SaveShard& a) {
  uint64_t bytes = 0;
  for (const auto& slice : a.slices) bytes += world_.slice_ranges[slice->id.value].bytes();
  ScheduleIn(p, world_.DiskTransfer(bytes) + 3 * DiskTakes(), [this, p, incarnation = p->incarnation, a] {
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

void ShardFiles::Check(const Manifest& manifest) {
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

bool ShardFiles::Saved(std::vector<float>* values) const {
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
