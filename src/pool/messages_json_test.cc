#include "pool/messages_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace leat::pool {
namespace {

using ::testing::HasSubstr;

std::string Nested(const std::string& open, const std::string& close, int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += open;
  for (int i = 0; i < levels; ++i) text += close;
  return text;
}

// A body may have 4 MiB, and functions that follow the nesting would need a stack of gigabytes.
TEST(PoolMessagesTest, DeepNestingIsRefused) {
  for (const std::string& deep : {Nested("[", "]", 1'000'000), Nested("{\"a\":", "}", 300'000),
                                  Nested("[", "]", 100), std::string(1'000'000, '[')}) {
    for (const std::string& body :
         {deep, R"({"job":)" + deep + R"(,"discard":false})", R"({"spec":{"servers":)" + deep + "}}",
          R"({"agent":"a","instance":)" + deep + "}"}) {
      for (const std::string& why :
           {CancelFromJson(body).status().message(), SubmitFromJson(body).status().message(),
            ReportFromJson(body).status().message(), JobFromJson(body).status().message(),
            ReplyFromJson(body).status().message(), AccessFromJson(body).status().message(),
            StoredFromJson(body).status().message()})
        EXPECT_THAT(why, HasSubstr("it is nested deeper than 8 levels"));
    }
  }
}

// Not what it is: it may be long, or a secret.
TEST(PoolMessagesTest, AFieldOfAnotherTypeIsNamedWithItsType) {
  const auto refusal = [](const std::string& job) {
    return CancelFromJson(R"({"job":)" + job + R"(,"discard":false})").status().message();
  };
  EXPECT_EQ(refusal("7"), "");
  EXPECT_EQ(refusal("-7"), "request to cancel: job is -7");
  EXPECT_EQ(refusal("7.5"), "request to cancel: job is 7.5");
  EXPECT_EQ(refusal(R"("a secret")"), "request to cancel: job is a string");
  EXPECT_EQ(refusal("[[7]]"), "request to cancel: job is an array");
  EXPECT_EQ(refusal("{}"), "request to cancel: job is an object");
  EXPECT_EQ(refusal("null"), "request to cancel: job is null");
  EXPECT_EQ(refusal("true"), "request to cancel: job is true");
}

}  // namespace
}  // namespace leat::pool
