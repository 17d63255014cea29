#include "stream/avro/avro_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using AvroKind = AvroType::Kind;

AvroSchema ParseAvro(const std::string& json) {
  auto schema = AvroSchema::Parse(json);
  EXPECT_TRUE(schema.ok()) << schema.status().message();
  return schema.ok() ? *schema : AvroSchema{.types = {{}}};
}

std::string AvroErrorOf(const std::string& json) {
  const auto schema = AvroSchema::Parse(json);
  return schema.ok() ? "" : schema.status().message();
}

std::string RecordSchema(const std::string& fields) {
  return R"({"type": "record", "name": "R", "fields": [)" + fields + "]}";
}

TEST(AvroSchema, FindsNamesInTheirNamespaces) {
  const AvroSchema schema = ParseAvro(R"({"type": "record", "name": "a.b.R", "fields": [
    {"name": "x", "type": {"type": "fixed", "name": "F", "size": 4}},
    {"name": "y", "type": {"type": "record", "name": "S", "namespace": "other", "fields": [
      {"name": "e", "type": {"type": "enum", "name": "F", "symbols": ["U", "V"]}},
      {"name": "same", "type": "F"}, {"name": "outer", "type": "a.b.F"}]}},
    {"name": "z", "type": ["null", "F", {"type": "map", "values": "other.F"}]}]})");
  const AvroType& root = schema.types[schema.root];
  EXPECT_EQ(root.name, "a.b.R");
  EXPECT_THAT(root.names, ElementsAre("x", "y", "z"));
  const AvroType& inner = schema.types[root.parts[1]];
  EXPECT_EQ(inner.name, "other.S");
  EXPECT_EQ(schema.types[inner.parts[1]].name, "other.F");
  EXPECT_EQ(schema.types[inner.parts[1]].kind, AvroKind::kEnum);
  EXPECT_EQ(inner.parts[2], root.parts[0]);
  const AvroType& last = schema.types[root.parts[2]];
  ASSERT_EQ(last.parts.size(), 3u);
  EXPECT_EQ(last.parts[1], root.parts[0]);
  EXPECT_EQ(schema.types[schema.types[last.parts[2]].parts[0]].name, "other.F");
}

TEST(AvroSchema, KnowsTheBytesOfConstantTypes) {
  const AvroSchema schema =
      ParseAvro(RecordSchema(R"({"name": "a", "type": {"type": "record", "name": "P", "fields": [
    {"name": "x", "type": "float"}, {"name": "y", "type": {"type": "double"}}, {"name": "n", "type": "null"},
    {"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}}, {"name": "b", "type": "boolean"}]}},
    {"name": "p", "type": "P"}, {"name": "e", "type": {"type": "record", "name": "E", "fields": []}})"));
  const AvroType& root = schema.types[schema.root];
  EXPECT_EQ(root.bytes, 32u);
  EXPECT_EQ(schema.types[root.parts[0]].bytes, 16u);
  EXPECT_EQ(schema.types[root.parts[2]].bytes, 0u);
  const AvroSchema varies =
      ParseAvro(RecordSchema(R"({"name": "a", "type": "float"}, {"name": "b", "type": "int"})"));
  EXPECT_EQ(varies.types[varies.root].bytes, AvroType::kVaries);
}

// 2^60 bytes by doubling: the sizes are limited, and nothing walks all paths.
TEST(AvroSchema, ManyPathsToOneTypeCostNothing) {
  std::string fields = R"({"name": "f", "type": {"type": "record", "name": "R0", "fields": [
    {"name": "x", "type": "double"}]}})";
  for (int i = 1; i <= 57; ++i) {
    const std::string part = "R" + std::to_string(i - 1);
    fields += R"(, {"name": "f)" + std::to_string(i) + R"(", "type": {"type": "record", "name": "R)" +
              std::to_string(i) + R"(", "fields": [{"name": "a", "type": ")" + part +
              R"("}, {"name": "b", "type": ")" + part + R"("}]}})";
  }
  const AvroSchema schema = ParseAvro(RecordSchema(fields));
  EXPECT_EQ(schema.types[schema.root].bytes, AvroType::kVaries);
}

TEST(AvroSchema, ReadsDecimalsAndIgnoresInvalidOnes) {
  const auto field = [](const std::string& attributes) {
    const AvroSchema schema = ParseAvro(R"({"type": "bytes", "logicalType": "decimal")" + attributes + "}");
    return schema.types[schema.root];
  };
  EXPECT_TRUE(field(R"(, "precision": 9, "scale": 3)").decimal);
  EXPECT_EQ(field(R"(, "precision": 9, "scale": 3)").scale, 3u);
  EXPECT_TRUE(field(R"(, "precision": 9)").decimal);
  for (const char* invalid :
       {"", R"(, "precision": 0)", R"(, "precision": 2, "scale": 3)", R"(, "precision": 9, "scale": -1)",
        R"(, "precision": 9, "scale": "3")", R"(, "precision": 400, "scale": 301)"}) {
    EXPECT_FALSE(field(invalid).decimal) << invalid;
  }
}

TEST(AvroSchema, RecursionNeedsAChoice) {
  EXPECT_EQ(AvroErrorOf(RecordSchema(R"({"name": "next", "type": ["null", "R"]})")), "");
  EXPECT_EQ(AvroErrorOf(RecordSchema(R"({"name": "parts", "type": {"type": "array", "items": "R"}})")), "");
  EXPECT_EQ(
      AvroErrorOf(RecordSchema(R"({"name": "a", "type": ["null", {"type": "record", "name": "S", "fields": [
    {"name": "r", "type": "R"}]}]})")),
      "");
  EXPECT_EQ(AvroErrorOf(RecordSchema(R"({"name": "next", "type": "R"})")), "the record 'R' contains itself");
  EXPECT_THAT(AvroErrorOf(RecordSchema(R"({"name": "a", "type": {"type": "record", "name": "S", "fields": [
    {"name": "r", "type": "R"}]}})")),
              HasSubstr("contains itself"));
}

TEST(AvroSchema, SaysWhatIsWrong) {
  EXPECT_THAT(AvroErrorOf("{"), HasSubstr("is not JSON"));
  EXPECT_THAT(AvroErrorOf("7"), HasSubstr("a type is a name, an object or a list"));
  EXPECT_EQ(AvroErrorOf("\"strng\""), "unknown type 'strng'; did you mean 'string'?");
  EXPECT_EQ(AvroErrorOf(RecordSchema(R"({"name": "x", "type": "Q"})")).substr(0, 28),
            "field 'x': unknown type 'Q'");
  EXPECT_EQ(AvroErrorOf(R"({"name": "x"})"), "an object has no type");
  EXPECT_EQ(AvroErrorOf(R"({"type": "record", "fields": []})"), "a record, enum or fixed has no name");
  EXPECT_EQ(AvroErrorOf(R"({"type": "record", "name": "R"})"), "the record 'R' has no list of fields");
  EXPECT_EQ(AvroErrorOf(RecordSchema(R"({"name": "x"})")), "a field of the record 'R' lacks name or type");
  EXPECT_EQ(AvroErrorOf(RecordSchema(R"({"name": "x", "type": "int"}, {"name": "x", "type": "int"})")),
            "'R' has the field 'x' twice");
  EXPECT_EQ(AvroErrorOf(RecordSchema(R"({"name": "x", "type": {"type": "fixed", "name": "R", "size": 1}})")),
            "field 'x': the type 'R' is defined twice");
  EXPECT_EQ(AvroErrorOf(R"(["null", ["int"]])"), "a union contains a union");
  EXPECT_EQ(AvroErrorOf("[]"), "a union has no branches");
  EXPECT_EQ(AvroErrorOf(R"({"type": "array"})"), "an array has no items");
  EXPECT_EQ(AvroErrorOf(R"({"type": "map"})"), "a map has no values");
  EXPECT_THAT(AvroErrorOf(R"({"type": "fixed", "name": "F", "size": -1})"), HasSubstr("has no size from 0"));
  EXPECT_THAT(AvroErrorOf(R"({"type": "enum", "name": "E", "symbols": ["A", 1]})"), HasSubstr("is no text"));
  EXPECT_EQ(AvroErrorOf(R"({"type": "enum", "name": "E", "symbols": ["A", "A"]})"),
            "'E' has the symbol 'A' twice");
  std::string deep = "\"int\"";
  for (int i = 0; i < 100; ++i) deep = R"({"type": "array", "items": )" + deep + "}";
  EXPECT_THAT(AvroErrorOf(deep), HasSubstr("nested too deeply"));
  EXPECT_THAT(AvroErrorOf(std::string(AvroSchema::kMaxText + 1, ' ')), HasSubstr("at most 1048576"));
  std::string many;
  for (size_t i = 0; i < AvroSchema::kMaxTypes; ++i) many += R"({"type": "array", "items": "int"},)";
  EXPECT_THAT(AvroErrorOf("[" + many + "\"int\"]"), HasSubstr("more than 4096 types"));
}

TEST(AvroSchema, MinifiesText) {
  EXPECT_EQ(*MinifyJson("{ \"type\" :\n \"int\", \"doc\": \"a b\" }"), R"({"type":"int","doc":"a b"})");
  EXPECT_FALSE(MinifyJson("{").ok());
}

}  // namespace
}  // namespace leat::stream
