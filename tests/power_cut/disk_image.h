// The disk that a power failure leaves after any of the recorded operations (disk_recorder.h).
//
// A file or directory is durable up to its last sync. A power failure takes a part of later operations:
// writes of files in any combination, entries of directories from some moment on, because every file system
// journals them in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "disk_recorder.h"

namespace leat::power_cut {

// Which of the operations that were not synced a power failure undoes.
struct Loss {
  enum class Kind : uint8_t {
    kNothing,
    kAll,
    kAllData,     // writes to files, not entries of directories
    kAllEntries,  // the other way round
    kData,        // writes to the file `node` alone
    kZeros,       // as kData, but the file has its size, and zeros
    kEntries,     // entries of the directory `node`, from operation `from` on
  } kind = Kind::kNothing;
  uint64_t node = 0;
  size_t from = 0;
  std::string ToString() const;
};

// The losses that matter after the first `count` operations: each of the kinds, for each file with unsynced
// operations, and for each unsynced entry of a directory.
std::vector<Loss> Losses(const std::vector<Operation>& operations, size_t count);

class DiskImage {
 public:
  DiskImage(const std::vector<Operation>& operations, size_t count, const Loss& loss);
  // `seed` chooses the loss: everything, nothing, random writes, or everything from some moment on, with the
  // last write before it torn at a sector.
  DiskImage(const std::vector<Operation>& operations, size_t count, uint64_t seed);

  // Equal for equal contents.
  uint64_t Checksum() const;
  // Writes all files into the empty directory `root`.
  void Save(const std::string& root) const;

 private:
  struct Node {
    bool is_directory = false;
    Bytes data;
    std::map<std::string, uint64_t> entries;
  };
  // Which operations are on the disk, and how much of a torn one.
  struct Kept {
    std::vector<bool> whole, zeros;
    size_t torn = ~size_t{0};
    uint64_t torn_end = 0;  // offset in the file where the torn write ends
  };
  static Kept Choose(const std::vector<Operation>& operations, size_t count, const Loss& loss);
  static Kept Choose(const std::vector<Operation>& operations, size_t count, uint64_t seed);
  void Apply(const std::vector<Operation>& operations, const Kept& kept);
  void Save(uint64_t id, const std::string& path) const;
  void Describe(uint64_t id, const std::string& path, ByteWriter* out) const;

  std::map<uint64_t, Node> nodes_;
};

// DiskImage(operations, count, seed).Save(root).
void BuildDisk(const std::vector<Operation>& operations, size_t count, uint64_t seed,
               const std::string& root);

}  // namespace leat::power_cut
