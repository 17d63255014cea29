#include "net/same_host/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "net/same_host/same_host_peer.h"
#include "net/transport.h"

namespace leat::net {
namespace {

// Buffers are allocated from files of at least this size, so that a model with thousands of slices needs few
// descriptors. Untouched pages take no memory.
constexpr uint64_t kFileBytes = uint64_t{64} << 20;
constexpr uint64_t kPage = 4096;

// A file with shared memory. It exists while a buffer in it is in use.
struct SharedFile {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t used = 0;
  Descriptor descriptor;
  uint64_t device = 0, inode = 0;

  // Returns null if the system has no such memory.
  static std::shared_ptr<SharedFile> Make(uint64_t bytes);
  ~SharedFile();
};

struct SharedFiles {
  std::shared_mutex mutex;
  std::map<const std::byte*, SharedFile*> by_end;  // by end address

  std::mutex cutting;
  std::weak_ptr<SharedFile> open;  // the next new piece comes from this file
  // Free pieces by size: zeroed, and without memory until they are touched.
  std::multimap<uint64_t, std::pair<std::weak_ptr<SharedFile>, std::byte*>> free;
};
SharedFiles& AllFiles() {
  static SharedFiles& files = *new SharedFiles;  // buffers may outlive all other statics
  return files;
}

std::shared_ptr<SharedFile> SharedFile::Make(uint64_t bytes) {
  auto file = std::make_shared<SharedFile>();
  file->descriptor = Descriptor(memfd_create("leat", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int fd = file->descriptor.get();
  struct stat at {};
  // Sealed, so that it cannot shrink while a reader has it mapped.
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 || fstat(fd, &at) != 0) {
    return nullptr;
  }
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return nullptr;
  file->data = static_cast<std::byte*>(data);
  file->bytes = bytes;
  file->device = at.st_dev;
  file->inode = at.st_ino;
  SharedFiles& files = AllFiles();
  const std::lock_guard lock(files.mutex);
  files.by_end[file->data + bytes] = file.get();
  return file;
}

SharedFile::~SharedFile() {
  if (data == nullptr) return;
  SharedFiles& files = AllFiles();
  const std::lock_guard lock(files.mutex);
  files.by_end.erase(data + bytes);
  munmap(data, bytes);
}

struct Piece {
  std::shared_ptr<SharedFile> file;  // null: none
  std::byte* data = nullptr;
};

Piece TakePiece(uint64_t bytes) {
  SharedFiles& files = AllFiles();
  const std::lock_guard lock(files.cutting);
  for (auto at = files.free.find(bytes); at != files.free.end() && at->first == bytes;) {
    Piece piece{at->second.first.lock(), at->second.second};
    at = files.free.erase(at);
    if (piece.file != nullptr) return piece;
  }
  auto file = files.open.lock();
  if (file == nullptr || file->bytes - file->used < bytes) {
    file = SharedFile::Make(std::max(bytes, kFileBytes));
    if (file == nullptr) return {};
    files.open = file;
  }
  const uint64_t at = std::exchange(file->used, file->used + bytes);
  return {file, file->data + at};
}

void GivePiece(const Piece& piece, uint64_t bytes) {
  // Without its pages it reads as zeros again.
  const auto at = static_cast<off_t>(piece.data - piece.file->data);
  if (fallocate(piece.file->descriptor.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
                static_cast<off_t>(bytes)) != 0) {
    return;
  }
  SharedFiles& files = AllFiles();
  const std::lock_guard lock(files.cutting);
  std::erase_if(files.free, [](const auto& entry) { return entry.second.first.expired(); });
  files.free.emplace(bytes, std::pair(std::weak_ptr(piece.file), piece.data));
}

}  // namespace

Buffer MakeSharedBuffer(size_t bytes) {
  const uint64_t rounded = (bytes + kPage - 1) / kPage * kPage;
  if (bytes == 0 || rounded < bytes) return Buffer(bytes);
  Piece piece = TakePiece(rounded);
  if (piece.file == nullptr) return Buffer(bytes);
  std::byte* const data = piece.data;
  // A separate reference count for each piece of the file.
  return Buffer::Of(std::shared_ptr<std::byte>(
                        data, [piece = std::move(piece), rounded](std::byte*) { GivePiece(piece, rounded); }),
                    bytes);
}

std::optional<SharedRegion> FindSharedRegion(ByteView bytes) {
  SharedFiles& files = AllFiles();
  const std::shared_lock lock(files.mutex);
  const auto at = files.by_end.upper_bound(bytes.data());
  if (at == files.by_end.end()) return std::nullopt;
  const SharedFile& file = *at->second;
  if (bytes.data() < file.data || bytes.size() > static_cast<uint64_t>(at->first - bytes.data())) {
    return std::nullopt;
  }
  return SharedRegion{file.descriptor.get(), file.device, file.inode,
                      static_cast<uint64_t>(bytes.data() - file.data), bytes.size()};
}

PeerMemory::~PeerMemory() {
  for (const Mapped& file : mapped_) munmap(const_cast<std::byte*>(file.data), file.bytes);
}

Result<ByteView> PeerMemory::View(const SharedRegion& region) {
  auto at = std::ranges::find_if(mapped_, [&](const Mapped& file) {
    return file.inode == region.inode && file.device == region.device;
  });
  if (at == mapped_.end()) {
    LEAT_ASSIGN_OR_RETURN(const Mapped file, Map(region));
    at = mapped_.insert(mapped_.begin(), file);
  } else if (at != mapped_.begin()) {
    mapped_.splice(mapped_.begin(), mapped_, at);
  }
  if (region.offset > at->bytes || region.bytes > at->bytes - region.offset) {
    return Status(Code::kDataLoss, "shared memory of " + std::to_string(at->bytes) +
                                       " bytes has no region of " + std::to_string(region.bytes) +
                                       " bytes at " + std::to_string(region.offset));
  }
  return ByteView(at->data + region.offset, region.bytes);
}

void PeerMemory::Trim() {
  while (mapped_.size() > kMaxMapped) {
    munmap(const_cast<std::byte*>(mapped_.back().data), mapped_.back().bytes);
    mapped_.pop_back();
  }
}

Result<PeerMemory::Mapped> PeerMemory::Map(const SharedRegion& region) const {
  const Status no(Code::kDataLoss, "invalid shared memory region from the peer");
  const auto file = OpenPeerFile(pid_, region.descriptor, region.device, region.inode);
  if (!file) return no;
  const int seals = fcntl(file->descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return no;
  void* const data = mmap(nullptr, file->bytes, PROT_READ, MAP_SHARED, file->descriptor.get(), 0);
  if (data == MAP_FAILED) return no;
  return Mapped{region.device, region.inode, file->bytes, static_cast<const std::byte*>(data)};
}

}  // namespace leat::net
