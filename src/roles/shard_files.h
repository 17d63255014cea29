// Reads and writes the checkpoint files of slices. Servers and group members call this on a background
// thread.
#pragma once

#include <functional>
#include <vector>

#include "base/ids.h"
#include "optim/optimizer.h"
#include "protocol/server/server.h"

namespace leat::roles {

// Reads each slice, or returns the error of reading it. Opens each file once. Blocks.
void LoadSlices(const std::vector<protocol::SliceOrder>& orders, const protocol::SliceTable& table,
                const optim::OptimizerConfig& optimizer,
                const std::function<void(const protocol::SliceOrder&, Result<protocol::Slice>)>& loaded);

// Writes and syncs the file of one server or member in a checkpoint. The report holds the result. Blocks.
protocol::ShardReport SaveSlices(const protocol::SaveShard& save, NodeId node,
                                 const protocol::SliceTable& table, const optim::OptimizerConfig& optimizer);

}  // namespace leat::roles
