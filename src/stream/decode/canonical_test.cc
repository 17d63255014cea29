#include "stream/decode/canonical.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"

namespace leat::stream {
namespace {

std::string CanonicalOf(std::string_view text, char decimal = '.') {
  CanonicalBuffer buffer;
  const auto spelling = CanonicalSpelling(text, decimal, &buffer);
  return spelling ? std::string(*spelling) : "no number";
}

TEST(CanonicalSpelling, IsTheSameForAllSpellingsOfANumber) {
  for (const char* one : {"1", "1.0", "+1", "1.", "1e0", "10e-1", "0.1E+1", "1.000000"})
    EXPECT_EQ(CanonicalOf(one), "1") << one;
  for (const char* zero : {"0", "-0", "0.0", ".0", "0e99", "+0", "-0.00"})
    EXPECT_EQ(CanonicalOf(zero), "0") << zero;
  for (const char* fraction : {"-0.05", "-.05", "-5e-2", "-0.0500", "-50E-003"})
    EXPECT_EQ(CanonicalOf(fraction), "-0.05") << fraction;
  EXPECT_EQ(CanonicalOf("12.250"), "12.25");
  EXPECT_EQ(CanonicalOf("1.5e3"), "1500");
  EXPECT_EQ(CanonicalOf("9007199254740993.0"), "9007199254740993") << "no double";
  EXPECT_EQ(CanonicalOf("10e99"), "1e100");
  EXPECT_EQ(CanonicalOf("0.1e-99"), "1e-100");
  EXPECT_EQ(CanonicalOf("1e39"), "1" + std::string(39, '0')) << "as long as a text that is a number";
  EXPECT_EQ(CanonicalOf("1" + std::string(39, '0')), CanonicalOf("10e38"));
  EXPECT_EQ(CanonicalOf("-1e39"), "-1e39");
  EXPECT_EQ(CanonicalOf("1,50", ','), "1.5");
  EXPECT_EQ(CanonicalOf("1.50", ','), "1.5");
}

TEST(CanonicalSpelling, IsTheSameForAllSpellingsOfABoolean) {
  for (const char* yes : {"true", "True", "TRUE"}) EXPECT_EQ(CanonicalOf(yes), "true") << yes;
  EXPECT_FALSE(IsAsItIs("True") || IsAsItIs("FALSE"));
  EXPECT_TRUE(IsAsItIs("") && IsAsItIs("word") && IsAsItIs("007"));
  for (const char* no : {"false", "False", "FALSE"}) EXPECT_EQ(CanonicalOf(no), "false") << no;
}

TEST(CanonicalSpelling, OtherTextsAndCodesHaveNone) {
  const std::string long_digits(kLongestCanonical + 1, '1');
  for (const std::string text :
       {"",    "-",   "+",   ".",    "-.",  "e5",   "1e",  "1e+",  "1e12345",
        "007", "-01", "00",  "01.5", "1 ",  " 1",   "1x",  "0x1f", "1.2.3",
        "--1", "+-1", "1,5", "nan",  "inf", "tRUE", "yes", "t",    long_digits.c_str()}) {
    EXPECT_EQ(CanonicalOf(text), "no number") << text;
  }
}

// Numbers with the same canonical spelling are equal, and it is its own one.
TEST(CanonicalSpelling, IsThatOfTheSameNumber) {
  Rng rng(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    const auto digits = [&](uint64_t most) {
      for (uint64_t k = rng.Below(most + 1); k > 0; --k) text += "0012345"[rng.Below(7)];
    };
    if (rng.Chance(0.3)) text += rng.Chance(0.5) ? '-' : '+';
    text += std::to_string(rng.Below(30));
    if (rng.Chance(0.2)) digits(8);
    if (rng.Chance(0.6)) text += '.', digits(8);
    if (rng.Chance(0.3)) text += "e" + std::to_string(static_cast<int64_t>(rng.Below(80)) - 40);
    const std::string canonical = CanonicalOf(text);
    const bool number = canonical != "no number";
    EXPECT_TRUE(!IsAsItIs(text) || !number || canonical == text) << text;
    if (!number) continue;
    EXPECT_EQ(CanonicalOf(canonical), canonical) << text;
    EXPECT_EQ(std::stod(text), std::stod(canonical)) << text;
    const bool fraction = canonical.find('.') != canonical.npos;
    EXPECT_FALSE(fraction && canonical.ends_with('0')) << canonical;
  }
}

}  // namespace
}  // namespace leat::stream
