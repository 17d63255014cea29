#include "storage/transfer/service.h"

#include <gtest/gtest.h>

#include "base/testing.h"
#include "net/testing.h"

namespace leat::transfer {
namespace {

constexpr uint64_t kFolder = 7;

class UploadFilesTest : public ::testing::Test {
 protected:
  UploadFilesTest() { files.Accept(kFolder, dir.path(), 1000); }
  Result<uint64_t> Open(const std::string& name = "shard") {
    return files.Open(kFolder, name, content.size(), Checksum(content));
  }
  Result<uint64_t> Write(uint64_t begin, uint64_t end) {
    return files.Write(kFolder, "shard", begin, ByteView(content).subspan(begin, end - begin));
  }
  Bytes OnDisk(const std::string& name) {
    const auto bytes = checkpoint::ReadFile(dir.path() + "/" + name, 1 << 20);
    return bytes.ok() ? *bytes : Bytes();
  }
  TempDir dir;
  UploadFiles files;
  const Bytes content = net::testing::RandomBytes(100, 1);
};

TEST_F(UploadFilesTest, AFileArrivesInChunks) {
  EXPECT_EQ(*Open(), 0u);
  EXPECT_EQ(*Write(0, 60), 60u);
  EXPECT_FALSE(checkpoint::Exists(dir.path() + "/shard"));
  EXPECT_EQ(*Write(60, 100), 100u);
  EXPECT_EQ(*files.Commit(kFolder, "shard"), 100u);
  EXPECT_EQ(OnDisk("shard"), content);
  EXPECT_FALSE(checkpoint::Exists(dir.path() + "/shard.tmp"));
  // The replies may be lost.
  EXPECT_EQ(*files.Commit(kFolder, "shard"), 100u);
  EXPECT_EQ(*Open(), 100u);
}

TEST_F(UploadFilesTest, AnUploadContinuesWhereItEnded) {
  EXPECT_EQ(*Open(), 0u);
  EXPECT_EQ(*Write(0, 60), 60u);
  EXPECT_EQ(*Open(), 60u);
  EXPECT_EQ(*Write(40, 80), 80u) << "bytes that are there are not written again";
  EXPECT_EQ(*Write(0, 60), 80u);
  EXPECT_EQ(Write(90, 100).status().code(), Code::kFailedPrecondition) << "a gap";
  EXPECT_EQ(files.Commit(kFolder, "shard").status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(*Write(80, 100), 100u);
  EXPECT_TRUE(files.Commit(kFolder, "shard").ok());
  EXPECT_EQ(OnDisk("shard"), content);
}

TEST_F(UploadFilesTest, AnotherFileOfTheSameNameBeginsAgain) {
  EXPECT_EQ(*Open(), 0u);
  EXPECT_EQ(*Write(0, 60), 60u);
  const Bytes other = net::testing::RandomBytes(30, 2);
  EXPECT_EQ(*files.Open(kFolder, "shard", 30, Checksum(other)), 0u);
  EXPECT_EQ(*files.Write(kFolder, "shard", 0, other), 30u);
  EXPECT_TRUE(files.Commit(kFolder, "shard").ok());
  EXPECT_EQ(OnDisk("shard"), other);
  EXPECT_EQ(Open().status().code(), Code::kInvalidArgument) << "a complete file stays as it is";
}

TEST_F(UploadFilesTest, AFileThatDoesNotMatchItsChecksumIsRemoved) {
  EXPECT_EQ(*files.Open(kFolder, "shard", 100, Checksum(content) + 1), 0u);
  EXPECT_EQ(*Write(0, 100), 100u);
  EXPECT_EQ(files.Commit(kFolder, "shard").status().code(), Code::kDataLoss);
  EXPECT_FALSE(checkpoint::Exists(dir.path() + "/shard"));
  EXPECT_FALSE(checkpoint::Exists(dir.path() + "/shard.tmp"));
  EXPECT_EQ(*Open(), 0u);
}

TEST_F(UploadFilesTest, NamesAndSizesAreChecked) {
  for (const std::string name : {"../shard", "a/b", "..", ".", ".hidden", "", "a b"})
    EXPECT_EQ(Open(name).status().code(), Code::kInvalidArgument) << name;
  EXPECT_EQ(Open(std::string(252, 'x')).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(files.Open(kFolder, "x", 1001, 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(files.Open(kFolder, "x", ~uint64_t{0}, 0).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(files.Open(kFolder, "x", 950, 0).ok());
  EXPECT_EQ(Open().status().code(), Code::kInvalidArgument) << "more than the folder takes";
  EXPECT_EQ(files.Write(kFolder, "x", 900, content).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(files.Write(kFolder, "x", ~uint64_t{0}, content).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(files.Write(kFolder, "y", 0, content).status().code(), Code::kFailedPrecondition);
}

TEST_F(UploadFilesTest, AFolderThatIsStoppedTakesNothing) {
  EXPECT_EQ(*Open(), 0u);
  files.Stop(kFolder);
  EXPECT_EQ(Open().status().code(), Code::kNotFound);
  EXPECT_EQ(Write(0, 60).status().code(), Code::kNotFound);
  EXPECT_EQ(files.Commit(kFolder, "shard").status().code(), Code::kNotFound);
}

TEST_F(UploadFilesTest, ADiskErrorEndsTheUpload) {
  files.Accept(8, dir.path() + "/missing", 1000);
  EXPECT_EQ(files.Open(8, "shard", 1, 0).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace leat::transfer
