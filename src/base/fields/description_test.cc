#include "base/fields/description.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/fields/codec.h"
#include "base/fields/files/testing.h"
#include "base/fields/testing.h"
#include "base/testing.h"

namespace leat::fields_description_test {

enum class Color { kRed = 1, kBlue = 4 };
LEAT_ENUM(Color, (kRed, "red"), (kBlue, "blue"));

struct Point {
  int32_t x = 0;
  double y = 0;
};
LEAT_FIELDS(Point, (x), (y, NotNegative));

namespace other {
struct Point {
  bool z = false;
};
LEAT_FIELDS(Point, (z));
}  // namespace other

struct Word {};
void PutField(const Word&, fields::Writer*) {}
std::string_view FormatOf(const Word*) {
  return "a word";
}

struct Everything {
  bool flag = false;
  uint32_t small = 0;
  uint64_t large = 0;
  int64_t sign = 0;
  uint8_t least = 0;
  uint64_t random = 0;
  float rate = 0;
  double finite = 0;
  Color color = Color::kRed;
  NodeId node;
  Duration length{};
  Duration pause{};
  std::string text;
  std::string reason;
  Bytes bytes;
  Status status;
  std::optional<Point> maybe;
  Shared<Point> shared;
  std::vector<other::Point> points;
  std::vector<std::string> names;
  std::vector<uint32_t> ascending;
  std::map<std::string, uint32_t> counts;
  std::array<uint32_t, 2> pair{};
  std::array<Color, 3> colors{};
  Word word;
  std::optional<Color> hue;
  uint32_t added = 0;
};
LEAT_FIELDS(Everything, (flag), (small, AtMost(1000)), (large, AtMost((uint64_t{1} << 48) - 1)),
            (sign, Between{-4096, 1}), (least, AtLeast(3)), (random, Fixed), (rate, NotNegative),
            (finite, Finite), (color), (node), (length), (pause, Between{0, 1'500'000'000}),
            (text, AtMost(5), As("class")), (reason, CutTo(1 << 16)), (bytes, AtMost(1 << 20)), (status),
            (maybe), (shared), (points, AtMost(2)), (names, AtMost(3), Each(AtMost(4))),
            (ascending, AtMost(8), Ascending), (counts, AtMost(2), Each(AtMost(9))), (pair), (colors), (word),
            (hue), (added, Since(2)));

using Message = std::variant<Everything, Point>;
LEAT_KINDS(Message, (Everything, 3, "everything"), (Point, 1, "point"));

TEST(FieldsDescription, EveryTypeAndRuleIsInTheText) {
  EXPECT_EQ(fields::Describe<Message>().text(), R"(Message, one of
  3 everything, Everything
  1 point, Point
Everything
  flag bool
  small u32, at most 1000
  large u64, at most 2^48 - 1
  sign i64, -2^12 to 1
  least u8, at least 3
  random fixed u64
  rate f32, finite, not negative
  finite f64, finite
  color enum, 1 red, 4 blue
  node u64
  length duration, 0 s to 86400 s
  pause duration, 0 s to 1500 ms
  text text, at most 5 bytes, in JSON "class"
  reason text, cut to 2^16 bytes
  bytes bytes, at most 2^20 bytes
  status status
  maybe optional Point
  shared optional Point
  points list of Point#2, at most 2
  names list of text, at most 3, each at most 4 bytes
  ascending list of u32, at most 8, ascending
  counts map of text to u32, at most 2, each at most 9
  pair 2 of u32
  colors 3 of enum, each 1 red, 4 blue
  word a word
  hue optional enum, 1 red, 4 blue
  added u32, since version 2
Point
  x i32
  y f64, finite, not negative
Point#2
  z bool
)");
}

// Rules for JSON and records on disk.
struct Document {
  std::string name;
  float share = 1;
  std::array<float, 3> figures{};
  Point place;
  Color color = Color::kRed;
};
LEAT_FIELDS(Document, (name, AtMost(5), Printable), (share, NotNegative, AtLeast(1), AtMost(2)),
            (figures, Counted), (place, Flat), (color, Numbered));

TEST(FieldsDescription, RulesOfDocumentsAreInTheText) {
  EXPECT_EQ(fields::Describe<Document>().text(), R"(Document
  name text, at most 5 bytes, no control characters
  share f32, finite, not negative, at least 1, at most 2
  figures count, 3 of f32
  place Point, in JSON its fields
  color enum, 1 red, 4 blue, in JSON its number
Point
  x i32
  y f64, finite, not negative
)");
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    EXPECT_EQ(fields::CheckValue(fields::Random<Document>(seed)), "") << seed;
  }
}

struct Base {
  uint32_t a = 0, b = 0;
};
LEAT_FIELDS(Base, (a), (b));
namespace renamed {
struct Base {
  uint32_t a = 0, c = 0;
};
LEAT_FIELDS(Base, (a), (c));
}  // namespace renamed
namespace swapped {
struct Base {
  uint32_t b = 0, a = 0;
};
LEAT_FIELDS(Base, (b), (a));
}  // namespace swapped
namespace wider {
struct Base {
  uint32_t a = 0;
  uint64_t b = 0;
};
LEAT_FIELDS(Base, (a), (b));
}  // namespace wider
namespace limited {
struct Base {
  uint32_t a = 0, b = 0;
};
LEAT_FIELDS(Base, (a), (b, AtMost(3)));
}  // namespace limited

TEST(FieldsDescription, TheHashDiffersWithEachChange) {
  EXPECT_EQ(fields::HashOf<Base>(), fields::HashOf<Base>());
  EXPECT_NE(fields::HashOf<Base>(), fields::HashOf<renamed::Base>());
  EXPECT_NE(fields::HashOf<Base>(), fields::HashOf<swapped::Base>());
  EXPECT_NE(fields::HashOf<Base>(), fields::HashOf<wider::Base>());
  EXPECT_NE(fields::HashOf<Base>(), fields::HashOf<limited::Base>());
  EXPECT_NE(fields::HashOf<Base>(), (fields::HashOf<Base, Point>()));
}

TEST(FieldsDescription, TablesAreMarkdown) {
  const fields::Description all = fields::Describe<Message>();
  EXPECT_EQ(fields::TableOf(all.blocks()[0]),
            "| number | kind | message |\n"
            "|---|---|---|\n"
            "| 3 | `everything` | Everything |\n"
            "| 1 | `point` | Point |\n");
  EXPECT_EQ(fields::TableOf(all.blocks()[2]),
            "| field | type | limits |\n"
            "|---|---|---|\n"
            "| `x` | i32 |  |\n"
            "| `y` | f64 | finite, not negative |\n");
}

TEST(FieldsDescription, TablesOfAPageAreComparedAndWritten) {
  const std::string start = "# Base\n\n<!-- fields: Base -->\n",
                    table = "\n| field | type | limits |\n|---|---|---|\n", row = "| `b` | u32 |  |\n",
                    end = "\n<!-- end -->\n\nMore.\n";
  const std::string good = start + table + "| `a` | u32 |  |\n" + row + end;
  const TempDir dir;
  const std::string page = dir.Write("page.md", good);
  EXPECT_EQ(fields::PageFault<Base>(page, false), "");
  dir.Write("page.md", Replaced(good, row, ""));
  EXPECT_EQ(fields::PageFault<Base>(page, false),
            page + " differs from the fields; run with LEAT_WRITE_DOCS=1. The first line: | `b` | u32 |  |");
  EXPECT_EQ(fields::PageFault<Base>(page, true), "");
  EXPECT_EQ(ReadAll(page), good);
  dir.Write("page.md", "# Base\n");
  EXPECT_EQ(fields::PageFault<Base>(page, false), page + " has no line <!-- fields: Base -->");
  dir.Write("page.md", start);
  EXPECT_EQ(fields::PageFault<Base>(page, false), page + ": the table of Base has no <!-- end -->");
  // An inner struct may have a table.
  dir.Write("page.md", "<!-- fields: Message -->\n<!-- end -->\n<!-- fields: Point -->\n<!-- end -->\n");
  EXPECT_EQ(fields::PageFault<Message>(page, true), "");
  EXPECT_NE(ReadAll(page).find("| `x` | i32 |  |\n"), std::string::npos);
}

}  // namespace leat::fields_description_test
