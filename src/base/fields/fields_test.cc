#include "base/fields/fields.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/fields/codec.h"
#include "base/fields/json.h"
#include "base/fields/most_bytes.h"
#include "base/fields/testing.h"
#include "base/fields/word.h"
#include "base/testing.h"

namespace leat::fields_test {

// Helpers of other sources in a batch may have the names of rules.
[[maybe_unused]] std::string Flat(uint32_t x) {
  return std::to_string(x);
}
[[maybe_unused]] std::string Fixed(double x) {
  return std::to_string(x);
}

enum class Color : uint8_t { kRed = 1, kBlue = 4 };
LEAT_ENUM(Color, (kRed, "red"), (kBlue, "blue"));

struct Point {
  int32_t x = 0;
  double y = 0;
};
LEAT_FIELDS(Point, (x), (y, NotNegative));

// A text of as many letters as `count` says.
struct Letters {
  std::string text;
  friend bool operator==(const Letters&, const Letters&) = default;
};
struct LettersOf {
  uint32_t count;
};
void PutField(const Letters& letters, fields::Writer* out, const LettersOf&) {
  out->bytes()->PutRaw(AsBytes(letters.text));
}
void GetField(Letters* letters, fields::Reader* in, const LettersOf& rule) {
  letters->text = AsText(in->bytes()->GetRaw(rule.count));
}
uint64_t MostBytesOf(const Letters*) {
  return 10;
}
void Randomize(Letters* letters, fields::Fill& fill, const LettersOf& rule) {
  letters->text = fill.Text(rule.count);
}
void DumpField(const Letters& letters, fields::Dump& dump) {
  dump.Put(letters.text);
}

struct Everything {
  bool flag = false;
  uint32_t small = 0;
  uint64_t large = 0;
  int64_t sign = 0;
  uint64_t random = 0;
  float rate = 0;
  Color color = Color::kRed;
  NodeId node;
  Duration length{};
  std::string text;
  std::string reason;
  Bytes bytes;
  Status status;
  std::optional<Point> maybe;
  Shared<Point> shared;
  std::vector<Point> points;
  std::vector<std::string> names;
  std::vector<uint32_t> ascending;
  std::map<std::string, uint32_t> counts;
  std::array<uint32_t, 2> pair{};
  uint32_t letters = 0;
  Letters word;
};
LEAT_FIELDS(Everything, (flag), (small, AtMost(1000)), (large), (sign), (random, Fixed), (rate), (color),
            (node), (length), (text, AtMost(5)), (reason, CutTo(4)), (bytes, AtMost(3)), (status), (maybe),
            (shared), (points, AtMost(2)), (names, AtMost(3), Each(AtMost(4))),
            (ascending, AtMost(8), Ascending), (counts, AtMost(2), Each(AtMost(9))), (pair),
            (letters, AtMost(10)), (word, LettersOf(self.letters)));

struct Range {
  uint64_t begin = 0, end = 0;
};
LEAT_FIELDS(Range, (begin), (end));
Status Check(const Range& range) {
  if (range.begin <= range.end) return {};
  return {Code::kInvalidArgument, "begin is " + std::to_string(range.begin) + ", behind the end"};
}
struct Ranges {
  std::vector<Range> all;
};
LEAT_FIELDS(Ranges, (all, AtMost(1 << 20)));

using Message = std::variant<Range, Point>;
LEAT_KINDS(Message, (Range, 3, "range"), (Point, 1, "point"));

// A record that got `added` with version 2.
struct Record {
  uint64_t id = 0;
  uint32_t added = 7;
};
LEAT_FIELDS(Record, (id), (added, Since(2)));
struct OldRecord {
  uint64_t id = 0;
};
LEAT_FIELDS(OldRecord, (id));

Everything Full() {
  return {true,
          1000,
          uint64_t{1} << 63,
          std::numeric_limits<int64_t>::min(),
          0x0123456789abcdef,
          0.5f,
          Color::kBlue,
          NodeId(9),
          std::chrono::seconds(3),
          "five!",
          "four",
          Bytes(3, std::byte{7}),
          Status(Code::kUnavailable, "away"),
          Point{-3, 1.5},
          Point{4, 0},
          {{1, 1}, {2, 2}},
          {"a", "bcde"},
          {1, 5, 6},
          {{"x", 9}, {"y", 0}},
          {1, 2},
          3,
          {"abc"}};
}

template <class T>
std::string ErrorOf(const T& value) {
  const auto read = fields::Decode<T>(fields::Encode(value), "it");
  return read.ok() ? "" : read.status().message();
}

TEST(Fields, EveryTypeComesBack) {
  for (const Everything& value : {Full(), Everything()}) {
    const auto read = fields::Decode<Everything>(fields::Encode(value), "it");
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(*read, value);
  }
}

TEST(Fields, EqualMeansEveryField) {
  static_assert(Point{1, 2.5} == Point{1, 2.5});
  EXPECT_NE((Point{1, 2.5}), (Point{3, 2.5}));
  EXPECT_NE((Point{1, 2.5}), (Point{1, 2.0}));
}

TEST(Fields, BytesAreThoseOfTheTable) {
  EXPECT_EQ(ToHex(fields::Encode(Point{-1, 1})), "01000000000000f03f");
  EXPECT_EQ(ToHex(fields::Encode(Range{300, 5})), "ac0205");
  EXPECT_EQ(ToHex(fields::Encode(Message(Range{1, 2}))), "030102");
  EXPECT_EQ(ToHex(fields::Encode(Ranges{{{1, 2}}})), "010102");
  const std::string all = ToHex(fields::Encode(Full()));
  EXPECT_EQ(all,
            "01e8078080808080808080800"
            "1ffffffffffffffffff01efcdab89674523010000003f0409"
            "80f882ad16056669766521"
            "04666f7572"
            "03070707"
            "05046177617901"
            "05000000000000f83f"
            "01080000000000000000"
            "0202000000000000f03f040000000000000040"
            "02016104626364650301050602017809017900010203616263");
}

TEST(Fields, NoPrefixAndNothingLongerIsRead) {
  EXPECT_EQ(fields::CodecFault(Full()), "");
  Bytes longer = fields::Encode(Full());
  longer.push_back({});
  EXPECT_EQ(fields::Decode<Everything>(longer, "it").status().message(), "it: has 1 bytes behind its end");
}

TEST(Fields, RandomValuesComeBack) {
  EXPECT_EQ(fields::CodecFault<Everything>(100), "");
  EXPECT_EQ(fields::CodecFault<Ranges>(50), "");
  EXPECT_EQ(fields::CodecFault<Message>(50), "");
  EXPECT_EQ(fields::CodecFault<Record>(50), "");
}

TEST(Fields, AnyBytesAreRefusedOrHaveOneReading) {
  Rng rng(1);
  for (int i = 0; i < 3000; ++i) {
    Bytes input(rng.Below(20));
    for (std::byte& byte : input) byte = static_cast<std::byte>(rng() >> rng.Below(8));
    ASSERT_EQ((fields::InputFault<Everything, Message, Record, Ranges>(input)), "");
  }
}

TEST(Fields, AViolationNamesTheFieldAndItsValue) {
  const auto changed = [](auto change) {
    Everything value = Full();
    change(&value);
    return ErrorOf(value);
  };
  EXPECT_EQ(changed([](auto* v) { v->small = 1001; }), "it: small is 1001, at most 1000");
  EXPECT_EQ(changed([](auto* v) { v->text = "longer"; }), "it: text has 6 bytes, at most 5");
  EXPECT_EQ(changed([](auto* v) { v->reason = "cut off"; }), "");
  EXPECT_EQ(changed([](auto* v) { v->length = Duration(-1); }), "it: length is -1 ns");
  EXPECT_EQ(changed([](auto* v) { v->length = std::chrono::hours(25); }), "it: length is 90000000000000 ns");
  EXPECT_EQ(changed([](auto* v) { v->color = Color{2}; }), "it: color is 2");
  EXPECT_EQ(changed([](auto* v) { v->maybe->y = -1; }), "it: maybe.y is -1.000000");
  EXPECT_EQ(changed([](auto* v) { v->points[1].y = std::numeric_limits<double>::infinity(); }),
            "it: points[1].y is inf");
  EXPECT_EQ(changed([](auto* v) { v->points.resize(3); }), "it: points has 3 elements, at most 2");
  EXPECT_EQ(changed([](auto* v) { v->names[1] = "large"; }), "it: names[1] has 5 bytes, at most 4");
  EXPECT_EQ(changed([](auto* v) { v->ascending = {2, 2}; }), "it: ascending does not ascend");
  EXPECT_EQ(changed([](auto* v) { v->counts["x"] = 10; }), "it: counts[0] is 10, at most 9");
}

TEST(Fields, ACheckOfSeveralFieldsNamesThePlace) {
  EXPECT_EQ(ErrorOf(Range{5, 4}), "it: begin is 5, behind the end");
  EXPECT_EQ(ErrorOf(Ranges{{{1, 2}, {5, 4}}}), "it: all[1]: begin is 5, behind the end");
  EXPECT_EQ(ErrorOf(Message(Range{5, 4})), "it: range: begin is 5, behind the end");
}

TEST(Fields, NoCountIsBelievedThatCannotBe) {
  // A list of 2^20 ranges in four bytes.
  const Bytes bytes = *FromHex("80804001");
  EXPECT_EQ(fields::Decode<Ranges>(bytes, "it").status().message(),
            "it: all has 1048576 elements, and is cut off");
}

TEST(Fields, TheMostBytesFollowFromTheRules) {
  EXPECT_EQ(fields::MostBytes<Point>(), 5u + 8);
  EXPECT_EQ(fields::MostBytes<Range>(), 20u);
  EXPECT_EQ(fields::MostBytes<Message>(), 21u);
  EXPECT_EQ(fields::MostBytes<Ranges>(), 3 + (20u << 20));
  EXPECT_EQ(fields::MostBytes<bool>(), 1u);
  EXPECT_EQ(fields::MostBytes<Color>(), 1u);
  EXPECT_EQ(fields::MostBytes<uint32_t>(fields::AtMost{127}), 1u);
  EXPECT_EQ(fields::MostBytes<uint32_t>(fields::AtMost{128}), 2u);
  EXPECT_EQ(fields::MostBytes<uint64_t>(fields::Fixed), 8u);
  EXPECT_EQ(fields::MostBytes<int64_t>(fields::Between{-64, 63}), 1u);
  EXPECT_EQ(fields::MostBytes<int64_t>(fields::Between{-65, 63}), 2u);
  EXPECT_EQ(fields::MostBytes<Duration>(), 7u);
  EXPECT_EQ(fields::MostBytes<std::string>(fields::CutTo{4}), 5u);
  EXPECT_EQ(fields::MostBytes<Status>(), 1u + 3 + (1 << 16));
  EXPECT_EQ(fields::MostBytes<std::optional<Point>>(), 14u);
  EXPECT_EQ((fields::MostBytes<std::array<NodeId, 3>>()), 30u);
  EXPECT_EQ((fields::MostBytes<std::map<std::string, uint32_t>>(fields::AtMost{2},
                                                                fields::Each(fields::AtMost{9}))),
            1u + 2 * (2 + 256 + 1));
  EXPECT_EQ(fields::MostBytes<std::string>(fields::AtMost{~uint64_t{0}}), ~uint64_t{0});
  EXPECT_EQ(fields::MostBytes<std::vector<Point>>(fields::AtMost{~uint64_t{0} / 4}), ~uint64_t{0});
  EXPECT_EQ(fields::MostBytes<Everything>(),
            1u + 2 + 10 + 10 + 8 + 4 + 1 + 10 + 7 + (1 + 5) + (1 + 4) + (1 + 3) + (1 + 3 + (1 << 16)) + 14 +
                14 + (1 + 2 * 13) + (1 + 3 * 5) + (1 + 8 * 5) + (1 + 2 * (258 + 1)) + 2 * 5 + 1 + 10);
  EXPECT_LE(fields::Encode(Full()).size(), fields::MostBytes<Everything>());
}

TEST(Fields, AnUnknownKindIsRefused) {
  EXPECT_EQ(fields::Decode<Message>(*FromHex("ff"), "it").status().message(), "it: is cut off");
  EXPECT_EQ(fields::Decode<Message>(*FromHex("020102"), "it").status().message(), "it: is of unknown kind 2");
  const auto read = fields::Decode<Message>(*FromHex("030102"), "it");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, Message(Range{1, 2}));
}

TEST(Fields, AFieldThatWasAppendedHasItsFirstValueInOlderRecords) {
  const auto old = fields::Decode<Record>(fields::Encode(OldRecord{5}), "it");
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->id, 5u);
  EXPECT_EQ(old->added, 7u);
  EXPECT_EQ(fields::Decode<Record>(fields::Encode(Record{5, 1}), "it")->added, 1u);
  EXPECT_FALSE(fields::Decode<OldRecord>(fields::Encode(Record{5, 1}), "it").ok());
}

// A version with more figures than another.
struct Figures {
  std::array<float, 3> figures = {-1, -1, -1};
  uint32_t next = 0;
};
LEAT_FIELDS(Figures, (figures, Counted), (next));
struct FewerFigures {
  std::array<float, 2> figures{};
  uint32_t next = 0;
};
LEAT_FIELDS(FewerFigures, (figures, Counted), (next));

TEST(Fields, ACountedArrayMayHaveMoreElementsLater) {
  const Bytes later = fields::Encode(Figures{{1, 2, 3}, 7}),
              earlier = fields::Encode(FewerFigures{{1, 2}, 7});
  EXPECT_EQ(ToHex(earlier), "020000803f0000004007");
  const auto fewer = fields::Decode<FewerFigures>(later, "it");
  ASSERT_TRUE(fewer.ok()) << fewer.status().ToString();
  EXPECT_EQ(fewer->figures, (std::array<float, 2>{1, 2}));
  EXPECT_EQ(fewer->next, 7u);
  const auto more = fields::Decode<Figures>(earlier, "it");
  ASSERT_TRUE(more.ok()) << more.status().ToString();
  EXPECT_EQ(more->figures, (std::array<float, 3>{1, 2, -1}));
  EXPECT_EQ(more->next, 7u);
  EXPECT_EQ(fields::Decode<Figures>(*FromHex("ffffffffffffffff7f00"), "it").status().message(),
            "it: figures[0] is cut off");
  EXPECT_EQ(fields::LeastBytes<Figures>(), 2u);
}

// ---- JSON

struct Document {
  uint32_t number = 0;
  uint64_t random = 0;
  std::string name;
  Color color = Color::kRed;
  std::optional<uint32_t> maybe;
  std::vector<Point> points;
  std::map<std::string, std::string> environment;
  uint32_t added = 7;
};
LEAT_FIELDS(Document, (number, AtMost(10)), (random, Fixed), (name, AtMost(5), As("class")), (color), (maybe),
            (points, AtMost(3)), (environment, AtMost(2), Each(AtMost(3))), (added, Since(2)));

TEST(FieldsJson, ADocumentComesBack) {
  const Document value = {3, 0xab, "gpu", Color::kBlue, 5, {{1, 2}}, {{"A", "b"}}, 9};
  EXPECT_EQ(fields::ToJson(value),
            R"({"number":3,"random":"00000000000000ab","class":"gpu","color":"blue","maybe":5,)"
            R"("points":[{"x":1,"y":2.0}],"environment":{"A":"b"},"added":9})");
  const auto read = fields::FromJson<Document>(fields::ToJson(value), "it");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, value);
  EXPECT_EQ(*fields::FromJson<Document>(fields::ToJson(Document()), "it"), Document());
  for (uint64_t seed = 1; seed < 100; ++seed) {
    const auto random = fields::Random<Document>(seed, /*for_json=*/true);
    EXPECT_EQ(*fields::FromJson<Document>(fields::ToJson(random), "it"), random);
  }
}

TEST(FieldsJson, AViolationNamesTheField) {
  const std::string good =
      fields::ToJson(Document{3, 0xab, "gpu", Color::kBlue, 5, {{1, 2}}, {{"A", "b"}}, 9});
  const auto error = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto read = fields::FromJson<Document>(text, "it");
    return read.ok() ? "" : read.status().message();
  };
  EXPECT_EQ(error("\"number\":3,", ""), "it: there is no field number");
  EXPECT_EQ(error("\"number\":3", "\"number\":11"), "it: number is 11, at most 10");
  EXPECT_EQ(error("\"number\":3", "\"number\":-1"), "it: number is -1");
  EXPECT_EQ(error("\"number\":3", "\"number\":4294967296"), "it: number is 4294967296");
  EXPECT_EQ(error("\"number\":3", "\"number\":[]"), "it: number is an array");
  EXPECT_EQ(error("00ab", "00ag"), "it: random is no number of 16 hexadecimal digits");
  EXPECT_EQ(error("\"gpu\"", "\"secret\""), "it: class is no text of at most 5 bytes");
  EXPECT_EQ(error("blue", "green"), "it: color is unknown");
  EXPECT_EQ(error("\"maybe\":5,", ""), "");
  EXPECT_EQ(error("\"y\":2.0", "\"y\":-2"), "it: points[0].y is -2.000000");
  EXPECT_EQ(error("\"b\"", "\"bcde\""), "it: environment.A is no text of at most 3 bytes");
  EXPECT_EQ(error("\"added\":9", "\"later\":9"), "");
  EXPECT_EQ(error("{\"number", "[\"number"), "it: it is no JSON");
}

// Fields of `place` and the color's number stand between the others.
struct Place {
  std::string host;
  double share = 0;
};
LEAT_FIELDS(Place, (host, AtMost(10), Printable), (share, NotNegative, AtMost(1)));
Status Check(const Place& place) {
  return place.host.empty() ? Status(Code::kInvalidArgument, "there is no host") : Status();
}
struct Placed {
  uint32_t id = 0;
  Place place;
  Color color = Color::kRed;
};
LEAT_FIELDS(Placed, (id), (place, Flat), (color, Numbered));

TEST(FieldsJson, AFlatStructHasItsFieldsInItsPlace) {
  const Placed value = {3, {"a", 0.5}, Color::kBlue};
  EXPECT_EQ(fields::ToJson(value), R"({"id":3,"host":"a","share":0.5,"color":4})");
  EXPECT_EQ(*fields::FromJson<Placed>(fields::ToJson(value), "it"), value);
  const auto error = [](const std::string& text) {
    const auto read = fields::FromJson<Placed>(text, "it");
    return read.ok() ? "" : read.status().message();
  };
  EXPECT_EQ(error(R"({"id":3,"share":0,"color":4})"), "it: there is no field host");
  EXPECT_EQ(error(R"({"id":3,"host":"","share":0,"color":4})"), "it: there is no host");
  EXPECT_EQ(error(R"({"id":3,"host":"\u0007","share":0,"color":4})"), "it: host has control characters");
  EXPECT_EQ(error(R"({"id":3,"host":"a","share":1.5,"color":4})"), "it: share is 1.500000");
  EXPECT_EQ(error(R"({"id":3,"host":"a","share":0,"color":2})"), "it: color is unknown");
  EXPECT_EQ(error(R"({"id":3,"host":"a","share":0,"color":"blue"})"), "it: color is unknown");
}

struct Sides {
  uint64_t left = 0, right = 0;
};
LEAT_FIELDS(Sides, (left), (right));
struct Shown {
  uint64_t secret = 0, number = 0;
  std::vector<uint64_t> list;
  std::optional<std::string> path;
  std::optional<Sides> sides;
};
LEAT_FIELDS(Shown, (secret, Unshown), (number, Sparse), (list, AtMost(3), Sparse), (path, CutTo(4), OrNull),
            (sides, Flat));

TEST(FieldsJson, WhatIsNewUnshownOrNotThereIsLeftOut) {
  const auto expect = [](const Shown& value, const std::string& text) {
    EXPECT_EQ(fields::ToJson(value), text);
    EXPECT_EQ(*fields::FromJson<Shown>(text, "it"), value);
  };
  expect({}, R"({"path":null})");
  expect({0, 3, {1, 2}, "/a", Sides{5, 0}}, R"({"number":3,"list":[1,2],"path":"/a","left":5,"right":0})");
  EXPECT_EQ(fields::ToJson(Shown{.secret = 7}), R"({"path":null})");
}

TEST(FieldsWord, NamesAnEnumerator) {
  const Config map = Config::Parse("a: blue\nb: blu\n", "job.yaml");
  EXPECT_EQ(fields::FromWord<Color>(map.At("a"), "color"), Color::kBlue);
  EXPECT_EQ(fields::FromWord(map, "a", Color::kRed), Color::kBlue);
  EXPECT_EQ(fields::FromWord(map, "c", Color::kRed), Color::kRed);
  EXPECT_EQ(Mistake([&] { (void)fields::FromWord<Color>(map.At("b"), "color"); }),
            "job.yaml:2: unknown color 'blu'; did you mean 'blue'?");
}

TEST(FieldsJson, OfAnotherVersionWhatFitsIsTaken) {
  const auto read = [](const char* text) { return fields::FromAnyJson<Shown>(text, "it", Code::kDataLoss); };
  EXPECT_EQ(*read("{}"), Shown());
  EXPECT_EQ(*read(R"({"number":-1,"list":[1,"x",2],"path":"/abcdef","right":4,"other":[]})"),
            (Shown{0, 0, {1, 2}, "/abc", Sides{0, 4}}));
  EXPECT_EQ(*read(R"({"list":{"a":1},"path":3,"left":"many"})"), (Shown{.sides = Sides{}}));
  for (const char* text : {"", "[]", "3", "{"}) EXPECT_EQ(read(text).status().code(), Code::kDataLoss);
}

}  // namespace leat::fields_test
