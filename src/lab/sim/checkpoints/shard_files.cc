#include "lab/sim/checkpoints/shard_files.h"

#include <string>
#include <utility>

#include "lab/sim/checkpoints/disk.h"
#include "lab/sim/faults/fault_injector.h"
#include "lab/sim/invariants.h"
#include "lab/sim/members/action_executor.h"
#include "lab/sim/members/role_processes.h"
#include "lab/sim/push/server_processes.h"
#include "lab/sim/slices/slice_check.h"

namespace leat::sim {

using namespace protocol;

void ShardFiles::Execute(const ProcessPtr& p, const LoadSlices& a) {
  loads_ += a.orders.size();
  Duration read{0};
  for (const SliceOrder& order : a.orders) {
    if (!order.file.empty()) read += world_.DiskTransfer(world_.slice_ranges[order.slice.value].bytes());
    world_.ScheduleIn(p, read + world_.DiskTakes(), [this, p, incarnation = p->incarnation, order] {
      if (incarnation != p->incarnation) return;
      Result<Slice> slice = Status(Code::kUnavailable, "the disk does not answer");
      if (!world_.Chance(world_.options.faults.unreadable))
        slice = disk_.Read(order.directory, order.file, order.slice);
      if (world_.options.check && slice.ok())
        push_check_.OnLoaded(order.slice, order.incarnation, slice->ledger.partitions());
      if (p->group_member)
        return executor_.Execute(p, p->group_member->machine->OnSliceLoaded(order, std::move(slice)));
      p->server->OnSliceLoaded(order, std::move(slice));
      servers_.Advance(p);
      members_.MaybeSendHeartbeat(p);
    });
  }
}

void ShardFiles::Execute(const ProcessPtr& p, const SaveShard& a) {
  uint64_t bytes = 0;
  for (const auto& slice : a.slices) bytes += world_.slice_ranges[slice->id.value].bytes();
  world_.ScheduleIn(p, world_.DiskTransfer(bytes) + 3 * world_.DiskTakes(),
                    [this, p, incarnation = p->incarnation, a] {
                      if (incarnation != p->incarnation || faults_.DiesAt(DeathPoint::kBeforeShard, p))
                        return;
                      ShardReport report;
                      report.checkpoint = a.order.id;
                      report.file = "shard-" + ToString(p->node);
                      if (world_.Chance(world_.options.faults.full_disk)) {
                        report.status = Status(Code::kResourceExhausted, "the disk is full");
                      } else {
                        disk_.Write(a.order.directory, report.file, a.slices);
                      }
                      if (faults_.DiesAt(DeathPoint::kShardSaved, p)) return;
                      if (p->server) {
                        p->server->OnShardSaved(std::move(report));
                      } else {
                        p->group_member->machine->OnShardSaved(std::move(report));
                      }
                      members_.MaybeSendHeartbeat(p);
                    });
}

void ShardFiles::Check(const Manifest& manifest) {
  std::vector<uint32_t> copies(world_.options.table.slices.size(), 0);
  const auto wrong = [&](const std::string& what) {
    world_.Violate(Invariant::kCheckpointsWhole, manifest.directory + ": " + what);
  };
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      const auto slice = disk_.Read(manifest.directory, shard.file, incarnation.slice);
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

}  // namespace leat::sim
