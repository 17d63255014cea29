#include "launcher/wanted_roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat::launcher {
namespace {

using Json = nlohmann::ordered_json;
using Order = WantedRoles::Order;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Json Status(const char* phase, const char* wanted) {
  return Json{{"phase", phase}, {"wanted", Json::parse(wanted)}};
}

TEST(WantedRoles, AFixedNumberIsOrderedOnce) {
  WantedRoles roles;
  const Json two = Status("running", R"({"workers":2,"ps":1})");
  EXPECT_THAT(roles.OnStatus(two), ElementsAre(Order{"ps", 1, true}, Order{"worker", 2, true}));
  EXPECT_THAT(roles.OnStatus(two), IsEmpty()) << "one that left on a signal stays away";
  EXPECT_THAT(roles.OnStatus(Status("paused", R"({"workers":4,"ps":1})")),
              ElementsAre(Order{"worker", 4, true}));
  EXPECT_THAT(roles.OnStatus(Status("running", R"({"workers":4,"ps":0})")),
              ElementsAre(Order{"ps", 0, true}));
}

TEST(WantedRoles, NobodyIsDrainedBeforeTheJobRuns) {
  WantedRoles roles;
  const char* const wanted = R"({"workers":2,"ps":1})";
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(roles.OnStatus(Status("waiting for servers", wanted)),
                ElementsAre(Order{"ps", 1, false}, Order{"worker", 2, false}));
  }
  EXPECT_THAT(roles.OnStatus(Status("running", wanted)),
              ElementsAre(Order{"ps", 1, true}, Order{"worker", 2, true}));
}

TEST(WantedRoles, WhatTheAutoscalerChoosesIsOrderedAgain) {
  WantedRoles roles;
  const Json chosen = Status("running", R"({"workers":3,"range":"2:8","reason":"","ps":1})");
  EXPECT_THAT(roles.OnStatus(chosen), ElementsAre(Order{"ps", 1, true}, Order{"worker", 3, true}));
  EXPECT_THAT(roles.OnStatus(chosen), ElementsAre(Order{"worker", 3, true}));
  EXPECT_THAT(roles.OnStatus(Status("running", R"({"range":"2:8","reason":"","ps":1})")), IsEmpty())
      << "not known yet";
}

TEST(WantedRoles, NothingIsOrderedWhenTheJobEndsOrSaysNothing) {
  WantedRoles roles;
  for (const char* phase : {"stopping", "ended"})
    EXPECT_THAT(roles.OnStatus(Status(phase, R"({"workers":2,"ps":1})")), IsEmpty());
  for (const char* text : {"{}", "[]", "null", R"({"phase":"running"})", R"({"phase":"running","wanted":3})",
                           R"({"phase":"running","wanted":{"workers":"2","ps":-1}})"})
    EXPECT_THAT(roles.OnStatus(Json::parse(text)), IsEmpty()) << text;
}

}  // namespace
}  // namespace leat::launcher
