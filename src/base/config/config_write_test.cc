#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/testing.h"

namespace leat {
namespace {

using ::testing::ElementsAre;

constexpr const char* kText = "# a comment\nname: x\nmodel:\n  layers: [1, 2]\n  rate: 5\nlast: 1\n";

Config ExampleJob() {
  return Config::Parse(kText, "job.yaml");
}

TEST(ConfigWith, AddsAtTheEndAndReplacesInPlace) {
  const Config job = ExampleJob();
  const Config more = job.With("added", int64_t{-7}).With("name", "y").With("other", 0.5);
  EXPECT_THAT(more.Keys(), ElementsAre("name", "model", "last", "added", "other"));
  EXPECT_EQ(more.At("name").String(), "y");
  EXPECT_EQ(more.At("added").Integer(), -7);
  EXPECT_EQ(more.At("other").Number(), 0.5);
  EXPECT_EQ(job.ToYaml(), ExampleJob().ToYaml()) << "a Config never changes";
}

TEST(ConfigWith, OtherEntriesKeepTheirPlace) {
  const Config more = ExampleJob().With("added", "z").With("name", "y").Without("last");
  EXPECT_EQ(more.At("model").where(), "job.yaml:3");
  EXPECT_EQ(more.At("model").At("rate").where(), "job.yaml:5");
  EXPECT_EQ(Mistake([&] { more.At("model").At("layers")[1].Bool(); }),
            "job.yaml:4: layers[1] is '2'; must be true or false");
  const Config model = ExampleJob().At("model");
  EXPECT_EQ(model.With("depth", int64_t{3}).At("depth").where(), "job.yaml:3") << "the place of the map";
}

TEST(ConfigWith, AConfigKeepsItsOwnPlaceUnderANewName) {
  const Config job = ExampleJob();
  const Config moved =
      job.With("rates", job.At("model").At("layers")).With("speed", job.At("model").At("rate"));
  EXPECT_EQ(Mistake([&] { moved.At("rates")[0].Bool(); }),
            "job.yaml:4: rates[0] is '1'; must be true or false");
  EXPECT_EQ(Mistake([&] { moved.Bool("speed", false); }), "job.yaml:5: speed is '5'; must be true or false");
  EXPECT_EQ(Mistake([&] { moved.At("model").Bool("rate", false); }),
            "job.yaml:5: rate is '5'; must be true or false");
}

TEST(ConfigWith, ValuesComeBackFromYamlTheSame) {
  const std::vector<std::string> words = {"3", "true", "null", "", "a \"b\" \\c: #d/日本", "-"};
  constexpr double kNumbers[] = {0, 1000, 1e5, 1234567.25, 0.1, -2.5e-300, 1e300, 9007199254740993.0};
  Config made = Config::EmptyMap("here");
  for (const auto& word : words) made = made.With("key of '" + word + "'", word);
  for (const double number : kNumbers) made = made.With("at " + std::to_string(made.Keys().size()), number);
  made = made.With("least", std::numeric_limits<int64_t>::min()).With("words", words);
  made = made.With("none", std::vector<std::string>()).With("map", Config::EmptyMap("here").With("a", "b"));
  const Config again = Config::Parse(made.ToYaml(), "again");
  EXPECT_EQ(again.ToYaml(), made.ToYaml());
  ASSERT_EQ(again.Keys(), made.Keys());
  for (const auto& word : words) EXPECT_EQ(again.At("key of '" + word + "'").String(), word);
  for (size_t i = 0; i < std::size(kNumbers); ++i)
    EXPECT_EQ(again.At("at " + std::to_string(words.size() + i)).Number(), kNumbers[i]);
  EXPECT_EQ(again.At("least").Integer(), std::numeric_limits<int64_t>::min());
  for (size_t i = 0; i < words.size(); ++i) EXPECT_EQ(again.At("words")[i].String(), words[i]);
  EXPECT_TRUE(again.At("none").IsList());
  EXPECT_EQ(again.At("map").At("a").String(), "b");
  for (const Config& map : {made, again}) EXPECT_NE(Mistake([&] { map.At("key of '3'").Integer(); }), "");
  EXPECT_NE(Mistake([&] { made.At("words")[0].Integer(); }), "") << "a string is not a number";
  EXPECT_EQ(Config::EmptyMap("here").With("rate", 100000.0).ToYaml(), "rate: 100000\n");
}

TEST(ConfigWith, WhatIsInNoFileSaysWhereItComesFrom) {
  const Config made =
      Config::EmptyMap("command line").With("rate", int64_t{-1}).With("words", std::vector<std::string>{"a"});
  EXPECT_EQ(made.At("rate").where(), "command line");
  EXPECT_EQ(Mistake([&] { made.Integer("rate", 0, 0, 5); }),
            "command line: rate is -1; must be between 0 and 5");
  EXPECT_EQ(Mistake([&] { made.At("words")[0].Number(); }),
            "command line: words[0] is the string 'a'; must be a number");
  const Config job = ExampleJob().With("resolved", made);
  EXPECT_EQ(Mistake([&] { job.At("resolved").Allow({"rate"}); }),
            "command line: unknown key 'words' in resolved; expected one of: rate");
}

TEST(ConfigWith, OnlyMapsHaveEntries) {
  EXPECT_EQ(Mistake([] { ExampleJob().At("name").With("a", "b"); }),
            "job.yaml:2: name is 'x'; must be a map");
  EXPECT_EQ(Mistake([] { ExampleJob().At("name").Without("a"); }), "job.yaml:2: name is 'x'; must be a map");
  EXPECT_EQ(Config::Parse("", "job").With("a", "b").ToYaml(), "a: b\n");
  EXPECT_EQ(Config::Parse("a: [1]", "job").Without("b").ToYaml(), Config::Parse("a: [1]", "job").ToYaml());
}

TEST(ConfigWith, WithoutAnEntryTheOthersAreStillFound) {
  const Config less = ExampleJob().Without("name");
  EXPECT_THAT(less.Keys(), ElementsAre("model", "last"));
  EXPECT_FALSE(less.Has("name"));
  EXPECT_EQ(less.Integer("last", 0), 1);
  EXPECT_EQ(less.With("name", "z").ToYaml(),
            "model: \n  layers: \n    - 1\n    - 2\n  rate: 5\nlast: 1\nname: z\n");
}

}  // namespace
}  // namespace leat
