#include "base/fields/testing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"

namespace leat::fields_testing_test {

enum class Side { kLeft = 2, kRight = 7 };
LEAT_ENUM(Side, (kLeft, "left"), (kRight, "right"));

struct Limits {
  uint32_t most = 0;
  uint64_t any = 0;
  uint16_t least = 0;
  int32_t between = 0;
  int64_t sign = 0;
  double number = 0;
  double finite = 0;
  double not_negative = 0;
  Side side = Side::kLeft;
  Duration wait{};
  std::string text;
  std::vector<uint32_t> ascending;
  std::optional<bool> maybe;
};
LEAT_FIELDS(Limits, (most, AtMost(10)), (any), (least, AtLeast(65'530)), (between, Between{-2, 2}), (sign),
            (number), (finite, Finite), (not_negative, NotNegative), (side), (wait), (text, AtMost(3)),
            (ascending, AtMost(8), Ascending, Each(AtMost(20))), (maybe));

template <class Get>
auto Seen(Get get) {
  std::set<decltype(get(Limits()))> seen;
  for (uint64_t seed = 0; seed < 500; ++seed) seen.insert(get(fields::Random<Limits>(seed)));
  return seen;
}

TEST(FieldsTesting, RandomValuesReachTheirLimitsAndStayInside) {
  const auto most = Seen([](const Limits& v) { return v.most; });
  EXPECT_EQ(most.size(), 11u);
  EXPECT_EQ(*most.rbegin(), 10u);
  const auto any = Seen([](const Limits& v) { return v.any; });
  EXPECT_TRUE(any.contains(0) && any.contains(~uint64_t{0}));
  EXPECT_GT(any.size(), 100u);
  const auto least = Seen([](const Limits& v) { return v.least; });
  EXPECT_EQ(*least.begin(), 65'530);
  EXPECT_EQ(*least.rbegin(), 65'535);
  EXPECT_EQ(Seen([](const Limits& v) { return v.between; }), (std::set<int32_t>{-2, -1, 0, 1, 2}));
  const auto sign = Seen([](const Limits& v) { return v.sign; });
  EXPECT_EQ(*sign.begin(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*sign.rbegin(), std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(sign.contains(0) && sign.contains(-1));
  EXPECT_EQ(Seen([](const Limits& v) { return v.side; }), (std::set{Side::kLeft, Side::kRight}));
  const auto wait = Seen([](const Limits& v) { return v.wait; });
  EXPECT_EQ(*wait.begin(), Duration(0));
  EXPECT_EQ(*wait.rbegin(), std::chrono::hours(24));
  EXPECT_EQ(Seen([](const Limits& v) { return v.text.size(); }), (std::set<size_t>{0, 1, 2, 3}));
  EXPECT_EQ(Seen([](const Limits& v) { return v.maybe.has_value(); }).size(), 2u);
  EXPECT_TRUE(Seen([](const Limits& v) { return v.ascending.size(); }).contains(4));
  const auto classes = [](double v) { return std::isnan(v) ? 3 : std::isinf(v) ? 2 : v < 0 ? 1 : 0; };
  EXPECT_EQ(Seen([&](const Limits& v) { return classes(v.number); }).size(), 4u);
  EXPECT_EQ(Seen([&](const Limits& v) { return classes(v.finite); }), (std::set{0, 1}));
  EXPECT_EQ(Seen([&](const Limits& v) { return classes(v.not_negative); }), std::set{0});
}

struct Never {
  bool ever = false;
};
LEAT_FIELDS(Never, (ever));
Status Check(const Never&) {
  return {Code::kInvalidArgument, "ever is what it is"};
}

TEST(FieldsTesting, ATypeWhoseCheckRefusesRandomValuesIsNamed) {
  EXPECT_THROW(fields::Random<Never>(1), std::logic_error);
}

struct Inner {
  float rate = 0;
};
LEAT_FIELDS(Inner, (rate));
struct Outer {
  bool flag = false;
  std::string text;
  Status status;
  std::vector<Inner> inner;
  std::map<std::string, uint32_t> counts;
  std::optional<NodeId> node;
  Side side = Side::kRight;
};
LEAT_FIELDS(Outer, (flag), (text, AtMost(9)), (status), (inner, AtMost(3)), (counts, AtMost(2)), (node),
            (side));
using Either = std::variant<Inner, Outer>;
LEAT_KINDS(Either, (Inner, 1, "inner"), (Outer, 2, "outer"));

TEST(FieldsTesting, ATextHasTheNames) {
  const Outer value = {true, "a\n", Status(Code::kStale, "old"), {{1}, {-0.f}}, {{"x", 3}}, NodeId(4)};
  EXPECT_EQ(fields::ToText(Either(value)),
            "outer {flag: true, text: 2\"a\\0a\", status: stale 3\"old\", "
            "inner: [{rate: 1/3f800000}, {rate: -0/80000000}], "
            "counts: {1\"x\": 3}, node: 4, side: 7/right}");
  EXPECT_EQ(fields::ToText(Outer()),
            "{flag: false, text: 0\"\", status: ok 0\"\", inner: [], counts: {}, node: none, side: 7/right}");
}

// A number that is written in two ways, and one that loses a bit.
struct Loose {
  uint8_t value = 0;
};
struct Holder {
  Loose loose;
};
LEAT_FIELDS(Holder, (loose));
void PutField(const Loose& loose, fields::Writer* out) {
  out->bytes()->Put(loose.value);
}
void GetField(Loose* loose, fields::Reader* in) {
  loose->value = in->bytes()->Get<uint8_t>() & 0x7f;
}
void Randomize(Loose* loose, fields::Fill& fill) {
  loose->value = static_cast<uint8_t>(fill.Below(0x80));
}
void DumpField(const Loose& loose, fields::Dump& dump) {
  dump.Put(loose.value);
}

TEST(FieldsTesting, FaultsOfACodecAreFound) {
  EXPECT_EQ(fields::CodecFault(Holder{{0x80}}), "{loose: 128} comes back as {loose: 0}");
  EXPECT_EQ(fields::BytesFault<Holder>(*FromHex("81")), "81 is read as {loose: 1}, which is written as 01");
  EXPECT_EQ(fields::BytesFault<Holder>(*FromHex("01")), "");
  EXPECT_EQ(fields::BytesFault<Holder>(*FromHex("0102")), "");
  EXPECT_NE(fields::CodecFault<Holder>(50), "");
  EXPECT_EQ(fields::InputFault<Holder>(*FromHex("0102")), "");
  EXPECT_NE(fields::InputFault<Holder>(*FromHex("010081")), "");
  EXPECT_EQ(fields::CodecFault(Limits{.between = 3}).substr(0, 10), "{most: 0, ");
}

}  // namespace leat::fields_testing_test
