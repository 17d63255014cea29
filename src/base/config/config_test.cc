#include "base/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/rng.h"

namespace leat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Config JobOf(std::string_view yaml) {
  return Config::Parse(yaml, "job.yaml");
}

// The message of the exception that `action` throws, "" if it throws none.
template <class F>
std::string Message(F action) {
  try {
    action();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}
std::string ParseMessage(std::string_view yaml) {
  return Message([&] { JobOf(yaml); });
}

TEST(Config, ReadsScalarsOfEveryType) {
  const auto c = JobOf("a: 1.5e-3\nb: -7\nc: true\nd: some words\ne: '12'\nf:\n");
  EXPECT_DOUBLE_EQ(c.At("a").Number(), 1.5e-3);
  EXPECT_EQ(c.At("b").Integer(), -7);
  EXPECT_DOUBLE_EQ(c.At("b").Number(), -7.0);
  EXPECT_TRUE(c.At("c").Bool());
  EXPECT_EQ(c.At("d").String(), "some words");
  EXPECT_EQ(c.At("e").String(), "12");
  EXPECT_TRUE(c.At("f").IsNull());
  EXPECT_THAT(c.Keys(), ElementsAre("a", "b", "c", "d", "e", "f"));
}

TEST(Config, ReadsOptionalEntries) {
  const auto c = JobOf("rate: 0.5\nworkers: 4\n");
  EXPECT_DOUBLE_EQ(c.Number("rate", 1), 0.5);
  EXPECT_DOUBLE_EQ(c.Number("other", 1), 1);
  EXPECT_EQ(c.Integer("workers", 1, 1, 8), 4);
  EXPECT_EQ(c.Integer("others", -3, 1, 8), -3) << "a fallback outside the bounds can mean: not set";
  EXPECT_EQ(c.String("name", "x"), "x");
  EXPECT_TRUE(c.Bool("on", true));
}

TEST(Config, ListsAndMapsNest) {
  const auto c = JobOf("layers:\n  - dense: {units: 512, activation: relu}\n  - dense: {units: 10}\nnone:\n");
  ASSERT_EQ(c.At("layers").size(), 2u);
  EXPECT_EQ(c.At("layers")[0].At("dense").Integer("units", 0), 512);
  EXPECT_EQ(c.At("layers")[1].where(), "job.yaml:3");
  EXPECT_EQ(c.At("none").size(), 0u);
  EXPECT_FALSE(c.At("none").Has("x"));
}

TEST(Config, WhereIsTheLineOfTheKey) {
  const auto c =
      JobOf("# a comment\nmodel:\n\n  layers:\n    - dense: {units: 1}\n\n    - bias:\n        units: 8\n");
  EXPECT_EQ(c.At("model").where(), "job.yaml:2");
  EXPECT_EQ(c.At("model").At("layers").where(), "job.yaml:4");
  EXPECT_EQ(c.At("model").At("layers")[1].At("bias").At("units").where(), "job.yaml:8");
}

TEST(Config, MessagesNamePlaceAndValues) {
  const auto c =
      JobOf("optimizer:\n  lerning_rate: 0.1\n  type: sgdd\nrate: -1\nworkers: 2.5\nlist: [1, x]\nq: '3'\n");
  const auto o = c.At("optimizer");
  EXPECT_EQ(Message([&] {
              o.Allow({"type", "learning_rate", "momentum"});
            }),
            "job.yaml:2: unknown key 'lerning_rate' in optimizer; did you mean 'learning_rate'?");
  EXPECT_EQ(Message([&] {
              c.Allow({"optimizer", "rate", "workers", "list"});
            }),
            "job.yaml:7: unknown key 'q'; expected one of: optimizer, rate, workers, list");
  EXPECT_EQ(Message([&] {
              o.At("type").OneOf("optimizer", {"sgd", "adam"});
            }),
            "job.yaml:3: unknown optimizer 'sgdd'; did you mean 'sgd'?");
  EXPECT_EQ(Message([&] { o.At("typ"); }), "job.yaml:1: optimizer has no 'typ'; did you mean 'type'?");
  EXPECT_EQ(Message([&] { c.Number("rate", 0, 0, 1); }), "job.yaml:4: rate is -1; must be between 0 and 1");
  EXPECT_EQ(Message([&] { c.Integer("rate", 0, 1, std::numeric_limits<int64_t>::max()); }),
            "job.yaml:4: rate is -1; must be at least 1");
  EXPECT_EQ(Message([&] { c.Integer("workers", 0); }),
            "job.yaml:5: workers is '2.5'; must be a 64-bit whole number");
  EXPECT_EQ(Message([&] { c.At("list")[1].Number(); }),
            "job.yaml:6: list[1] is 'x'; must be a finite number");
  EXPECT_EQ(Message([&] { c.At("list")[2]; }), "job.yaml:6: list has 2 items; index 2 is out of range");
  EXPECT_EQ(Message([&] { c.Number("q", 0); }), "job.yaml:7: q is the string '3'; must be a number");
  EXPECT_EQ(Message([&] { c.Number("list", 0); }), "job.yaml:6: list is a list; must be a number");
  EXPECT_EQ(Message([&] { c.Has("x"), c.At("rate").Has("x"); }), "job.yaml:4: rate is '-1'; must be a map");
  EXPECT_EQ(Message([&] { c.At("rate").size(); }), "job.yaml:4: rate is '-1'; must be a list");
  EXPECT_EQ(Message([&] { JobOf("a: yes").Bool("a", false); }),
            "job.yaml:1: a is 'yes'; must be true or false");
  EXPECT_EQ(Message([&] { JobOf("a:").Number("a", 0); }), "job.yaml:1: a is empty; must be a number");
}

TEST(Config, NumbersMustBeFiniteAndFit) {
  for (const char* text : {"nan", "inf", "-inf", ".nan", "1e999", "0x10", "1 2", "--1", "+-1", ""}) {
    const auto c = JobOf("a: " + std::string(text));
    EXPECT_NE(Message([&] { c.At("a").Number(); }), "") << text;
  }
  EXPECT_NE(Message([&] { JobOf("a: 9223372036854775808").At("a").Integer(); }), "");
  EXPECT_EQ(JobOf("a: 9223372036854775807").At("a").Integer(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(JobOf("a: +5").At("a").Integer(), 5);
}

TEST(Config, DuplicateKeysAreRefused) {
  EXPECT_EQ(ParseMessage("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n"),
            "job.yaml:5: duplicate key 'c'; first defined in line 3");
  EXPECT_EQ(ParseMessage("{a: 1, \"a\": 2}"), "job.yaml:1: duplicate key 'a'; first defined in line 1");
  EXPECT_EQ(ParseMessage("a: {c: 1}\nb: {c: 2}\n"), "");
}

TEST(Config, TextThatIsNotAPlainTreeIsRefused) {
  EXPECT_THAT(ParseMessage("a: 1\nb: [1, 2\n"), HasSubstr("job.yaml:"));
  EXPECT_THAT(ParseMessage("a: &x 1\nb: *x\n"), HasSubstr("job.yaml:1: anchors"));
  EXPECT_THAT(ParseMessage("a: !!python/object:os.system x\n"), HasSubstr("job.yaml:1: tags"));
  EXPECT_THAT(ParseMessage("a: 1\n---\nb: 2\n"), HasSubstr("second document"));
  EXPECT_THAT(ParseMessage("? [a, b]\n: 1\n"), HasSubstr("a key must be a scalar"));
  EXPECT_THAT(ParseMessage(": 1\n"), HasSubstr("empty key"));
  EXPECT_THAT(ParseMessage(std::string_view("a: 1\nb: \0\n", 10)),
              HasSubstr("job.yaml:2: byte 0 at offset 8"));
  EXPECT_THAT(ParseMessage("a: \x04\n"), HasSubstr("is not UTF-8 text"));
  EXPECT_THAT(ParseMessage("a: \xc3\x28\n"), HasSubstr("is not UTF-8 text"));
  EXPECT_THAT(ParseMessage("a: \xed\xa0\x80\n"), HasSubstr("is not UTF-8 text")) << "a surrogate";
  EXPECT_EQ(ParseMessage("a: \xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8a\n"), "");
}

TEST(Config, LimitsHold) {
  EXPECT_THAT(ParseMessage(std::string((1 << 20) + 1, '#')), HasSubstr("at most 1048576"));
  EXPECT_EQ(ParseMessage(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_THAT(ParseMessage(std::string(65, '[') + std::string(65, ']')), HasSubstr("deeper than 64"));
  EXPECT_THAT(ParseMessage(std::string(500000, '[')), HasSubstr("job.yaml:1"));
  EXPECT_THAT(ParseMessage(std::string(129, 'k') + ": 1"), HasSubstr("at most 128"));
}

TEST(Config, EmptyTextIsAnEmptyMap) {
  for (const char* text : {"", "\n# only a comment\n", "---\n"}) {
    const auto c = JobOf(text);
    EXPECT_TRUE(c.IsNull());
    EXPECT_TRUE(c.Keys().empty());
    EXPECT_EQ(Message([&] { c.At("model"); }), "job.yaml:1: the job has no 'model'");
  }
}

TEST(Config, YamlComesBackTheSame) {
  const char* text =
      "b: {x: [1, '1', \"true\", true, 1e-3, null, ~, 'null', [], {}], y: 'it''s: # \\ \"q\"'}\n"
      "a:\n  - - 1\n    - 2\n  - k: |\n      two\n      lines\n    \"odd: key\": '-'\n  - \"\\x01\\ttab "
      "\\u20ac\"\n";
  const auto once = JobOf(text);
  const auto again = Config::Parse(once.ToYaml(), "again");
  EXPECT_EQ(once.ToYaml(), again.ToYaml());
  EXPECT_THAT(again.Keys(), ElementsAre("b", "a"));
  const auto x = again.At("b").At("x");
  EXPECT_EQ(x[0].Integer(), 1);
  EXPECT_NE(Message([&] { x[1].Integer(); }), "") << "a quoted number stays a string";
  EXPECT_NE(Message([&] { x[2].Bool(); }), "");
  EXPECT_TRUE(x[3].Bool());
  EXPECT_TRUE(x[6].IsNull());
  EXPECT_EQ(x[7].String(), "null");
  EXPECT_TRUE(x[8].IsList());
  EXPECT_TRUE(x[9].IsMap());
  EXPECT_EQ(again.At("b").At("y").String(), "it's: # \\ \"q\"");
  EXPECT_EQ(again.At("a")[1].At("k").String(), "two\nlines\n");
  EXPECT_EQ(again.At("a")[1].At("odd: key").String(), "-");
  EXPECT_EQ(again.At("a")[2].String(), "\x01\ttab \xe2\x82\xac");
}

TEST(Config, SpellingDoesNotChangeTheYaml) {
  EXPECT_EQ(JobOf("a: {b: word, c: [1, 2]}").ToYaml(),
            JobOf("'a':\n  b: \"word\"\n  c:\n  - 1\n  - 2\n").ToYaml());
  EXPECT_NE(JobOf("a: 1\nb: 2").ToYaml(), JobOf("b: 2\na: 1").ToYaml());
}

// Any text gives a tree or a one-line message that begins with the file name.
TEST(Config, DamagedTextNeverGetsPastTheParser) {
  const std::string good =
      "model:\n  inputs: 784 # n\n  layers:\n    - dense: {units: 512, activation: \"relu\"}\n    - dense: "
      "[1, 'x']\n"
      "  text: >\n    folded\n    lines\n? k\n: |\n  v\n";
  constexpr std::string_view kBytes = "{}[]:,-?#&*!|>'\"%@` \n\t.0a~";
  Rng rng(7);
  size_t parsed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good.substr(0, rng.Below(good.size()) + 1);
    for (uint64_t i = rng.Below(6); i > 0; --i)
      text[rng.Below(text.size())] = kBytes[rng.Below(kBytes.size())];
    try {
      const auto tree = JobOf(text);
      ++parsed;
      EXPECT_EQ(Config::Parse(tree.ToYaml(), "again").ToYaml(), tree.ToYaml()) << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string_view(error.what()).substr(0, 9), "job.yaml:") << text;
    }
  }
  EXPECT_GT(parsed, 1000u);
}

class ConfigFile : public ::testing::Test {
 protected:
  ConfigFile() {
    std::string name = (std::filesystem::temp_directory_path() / "leat-config-XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~ConfigFile() override { std::filesystem::remove_all(directory_); }
  std::filesystem::path directory_;
};

TEST_F(ConfigFile, IsReadWhole) {
  const std::string path = directory_ / "job.yaml";
  std::ofstream(path) << "a: 1\nb: 2\n";
  EXPECT_EQ(Config::ParseFile(path).Integer("b", 0), 2);
  EXPECT_EQ(Config::ParseFile(path).At("b").where(), path + ":2");
}

TEST_F(ConfigFile, ThatCannotBeReadIsNamed) {
  const std::string path = directory_ / "none.yaml";
  EXPECT_EQ(Message([&] { Config::ParseFile(path); }), path + ": No such file or directory");
  EXPECT_EQ(Message([&] { Config::ParseFile(directory_); }), directory_.string() + ": Is a directory");
  std::ofstream(path) << std::string(2 << 20, '#');
  EXPECT_THAT(Message([&] { Config::ParseFile(path); }), HasSubstr("more than 1048576 bytes"));
}

TEST(Nearest, CountsInsertsDeletesReplacesAndSwaps) {
  const std::vector<std::string> known = {"dense", "bias", "softmax_cross_entropy", "relu"};
  EXPECT_EQ(Nearest("dens", known), "dense");
  EXPECT_EQ(Nearest("densee", known), "dense");
  EXPECT_EQ(Nearest("dence", known), "dense");
  EXPECT_EQ(Nearest("bais", known), "bias");
  EXPECT_EQ(Nearest("ReLU", known), "relu");
  EXPECT_EQ(Nearest("softmax_crossentropy", known), "softmax_cross_entropy");
  EXPECT_EQ(Nearest("conv2d", known), "");
  EXPECT_EQ(Nearest("x", known), "");
  EXPECT_EQ(Nearest("", known), "");
  EXPECT_EQ(Nearest("x", {}), "");
}

}  // namespace
}  // namespace leat
