#include "stream/avro/avro_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/rng.h"
#include "stream/avro/schema_registry.h"
#include "stream/avro/testing.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ProgramRecord(const std::string& fields) {
  return R"({"type": "record", "name": "R", "fields": [)" + fields + "]}";
}

DecodedRows DecodeProgram(const Schema& schema, const std::vector<std::string>& records) {
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf(records), &rows);
  return rows;
}

// The reason of the only record, which is refused.
std::string ProgramReason(const Schema& schema, const std::string& record) {
  const DecodedRows rows = DecodeProgram(schema, {record});
  return rows.dead.size() == 1 ? rows.dead[0].reason : "kept";
}

// ---- random schemas and records, by an encoder of their own

// A random writer's schema with its encoder. Numbers that only records lead to are fields of the job.
class RandomSchema {
 public:
  explicit RandomSchema(Rng& rng) : rng_(rng) {
    root_ = MakeRecord(3, "", true);
    while (fields_.empty()) root_ = MakeRecord(3, "", true);
  }

  std::string json() const { return types_[root_].json; }
  // A line for each field, all with the default -7.
  std::string fields() const {
    std::string out;
    for (size_t i = 0; i < fields_.size(); ++i)
      out += "  f" + std::to_string(i) + ": {type: number, path: " + fields_[i] + ", default: -7}\n";
    return out;
  }
  // Appends a record, and its row to `row`.
  std::string Encode(std::vector<float>* row) {
    values_.clear();
    std::string out;
    Put(root_, "", &out);
    for (const std::string& field : fields_) {
      const auto at = values_.find(field);
      row->push_back(at == values_.end() ? -7 : static_cast<float>(at->second));
    }
    return out;
  }

 private:
  enum class Kind {
    kNull,
    kBoolean,
    kInt,
    kLong,
    kFloat,
    kDouble,
    kString,
    kFixed,
    kEnum,
    kArray,
    kMap,
    kUnion,
    kRecord
  };
  struct Type {
    Kind kind;
    std::string json;
    std::vector<size_t> parts;
    std::vector<std::string> names;
  };

  size_t Add(Kind kind, std::string json, std::vector<size_t> parts = {},
             std::vector<std::string> names = {}) {
    types_.push_back({kind, std::move(json), std::move(parts), std::move(names)});
    return types_.size() - 1;
  }

  // `seen`: a path of the job can lead there.
  size_t MakeRecord(int depth, const std::string& path, bool seen) {
    const std::string name = "R" + std::to_string(named_++);
    std::string json;
    std::vector<size_t> parts;
    std::vector<std::string> names;
    for (size_t i = 0, count = rng_.Below(6); i < count; ++i) {
      names.push_back("p" + std::to_string(i));
      parts.push_back(Make(depth, path.empty() ? names.back() : path + "." + names.back(), seen));
      json += (json.empty() ? "" : ", ") + std::string(R"({"name": ")") + names.back() + R"(", "type": )" +
              types_[parts.back()].json + "}";
    }
    return Add(Kind::kRecord, R"({"type": "record", "name": ")" + name + R"(", "fields": [)" + json + "]}",
               parts, names);
  }

  size_t Make(int depth, const std::string& path, bool seen) {
    const auto kind = static_cast<Kind>(rng_.Below(depth > 0 ? 13 : 9));
    static const char* const kPrimitives[] = {"null", "boolean", "int", "long", "float", "double", "string"};
    if (kind >= Kind::kBoolean && kind <= Kind::kDouble && seen && rng_.Chance(0.7)) fields_.push_back(path);
    switch (kind) {
      case Kind::kFixed:
        return Add(kind, R"({"type": "fixed", "size": 5, "name": "F)" + std::to_string(named_++) + "\"}");
      case Kind::kEnum:
        return Add(
            kind, R"({"type": "enum", "symbols": ["A", "B"], "name": "E)" + std::to_string(named_++) + "\"}");
      case Kind::kArray:
      case Kind::kMap: {
        const size_t item = Make(depth - 1, "", false);
        const bool map = kind == Kind::kMap;
        return Add(kind,
                   std::string(map ? R"({"type": "map", "values": )" : R"({"type": "array", "items": )") +
                       types_[item].json + "}",
                   {item});
      }
      case Kind::kUnion: {
        // null and one other, so that the path is that of one branch.
        const size_t other = rng_.Chance(0.5) ? MakeRecord(depth - 1, path, seen) : Make(0, path, seen);
        const size_t null = Add(Kind::kNull, "\"null\"");
        if (types_[other].kind == Kind::kNull) return other;
        const bool first = rng_.Chance(0.5);
        return Add(kind,
                   "[" + types_[first ? null : other].json + ", " + types_[first ? other : null].json + "]",
                   first ? std::vector{null, other} : std::vector{other, null});
      }
      case Kind::kRecord:
        return MakeRecord(depth - 1, path, seen);
      default:
        return Add(kind, std::string("\"") + kPrimitives[static_cast<size_t>(kind)] + "\"");
    }
  }

  int64_t RandomLong() {
    const int bits = static_cast<int>(rng_.Below(64));
    return static_cast<int64_t>(rng_()) >> bits;
  }

  void Put(size_t index, const std::string& path, std::string* out) {
    const Type& type = types_[index];
    const auto put = [&](const auto& bytes, double value) {
      *out += bytes;
      values_[path] = value;
    };
    switch (type.kind) {
      case Kind::kNull:
        return;
      case Kind::kBoolean: {
        const bool x = rng_.Chance(0.5);
        return put(std::string(1, static_cast<char>(x)), x);
      }
      case Kind::kInt: {
        const auto x = static_cast<int32_t>(RandomLong() >> 32);
        return put(AvroLong(x), x);
      }
      case Kind::kLong: {
        const int64_t x = RandomLong();
        return put(AvroLong(x), static_cast<double>(x));
      }
      case Kind::kFloat: {
        const auto x = static_cast<float>(rng_.Normal());
        return put(AvroFloat(x), x);
      }
      case Kind::kDouble: {
        const double x = rng_.Normal();
        return put(AvroFloat(x), x);
      }
      case Kind::kString:
        *out += AvroText(std::string(rng_.Below(300), 's'));
        return;
      case Kind::kFixed:
        *out += "12345";
        return;
      case Kind::kEnum:
        *out += AvroLong(static_cast<int64_t>(rng_.Below(2)));
        return;
      case Kind::kArray:
      case Kind::kMap:
        return PutBlocks(type, out);
      case Kind::kUnion: {
        const size_t branch = rng_.Below(2);
        *out += AvroLong(static_cast<int64_t>(branch));
        return Put(type.parts[branch], path, out);
      }
      case Kind::kRecord:
        for (size_t i = 0; i < type.parts.size(); ++i)
          Put(type.parts[i], path.empty() ? type.names[i] : path + "." + type.names[i], out);
        return;
    }
  }

  void PutBlocks(const Type& type, std::string* out) {
    while (rng_.Chance(0.6)) {
      const auto count = static_cast<int64_t>(1 + rng_.Below(3));
      std::string block;
      for (int64_t i = 0; i < count; ++i) {
        if (type.kind == Kind::kMap) block += AvroText("key");
        Put(type.parts[0], "-", &block);
      }
      if (rng_.Chance(0.5)) {
        *out += AvroLong(-count) + AvroLong(static_cast<int64_t>(block.size()));
      } else {
        *out += AvroLong(count);
      }
      *out += block;
    }
    *out += AvroLong(0);
  }

  Rng& rng_;
  std::vector<Type> types_;
  std::vector<std::string> fields_;  // paths
  std::map<std::string, double> values_;
  size_t root_ = 0;
  int named_ = 0;
};

TEST(AvroProgram, ReadsRandomRecordsOfRandomSchemas) {
  Rng rng(3);
  for (int round = 0; round < 400; ++round) {
    RandomSchema random(rng);
    SCOPED_TRACE(random.json());
    const Schema schema = AvroSchemaOf(random.fields(), random.json());
    std::vector<std::string> records;
    std::vector<float> expected;
    for (int i = 0; i < 20; ++i) records.push_back(random.Encode(&expected));
    const DecodedRows rows = DecodeProgram(schema, records);
    ASSERT_TRUE(rows.dead.empty()) << rows.dead[0].reason;
    ASSERT_EQ(rows.features, expected);
  }
}

TEST(AvroProgram, RefusesEveryPartOfARecord) {
  Rng rng(4);
  for (int round = 0; round < 200; ++round) {
    RandomSchema random(rng);
    SCOPED_TRACE(random.json());
    const Schema schema = AvroSchemaOf(random.fields(), random.json());
    std::vector<float> expected;
    const std::string record = random.Encode(&expected);
    std::vector<std::string> parts;
    for (size_t size = 0; size < record.size(); ++size) parts.push_back(record.substr(0, size));
    parts.push_back(record + "x");
    EXPECT_EQ(DecodeProgram(schema, parts).dead.size(), parts.size());
    EXPECT_EQ(ProgramReason(schema, record + "xy"), "has 2 bytes more than its Avro schema describes");
  }
}

// ---- single rules

TEST(AvroProgram, NumbersMayHaveAnyLengthUpTo64Bits) {
  const Schema schema =
      AvroSchemaOf("  x: {type: number}\n", ProgramRecord(R"({"name": "x", "type": "long"})"));
  std::vector<std::string> records;
  std::vector<float> expected;
  for (int bits = 0; bits < 64; ++bits) {
    for (const int64_t x :
         {int64_t{1} << bits, -(int64_t{1} << (bits % 63)), (int64_t{1} << (bits % 63)) - 1}) {
      records.push_back(AvroLong(x));
      expected.push_back(static_cast<float>(x));
    }
  }
  records.push_back(std::string("\x82\x80\x00", 3));  // longer than needed
  expected.push_back(1);
  EXPECT_EQ(DecodeProgram(schema, records).features, expected);
  EXPECT_EQ(ProgramReason(schema, std::string(9, '\xff') + "\x02"), "x: a number has more than 64 bits");
  EXPECT_EQ(ProgramReason(schema, std::string(40, '\xff')), "x: a number has more than 64 bits");
  EXPECT_EQ(ProgramReason(schema, std::string(9, '\xff')), "x: the record ends within it");
  EXPECT_EQ(ProgramReason(schema, ""), "x: the record ends within it");
}

TEST(AvroProgram, RefusesWhatIsOutOfRange) {
  const Schema schema = AvroSchemaOf(
      "  i: {type: number, default: 0}\n  e: {type: category, values: [A, B], role: label}\n  b: {type: "
      "number}\n",
      ProgramRecord(R"({"name": "note", "type": "string"}, {"name": "i", "type": ["null", "int"]},
                {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "C", "B"]}},
                {"name": "b", "type": "boolean"})"));
  const std::string note = AvroText("ok"), i = AvroLong(1) + AvroLong(3), e = AvroLong(2), b = "\1";
  EXPECT_EQ(ProgramReason(schema, note + i + e + b), "kept");
  EXPECT_EQ(ProgramReason(schema, note + AvroLong(2)), "i: branch 2 of a union of 2");
  EXPECT_EQ(ProgramReason(schema, note + AvroLong(-1)), "i: branch -1 of a union of 2");
  EXPECT_EQ(ProgramReason(schema, note + AvroLong(1) + AvroLong(int64_t{1} << 31)),
            "i: 2147483648 is not an int of 32 bits");
  EXPECT_EQ(ProgramReason(schema, note + i + AvroLong(3) + b), "e: symbol 3 of an enum of 3");
  EXPECT_EQ(ProgramReason(schema, note + i + AvroLong(1) + b), "e: 'C' is not among the label's values");
  EXPECT_EQ(ProgramReason(schema, note + i + e + "\2"), "b: a boolean is 2");
  EXPECT_EQ(ProgramReason(schema, AvroLong(100) + "ab"), "note: its length is 100, and 2 bytes are left");
  EXPECT_EQ(ProgramReason(schema, AvroLong(-5) + "ab"), "note: its length is -5, and 2 bytes are left");
  EXPECT_EQ(ProgramReason(schema, AvroLong(std::numeric_limits<int64_t>::max())),
            "note: its length is 9223372036854775807, and 0 bytes are left");
}

TEST(AvroProgram, SaysWhatIsNullMissingOrOfAnotherType) {
  const Schema schema = AvroSchemaOf(
      "  a: {type: number}\n  b: {type: number, path: r.b}\n  c: {type: number, path: r.c, default: 5}\n",
      ProgramRecord(R"({"name": "a", "type": ["null", "string", "int"]},
                {"name": "r", "type": ["null",
                  {"type": "record", "name": "Old", "fields": [{"name": "c", "type": "float"}]},
                  {"type": "record", "name": "New", "fields": [{"name": "b", "type": "int"}]}, "string"]})"));
  const std::string a = AvroLong(2) + AvroLong(4);
  const DecodedRows rows = DecodeProgram(schema, {a + AvroLong(2) + AvroLong(6)});
  EXPECT_THAT(rows.features, ElementsAre(4, 6, 5));
  EXPECT_EQ(ProgramReason(schema, AvroLong(0)), "a: is null");
  EXPECT_EQ(ProgramReason(schema, AvroLong(1) + AvroText("x")), "a: is a string");
  EXPECT_EQ(ProgramReason(schema, a + AvroLong(0)), "r.b: is null");
  EXPECT_EQ(ProgramReason(schema, a + AvroLong(1) + AvroFloat(1.0f)), "r.b: is missing");
  EXPECT_EQ(ProgramReason(schema, a + AvroLong(3) + AvroText("x")), "r.b: is missing");
}

TEST(AvroProgram, ReadsNumbersByTheRulesOfTheField) {
  const Schema schema = AvroSchemaOf(
      "  a: {type: number, log: true, mean: 1, std: 2}\n  h: {type: number, period: 24}\n"
      "  y: {type: number, role: label, classes: 3}\n",
      ProgramRecord(
          R"({"name": "y", "type": "long"}, {"name": "h", "type": "float"}, {"name": "a", "type": "double"})"));
  const auto record = [](int64_t y, float h, double a) { return AvroLong(y) + AvroFloat(h) + AvroFloat(a); };
  const DecodedRows rows = DecodeProgram(schema, {record(2, 6, 0)});
  ASSERT_EQ(rows.rows, 1u);
  EXPECT_FLOAT_EQ(rows.features[0], -0.5f);
  EXPECT_FLOAT_EQ(rows.features[1], 1);
  EXPECT_EQ(rows.labels[0], 2);
  EXPECT_EQ(ProgramReason(schema, record(3, 6, 0)), "y: 3 is not a whole number from 0 to 2");
  EXPECT_EQ(ProgramReason(schema, record(0, 6, -1)), "a: -1 is below 0, which log does not take");
  EXPECT_EQ(ProgramReason(schema, record(0, 6, std::nan(""))), "a: is not a number");
  EXPECT_EQ(ProgramReason(schema, record(0, std::numeric_limits<float>::infinity(), 1)),
            "h: inf is too large");
}

TEST(AvroProgram, ReadsListsInBlocks) {
  const Schema schema = AvroSchemaOf(
      "  x: {type: id, below: 9, length: 3}\n",
      ProgramRecord(R"({"name": "x", "type": {"type": "array", "items": ["null", "int", "string"]}})"));
  const auto item = [](int64_t x) { return AvroLong(1) + AvroLong(x); };
  const std::string end = AvroLong(0), one = AvroLong(1), two = AvroLong(2);
  const DecodedRows rows = DecodeProgram(
      schema,
      {end, one + item(4) + end, AvroLong(-2) + AvroLong(4) + item(1) + item(2) + one + item(3) + end});
  EXPECT_THAT(rows.features, ElementsAre(0, 0, 0, 4, 0, 0, 1, 2, 3));
  EXPECT_EQ(ProgramReason(schema, two + item(1) + item(2) + two + item(3)), "x: has 4 items, more than 3");
  EXPECT_EQ(ProgramReason(schema, AvroLong(std::numeric_limits<int64_t>::min()) + AvroLong(0)),
            "x: has 9223372036854775808 items, more than 3");
  EXPECT_EQ(ProgramReason(schema, one + item(9) + end), "x: 9 is not a whole number from 0 to 8");
  EXPECT_EQ(ProgramReason(schema, one + item(-1) + end), "x: -1 is not a whole number from 0 to 8");
  EXPECT_EQ(ProgramReason(schema, one + AvroLong(0) + end), "x: holds null");
  EXPECT_EQ(ProgramReason(schema, one + AvroLong(2) + AvroText("a") + end), "x: holds a string");
  EXPECT_EQ(ProgramReason(schema, AvroLong(-1) + AvroLong(3) + item(1) + end),
            "x: a block of an array has 2 bytes and says 3");
  EXPECT_EQ(ProgramReason(schema, AvroLong(-1) + AvroLong(-2) + item(1) + end),
            "x: its length is -2, and 3 bytes are left");
}

TEST(AvroProgram, ReadsTextsListsOfNumbersAndWhatIsCut) {
  const Schema schema = AvroSchemaOf(
      "  w: {type: text, values: [red, blue], length: 3}\n  k: {type: text, values: [red, blue], length: 2}\n"
      "  n: {type: number, length: 2, truncate: true, log: true}\n",
      ProgramRecord(
          R"({"name": "n", "type": {"type": "array", "items": "double"}}, {"name": "w", "type": "string"},
                {"name": "k", "type": {"type": "enum", "name": "K", "symbols": ["red", "blue"]}})"));
  const auto item = [](double x) { return AvroFloat(x); };
  const std::string end = AvroLong(0), text = AvroText("blue red") + AvroLong(1);
  const DecodedRows rows =
      DecodeProgram(schema, {AvroLong(1) + item(0) + end + text,
                             AvroLong(2) + item(0) + item(0) + AvroLong(1) + item(7) + end + text});
  ASSERT_EQ(rows.rows, 2u);
  const auto json = Schema::FromConfig(
      Config::Parse("format: json\nfields:\n  w: {type: text, values: [red, blue], length: 3}\n  k: {type: "
                    "text, values: [red, blue], "
                    "length: 2}\n  n: {type: number, length: 2, truncate: true, log: true}\n",
                    "job.yaml"));
  EXPECT_EQ(rows.features, DecodeProgram(json, {R"({"w": "blue red", "k": "blue", "n": [0]})",
                                                R"({"w": "blue red", "k": "blue", "n": [0, 0, 7]})"})
                               .features);
  EXPECT_EQ(ProgramReason(schema, AvroLong(1) + item(-1) + end + text),
            "n: -1 is below 0, which log does not take");
}

TEST(AvroProgram, RefusesRecordsThatAreTooLarge) {
  const std::string record =
      ProgramRecord(R"({"name": "x", "type": "int"}, {"name": "s", "type": "string"})");
  auto schema = Schema::FromConfig(Config::Parse(
      "format: avro\nmax_record_bytes: 10\navro: {schema: a}\nfields: {x: {type: number}}", "job.yaml"));
  (void)UseAvro({{0, record}}, &schema);
  EXPECT_EQ(ProgramReason(schema, AvroLong(1) + AvroText("12345678")), "kept");
  EXPECT_EQ(ProgramReason(schema, AvroLong(1) + AvroText("123456789")),
            "has 11 bytes, more than max_record_bytes 10");
}

// Fields behind a union are not part of its last branch.
TEST(AvroProgram, SkipsAfterABranchForAllBranches) {
  const Schema schema =
      AvroSchemaOf("  b: {type: number, path: r.b, default: -1}\n  x: {type: number}\n",
                   ProgramRecord(R"({"name": "r", "type": ["null", {"type": "record", "name": "S", "fields": [
                  {"name": "b", "type": "int"}, {"name": "c", "type": "double"}]}]},
                {"name": "t", "type": "float"}, {"name": "u", "type": "boolean"}, {"name": "x", "type": "int"})"));
  const std::string skipped = AvroFloat(1.0f) + "\1", x = AvroLong(9);
  const DecodedRows rows = DecodeProgram(
      schema, {AvroLong(0) + skipped + x, AvroLong(1) + AvroLong(3) + AvroFloat(2.0) + skipped + x});
  EXPECT_THAT(rows.features, ElementsAre(-1, 9, 3, 9));
}

TEST(AvroProgram, SkipsHugeCountsWithoutWork) {
  const Schema schema = AvroSchemaOf(
      "  x: {type: number}\n", ProgramRecord(R"({"name": "nulls", "type": {"type": "array", "items": "null"}},
                {"name": "flags", "type": {"type": "array", "items": "boolean"}},
                {"name": "map", "type": {"type": "map", "values": "null"}}, {"name": "x", "type": "int"})"));
  const std::string end = AvroLong(0), most = AvroLong(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ProgramReason(schema, most + most + end + end + end + AvroLong(1)), "kept");
  EXPECT_EQ(ProgramReason(schema, end + most + "\1\1"), "flags: the record ends within it");
  EXPECT_EQ(ProgramReason(schema, end + end + most + AvroText("k")), "map: the record ends within it");
  EXPECT_EQ(ProgramReason(schema, end + AvroLong(-1) + AvroLong(50) + "\1"),
            "flags: its length is 50, and 1 bytes are left");
}

TEST(AvroProgram, NestsToALimit) {
  const Schema schema =
      AvroSchemaOf("  x: {type: number}\n",
                   ProgramRecord(R"({"name": "x", "type": "int"}, {"name": "next", "type": ["null", "R"]})"));
  const auto nested = [](int depth) {
    std::string out;
    for (int i = 0; i < depth; ++i) out += AvroLong(i) + AvroLong(1);
    return out + AvroLong(0) + AvroLong(0);
  };
  EXPECT_EQ(ProgramReason(schema, nested(100)), "kept");
  EXPECT_EQ(ProgramReason(schema, nested(100'000)), "next: is nested more than 256 times");
}

TEST(AvroProgram, ChecksTheTextThatItReads) {
  const Schema schema = AvroSchemaOf(
      "  c: {type: category, buckets: 7}\n",
      ProgramRecord(R"({"name": "skipped", "type": "string"}, {"name": "c", "type": "string"})"));
  for (const char* text : {"", "é", "plain ascii text", "12345678é", "1234567\xc3\xa9"})
    EXPECT_EQ(ProgramReason(schema, AvroText("") + AvroText(text)), "kept") << text;
  for (const char* text : {"\xff", "1234567\xff", "12345678\xff",
                           "\xff"
                           "123456789",
                           "\xc3"})
    EXPECT_EQ(ProgramReason(schema, AvroText("") + AvroText(text)), "c: is not UTF-8");
  EXPECT_EQ(ProgramReason(schema, AvroText("\xff") + AvroText("")), "kept")
      << "what is skipped may be anything";
}

// ---- the job's fields and the writer's schema

std::string ProgramMistake(const std::string& fields, const std::string& text) {
  return leat::Mistake([&] { AvroSchemaOf(fields, text); });
}

TEST(AvroProgram, SaysWhatDoesNotFitInOneLine) {
  const std::string record = ProgramRecord(
      R"({"name": "amount", "type": "double"}, {"name": "kind", "type": {"type": "enum", "name": "Kind",
      "symbols": ["A"]}}, {"name": "home", "type": {"type": "record", "name": "Home", "fields": [
      {"name": "city", "type": "string"}]}}, {"name": "tags", "type": {"type": "map", "values": "int"}},
      {"name": "ids", "type": {"type": "array", "items": "string"}}, {"name": "n", "type": ["null"]})");
  EXPECT_EQ(ProgramMistake("  amuont: {type: number}\n", record),
            "job.yaml:4: payment.avsc: field 'amuont' is not in the Avro schema: the record 'R' has no field "
            "'amuont'; did you mean 'amount'?");
  EXPECT_EQ(ProgramMistake("  amuont: {type: number, default: 3}\n", record).substr(0, 40),
            "job.yaml:4: payment.avsc: field 'amuont'");
  EXPECT_EQ(
      ProgramMistake("  c: {type: category, buckets: 3, path: home.ctiy}\n", record),
      "job.yaml:4: payment.avsc: field 'home.ctiy' is not in the Avro schema: the record 'Home' has no field "
      "'ctiy'; did you mean 'city'?");
  EXPECT_EQ(ProgramMistake("  kind: {type: number}\n", record),
            "job.yaml:4: payment.avsc: field 'kind' is the enum 'Kind' in the Avro schema, not a number");
  EXPECT_EQ(ProgramMistake("  amount: {type: category, buckets: 3}\n", record),
            "job.yaml:4: payment.avsc: field 'amount' is a double in the Avro schema, not a string, enum, "
            "int, long or "
            "boolean");
  EXPECT_EQ(ProgramMistake("  home: {type: number}\n", record),
            "job.yaml:4: payment.avsc: field 'home' is the record 'Home' in the Avro schema, not a number");
  EXPECT_EQ(ProgramMistake("  ids: {type: id, below: 3, length: 3}\n", record),
            "job.yaml:4: payment.avsc: field 'ids' is an array in the Avro schema, not an array of numbers");
  EXPECT_EQ(ProgramMistake("  t: {type: number, path: tags.a}\n", record),
            "job.yaml:4: payment.avsc: field 'tags.a' is inside 'tags', which is a map; paths lead through "
            "records");
  EXPECT_EQ(ProgramMistake("  n: {type: number}\n", record),
            "job.yaml:4: payment.avsc: field 'n' is always null in the Avro schema");
  EXPECT_EQ(ProgramMistake("  x: {type: number}\n", "\"int\""),
            "job.yaml:2: payment.avsc: is an int, not a record");
  EXPECT_EQ(ProgramMistake("  x: {type: number}\n", "{"),
            "job.yaml:2: payment.avsc: is not JSON: " +
                std::string("The JSON document has an improper structure: missing or superfluous commas, "
                            "braces, missing keys, etc."));
  EXPECT_EQ(ProgramMistake("  amount: {type: number}\n  note: {role: ignore}\n", record), "");
}

// Unions in unions of records: the number of paths doubles with each level.
TEST(AvroProgram, RefusesASchemaWithTooManyPaths) {
  std::string inner = R"({"type": "record", "name": "R", "fields": [{"name": "p", "type": "int"}]})",
              path = "p";
  for (int i = 0; i < 20; ++i, path += ".p") {
    const std::string name = std::to_string(i);
    inner = R"({"type": "record", "name": "A)" + name + R"(", "fields": [{"name": "p", "type": [)" + inner +
            R"(, {"type": "record", "name": "B)" + name + R"(", "fields": [{"name": "p", "type": ")" +
            (i == 0 ? "R" : "A" + std::to_string(i - 1)) + R"("}]}]}]})";
  }
  EXPECT_THAT(ProgramMistake("  x: {type: number, path: " + path + ", default: 0}\n", inner),
              HasSubstr("needs more than 65536 steps"));
}

}  // namespace
}  // namespace leat::stream
