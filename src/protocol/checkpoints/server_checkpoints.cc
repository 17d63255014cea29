#include "protocol/checkpoints/server_checkpoints.h"

#include <string>
#include <utility>

namespace leat::protocol {

std::optional<SaveShard> ServerCheckpoints::Take(const std::optional<CheckpointOrder>& order) {
  if (slices_.stepped()) return TakeAtVersion(order);
  if (!order || order->id <= last_ || saving_) return std::nullopt;
  std::vector<std::shared_ptr<const Slice>> slices;
  for (auto& hosted : slices_.all()) {
    if (!hosted || !hosted->slice || hosted->is_replica || hosted->saved >= order->id) continue;
    // A copy of the slice with its ledger; the memory is shared until the next update.
    slices.push_back(std::make_shared<const Slice>(slices_.WithLedger(*hosted)));
    slices_.Hot(hosted->order.slice).being_saved = true;
  }
  return Begin(*order, std::move(slices));
}

std::optional<SaveShard> ServerCheckpoints::TakeAtVersion(const std::optional<CheckpointOrder>& order) {
  if (saving_) return std::nullopt;
  if (slices_.keep_at() != order) slices_.KeepNothing();
  if (!order || order->id <= last_) return std::nullopt;
  slices_.KeepAt(*order);
  std::vector<std::shared_ptr<const Slice>> slices;
  bool all = true;
  for (auto& hosted : slices_.all()) {
    // The primary saves it, or its former server has saved it.
    if (!hosted || hosted->is_replica || hosted->saved >= order->id) continue;
    if (!hosted->slice) {
      all = false;
      continue;
    }
    if (slices_.WantsCopy(*hosted)) slices_.Keep(&*hosted, forwards_.NumberOf(*hosted, false));
    if (!hosted->kept && hosted->slice->version > order->version) {
      shard_ = ShardReport{};
      shard_->checkpoint = last_ = order->id;
      shard_->status = Status(Code::kFailedPrecondition,
                              "slice " + ToString(hosted->order.slice) + " is already at step " +
                                  std::to_string(hosted->slice->version) + ", after step " +
                                  std::to_string(order->version));
      slices_.KeepNothing();
      slices_.signals().heartbeat_urgent = true;
      return std::nullopt;
    }
    all = all && hosted->kept && forwards_.KeptAcknowledged(*hosted);
    slices.push_back(hosted->kept);
  }
  if (!all) return std::nullopt;
  slices_.KeepNothing();
  return Begin(*order, std::move(slices));
}

SaveShard ServerCheckpoints::Begin(const CheckpointOrder& order,
                                   std::vector<std::shared_ptr<const Slice>> slices) {
  last_ = order.id;
  shard_.reset();
  saving_ = Save{order.id, {}, {}};
  for (const auto& slice : slices) {
    saving_->incarnations.push_back({slice->id, slice->incarnation});
    slices_.At(slice->id).saved = order.id;
  }
  if (slices_.stepped()) saving_->slices = slices;
  return {order, std::move(slices)};
}

std::vector<uint64_t> ServerCheckpoints::BytesToSave() const {
  std::vector<uint64_t> sizes;
  for (const auto& hosted : slices_.all()) {
    if (hosted && hosted->slice) sizes.push_back(hosted->slice->memory.size());
  }
  return sizes;
}

void ServerCheckpoints::OnSlicesRead(uint64_t checkpoint) {
  if (!saving_ || saving_->checkpoint != checkpoint) return;
  saving_->slices.clear();
  for (HotSlice& hot : slices_.hot()) hot.being_saved = false;
}

void ServerCheckpoints::OnShardSaved(ShardReport report) {
  if (!saving_ || saving_->checkpoint != report.checkpoint) return;
  OnSlicesRead(report.checkpoint);
  report.slices = std::move(saving_->incarnations);
  saving_.reset();
  shard_ = std::move(report);
  slices_.signals().heartbeat_urgent = true;
}

}  // namespace leat::protocol
