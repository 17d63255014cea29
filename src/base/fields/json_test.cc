#include "base/fields/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace leat::fields_json_test {

struct Numbers {
  uint64_t large = 0;
  int32_t sign = 0;
  double real = 0;
};
LEAT_FIELDS(Numbers, (large), (sign), (real, Finite));

struct Texts {
  std::string name;
  std::map<std::string, std::string> others;
};
LEAT_FIELDS(Texts, (name, AtMost(10), Printable), (others, AtMost(2), Each(AtMost(3))));

// Which is only written.
struct Title {
  std::string_view text;
};
LEAT_FIELDS(Title, (text, Sparse));

// The text is read and written again; the result is that, or why it was not read.
template <class T>
std::string Again(const std::string& text) {
  const auto read = fields::FromJson<T>(text, "it");
  return read.ok() ? fields::ToJson(*read) : read.status().message();
}

TEST(FieldsJson, NumbersAreTakenExactly) {
  const auto again = [](const std::string& large, const std::string& sign, const std::string& real) {
    return Again<Numbers>("{\"large\":" + large + ",\"sign\":" + sign + ",\"real\":" + real + "}");
  };
  EXPECT_EQ(again("18446744073709551615", "-2147483648", "1e3"),
            R"({"large":18446744073709551615,"sign":-2147483648,"real":1000.0})");
  EXPECT_EQ(again("9223372036854775808", "2147483647", "3"),
            R"({"large":9223372036854775808,"sign":2147483647,"real":3.0})");
  EXPECT_EQ(again("-0", "-0", "-0.0"), R"({"large":0,"sign":0,"real":-0.0})");
  EXPECT_EQ(again("18446744073709551616", "0", "0"), "it: large is 1.8446744073709552e+19");
  EXPECT_EQ(again("1e3", "0", "0"), "it: large is 1000.0");
  EXPECT_EQ(again("0", "1.0", "0"), "it: sign is 1.0");
  EXPECT_EQ(again("0", "2147483648", "0"), "it: sign is 2147483648");
  EXPECT_EQ(again("0", "-2147483649", "0"), "it: sign is -2147483649");
  EXPECT_EQ(again("0", "0", "null"), "it: real is nan");
  EXPECT_EQ(again("0", "0", "1e999"), "it: it is no JSON");
}

TEST(FieldsJson, TheLastOfTwoMembersWithOneNameCounts) {
  EXPECT_EQ(Again<Numbers>(R"({"large":1,"sign":2,"large":4,"real":3})"),
            R"({"large":4,"sign":2,"real":3.0})");
  EXPECT_EQ(Again<Texts>(R"({"name":"","others":{"a":"1","a":"22","b":"3"}})"),
            R"({"name":"","others":{"a":"22","b":"3"}})");
}

TEST(FieldsJson, TextsOfAnyBytesAreWritten) {
  const std::string text = fields::ToJson(Texts{std::string("a\0\xff", 3), {}});
  EXPECT_EQ(text, "{\"name\":\"a\\u0000\xef\xbf\xbd\",\"others\":{}}");
  EXPECT_EQ(Again<Texts>(text), "it: name has control characters");
  EXPECT_EQ(Again<Texts>("{\"name\":\"\xff\",\"others\":{}}"), "it: it is no JSON");
}

TEST(FieldsJson, TextsOfOthersAreWritten) {
  EXPECT_EQ(fields::ToJson(Title{"a\"b"}), R"({"text":"a\"b"})");
  EXPECT_EQ(fields::ToJson(Title{}), "{}");
}

// With a search among its members for each new one, an object of others would take minutes.
TEST(FieldsJson, AnObjectMayHaveManyMembers) {
  std::string members;
  for (int i = 0; i < 300'000; ++i) members += "\"" + std::to_string(i) + "\":0,";
  EXPECT_EQ(Again<Numbers>("{" + members + R"("large":1,"sign":2,"real":3})"),
            R"({"large":1,"sign":2,"real":3.0})");
  EXPECT_EQ(Again<Texts>(R"({"name":"","others":{)" + members + R"("a":""}})"),
            "it: others is no object, or too large");
}

}  // namespace leat::fields_json_test
