// The files of slices as roles read and write them: in the background, whoever holds the slices.
#pragma once

#include <functional>
#include <vector>

#include "base/ids.h"
#include "optim/optimizer.h"
#include "protocol/server/server.h"

namespace leat::train {

// Reads each slice, or why it cannot be had, opening each file once. Blocks.
void LoadSlices(const std::vector<protocol::SliceOrder>& orders, const protocol::SliceTable& table,
                const optim::OptimizerConfig& optimizer,
                const std::function<void(const protocol::SliceOrder&, Result<protocol::Slice>)>& loaded);

// Writes and syncs one server's or member's file of a checkpoint. Blocks; the report says how it went.
protocol::ShardReport SaveSlices(const protocol::SaveShard& save, NodeId node,
                                 const protocol::SliceTable& table, const optim::OptimizerConfig& optimizer);

}  // namespace leat::train
