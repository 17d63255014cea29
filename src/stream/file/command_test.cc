#include "stream/file/file_reader.h"

#include <gtest/gtest.h>

namespace leat::stream {
namespace {

TEST(Command, NeverWritesOverItsInput) {
  EXPECT_EQ(FromLine("rows.csv", 3), "tail -n +3 rows.csv > rows.new.csv");
  EXPECT_EQ(NewFile("rows.new.csv", ".csv"), "rows.new.new.csv");
  EXPECT_EQ(NewFile("data/rows.txt", ".jsonl"), "rows.new.jsonl");
}

TEST(Command, QuotesWhatTheShellWouldTakeApart) {
  EXPECT_EQ(ShellWord("data/año-1.csv"), "data/año-1.csv");
  EXPECT_EQ(ShellWord("my rows.csv"), "'my rows.csv'");
  EXPECT_EQ(ShellWord("it's.csv"), "'it'\\''s.csv'");
  EXPECT_EQ(ShellWord("-rf"), "'-rf'");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(FromLine("my rows.csv", 2), "tail -n +2 'my rows.csv' > 'my rows.new.csv'");
}

}  // namespace
}  // namespace leat::stream
