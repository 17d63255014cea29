#include "stream/decode/row_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "stream/decode/decoder.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Schema MakeField(const std::string& field, const std::string& format = "json") {
  return Schema::FromConfig(Config::Parse("format: " + format + "\nfields:\n  t: " + field, "job.yaml"));
}

std::string FieldErrorOf(const std::string& field, const std::string& format = "json") {
  try {
    MakeField(field, format);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// The features of one record with this text, or why it is a dead letter.
std::vector<float> FeaturesOf(const Schema& schema, const std::string& record,
                              std::string* reason = nullptr) {
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf({record}), &rows);
  if (reason != nullptr) *reason = rows.dead.empty() ? "" : rows.dead[0].reason;
  return rows.features;
}

TEST(Tokenizer, WordsOfAListAreNumberedFromTwo) {
  const Schema schema = MakeField("{type: text, values: [coffee, to, go, \"d'é\", é], length: 4}");
  EXPECT_EQ(schema.fields[0].ids(), 7u);
  EXPECT_THAT(FeaturesOf(schema, R"({"t":"Coffee -- TO,go!"})"), ElementsAre(2, 3, 4, 0));
  EXPECT_THAT(FeaturesOf(schema, R"({"t":"go2 go_ é\n"})"), ElementsAre(1, 1, 6, 0));
  EXPECT_THAT(FeaturesOf(schema, R"({"t":""})"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(FeaturesOf(schema, R"({"t":"a b go to coffee"})"), ElementsAre(1, 1, 4, 3)) << "cut";
  EXPECT_THAT(FeaturesOf(schema, R"({"t":12})"), ElementsAre(1, 0, 0, 0)) << "its spelling";
}

TEST(Tokenizer, WordsAreHashedBesidePadding) {
  const Schema schema = MakeField("{type: text, buckets: 50, length: 3}");
  EXPECT_EQ(schema.fields[0].ids(), 50u);
  const auto id = [](std::string_view word) { return static_cast<float>(1 + Mix(HashName(word)) % 49); };
  EXPECT_THAT(FeaturesOf(schema, R"({"t":"One two"})"), ElementsAre(id("one"), id("two"), 0));
  // All ids but padding occur, and no other.
  const Schema small = MakeField("{type: text, buckets: 3, length: 200}");
  std::string text;
  for (int i = 0; i < 200; ++i) text += "w" + std::to_string(i) + " ";
  const auto ids = FeaturesOf(small, "{\"t\":\"" + text + "\"}");
  EXPECT_THAT(ids, ::testing::Each(::testing::AnyOf(1, 2)));
  EXPECT_THAT(ids, ::testing::Contains(1));
  EXPECT_THAT(ids, ::testing::Contains(2));
}

TEST(Tokenizer, CharactersAndBytes) {
  const Schema characters = MakeField("{type: text, tokens: characters, alphabet: \"abé \", length: 6}");
  EXPECT_EQ(characters.fields[0].ids(), 6u);
  EXPECT_THAT(FeaturesOf(characters, R"({"t":"a éxñ"})"), ElementsAre(2, 5, 4, 1, 1, 0));
  const Schema bytes = MakeField("{type: text, tokens: bytes, length: 4}");
  EXPECT_EQ(bytes.fields[0].ids(), 257u);
  EXPECT_THAT(FeaturesOf(bytes, R"({"t":"aé"})"), ElementsAre('a' + 1, 0xc3 + 1, 0xa9 + 1, 0));
}

TEST(Tokenizer, WithoutALengthTokensAreCounted) {
  const Schema schema = MakeField("{type: text, values: [a, b]}");
  ASSERT_EQ(schema.features(), 3u);
  EXPECT_EQ(schema.fields[0].ids(), 0u) << "counts, not ids";
  EXPECT_THAT(FeaturesOf(schema, R"({"t":"a c b a d a"})"), ElementsAre(2, 3, 1));
}

TEST(Tokenizer, ATextThatIsTooLongIsCutOrADeadLetter) {
  std::string reason;
  const Schema words = MakeField("{type: text, buckets: 9, length: 2, truncate: false}");
  EXPECT_EQ(FeaturesOf(words, R"({"t":"a b"})", &reason).size(), 2u);
  EXPECT_TRUE(FeaturesOf(words, R"({"t":"a b c"})", &reason).empty());
  EXPECT_EQ(reason, "t: has 3 words, more than 2");
  FeaturesOf(words, R"({"t":["a"]})", &reason);
  EXPECT_EQ(reason, "t: is an array");
  FeaturesOf(MakeField("{type: text, tokens: bytes, length: 2, truncate: false}"), R"({"t":"abc"})", &reason);
  EXPECT_EQ(reason, "t: has 3 bytes, more than 2");
  EXPECT_THAT(FeaturesOf(MakeField("{type: id, below: 9, length: 2, truncate: true}"), R"({"t":[1,2,3]})"),
              ElementsAre(1, 2));
}

TEST(Tokenizer, IsInCsvTooAndTakesADefault) {
  const Schema csv = MakeField("{type: text, values: [a, b], length: 2, default: b}", "csv");
  EXPECT_THAT(FeaturesOf(csv, "\"b, a\""), ElementsAre(3, 2));
  EXPECT_THAT(FeaturesOf(csv, ""), ElementsAre(3, 0));
  EXPECT_THAT(FeaturesOf(MakeField("{type: text, values: [a, b], default: b}"), "{}"), ElementsAre(0, 0, 1));
}

TEST(ListsOfNumbers, AreScaledAndPaddedWithZero) {
  const Schema schema = MakeField("{type: number, length: 3, mean: 1, std: 2}");
  ASSERT_EQ(schema.features(), 3u);
  std::string reason;
  EXPECT_THAT(FeaturesOf(schema, R"({"t":[5, 1.5]})"), ElementsAre(2, 0.25, 0));
  FeaturesOf(schema, R"({"t":[1,2,3,4]})", &reason);
  EXPECT_EQ(reason, "t: has 4 items, more than 3");
  FeaturesOf(schema, R"({"t":5})", &reason);
  EXPECT_EQ(reason, "t: '5' is not a list");
  FeaturesOf(schema, R"({"t":[1e300]})", &reason);
  EXPECT_EQ(reason, "t: 1e+300 is too large");
  FeaturesOf(MakeField("{type: number, length: 3, log: true}"), R"({"t":[0,-2]})", &reason);
  EXPECT_EQ(reason, "t: -2 is below 0, which log does not take");
  EXPECT_THAT(FeaturesOf(MakeField("{type: number, length: 2, truncate: true, default: [1]}"), "{}"),
              ElementsAre(1, 0));
  EXPECT_THAT(FeaturesOf(MakeField("{type: number, length: 2, truncate: true}"), R"({"t":[1,2,3]})"),
              ElementsAre(1, 2));
}

TEST(Tokenizer, SaysWhatIsWrong) {
  EXPECT_THAT(FieldErrorOf("{type: text}"), HasSubstr("the words of 't' need either values or buckets"));
  EXPECT_THAT(FieldErrorOf("{type: text, buckets: 1}"), HasSubstr("buckets is 1"));
  EXPECT_THAT(FieldErrorOf("{type: text, tokens: bytes, buckets: 5}"),
              HasSubstr("buckets is for tokens: words"));
  EXPECT_THAT(FieldErrorOf("{type: text, buckets: 5, alphabet: ab}"),
              HasSubstr("alphabet is for tokens: characters"));
  EXPECT_THAT(FieldErrorOf("{type: text, tokens: characters}"), HasSubstr("alphabet"));
  EXPECT_THAT(FieldErrorOf("{type: text, tokens: characters, alphabet: aéé}"),
              HasSubstr("'é' is in the alphabet twice"));
  EXPECT_THAT(FieldErrorOf("{type: text, tokens: wrods, buckets: 5}"), HasSubstr("did you mean 'words'?"));
  EXPECT_THAT(FieldErrorOf("{type: text, buckets: 5, truncate: true}"), HasSubstr("truncate"));
  EXPECT_THAT(FieldErrorOf("{type: text, buckets: 5, role: label}"), HasSubstr("cannot be a text"));
  EXPECT_THAT(FieldErrorOf("{type: text, buckets: 5}", "idx"),
              HasSubstr("cannot be in the formats idx, text and tensor"));
  EXPECT_THAT(FieldErrorOf("{type: number, length: 3, period: 24}"), HasSubstr("which a list cannot have"));
  EXPECT_THAT(FieldErrorOf("{type: number, length: 3}", "csv"),
              HasSubstr("lists are for the formats json, avro and protobuf"));
  EXPECT_THAT(FieldErrorOf("{type: number, tokens: words}"), HasSubstr("tokens is for texts; 't' is none"));
}

}  // namespace
}  // namespace leat::stream
