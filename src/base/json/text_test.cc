#include "base/json/text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
}

}  // namespace
}  // namespace leat
