#include "base/json/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace leat {

namespace {

TEST(JsonTextTest, ComesBack) {
  const std::string text = R"({"b":[1,2.5,null],"a":"é"})";
  EXPECT_EQ(JsonText(ParsedOrderedJson(text)), text);
  EXPECT_EQ(JsonText(ParsedJson(text)), R"({"a":"é","b":[1,2.5,null]})");
  EXPECT_EQ(JsonText(ParsedJson("[1]"), 2), "[\n  1\n]");
}

TEST(JsonTextTest, OtherBytesAreDiscardedOrReplaced) {
  for (const char* text : {"", "{", "{\"a\": 1} x", "nan", "\"\xff\""}) {
    EXPECT_TRUE(ParsedJson(text).is_discarded()) << text;
    EXPECT_TRUE(ParsedOrderedJson(text).is_discarded()) << text;
    EXPECT_FALSE(IsJson(text)) << text;
  }
  for (const char* text : {"5", "null", "\"x\"", "[1, {}]", " {\"a\": 99999999999999999999} "})
    EXPECT_TRUE(IsJson(text)) << text;
  EXPECT_EQ(JsonText(nlohmann::json("a\xff")), "\"a\xef\xbf\xbd\"");
  EXPECT_EQ(JsonString("a\xff\n"), "\"a\xef\xbf\xbd\\n\"");
}

TEST(JsonTextTest, PiecesAreAppended) {
  std::string out = "[";
  AppendJson(&out, 7, ",", 0.1f, ",", uint64_t{1} << 63, ",", NAN, std::string(",["),
             std::vector<float>{1, INFINITY, -0.5f}, "],[", std::vector<float>(), "]]");
  EXPECT_EQ(out, "[7,0.1,9223372036854775808,null,[1,null,-0.5],[]]");
}

}  // namespace

namespace {

TEST(JsonDepthTest, CountsLevels) {
  EXPECT_TRUE(IsShallowJson("", 0));
  EXPECT_TRUE(IsShallowJson("7", 0));
  EXPECT_FALSE(IsShallowJson("[]", 0));
  EXPECT_TRUE(IsShallowJson("[{}, {}, [], []]", 2));
  EXPECT_FALSE(IsShallowJson(R"([{}, {"a": [1]}])", 2));
  EXPECT_FALSE(IsShallowJson(std::string(1'000'000, '['), 32));
}

TEST(JsonDepthTest, TextsAreNoLevels) {
  EXPECT_TRUE(IsShallowJson(R"(["[[[", "{\"{{", "\\"])", 1));
  EXPECT_FALSE(IsShallowJson(R"(["\\", ["\""]])", 1));
}

}  // namespace

}  // namespace leat
