// A server's slices as a safetensors file.
#include "storage/checkpoint/shard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "base/encoding/printable.h"
#include "base/fields/codec.h"
#include "base/fields/json.h"
#include "compute/optim/moments.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/safetensors.h"
#include "storage/checkpoint/store.h"

namespace leat::checkpoint {
namespace {

using protocol::Slice;
using protocol::SliceTable;

constexpr const char* kShardFormat = "leat-shard-4";
constexpr size_t kReadBytes = 1 << 20;

// The key in the metadata of the checksum of a tensor's bytes.
std::string ChecksumKey(const std::string& tensor) {
  return "checksum/" + tensor;
}

const optim::VariableSpec& VariableOf(const SliceTable& table, SliceId id) {
  return table.variables[table.slices[id.value].variable];
}

// Trained variables alone have an optimizer and therefore slots.
size_t SlotsOf(const SliceTable& table, SliceId id, size_t slots) {
  return VariableOf(table, id).role == optim::VariableRole::kTrained ? slots : 0;
}

// A slice in the metadata of a shard; `ledger`: the number of its ledger.
struct SliceEntry {
  Incarnation incarnation;
  uint64_t version = 0, events = 0, ledger = 0;
};
LEAT_FIELDS(SliceEntry, (incarnation), (version), (events), (ledger));

// A tensor of a slice without its place.
struct Part {
  std::string name;
  ShardType type = ShardType::kF32;
  uint64_t elements = 0;
  uint64_t bytes() const { return elements * SizeOf(type); }
};

// The tensors that a slice's memory is made of, one after the other: its values, then its slots.
std::vector<Part> PartsOf(const SliceTable& table, SliceId id, std::span<const std::string> slot_names) {
  const auto& spec = table.slices[id.value];
  const bool moments = VariableOf(table, id).role == optim::VariableRole::kMoments;
  const uint64_t words = moments ? optim::kMomentWords : 1;
  // "dense1/weight[0:4096]"
  const std::string name = VariableOf(table, id).name + "[" + std::to_string(spec.begin / words) + ":" +
                           std::to_string(spec.end / words) + "]";
  if (moments) {
    const uint64_t features = spec.elements() / words;
    return {{name + "/count", ShardType::kU64, features},
            {name + "/mean", ShardType::kF64, features},
            {name + "/m2", ShardType::kF64, features}};
  }
  std::vector<Part> parts = {{name, ShardType::kF32, spec.elements()}};
  for (size_t i = 0; i < SlotsOf(table, id, slot_names.size()); ++i)
    parts.push_back({name + "/" + slot_names[i], ShardType::kF32, spec.elements()});
  return parts;
}

Status CheckSlice(const SliceTable& table, const Slice& slice, size_t optimizer_slots) {
  const auto bad = [&](const std::string& why) {
    return Status(Code::kInvalidArgument, "slice " + std::to_string(slice.id.value) + " " + why);
  };
  if (slice.id.value >= table.slices.size()) {
    return bad("is not among the job's " + std::to_string(table.slices.size()));
  }
  const uint64_t elements = table.slices[slice.id.value].elements();
  const size_t slots = SlotsOf(table, slice.id, optimizer_slots);
  if (slice.elements != elements || slice.slots != slots ||
      slice.memory.size() < elements * 4 * (1 + slots)) {
    return bad("has " + std::to_string(slice.elements) + " elements and " + std::to_string(slice.slots) +
               " slots in " + std::to_string(slice.memory.size()) + " bytes, the job's has " +
               std::to_string(elements) + " and " + std::to_string(slots));
  }
  return {};
}

Result<SafetensorsHeader> MakeHead(uint64_t node, const SliceTable& table,
                                   std::span<const std::string_view> slot_names,
                                   std::span<const std::shared_ptr<const Slice>> slices) {
  SafetensorsHeader head;
  head.metadata["format"] = kShardFormat;
  head.metadata["node"] = std::to_string(node);
  const std::vector<std::string> slots(slot_names.begin(), slot_names.end());
  head.metadata["slots"] = JsonText(fields::Json(slots));
  std::map<std::string, size_t> ledgers;  // most slices have the same one most of the time
  std::set<SliceId> seen;
  uint64_t at = 0;
  for (const auto& slice : slices) {
    LEAT_RETURN_IF_ERROR(CheckSlice(table, *slice, slot_names.size()));
    if (!seen.insert(slice->id).second) {
      return Status(Code::kInvalidArgument, "slice " + std::to_string(slice->id.value) + " appears twice");
    }
    const auto [entry, fresh] = ledgers.emplace(ToHex(fields::Encode(slice->ledger)), ledgers.size());
    if (fresh) head.metadata["ledger/" + std::to_string(entry->second)] = entry->first;
    head.metadata["slice/" + std::to_string(slice->id.value)] =
        fields::ToJson(SliceEntry{slice->incarnation, slice->version, slice->events, entry->second});
    for (Part& part : PartsOf(table, slice->id, slots)) {
      head.metadata[ChecksumKey(part.name)] = ToHex(0);  // once it is written
      head.tensors.push_back({std::move(part.name), at, at + part.bytes(), part.type});
      at += part.bytes();
    }
  }
  return head;
}

// Writes slices to their places in any order, and then the head, which has the checksums of their tensors.
class ShardWriter {
 public:
  ShardWriter(File file, std::vector<std::shared_ptr<const Slice>> slices, SafetensorsHeader head)
      : file_(std::move(file)), slices_(std::move(slices)), head_(std::move(head)), written_(slices_.size()) {
    uint64_t at = 0;
    for (size_t i = 0; i < slices_.size(); ++i) {
      places_[slices_[i]->id] = i;
      begin_.push_back(at);
      at += Numbers(*slices_[i]).size();
    }
    begin_.push_back(at);
  }

  Status Write(const ShardProgress& progress) {
    LEAT_ASSIGN_OR_RETURN(const std::string room, EncodeSafetensorsHeader(head_));
    data_ = room.size();
    for (size_t first = 0; first < slices_.size();) {
      const size_t i = Choose(first, progress);
      LEAT_RETURN_IF_ERROR(WriteSlice(i));
      const SliceId id = slices_[i]->id;
      slices_[i].reset();
      written_[i] = true;
      if (progress.written) progress.written(id);
      while (first < slices_.size() && written_[first]) ++first;
    }
    LEAT_ASSIGN_OR_RETURN(const std::string text, EncodeSafetensorsHeader(head_));
    LEAT_CHECK(text.size() == data_);  // checksums have one length
    checksum_ = Checksum(AsBytes(text));
    return file_.WriteAt(0, AsBytes(text));
  }

  File& file() { return file_; }
  uint64_t bytes() const { return data_ + begin_.back(); }
  uint64_t checksum() const { return checksum_; }  // checksum of the head

 private:
  static ByteView Numbers(const Slice& slice) {
    return slice.memory.bytes().first(slice.elements * 4 * (1 + slice.slots));
  }

  size_t Choose(size_t first, const ShardProgress& progress) const {
    const auto urgent = progress.urgent ? progress.urgent() : std::nullopt;
    const auto place = urgent ? places_.find(*urgent) : places_.end();
    return place != places_.end() && !written_[place->second] ? place->second : first;
  }

  Status WriteSlice(size_t i) {
    const ByteView numbers = Numbers(*slices_[i]);
    LEAT_RETURN_IF_ERROR(file_.WriteAt(data_ + begin_[i], numbers));
    auto tensor = std::ranges::lower_bound(head_.tensors, begin_[i], {}, &TensorInfo::begin);
    for (; tensor != head_.tensors.end() && tensor->end <= begin_[i + 1]; ++tensor) {
      const ByteView bytes = numbers.subspan(tensor->begin - begin_[i], tensor->end - tensor->begin);
      head_.metadata[ChecksumKey(tensor->name)] = ToHex(Checksum(bytes));
    }
    return {};
  }

  File file_;
  std::vector<std::shared_ptr<const Slice>> slices_;
  SafetensorsHeader head_;
  std::vector<bool> written_;
  std::vector<uint64_t> begin_;  // offset of each slice in the data, and the end
  std::map<SliceId, size_t> places_;
  uint64_t data_ = 0;  // offset of the data
  uint64_t checksum_ = 0;
};

class FileSource final : public ShardSource {
 public:
  FileSource(File file, uint64_t size) : file_(std::move(file)), size_(size) {}
  const std::string& path() const override { return file_.path(); }
  uint64_t size() const override { return size_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    return file_.ReadAt(offset, out);
  }

 private:
  const File file_;
  const uint64_t size_;
};

class Reader final : public ShardReader {
 public:
  explicit Reader(std::unique_ptr<ShardSource> source) : source_(std::move(source)), size_(source_->size()) {}

  // Its checksum comes before the parser.
  Status ReadHead(uint64_t checksum) {
    uint64_t length = 0;
    if (size_ < sizeof(length)) return Damaged("has " + std::to_string(size_) + " bytes");
    LEAT_RETURN_IF_ERROR(source_->ReadAt(0, std::as_writable_bytes(std::span(&length, 1))));
    if (length > SafetensorsHeader::kMaxBytes || length > size_ - sizeof(length)) {
      return Damaged("a head of " + std::to_string(length) + " in " + std::to_string(size_) + " bytes");
    }
    data_ = sizeof(length) + length;
    Bytes text(data_);
    LEAT_RETURN_IF_ERROR(source_->ReadAt(0, text));
    if (const uint64_t found = Checksum(text); found != checksum) {
      return Damaged("checksum of its head of " + std::to_string(data_) + " bytes is " + ToHex(found) +
                     ", the manifest says " + ToHex(checksum));
    }
    LEAT_ASSIGN_OR_RETURN(
        SafetensorsHeader head,
        ParseSafetensorsHeader(ByteView(text).subspan(sizeof(length)), size_ - data_, source_->path()));
    for (auto& tensor : head.tensors) tensors_.emplace(tensor.name, tensor);
    metadata_ = std::move(head.metadata);
    const auto format = metadata_.find("format");
    if (format == metadata_.end() || format->second != kShardFormat)
      return Damaged("is not a shard of a checkpoint, in format " + std::string(kShardFormat));
    return {};
  }

  // The tensors fill all that follows the head.
  Status VerifyData() const {
    Bytes buffer(std::min<uint64_t>(kReadBytes, size_ - data_));
    const auto read = [this](uint64_t at, std::span<std::byte> piece) { return source_->ReadAt(at, piece); };
    for (const auto& [name, place] : tensors_) {
      LEAT_ASSIGN_OR_RETURN(const uint64_t found,
                            ReadChecksum(data_ + place.begin, data_ + place.end, buffer, read));
      LEAT_RETURN_IF_ERROR(CheckTensor(place, found));
    }
    return {};
  }

  Result<Slice> Read(const SliceTable& table, SliceId id, uint32_t slots) const override {
    if (id.value >= table.slices.size()) {
      return Status(Code::kInvalidArgument,
                    "slice " + std::to_string(id.value) + " of " + std::to_string(table.slices.size()));
    }
    Slice slice;
    slice.id = id;
    slice.slots = static_cast<uint32_t>(SlotsOf(table, id, slots));
    slice.elements = table.slices[id.value].elements();
    LEAT_RETURN_IF_ERROR(ReadMetadata(&slice));
    LEAT_ASSIGN_OR_RETURN(const std::vector<std::string> slot_names, SlotNames());
    if (slot_names.size() != slots) {
      return Status(Code::kFailedPrecondition,
                    source_->path() + ": has " + std::to_string(slot_names.size()) +
                        " slots of the optimizer, the job's optimizer keeps " + std::to_string(slots));
    }
    slice.memory = Buffer(slice.elements * 4 * (1 + slice.slots));
    LEAT_RETURN_IF_ERROR(ReadParts(PartsOf(table, id, slot_names), slice.memory.bytes()));
    return slice;
  }

  Status ReadValues(const SliceTable& table, SliceId id, std::span<float> out) const override {
    if (id.value >= table.slices.size() || out.size() != table.slices[id.value].elements()) {
      return Status(Code::kInvalidArgument, "slice " + std::to_string(id.value) + " into " +
                                                std::to_string(out.size()) + " elements");
    }
    return ReadParts(PartsOf(table, id, {}), std::as_writable_bytes(out));
  }

 private:
  Status Damaged(const std::string& why) const {
    return Status(Code::kDataLoss, source_->path() + ": " + why);
  }

  const std::string* Metadata(const std::string& key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? nullptr : &found->second;
  }

  Result<std::vector<std::string>> SlotNames() const {
    constexpr fields::AtMost kMost = {SafetensorsHeader::kMaxBytes};
    const std::string* names = Metadata("slots");
    if (names == nullptr) return Damaged("its slots are not named");
    return fields::FromJson<std::vector<std::string>>(*names, source_->path() + ": slots", Code::kDataLoss,
                                                      kMost, fields::Each(kMost));
  }

  Status ReadMetadata(Slice* slice) const {
    const std::string* about = Metadata("slice/" + std::to_string(slice->id.value));
    const std::string name = "slice " + std::to_string(slice->id.value);
    const std::string where = source_->path() + ": " + name;
    if (about == nullptr) return {Code::kNotFound, where + " is missing"};
    LEAT_ASSIGN_OR_RETURN(const auto entry, fields::FromJson<SliceEntry>(*about, where, Code::kDataLoss));
    slice->incarnation = entry.incarnation;
    slice->version = entry.version;
    slice->events = entry.events;
    const std::string* ledger = Metadata("ledger/" + std::to_string(entry.ledger));
    if (ledger == nullptr) return Damaged(name + ": its ledger is missing");
    const std::optional<Bytes> bytes = FromHex(*ledger);
    if (!bytes) return Damaged(name + ": its ledger is not hexadecimal");
    LEAT_ASSIGN_OR_RETURN(slice->ledger, fields::Decode<protocol::Ledger>(*bytes, where + ": its ledger"));
    return {};
  }

  Status CheckTensor(const TensorInfo& place, uint64_t found) const {
    const std::string* expected = Metadata(ChecksumKey(place.name));
    if (expected != nullptr && *expected == ToHex(found)) return {};
    return Damaged("checksum of the " + std::to_string(place.end - place.begin) + " bytes of '" + place.name +
                   "' is " + ToHex(found) + ", its head says " + (expected ? *expected : "nothing"));
  }

  // Reads tensors one after the other into `out`, which has their size.
  Status ReadParts(const std::vector<Part>& parts, std::span<std::byte> out) const {
    std::vector<const TensorInfo*> places;
    for (const Part& part : parts) {
      LEAT_ASSIGN_OR_RETURN(const TensorInfo* place, Find(part));
      places.push_back(place);
    }
    for (const TensorInfo* place : places) {
      const uint64_t bytes = place->end - place->begin;
      LEAT_RETURN_IF_ERROR(source_->ReadAt(data_ + place->begin, out.first(bytes)));
      LEAT_RETURN_IF_ERROR(CheckTensor(*place, Checksum(out.first(bytes))));
      out = out.subspan(bytes);
    }
    return {};
  }

  Result<const TensorInfo*> Find(const Part& part) const {
    const auto found = tensors_.find(part.name);
    if (found == tensors_.end()) {
      return Status(Code::kFailedPrecondition,
                    source_->path() + ": has no '" + part.name + "', which the job has");
    }
    const TensorInfo& place = found->second;
    if (place.type != part.type) return Damaged("'" + part.name + "' is of another type");
    if (place.elements() != part.elements) {
      return Damaged("'" + part.name + "' has " + std::to_string(place.elements()) + " elements, not " +
                     std::to_string(part.elements));
    }
    return &place;
  }

  const std::unique_ptr<ShardSource> source_;
  const uint64_t size_;
  uint64_t data_ = 0;  // offset of the data
  std::map<std::string, TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace

Result<protocol::ManifestShard> WriteShard(const std::string& directory, uint64_t node,
                                           const SliceTable& table,
                                           std::span<const std::string_view> slot_names,
                                           std::vector<std::shared_ptr<const Slice>> slices,
                                           Durability durability, const ShardProgress& progress,
                                           const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(SafetensorsHeader head, MakeHead(node, table, slot_names, slices));
  // Names that cannot be encoded fail here, before the shard's file is created.
  LEAT_RETURN_IF_ERROR(EncodeSafetensorsHeader(head).status());
  protocol::ManifestShard shard;
  shard.file = name.empty() ? "shard-" + std::to_string(node) + ".safetensors" : name;
  for (const auto& slice : slices) shard.slices.push_back({slice->id, slice->incarnation});
  const std::string temporary = shard.file + ".tmp";
  LEAT_ASSIGN_OR_RETURN(File file, File::Open(directory + "/" + temporary, O_RDWR | O_CREAT | O_TRUNC));
  ShardWriter writer(std::move(file), std::move(slices), std::move(head));
  Status status = writer.Write(progress);
  if (status.ok() && durability == Durability::kSynced) status = writer.file().Sync();
  if (status.ok()) {
    shard.bytes = writer.bytes();
    shard.checksum = writer.checksum();
    status = durability == Durability::kSynced ? RenameSynced(directory, temporary, shard.file)
                                               : Rename(directory, temporary, shard.file);
  }
  if (!status.ok()) {
    unlink((directory + "/" + temporary).c_str());
    return status;
  }
  return shard;
}

Result<std::unique_ptr<ShardSource>> ShardSource::Open(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(File file, File::Open(path, O_RDONLY));
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
  return std::unique_ptr<ShardSource>(std::make_unique<FileSource>(std::move(file), size));
}

Result<std::unique_ptr<ShardReader>> ShardReader::Open(const std::string& path, uint64_t checksum) {
  LEAT_ASSIGN_OR_RETURN(auto source, ShardSource::Open(path));
  return Open(std::move(source), checksum);
}

Result<std::unique_ptr<ShardReader>> ShardReader::Open(std::unique_ptr<ShardSource> source,
                                                       uint64_t checksum) {
  auto reader = std::make_unique<Reader>(std::move(source));
  LEAT_RETURN_IF_ERROR(reader->ReadHead(checksum));
  return std::unique_ptr<ShardReader>(std::move(reader));
}

Status CheckSize(const std::string& path, uint64_t bytes) {
  const auto file = File::Open(path, O_RDONLY);
  if (file.status().code() == Code::kNotFound) {
    return Status(Code::kDataLoss,
                  path + ": is missing, the manifest says that it has " + std::to_string(bytes) + " bytes");
  }
  LEAT_RETURN_IF_ERROR(file.status());
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size != bytes) {
    return Status(Code::kDataLoss, path + ": has " + std::to_string(size) + " bytes, the manifest says " +
                                       std::to_string(bytes));
  }
  return {};
}

Status VerifyFile(const std::string& path, uint64_t bytes, uint64_t checksum) {
  LEAT_RETURN_IF_ERROR(CheckSize(path, bytes));
  LEAT_ASSIGN_OR_RETURN(auto source, ShardSource::Open(path));
  Reader reader(std::move(source));
  LEAT_RETURN_IF_ERROR(reader.ReadHead(checksum));
  return reader.VerifyData();
}

}  // namespace leat::checkpoint
