#include "base/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace leat {
namespace {

TEST(Text, Trimmed) {
  EXPECT_EQ(Trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(Trimmed(" \t"), "");
  EXPECT_EQ(Trimmed(""), "");
  EXPECT_EQ(Trimmed("\na ", " "), "\na");
}

TEST(Text, TakenApart) {
  std::string_view text = "a, b,c";
  EXPECT_EQ(TakeUntil(", ", &text), "a");
  EXPECT_EQ(TakeUntil(",", &text), "b");
  EXPECT_EQ(text, "c");
  EXPECT_EQ(TakeUntil(",", &text), "c");
  EXPECT_EQ(text, "");
  EXPECT_EQ(TakeUntil(",", &text), "");
}

TEST(Text, WordsAndCase) {
  EXPECT_EQ(Lower("Ab-Z\xc3\x84"), "ab-z\xc3\x84");
  EXPECT_TRUE(IsWord("a-Z9", 4, "-"));
  EXPECT_FALSE(IsWord("a-Z9", 3, "-"));
  EXPECT_FALSE(IsWord("a.b", 4, "-"));
  EXPECT_FALSE(IsWord("", 4, "-"));
}

TEST(Text, NumbersAreTheWholeText) {
  EXPECT_EQ(ToNumber<uint32_t>("12"), 12u);
  EXPECT_EQ(ToNumber<uint32_t>("ff", 16), 255u);
  EXPECT_EQ(ToNumber<double>("-1.5"), -1.5);
  for (const char* bad : {"", "12 ", " 12", "+12", "-1", "4294967296"})
    EXPECT_FALSE(ToNumber<uint32_t>(bad)) << bad;
}

TEST(Text, ForPeople) {
  EXPECT_EQ(Formatted("%s: %.1f %%", "a", 2.25), "a: 2.2 %");
  EXPECT_EQ(Formatted("%s", std::string(1000, 'x').c_str()), std::string(1000, 'x'));
  EXPECT_EQ(TimeText(119.9) + ", " + TimeText(120) + ", " + TimeText(7200), "119.9 s, 2.0 min, 2.0 h");
  EXPECT_EQ(Plural(1, "worker") + ", " + Plural(0, "server"), "1 worker, 0 servers");
}

TEST(Text, QuotedIsShortAndReadable) {
  EXPECT_EQ(Quoted(""), "''");
  EXPECT_EQ(Quoted("año\n\xc2\x9b\xff z"), "'año??? z'");
  EXPECT_EQ(Quoted("añ", 3), "'añ'");
  EXPECT_EQ(Quoted("añ", 2), "'a...'") << "before a character";
  EXPECT_EQ(Quoted(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
  EXPECT_EQ(Utf8Length("ñ"), 2u);
  EXPECT_EQ(Utf8Length("\xc3"), 0u);
}

TEST(Text, Joined) {
  EXPECT_EQ(Joined(std::vector<std::string>{"a", "b"}), "a, b");
  EXPECT_EQ(Joined(std::vector<int>{1, 2, 3}, "x", [](int n) { return std::to_string(n); }), "1x2x3");
  EXPECT_EQ(Joined(std::vector<std::string>{}), "");
}

}  // namespace
}  // namespace leat
