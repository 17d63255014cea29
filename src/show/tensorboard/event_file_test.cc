#include <gtest/gtest.h>

#include "show/tensorboard/testing.h"

namespace leat::tensorboard {
namespace {

std::vector<std::string> Texts(const std::vector<ByteView>& records) {
  std::vector<std::string> texts;
  for (const ByteView record : records) texts.emplace_back(AsText(record));
  return texts;
}

// The first record of a file that TensorBoard's own writer has written.
TEST(Records, BytesOfTensorBoard) {
  std::string file;
  AppendRecord(AsBytes(std::string("\x09\0\0\0\x60\xb8\x13\xda\x41\x1a\x0d"
                                   "brain.Event:2",
                                   24)),
               &file);
  EXPECT_EQ(file.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  EXPECT_EQ(file.substr(36), "\x4a\x70\x29\xa2");
}

TEST(Records, AreReadBack) {
  const std::vector<std::string> texts = {"one", "", std::string(100'000, 'x'), std::string("\0\n", 2)};
  std::string file;
  for (const auto& text : texts) AppendRecord(AsBytes(text), &file);
  const auto records = ReadRecords(AsBytes(file), "file");
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(Texts(*records), texts);
  EXPECT_TRUE(ReadRecords({}, "file")->empty());
}

TEST(Records, DamageIsFound) {
  std::string file;
  AppendRecord(AsBytes("one"), &file);
  const size_t first = file.size();
  AppendRecord(AsBytes("another"), &file);
  for (size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    const auto records = ReadRecords(AsBytes(damaged), "file");
    ASSERT_FALSE(records.ok()) << "byte " << i;
    EXPECT_EQ(records.status().code(), Code::kDataLoss);
    EXPECT_TRUE(records.status().message().starts_with(i < first ? "file: record 0" : "file: record 1"));
  }
  for (size_t size = 1; size < file.size(); ++size) {
    EXPECT_EQ(ReadRecords(AsBytes(file).first(size), "file").ok(), size == first) << size;
  }
}

// A length whose checksum is right, and that no file can have.
TEST(Records, LengthBeyondTheFile) {
  ByteWriter length;
  length.Put(~uint64_t{0} - 2);
  ByteWriter file;
  file.PutRaw(length.view());
  file.Put(MaskedCrc32c(length.view()));
  file.Put(uint64_t{0});
  EXPECT_EQ(ReadRecords(file.view(), "file").status().message(), "file: record 0 is cut off");
}

}  // namespace
}  // namespace leat::tensorboard
