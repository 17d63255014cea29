#include "stream/dead_letters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/encoding/printable.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;

struct DeadLetter {
  uint32_t partition = 0;
  uint64_t offset = 0;
  std::string reason, record;
  friend bool operator==(const DeadLetter&, const DeadLetter&) = default;
};

// The contents of all files in a directory: each (partition, offset) once, in that order, without torn lines.
std::vector<DeadLetter> ReadDeadLetters(const std::string& directory) {
  std::map<std::pair<uint32_t, uint64_t>, DeadLetter> letters;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream file(entry.path());
    for (std::string text; std::getline(file, text);) {
      const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
      if (!line.is_object()) continue;
      DeadLetter letter{line.at("partition"), line.at("offset"), line.at("reason"), line.value("record", "")};
      if (line.contains("record_base64"))
        letter.record = FromBase64(line.at("record_base64").get<std::string>());
      letters.emplace(std::pair(letter.partition, letter.offset), letter);
    }
  }
  std::vector<DeadLetter> all;
  for (const auto& [place, letter] : letters) all.push_back(letter);
  return all;
}

TEST(DeadLetterFile, KeepsWhatCameOnceForEachPlace) {
  const TempDir dir;
  const std::string letters = dir / "job/dead";
  const std::string binary("\xff\x00\x01\x80 x", 6);
  {
    DeadLetterFile one(letters, "worker-1");
    EXPECT_TRUE(
        one.Append(1, 7, "amount: 'a\"b' is not a number", "{\"amount\": \"a\\\"b\",\n\"é\":\x01}").ok());
    EXPECT_TRUE(one.Append(0, 9, "is empty").ok());
  }
  std::ofstream(letters + "/worker-1.jsonl", std::ios::app) << "{\"partition\":3,\"off";  // torn by a kill
  DeadLetterFile again(letters, "worker-1");
  EXPECT_TRUE(again.Append(2, 1ull << 40, "is too long", binary).ok());
  DeadLetterFile other(letters, "worker-2");
  EXPECT_TRUE(other.Append(0, 9, "is empty").ok());

  EXPECT_THAT(ReadDeadLetters(letters), ElementsAre(DeadLetter{0, 9, "is empty", ""},
                                                    DeadLetter{1, 7, "amount: 'a\"b' is not a number",
                                                               "{\"amount\": \"a\\\"b\",\n\"é\":\x01}"},
                                                    DeadLetter{2, 1ull << 40, "is too long", binary}));
}

TEST(DeadLetterFile, CutsLongRecordsBetweenCharacters) {
  const TempDir dir;
  std::string text(DeadLetterFile::kMaxRecordBytes - 1, 'x');
  DeadLetterFile file(dir.path(), "w");
  for (int length = 0; length < 3; ++length) {
    const std::string record = text + (length == 0 ? "" : "é") + (length == 2 ? "tail" : "");
    ASSERT_TRUE(file.Append(0, length, "r", record).ok());
  }
  ASSERT_TRUE(file.Append(1, 0, "r", std::string(5000, '\xff')).ok());
  const auto read = ReadDeadLetters(dir.path());
  ASSERT_EQ(read.size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read[i].record, text);
  EXPECT_EQ(read[3].record, std::string(DeadLetterFile::kMaxRecordBytes, '\xff'));
}

TEST(DeadLetterFile, AllFilesOfADirectoryAreLimited) {
  constexpr uint64_t kLimit = 10'000;
  const TempDir dir;
  const std::string letters = dir / "dead";
  const std::string record(500, 'x');
  for (int worker = 0; worker < 50; ++worker) {
    DeadLetterFile file(letters, "worker-" + std::to_string(worker), kLimit);
    for (uint64_t offset = 0; offset < 8; ++offset)
      ASSERT_TRUE(file.Append(static_cast<uint32_t>(worker), offset, "is bad", record).ok());
  }
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(letters)) {
    EXPECT_GT(entry.file_size(), 0u) << entry.path();
    bytes += entry.file_size();
  }
  EXPECT_LE(bytes, kLimit);
  EXPECT_GT(bytes, kLimit - 600);
}

TEST(DeadLetterFile, WithoutALineThereIsNone) {
  const TempDir dir;
  { DeadLetterFile file(dir / "dead", "worker-1"); }
  EXPECT_FALSE(std::filesystem::exists(dir / "dead"));
}

TEST(DeadLetterFile, SaysWhereItCannotWrite) {
  EXPECT_EQ(DeadLetterFile("/proc/nowhere", "w").Append(0, 0, "r").code(), Code::kPermissionDenied);
}

TEST(DeadLetterRate, StopsAboveTheLimitOfTheLastEventsOnly) {
  DeadLetterRate rate(0.1);
  rate.Count(10, 9);
  EXPECT_FALSE(rate.exceeded());  // too few to judge
  for (int i = 0; i < 200; ++i) rate.Count(1000, 99);
  EXPECT_FALSE(rate.exceeded());
  for (int i = 0; i < 30 && !rate.exceeded(); ++i) rate.Count(1000, 150);  // a burst after a long good period
  EXPECT_TRUE(rate.exceeded());
  EXPECT_THAT(rate.Describe(), ::testing::HasSubstr("at most 10 % are allowed"));
  DeadLetterRate small(0.1);  // a short file without any good record
  small.Count(1001, 1001);
  EXPECT_TRUE(small.exceeded());
  small = DeadLetterRate(0.1);
  small.Count(10, 10);
  EXPECT_FALSE(small.exceeded()) << "too few to judge";
  small.Count(90, 9);
  EXPECT_FALSE(small.exceeded()) << "may be chance";
  small.Count(1, 1);
  EXPECT_TRUE(small.exceeded());
  DeadLetterRate none(0);
  none.Count(1, 0);
  EXPECT_FALSE(none.exceeded());
  none.Count(1, 1);
  EXPECT_TRUE(none.exceeded());
  EXPECT_TRUE(DeadLetterRate::Above(0.1, 9, 1)) << "at the end of a stream, however short";
  EXPECT_FALSE(DeadLetterRate::Above(0.1, 10, 1));
  EXPECT_EQ(DeadLetterRate::Share(0.1, 1100, 990),
            "990 of 1100 events (90 %); at most 10 % are allowed (train: max_dead_letter_rate)");
  DeadLetterRate never(1);
  never.Count(1'000'000, 1'000'000);
  EXPECT_FALSE(never.exceeded());
}

}  // namespace
}  // namespace leat::stream
