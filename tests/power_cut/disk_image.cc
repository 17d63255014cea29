#include "disk_image.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/rng.h"

namespace leat::power_cut {
namespace {

constexpr uint64_t kSector = 512;

using Kind = Operation::Kind;

bool IsEntry(const Operation& o) {
  return o.kind == Kind::kCreate || o.kind == Kind::kRename || o.kind == Kind::kRemove;
}
// The file or directory whose sync makes the operation durable.
uint64_t HolderOf(const Operation& o) {
  return IsEntry(o) ? o.directory : o.node;
}

// Another directory whose sync does so, too: that of a renamed file's new name.
uint64_t TargetOf(const Operation& o) {
  return o.kind == Kind::kRename ? o.target : HolderOf(o);
}

// Which of the first `count` operations are durable.
std::vector<bool> Synced(const std::vector<Operation>& operations, size_t count) {
  std::vector<bool> synced(count, false);
  std::set<uint64_t> holders;
  for (size_t i = count; i-- > 0;) {
    if (operations[i].kind == Kind::kSync) holders.insert(operations[i].node);
    synced[i] = holders.contains(HolderOf(operations[i])) || holders.contains(TargetOf(operations[i]));
  }
  return synced;
}

void Write(Bytes* data, uint64_t offset, ByteView bytes) {
  if (data->size() < offset + bytes.size()) data->resize(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), data->begin() + static_cast<ptrdiff_t>(offset));
}

}  // namespace

std::string Loss::ToString() const {
  switch (kind) {
    case Kind::kNothing:
      return "nothing is lost";
    case Kind::kAll:
      return "everything that is not synced is lost";
    case Kind::kAllData:
      return "all data that is not synced is lost";
    case Kind::kAllEntries:
      return "all entries that are not synced are lost";
    case Kind::kData:
      return "unsynced data of file " + std::to_string(node) + " is lost";
    case Kind::kZeros:
      return "unsynced data of file " + std::to_string(node) + " is zero";
    case Kind::kEntries:
      return "entries of directory " + std::to_string(node) + " from operation " + std::to_string(from) +
             " on are lost";
  }
  return "";
}

std::vector<Loss> Losses(const std::vector<Operation>& operations, size_t count) {
  const std::vector<bool> synced = Synced(operations, count);
  std::vector<Loss> losses = {{Loss::Kind::kNothing}};
  std::set<uint64_t> files;
  for (size_t i = 0; i < count; ++i) {
    const Operation& o = operations[i];
    if (synced[i] || o.kind == Kind::kSync) continue;
    if (IsEntry(o)) {
      losses.push_back({Loss::Kind::kEntries, o.directory, i});
      if (TargetOf(o) != o.directory) losses.push_back({Loss::Kind::kEntries, TargetOf(o), i});
    } else if (files.insert(o.node).second) {
      losses.push_back({Loss::Kind::kData, o.node});
      losses.push_back({Loss::Kind::kZeros, o.node});
    }
  }
  if (losses.size() == 1) return losses;
  for (const auto kind : {Loss::Kind::kAll, Loss::Kind::kAllData, Loss::Kind::kAllEntries})
    losses.push_back({kind});
  return losses;
}

DiskImage::DiskImage(const std::vector<Operation>& operations, size_t count, const Loss& loss) {
  Apply(operations, Choose(operations, count, loss));
}
DiskImage::DiskImage(const std::vector<Operation>& operations, size_t count, uint64_t seed) {
  Apply(operations, Choose(operations, count, seed));
}

DiskImage::Kept DiskImage::Choose(const std::vector<Operation>& operations, size_t count, const Loss& loss) {
  Kept kept{Synced(operations, count), std::vector<bool>(count, false)};
  for (size_t i = 0; i < count; ++i) {
    if (kept.whole[i]) continue;
    const Operation& o = operations[i];
    const bool entry = IsEntry(o);
    const bool of_node = !entry && o.node == loss.node;
    switch (loss.kind) {
      case Loss::Kind::kNothing:
        kept.whole[i] = true;
        break;
      case Loss::Kind::kAll:
        break;
      case Loss::Kind::kAllData:
        kept.whole[i] = entry;
        break;
      case Loss::Kind::kAllEntries:
        kept.whole[i] = !entry;
        break;
      case Loss::Kind::kData:
        kept.whole[i] = !of_node;
        break;
      case Loss::Kind::kZeros:
        kept.whole[i] = true;
        kept.zeros[i] = of_node && o.kind == Kind::kWrite;
        break;
      case Loss::Kind::kEntries:
        kept.whole[i] = !entry || (o.directory != loss.node && TargetOf(o) != loss.node) || i < loss.from;
        break;
    }
  }
  return kept;
}

DiskImage::Kept DiskImage::Choose(const std::vector<Operation>& operations, size_t count, uint64_t seed) {
  Rng rng(seed);
  const uint64_t mode = seed % 4;  // none, all, some, until a moment
  const uint64_t moment = mode == 0 ? 0 : mode == 1 ? count : rng.Below(count + 1);
  Kept kept{Synced(operations, count), std::vector<bool>(count, false)};
  for (size_t i = count; i-- > 0;) {
    const Operation& o = operations[i];
    kept.whole[i] = kept.whole[i] || (mode == 2 && !IsEntry(o) ? rng.Below(2) == 0 : i < moment);
    if (mode == 3 && i == moment && o.kind == Kind::kWrite && !kept.whole[i]) {
      kept.torn = i;
      kept.torn_end = (o.offset + rng.Below(o.data.size() + 1)) / kSector * kSector;
    }
  }
  return kept;
}

void DiskImage::Apply(const std::vector<Operation>& operations, const Kept& kept) {
  nodes_[0].is_directory = true;
  for (size_t i = 0; i < kept.whole.size(); ++i) {
    const Operation& o = operations[i];
    if (o.kind == Kind::kCreate) nodes_[o.node].is_directory = o.is_directory;
    if (i == kept.torn && kept.torn_end > o.offset)
      Write(&nodes_[o.node].data, o.offset, ByteView(o.data).first(kept.torn_end - o.offset));
    if (!kept.whole[i]) continue;
    auto& entries = nodes_[o.directory].entries;
    switch (o.kind) {
      case Kind::kCreate:
        entries[o.name] = o.node;
        break;
      case Kind::kWrite:
        Write(&nodes_[o.node].data, o.offset, kept.zeros[i] ? Bytes(o.data.size()) : o.data);
        break;
      case Kind::kTruncate:
        nodes_[o.node].data.resize(o.offset);
        break;
      case Kind::kRename:
        if (const auto from = entries.extract(o.name)) nodes_[o.target].entries[o.to] = from.mapped();
        break;
      case Kind::kRemove:
        entries.erase(o.name);
        break;
      case Kind::kSync:
        break;
    }
  }
}

uint64_t DiskImage::Checksum() const {
  ByteWriter out;
  Describe(0, "", &out);
  return leat::Checksum(out.view());
}

void DiskImage::Describe(uint64_t id, const std::string& path, ByteWriter* out) const {
  const Node& node = nodes_.at(id);
  out->PutString(path);
  out->Put(static_cast<uint8_t>(node.is_directory));
  out->PutString(AsText(node.data));
  for (const auto& [name, child] : node.entries) Describe(child, path + "/" + name, out);
}

void DiskImage::Save(const std::string& root) const {
  Save(0, root);
}

void DiskImage::Save(uint64_t id, const std::string& path) const {
  const Node& node = nodes_.at(id);
  if (!node.is_directory) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(node.data.data()),
               static_cast<std::streamsize>(node.data.size()));
    return;
  }
  std::filesystem::create_directories(path);
  for (const auto& [name, child] : node.entries) Save(child, path + "/" + name);
}

void BuildDisk(const std::vector<Operation>& operations, size_t count, uint64_t seed,
               const std::string& root) {
  DiskImage(operations, count, seed).Save(root);
}

}  // namespace leat::power_cut
