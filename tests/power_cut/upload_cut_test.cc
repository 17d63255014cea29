// A power failure while a shard is uploaded: under its own name it is complete or absent, and committed
// data is there.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/testing.h"
#include "disk_image.h"
#include "disk_recorder.h"
#include "storage/checkpoint/file.h"
#include "storage/transfer/service.h"

namespace leat::power_cut {
namespace {

TEST(UploadPowerCut, AFileUnderItsNameIsComplete) {
  constexpr uint64_t kFolder = 7;
  constexpr size_t kChunk = 3000;
  Bytes content(10'000);
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i * 7 % 251);
  const TempDir directory;
  std::vector<Operation> operations;
  {
    const Recorder recorder(std::filesystem::canonical(directory.path()));
    transfer::UploadFiles files;
    files.Accept(kFolder, std::filesystem::canonical(directory.path()), content.size());
    ASSERT_TRUE(files.Open(kFolder, "shard", content.size(), Checksum(content)).ok());
    for (size_t at = 0; at < content.size(); at += kChunk) {
      const size_t size = std::min(kChunk, content.size() - at);
      ASSERT_TRUE(files.Write(kFolder, "shard", at, ByteView(content).subspan(at, size)).ok());
    }
    ASSERT_TRUE(files.Commit(kFolder, "shard").ok());
    operations = recorder.operations();
  }
  ASSERT_GT(operations.size(), content.size() / kChunk);
  const auto check = [&](const TempDir& disk, size_t count, const std::string& loss) {
    if (!checkpoint::Exists(disk / "shard")) {
      ASSERT_LT(count, operations.size()) << "it was committed; " << loss;
      return;
    }
    const auto found = checkpoint::ReadFile(disk / "shard", 1 << 20);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    ASSERT_TRUE(*found == content) << "after operation " << count << ", " << loss;
  };
  for (size_t count = 1; count <= operations.size(); ++count) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const TempDir disk;
      BuildDisk(operations, count, seed, disk.path());
      check(disk, count, "seed " + std::to_string(seed));
    }
    for (const Loss& loss : Losses(operations, count)) {
      const TempDir disk;
      DiskImage(operations, count, loss).Save(disk.path());
      check(disk, count, loss.ToString());
    }
  }
}

}  // namespace
}  // namespace leat::power_cut
