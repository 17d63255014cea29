#include "roles/shard_files.h"

#include <spdlog/spdlog.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "checkpoint/shard.h"

namespace leat::roles {

void LoadSlices(const std::vector<protocol::SliceOrder>& orders, const protocol::SliceTable& table,
                const optim::OptimizerConfig& optimizer,
                const std::function<void(const protocol::SliceOrder&, Result<protocol::Slice>)>& loaded) {
  const auto slots = static_cast<uint32_t>(optim::SlotNames(optimizer).size());
  std::map<std::string, Result<std::unique_ptr<checkpoint::ShardReader>>> readers;
  for (const auto& order : orders) {
    const std::string path = order.directory + "/" + order.file;
    auto reader = readers.find(path);
    if (reader == readers.end()) {
      reader = readers.emplace(path, checkpoint::ShardReader::Open(path, order.file_checksum)).first;
    }
    auto slice = reader->second.ok() ? (*reader->second)->Read(table, order.slice, slots)
                                     : Result<protocol::Slice>(reader->second.status());
    if (!slice.ok()) spdlog::error("slice {}: {}", order.slice.value, slice.status().ToString());
    loaded(order, std::move(slice));
  }
}

protocol::ShardReport SaveSlices(const protocol::SaveShard& save, NodeId node,
                                 const protocol::SliceTable& table, const optim::OptimizerConfig& optimizer) {
  auto shard = checkpoint::WriteShard(save.order.directory, node.value, table, optim::SlotNames(optimizer),
                                      save.slices);
  protocol::ShardReport report;
  report.checkpoint = save.order.id;
  if (shard.ok()) {
    report.file = shard->file;
    report.bytes = shard->bytes;
    report.checksum = shard->checksum;
    report.slices = shard->slices;
  } else {
    report.status = shard.status();
    spdlog::error("checkpoint {}: {}", save.order.id, shard.status().ToString());
  }
  return report;
}

}  // namespace leat::roles
