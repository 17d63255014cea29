#include "stream/avro/schema_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "net/http_client/testing.h"
#include "stream/avro/testing.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using net::testing::HttpStub;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kOld = R"({"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]})";
constexpr const char* kNew =
    R"({"type": "record", "name": "P", "fields": [{"name": "y", "type": "int"}, {"name": "x", "type": "float"}]})";
constexpr const char* kOther = R"({"type": "record", "name": "Q", "fields": [{"name": "z", "type": "int"}]})";
const std::string kAvroFields = "  x: {type: number}\n  y: {type: number, default: -1}\n";

Schema MakeAvro(const std::string& avro, const std::string& fields = kAvroFields) {
  return Schema::FromConfig(
      Config::Parse("format: avro\navro: " + avro + "\nfields:\n" + fields, "job.yaml"));
}

DecodedRows DecodeAvro(const Schema& schema, const std::vector<std::string>& records) {
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf(records, 100), &rows);
  return rows;
}

std::vector<std::string> ReasonsOf(const DecodedRows& rows) {
  std::vector<std::string> reasons;
  for (const auto& letter : rows.dead) reasons.push_back(letter.reason);
  return reasons;
}

std::string OldRecord(int x) {
  return AvroLong(x);
}
std::string NewRecord(int y, float x) {
  return AvroLong(y) + AvroFloat(x);
}

// ---- settings

TEST(AvroSettings, SayWhereSchemasAre) {
  EXPECT_EQ(MakeAvro("{schema: a.avsc}").avro.file, "a.avsc");
  EXPECT_FALSE(MakeAvro("{schema: a.avsc}").avro.framed());
  EXPECT_EQ(MakeAvro("{registry: schemas}").avro.folder, "schemas");
  EXPECT_TRUE(MakeAvro("{registry: schemas}").avro.framed());
  EXPECT_EQ(MakeAvro("{registry: {7: a.avsc, 4294967295: b.avsc}}").avro.files,
            (std::map<uint32_t, std::string>{{7, "a.avsc"}, {4294967295, "b.avsc"}}));
  EXPECT_EQ(MakeAvro("{registry: https://r:8081//}").avro.registry->url, "https://r:8081");
  const auto full = MakeAvro(
      "{registry: {url: http://r/sub, basic.auth.user.info: {env: U}, ssl.ca.location: ca, "
      "ssl.certificate.location: c, ssl.key.location: k, ssl.key.password: {file: p}, timeout_s: 2.5}}");
  EXPECT_EQ(full.avro.registry->url, "http://r/sub");
  EXPECT_EQ(full.avro.registry->user->variable, "U");
  EXPECT_EQ(full.avro.registry->key_password->file, "p");
  EXPECT_EQ(full.avro.registry->timeout, std::chrono::milliseconds(2500));
}

TEST(AvroSettings, SayWhatIsWrong) {
  const auto error = [](const std::string& avro) { return Mistake([&] { MakeAvro(avro); }); };
  EXPECT_THAT(error("a.avsc"), HasSubstr("job.yaml:2: avro must be a map"));
  EXPECT_THAT(error("{}"), HasSubstr("either a schema"));
  EXPECT_THAT(error("{schema: a, registry: b}"), HasSubstr("either a schema"));
  EXPECT_THAT(error("{shcema: a}"), HasSubstr("schema"));
  EXPECT_THAT(error("{registry: {x: a}}"), HasSubstr("'x' is not the id of a schema"));
  EXPECT_THAT(error("{registry: {4294967296: a}}"), HasSubstr("is not the id of a schema"));
  EXPECT_THAT(error("{registry: ftp://x}"), HasSubstr("begins with http:// or https://"));
  EXPECT_THAT(error("{registry: \"http://user:open-sesame@x\"}"),
              ::testing::AllOf(HasSubstr("{env: NAME} or {file: PATH}"), Not(HasSubstr("open-sesame"))));
  EXPECT_THAT(error("{registry: {url: http://x, basic.auth.user.info: open-sesame}}"),
              ::testing::AllOf(HasSubstr("is a secret"), Not(HasSubstr("open-sesame"))));
  EXPECT_THAT(error("{registry: {url: http://x, timeout_s: 0}}"), HasSubstr("timeout_s"));
  EXPECT_THAT(Mistake([] {
                Schema::FromConfig(Config::Parse(
                    "format: json\navro: {schema: a}\nfields: {x: {type: number}}", "job.yaml"));
              }),
              HasSubstr("avro is for the format avro"));
}

TEST(AvroSettings, TheHashSeesTheSchemas) {
  const auto hash = [](const std::string& avro, const AvroTexts& texts) {
    Schema schema = MakeAvro(avro);
    (void)UseAvro(texts, &schema);
    return schema.hash();
  };
  const std::string map = "{registry: {0: a, 1: b}}";
  const std::set<uint64_t> all = {hash("{schema: a}", {{0, kNew}}), hash(map, {{0, kNew}}),
                                  hash(map, {{1, kNew}}), hash(map, {{0, kNew}, {1, kOld}}),
                                  hash(map, {{0, std::string(kNew) + " "}, {1, kOld}})};
  EXPECT_EQ(all.size(), 5u);
  EXPECT_EQ(hash("{schema: a}", {{0, kNew}}), hash("{schema: b}", {{0, kNew}}));
}

// ---- schemas in files

TEST(AvroDecoder, ReadsFramedRecordsByTheirIds) {
  Schema schema = MakeAvro("{registry: {1: old.avsc, 16909060: new.avsc}}");
  EXPECT_TRUE(UseAvro({{1, kOld}, {16909060, kNew}}, &schema).empty());
  const DecodedRows rows =
      DecodeAvro(schema, {Framed(1, OldRecord(3)), Framed(16909060, NewRecord(5, 0.5f)), Framed(2, "x"), "",
                          std::string(4, '\0'), "\1" + OldRecord(3) + "....", Framed(1, ""),
                          std::string("\0\1\2\3\4", 5) + NewRecord(6, 1.5f)});
  EXPECT_THAT(rows.features, ElementsAre(3, -1, 0.5f, 5, 1.5f, 6));
  EXPECT_THAT(rows.index, ElementsAre(0, 1, 7));
  EXPECT_THAT(
      ReasonsOf(rows),
      ElementsAre("schema 2: is not in the job's registry",
                  "has 0 bytes; a record begins with a byte 0 and the 4 bytes of a schema's id",
                  "has 4 bytes; a record begins with a byte 0 and the 4 bytes of a schema's id",
                  "begins with the byte 0x01; a record begins with a byte 0 and the 4 bytes of a schema's id",
                  "x: the record ends within it"));
  EXPECT_EQ(rows.dead[0].offset, 102u);
}

TEST(AvroDecoder, EverySchemaOfAMapFitsAndOneOfAFolder) {
  Schema map = MakeAvro("{registry: {1: old.avsc, 2: other.avsc}}");
  EXPECT_EQ(Mistake([&] {
              (void)UseAvro({{1, kOld}, {2, kOther}}, &map);
            }),
            "job.yaml:4: other.avsc: field 'x' is not in the Avro schema: the record 'Q' has no field 'x'");
  Schema folder = MakeAvro("{registry: all}");
  EXPECT_THAT(UseAvro({{1, kNew}, {2, kOther}}, &folder),
              ElementsAre(HasSubstr("all/2.avsc: field 'x' is not in")));
  EXPECT_THAT(folder.avro.texts, ElementsAre(std::pair(1u, kNew)));
  EXPECT_THAT(ReasonsOf(DecodeAvro(folder, {Framed(2, "x")})),
              ElementsAre("schema 2: is not among those of all that fit the job"));
  EXPECT_THAT(Mistake([&] {
                (void)UseAvro({{2, kOther}}, &folder);
              }),
              HasSubstr("job.yaml:2: no schema fits the job's fields: all/2.avsc: field 'x'"));
  // A default does not excuse a field that no schema has.
  EXPECT_EQ(Mistake([&] {
              (void)UseAvro({{1, kOld}}, &folder);
            }),
            "job.yaml:5: field 'y' is in none of the Avro schemas");
}

TEST(AvroDecoder, NeedsTheTextOfItsSchema) {
  EXPECT_THAT(Mistake([] { MakeDecoder(MakeAvro("{schema: a.avsc}")); }), HasSubstr("has not been read"));
}

// ---- a registry

std::string ReplyOf(const std::string& schema) {
  std::string text;
  for (const char c : schema) text += (c == '"' ? "\\" : "") + std::string(1, c);
  return "{\"schema\": \"" + text + "\"}";
}

TEST(AvroDecoder, AsksARegistryForUnknownIds) {
  HttpStub stub({{"/schemas/ids/1", {200, ReplyOf(kOld)}},
                 {"/schemas/ids/2", {200, ReplyOf(kNew)}},
                 {"/schemas/ids/3", {200, ReplyOf(kOther)}},
                 {"/schemas/ids/4", {200, "nonsense"}},
                 {"/schemas/ids/5", {200, R"({"schemaType": "PROTOBUF", "schema": "message X {}"})"}},
                 {"/schemas/ids/6", {403, ""}}});
  const Schema schema = MakeAvro("{registry: {url: \"" + stub.url() + "/\", timeout_s: 2}}");
  const auto decoder = MakeDecoder(schema);
  DecodedRows rows;
  decoder->Decode(
      BatchOf({Framed(1, OldRecord(3)), Framed(2, NewRecord(5, 0.5f)), Framed(3, "x"), Framed(4, "x"),
               Framed(5, "x"), Framed(6, "x"), Framed(7, "x"), Framed(1, OldRecord(4))}),
      &rows);
  EXPECT_THAT(rows.features, ElementsAre(3, -1, 0.5f, 5, 4, -1));
  const std::string ids = stub.url() + "/schemas/ids/";
  EXPECT_THAT(ReasonsOf(rows),
              ElementsAre("schema 3: field 'x' is not in the Avro schema: the record 'Q' has no field 'x'",
                          "schema 4: " + ids + "4: the reply has no schema: 'nonsense'",
                          "schema 5: " + ids + "5: the schema is 'PROTOBUF', not Avro",
                          "schema 6: " + ids + "6: the registry answers 403",
                          "schema 7: " + ids + "7: the registry answers 404"));
  const int requests = stub.requests();
  EXPECT_GE(requests, 8) << "7 is asked for again";
  EXPECT_THAT(stub.request(), HasSubstr("Accept: application/vnd.schemaregistry.v1+json"));
  for (int i = 0; i < 10; ++i)
    decoder->Decode(BatchOf({Framed(1, OldRecord(3)), Framed(3, "x"), Framed(7, "x")}), &rows);
  EXPECT_EQ(stub.requests(), requests);
}

TEST(AvroDecoder, SendsTheUserOfARegistry) {
  HttpStub stub({{"/schemas/ids/1", {200, ReplyOf(kOld)}}});
  setenv("LEAT_TEST_REGISTRY_USER", "leat:open-sesame", 1);
  const DecodedRows rows = DecodeAvro(MakeAvro("{registry: {url: \"" + stub.url() +
                                               "\", basic.auth.user.info: {env: LEAT_TEST_REGISTRY_USER}}}"),
                                      {Framed(1, OldRecord(3))});
  EXPECT_EQ(rows.rows, 1u);
  EXPECT_THAT(stub.request(), HasSubstr("Authorization: Basic bGVhdDpvcGVuLXNlc2FtZQ=="));
  EXPECT_THAT(
      Mistake([&] {
        MakeDecoder(MakeAvro("{registry: {url: http://x, basic.auth.user.info: {env: LEAT_NO_SUCH}}}"));
      }),
      HasSubstr("'basic.auth.user.info': the environment has no variable LEAT_NO_SUCH"));
}

TEST(AvroDecoder, GivesUpOnARegistryThatIsDown) {
  std::string url;
  {
    HttpStub stub({});
    url = stub.url();
  }
  const Schema schema = MakeAvro("{registry: {url: \"" + url + "\", timeout_s: 0.2}}");
  const auto decoder = MakeDecoder(schema);
  DecodedRows rows;
  std::vector<std::string> records;
  for (uint32_t id = 0; id < 500; ++id) records.push_back(Framed(id, "x"));
  decoder->Decode(BatchOf(records), &rows);
  ASSERT_EQ(rows.dead.size(), 500u);
  EXPECT_THAT(rows.dead[499].reason, ::testing::StartsWith("schema 499: " + url + "/schemas/ids/"));
}

TEST(AvroDecoder, RefusesLongReplies) {
  HttpStub stub({{"/schemas/ids/1", {200, std::string(SchemaService::kMaxReply + 1, 'x')}}});
  const DecodedRows rows = DecodeAvro(MakeAvro("{registry: \"" + stub.url() + "\"}"), {Framed(1, "x")});
  EXPECT_THAT(ReasonsOf(rows), ElementsAre(HasSubstr("the reply has more than 4194304 bytes")));
}

}  // namespace
}  // namespace leat::stream
