#include "stream/files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/rng.h"
#include "base/testing.h"

namespace leat::stream {
namespace {

constexpr size_t kMiB = 1 << 20;

class IdentityTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = directory_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  static FileIdentity Of(const std::string& path, uint64_t max_hashed_whole = kMaxHashedWhole) {
    auto identity = IdentifyFile(path, max_hashed_whole);
    EXPECT_TRUE(identity.ok()) << identity.status().ToString();
    return identity.ok() ? *identity : FileIdentity();
  }
  TempDir directory_;
};

TEST_F(IdentityTest, CopiesHaveTheSameAndOthersDoNot) {
  const std::string text(3 * kMiB + 5, 'a');
  std::string other = text;
  other[2 * kMiB + 1] = 'b';
  const FileIdentity first = Of(Write("first", text));
  EXPECT_EQ(first.bytes, text.size());
  EXPECT_EQ(Of(Write("copy", text)), first);
  EXPECT_NE(Of(Write("other", other)).hash, first.hash);
  EXPECT_NE(Of(Write("shorter", text.substr(1))), first);
  EXPECT_EQ(Of(Write("empty", "")).bytes, 0u);
}

TEST_F(IdentityTest, LargeFilesAreHashedInPart) {
  const std::string text(40 * kMiB, 'a');
  const std::string path = Write("large", text);
  const FileIdentity whole = Of(path), part = Of(path, kMiB);
  EXPECT_NE(whole.hash, part.hash);
  EXPECT_EQ(Of(Write("copy", text), kMiB), part);
  const auto sample = [&](uint64_t i) { return Mix(text.size(), i) % (text.size() - kMiB + 1); };
  for (const size_t at : {uint64_t{0}, sample(0) + 5, sample(7), sample(15) + kMiB - 1, text.size() - 1}) {
    std::string other = text;
    other[at] = 'b';
    EXPECT_NE(Of(Write("other", other), kMiB).hash, part.hash) << at;
  }
}

TEST_F(IdentityTest, TheStartOfAFileIsThatOfTheFileBeforeItGrew) {
  const std::string text(3 * kMiB + 7, 'a');
  const std::string before = Write("before", text), after = Write("after", text + "more");
  for (const uint64_t most : {kMiB, 8 * kMiB}) {
    EXPECT_EQ(*IdentifyStart(after, text.size(), most), Of(before, most));
    EXPECT_NE(*IdentifyStart(after, text.size() - 1, most), Of(before, most));
  }
  EXPECT_EQ(IdentifyStart(before, text.size() + 1).status().code(), Code::kDataLoss);
}

TEST_F(IdentityTest, IsWrittenAsText) {
  const FileIdentity identity{.bytes = 47, .hash = 0xab};
  EXPECT_EQ(ToString(identity), "47:00000000000000ab");
  EXPECT_EQ(*ParseIdentity("47:00000000000000ab"), identity);
  for (const char* bad :
       {"", ":", "47", "47:ab", "-1:00000000000000ab", "47:00000000000000AB", "47:00000000000000ab "})
    EXPECT_FALSE(ParseIdentity(bad).ok()) << bad;
}

TEST_F(IdentityTest, MissingFilesHaveNone) {
  EXPECT_EQ(IdentifyFile(directory_.path() + "/none").status().code(), Code::kNotFound);
  EXPECT_EQ(IdentifyFile(directory_.path()).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace leat::stream
