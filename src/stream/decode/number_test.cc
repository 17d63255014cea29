#include "stream/decode/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/rng.h"
#include "stream/bots/testing.h"

namespace leat::stream {

namespace {

// Parses a text followed by other bytes; returns the number of characters parsed, or -1.
int Parse(const std::string& text, double* out, const char* behind = "}") {
  const std::string padded = text + behind + std::string(16, '\0');
  const char* end = ParseNumber(padded.c_str(), out);
  return end ? static_cast<int>(end - padded.c_str()) : -1;
}

TEST(ParseNumber, IsExactlyRoundedAsStrtodIs) {
  Rng rng(3);
  for (int i = 0; i < 200'000; ++i) {
    std::string text = rng.Chance(0.5) ? "-" : "";
    const auto digits = [&](uint64_t count) {
      for (uint64_t k = 0; k < count; ++k) text += static_cast<char>('0' + rng.Below(10));
    };
    if (rng.Chance(0.3)) {
      text += '0';
    } else {
      text += static_cast<char>('1' + rng.Below(9));
      digits(rng.Chance(0.9) ? rng.Below(6) : rng.Below(30));
    }
    if (rng.Chance(0.7)) {
      text += '.';
      digits(1 + (rng.Chance(0.9) ? rng.Below(9) : rng.Below(30)));
    }
    if (rng.Chance(0.2)) text += (rng.Chance(0.5) ? "e" : "E-") + std::to_string(rng.Below(300));
    const double expected = std::strtod(text.c_str(), nullptr);
    if (std::abs(expected) > 1e308 || (expected != 0 && std::abs(expected) < 1e-300)) continue;
    double value = -1;
    ASSERT_EQ(Parse(text, &value), static_cast<int>(text.size())) << text;
    ASSERT_EQ(std::bit_cast<uint64_t>(value), std::bit_cast<uint64_t>(expected)) << text;
  }
}

TEST(ParseNumber, TakesWhatJsonTakesAndNothingElse) {
  double value;
  for (const char* text : {"0", "-0", "10", "0.5", "1e5", "1E+5", "1e-05", "12345678", "123456789012345678",
                           "0e999999999", "1e-999", "-12e-400"}) {
    EXPECT_EQ(Parse(text, &value), static_cast<int>(std::string(text).size())) << text;
  }
  for (const char* text :
       {"", "-", "01", "-01", ".5", "5.", "5.e1", "1e", "1e+", "+1", "nan", "inf", "-inf", "1e999", "--1"}) {
    EXPECT_EQ(Parse(text, &value), -1) << text;
  }
  EXPECT_EQ(Parse("0.3333333333333333333333333", &value), 27);
  EXPECT_EQ(value, 1.0 / 3);
  EXPECT_EQ(Parse("12e-400", &value), 7);
  EXPECT_EQ(value, 0);
  const std::string zeros(400, '0');
  EXPECT_EQ(Parse("0." + zeros + "1", &value), 403) << "too close to 0";
  EXPECT_EQ(value, 0);
  EXPECT_EQ(Parse("1" + zeros + "e-800", &value), 406);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(Parse("1" + zeros + "e-400", &value), 406);
  EXPECT_EQ(value, 1);
  for (const std::string& large : {"1" + zeros, "0." + zeros + "1e800", "-1" + zeros + ".5"})
    EXPECT_EQ(Parse(large, &value), -1) << large;
  EXPECT_EQ(Parse("1.5", &value, "/2"), 3);  // '/' and ':' are next to the digits in ASCII
  EXPECT_EQ(Parse("1.5", &value, ":2"), 3);
  EXPECT_EQ(value, 1.5);
}

// All texts of up to six of these characters, and what is behind them.
TEST(ParseNumber, TakesShortNumbersAsAnyOthers) {
  constexpr std::string_view kCharacters = "09.e-/";
  for (size_t length = 1; length <= 6; ++length) {
    size_t texts = 1;
    for (size_t i = 0; i < length; ++i) texts *= kCharacters.size();
    for (size_t number = 0; number < texts; ++number) {
      std::string text;
      for (size_t i = 0, rest = number; i < length; ++i, rest /= kCharacters.size())
        text += kCharacters[rest % kCharacters.size()];
      for (const char* behind : {"", "1", "12345", ".5", "\xff"}) {
        const std::string padded = text + behind + std::string(16, '\0');
        double value = -1, expected = -1;
        const char* const end = ParseNumber(padded.c_str(), &value);
        ASSERT_EQ(end, ParseAnyNumber(padded.c_str(), &expected)) << padded.c_str();
        if (end != nullptr) {
          ASSERT_EQ(std::bit_cast<uint64_t>(value), std::bit_cast<uint64_t>(expected)) << padded.c_str();
        }
      }
    }
  }
}

TEST(AppendFixed, IsWhatPrintfWritesWithoutTrailingZeros) {
  Rng rng(5);
  for (int i = 0; i < 50'000; ++i) {
    const int digits = static_cast<int>(rng.Below(7));
    const double x = rng.Normal() * std::pow(10, static_cast<double>(rng.Below(6)));
    char expected[64];
    std::snprintf(expected, sizeof(expected), "%.*f", digits, x);
    std::string text;
    AppendFixed(x, digits, &text);
    // Near ties both roundings are allowed: at most one unit of the last digit.
    ASSERT_NEAR(std::strtod(text.c_str(), nullptr), std::strtod(expected, nullptr),
                1.01 * std::pow(10, -digits));
    ASSERT_NEAR(std::strtod(text.c_str(), nullptr), x, 0.51 * std::pow(10, -digits));
    ASSERT_TRUE(text.find('.') == std::string::npos || text.back() != '0') << text;
    double parsed;
    ASSERT_EQ(Parse(text, &parsed), static_cast<int>(text.size())) << text;
  }
}

}  // namespace

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
