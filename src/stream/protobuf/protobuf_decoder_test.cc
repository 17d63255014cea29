#include "stream/decode/decoder.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

namespace pb = google::protobuf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two files: one proto3 with a oneof, presence and an enum, that imports one of proto2 with a group.
constexpr const char* kFiles = R"(
file {
  name: "old.proto" package: "old" syntax: "proto2"
  enum_type { name: "Grade" value { name: "LOW" number: 1 } value { name: "HIGH" number: 5 } }
  message_type {
    name: "Customer"
    field { name: "country" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "grade" number: 2 type: TYPE_ENUM type_name: ".old.Grade" label: LABEL_OPTIONAL default_value: "HIGH" }
    field { name: "extra" number: 3 type: TYPE_GROUP type_name: ".old.Customer.Extra" label: LABEL_OPTIONAL }
    field { name: "age" number: 300 type: TYPE_SINT32 label: LABEL_OPTIONAL }
    nested_type { name: "Extra" field { name: "score" number: 4 type: TYPE_DOUBLE label: LABEL_OPTIONAL } }
  }
}
file {
  name: "shop.proto" package: "shop" syntax: "proto3" dependency: "old.proto"
  enum_type { name: "Kind" value { name: "CARD" number: 0 } value { name: "CASH" number: 1 } }
  message_type {
    name: "Payment"
    field { name: "amount" number: 1 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
    field { name: "kind" number: 2 type: TYPE_ENUM type_name: ".shop.Kind" label: LABEL_OPTIONAL }
    field { name: "customer" number: 3 type: TYPE_MESSAGE type_name: ".old.Customer" label: LABEL_OPTIONAL }
    field { name: "items" number: 4 type: TYPE_UINT32 label: LABEL_REPEATED }
    field { name: "delay" number: 5 type: TYPE_SFIXED64 label: LABEL_OPTIONAL oneof_index: 1 proto3_optional: true }
    field { name: "web" number: 6 type: TYPE_FLOAT label: LABEL_OPTIONAL oneof_index: 0 }
    field { name: "shop" number: 7 type: TYPE_MESSAGE type_name: ".old.Customer" label: LABEL_OPTIONAL oneof_index: 0 }
    field { name: "phone" number: 8 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
    field { name: "fraud" number: 9 type: TYPE_BOOL label: LABEL_OPTIONAL }
    field { name: "note" number: 1000 type: TYPE_BYTES label: LABEL_OPTIONAL }
    field { name: "many" number: 11 type: TYPE_MESSAGE type_name: ".shop.Payment" label: LABEL_REPEATED }
    oneof_decl { name: "by" } oneof_decl { name: "_delay" }
  }
}
)";

constexpr const char* kProtobufSchema = R"(format: protobuf
protobuf: {descriptor: payments.pb, message: shop.Payment}
fields:
  amount: {type: number}
  kind: {type: category, values: [CARD, CASH, "7"]}
  country: {type: category, values: [ES, MX], path: customer.country, default: ES}
  grade: {type: number, path: customer.grade, default: -2}
  score: {type: number, path: customer.extra.score, default: -3}
  age: {type: number, path: customer.age, default: -4}
  items: {type: id, below: 1000, length: 4, pad: 9}
  delay: {type: number, default: -5}
  web: {type: number, default: -6}
  home: {type: category, buckets: 3, path: shop.country, default: none}
  fraud: {type: number, role: label, classes: 2}
)";

std::string Descriptor() {
  pb::FileDescriptorSet set;
  EXPECT_TRUE(pb::TextFormat::ParseFromString(kFiles, &set));
  return set.SerializeAsString();
}

Schema SchemaFrom(const std::string& yaml) {
  Schema schema = Schema::FromConfig(Config::Parse(yaml, "job.yaml"));
  UseDescriptor(Descriptor(), &schema);
  return schema;
}

// Reads the same bytes with libprotobuf.
class Oracle {
 public:
  Oracle() {
    pb::FileDescriptorSet set;
    set.ParseFromString(Descriptor());
    for (const auto& file : set.file()) pool_.BuildFile(file);
    prototype_ = factory_.GetPrototype(pool_.FindMessageTypeByName("shop.Payment"));
  }
  std::unique_ptr<pb::Message> Make() const { return std::unique_ptr<pb::Message>(prototype_->New()); }

  // The features of kProtobufSchema but for the hashed one; empty: a dead letter.
  static std::vector<float> Row(const pb::Message& m) {
    const auto& r = *m.GetReflection();
    const auto& d = *m.GetDescriptor();
    const auto field = [](const pb::Message& of, const char* name) {
      return of.GetDescriptor()->FindFieldByName(name);
    };
    std::vector<float> row{static_cast<float>(r.GetDouble(m, field(m, "amount")))};
    if (!std::isfinite(row[0])) return {};
    const int kind = r.GetEnumValue(m, field(m, "kind"));
    for (const int known : {0, 1, 7}) row.push_back(kind == known ? 1 : 0);
    const auto& c = r.GetMessage(m, field(m, "customer"));
    const auto& cr = *c.GetReflection();
    const auto has = [&](const char* name) { return cr.HasField(c, field(c, name)); };
    const std::string country = has("country") ? cr.GetString(c, field(c, "country")) : "ES";
    row.push_back(country == "ES" ? 1 : 0);
    row.push_back(country == "MX" ? 1 : 0);
    row.push_back(has("grade") ? static_cast<float>(cr.GetEnumValue(c, field(c, "grade"))) : -2);
    const auto& e = cr.GetMessage(c, field(c, "extra"));
    row.push_back(e.GetReflection()->HasField(e, field(e, "score"))
                      ? static_cast<float>(e.GetReflection()->GetDouble(e, field(e, "score")))
                      : -3);
    row.push_back(has("age") ? static_cast<float>(cr.GetInt32(c, field(c, "age"))) : -4);
    const auto* items = d.FindFieldByName("items");
    const int count = r.FieldSize(m, items);
    if (count > 4) return {};
    for (int i = 0; i < 4; ++i) {
      row.push_back(i < count ? static_cast<float>(r.GetRepeatedUInt32(m, items, i)) : 9);
      if (i < count && r.GetRepeatedUInt32(m, items, i) >= 1000) return {};
    }
    row.push_back(r.HasField(m, field(m, "delay")) ? static_cast<float>(r.GetInt64(m, field(m, "delay")))
                                                   : -5);
    row.push_back(r.HasField(m, field(m, "web")) ? r.GetFloat(m, field(m, "web")) : -6);
    for (const float x : row) {
      if (!std::isfinite(x)) return {};
    }
    return row;
  }

 private:
  pb::DescriptorPool pool_;
  pb::DynamicMessageFactory factory_;
  const pb::Message* prototype_;
};

void Fill(pb::Message* m, Rng& rng, int depth) {
  const auto& r = *m->GetReflection();
  for (int i = 0; i < m->GetDescriptor()->field_count(); ++i) {
    const auto* f = m->GetDescriptor()->field(i);
    if (rng.Chance(0.4)) continue;
    const auto number = rng.Chance(0.5) ? rng.Below(1000) : rng();
    for (uint64_t n = f->is_repeated() ? rng.Below(5) : 1; n > 0; --n) {
      switch (f->cpp_type()) {
        case pb::FieldDescriptor::CPPTYPE_DOUBLE:
          r.SetDouble(m, f, static_cast<double>(number) / 8);
          break;
        case pb::FieldDescriptor::CPPTYPE_FLOAT:
          r.SetFloat(m, f, static_cast<float>(number) / 4);
          break;
        case pb::FieldDescriptor::CPPTYPE_ENUM:
          r.SetEnumValue(m, f, static_cast<int>(rng.Below(9)));
          break;
        case pb::FieldDescriptor::CPPTYPE_MESSAGE:
          if (depth > 0) Fill(f->is_repeated() ? r.AddMessage(m, f) : r.MutableMessage(m, f), rng, depth - 1);
          break;
        case pb::FieldDescriptor::CPPTYPE_UINT32:
          r.AddUInt32(m, f, static_cast<uint32_t>(rng.Chance(0.98) ? rng.Below(1000) : number));
          break;
        case pb::FieldDescriptor::CPPTYPE_INT32:
          r.SetInt32(m, f, static_cast<int32_t>(number));
          break;
        case pb::FieldDescriptor::CPPTYPE_INT64:
          r.SetInt64(m, f, static_cast<int64_t>(number));
          break;
        case pb::FieldDescriptor::CPPTYPE_BOOL:
          r.SetBool(m, f, rng.Chance(0.5));
          break;
        default:
          r.SetString(m, f, rng.Chance(0.5) ? "ES" : rng.Chance(0.5) ? "MX" : "é");
      }
    }
  }
}

TEST(ProtobufDecoder, AgreesWithLibprotobuf) {
  const Schema schema = SchemaFrom(kProtobufSchema);
  const auto decoder = MakeProtobufDecoder(schema);
  const Oracle oracle;
  const pb::LogSilencer silencer;  // hides warnings of invalid UTF-8
  Rng rng(3);
  int rows = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto message = oracle.Make();
    Fill(message.get(), rng, 2);
    std::string record = message->SerializeAsString();
    if (rng.Chance(0.3)) {  // a second message after it is merged into it
      Fill(message.get(), rng, 1);
      record += message->SerializeAsString();
    }
    if (rng.Chance(0.3) && !record.empty())
      record[rng.Below(record.size())] ^= static_cast<char>(1 << rng.Below(8));
    if (rng.Chance(0.1)) record.resize(rng.Below(record.size() + 1));
    DecodedRows out;
    decoder->Decode(BatchOf({record}), &out);
    const auto parsed = oracle.Make();
    if (record.empty()) {
      ASSERT_EQ(out.dead.size(), 1u);
      continue;
    }
    // Fields that are not read may be anything.
    if (!parsed->ParsePartialFromString(record)) {
      ++refused;
      continue;
    }
    const auto expected = Oracle::Row(*parsed);
    if (expected.empty()) {
      ASSERT_EQ(out.rows, 0u);
      continue;
    }
    if (out.rows == 0) {
      // A proto2 string may be anything to libprotobuf.
      ASSERT_THAT(out.dead[0].reason, HasSubstr("is not UTF-8"));
      continue;
    }
    ++rows;
    out.features.erase(out.features.end() - 3, out.features.end());
    ASSERT_EQ(out.features, expected) << parsed->ShortDebugString();
  }
  EXPECT_GT(rows, 10'000);
  EXPECT_GT(refused, 1000);
}

std::string Wire(std::initializer_list<int> bytes) {
  std::string out;
  for (const int byte : bytes) out += static_cast<char>(byte);
  return out;
}

// A message with one field: fraud is false.
const std::string kNoFraud("\x48\0", 2);

std::string ReasonOf(const std::string& record, const std::string& schema = kProtobufSchema) {
  DecodedRows rows;
  MakeProtobufDecoder(SchemaFrom(schema))->Decode(BatchOf({record}), &rows);
  return rows.dead.empty() ? "" : rows.dead[0].reason;
}

TEST(ProtobufDecoder, SaysWhyARecordIsDead) {
  EXPECT_EQ(ReasonOf(""), "is empty: a tombstone?");
  EXPECT_EQ(ReasonOf(kNoFraud), "");
  EXPECT_EQ(ReasonOf(Wire({0x08})), "is not Protobuf: the record ends in a number at byte 1");
  EXPECT_EQ(ReasonOf(Wire({0x1a, 0x7f, 0})), "is not Protobuf: a length exceeds what is left at byte 1");
  EXPECT_EQ(ReasonOf("{}"), "is not Protobuf: the record ends in a number at byte 2");
  EXPECT_EQ(ReasonOf(Wire({0x0f})), "is not Protobuf: there is no such field at byte 0");
  EXPECT_EQ(ReasonOf(Wire({0x0c})), "is not Protobuf: a group ends that has not begun at byte 1");
  EXPECT_EQ(ReasonOf(Wire({0x1a, 2, 0x1b, 0x14})),
            "is not Protobuf: a group ends that has not begun at byte 4");
  EXPECT_EQ(ReasonOf(Wire({0x63, 0x6c})), "is not Protobuf: another group ends than has begun at byte 2");
  EXPECT_EQ(ReasonOf(Wire({0x1a, 3, 0x0a, 1, 0xff})), "customer.country: is not UTF-8");
  EXPECT_EQ(ReasonOf(Wire({0x22, 2, 0xe8, 7})), "items: 1000 is not a whole number from 0 to 999");
  EXPECT_EQ(ReasonOf(Wire({0x22, 5, 1, 1, 1, 1, 1})), "items: has 5 items, more than 4");
  EXPECT_EQ(ReasonOf(Wire({0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f})), "amount: inf is too large");
  EXPECT_EQ(ReasonOf(std::string(101, 0x63)), "is not Protobuf: groups are nested too deeply at byte 101");
  const std::string without =
      std::string(kProtobufSchema).replace(std::string(kProtobufSchema).find(", default: -5"), 13, "");
  EXPECT_EQ(ReasonOf(kNoFraud, without), "delay: is missing");
  EXPECT_EQ(ReasonOf(Wire({0x29, 1, 0, 0, 0, 0, 0, 0, 0}), without), "");
}

TEST(ProtobufDecoder, TakesTextsAndListsOfNumbers) {
  const Schema schema = SchemaFrom(R"(format: protobuf
protobuf: {descriptor: payments.pb, message: shop.Payment}
fields:
  phone: {type: text, values: [no, call], length: 3}
  items: {type: number, length: 2, truncate: true, mean: 1}
  sent: {type: number, from: timestamp}
)");
  DecodedRows rows;
  const std::string calls = Wire({0x42, 13}) + "No calls call" + Wire({0x22, 3, 5, 7, 9});
  MakeProtobufDecoder(schema)->Decode(BatchOf({calls, kNoFraud}), &rows);
  ASSERT_EQ(rows.rows, 1u);
  EXPECT_THAT(rows.features, ElementsAre(2, 1, 3, 4, 6, 0));
  ASSERT_EQ(rows.dead.size(), 1u);
  EXPECT_EQ(rows.dead[0].reason, "phone: is missing");
}

TEST(ProtobufDecoder, TakesTheFramingOff) {
  std::string framed = kProtobufSchema;
  framed.replace(framed.find("Payment}"), 8, "Payment, framing: registry}");
  EXPECT_EQ(ReasonOf(Wire({0, 0, 0, 0, 7, 0}), framed), "");
  EXPECT_EQ(ReasonOf(Wire({0, 0, 0, 0, 7, 4, 2, 0, 0x48, 1}), framed), "");
  EXPECT_EQ(ReasonOf("", framed), "is empty: a tombstone?");
  EXPECT_THAT(ReasonOf(kNoFraud, framed), HasSubstr("has 2 bytes; a record begins with a byte 0 and"));
  EXPECT_THAT(ReasonOf("a" + std::string(7, '\0'), framed), HasSubstr("begins with the byte 0x61; a record"));
  EXPECT_THAT(ReasonOf(Wire({0, 0, 0, 0, 7, 1}), framed), HasSubstr("too many indexes"));
  EXPECT_EQ(ReasonOf(Wire({0, 0, 0, 0, 7}), framed),
            "is not Protobuf: the record ends in a number at byte 5");
}

TEST(ProtobufDecoder, RefusesSchemasThatDoNotFit) {
  const auto mistake = [](const std::string& from, const std::string& to) {
    std::string yaml = kProtobufSchema;
    return Mistake([&] { SchemaFrom(yaml.replace(yaml.find(from), from.size(), to)); });
  };
  EXPECT_EQ(mistake("shop.Payment", "shop.Paiment"),
            "job.yaml:2: the message 'shop.Paiment' is not in payments.pb; did you mean 'shop.Payment'?");
  EXPECT_EQ(mistake("shop.Payment", "Payment"),
            "job.yaml:2: the message 'Payment' is not in payments.pb; did you mean 'shop.Payment'?");
  EXPECT_EQ(mistake("  amount", "  amont"),
            "job.yaml:4: 'amont': shop.Payment has no field 'amont'; did you mean 'amount'?");
  EXPECT_THAT(mistake("amount: {type: number}", "note: {type: number}"),
              HasSubstr("which only a category or a text takes"));
  EXPECT_THAT(mistake("amount: {type: number}", "many: {type: number}"), HasSubstr("a repeated message"));
  EXPECT_THAT(mistake("customer.country", "many.note"), HasSubstr("many is repeated"));
  EXPECT_THAT(mistake("customer.country", "note.x"), HasSubstr("and no message"));
  EXPECT_THAT(mistake(", length: 4, pad: 9", ""), HasSubstr("takes a list"));
  EXPECT_THAT(mistake("web: {type: number, default: -6}", "web: {type: text, buckets: 9}"),
              HasSubstr("neither a category nor a text"));
  EXPECT_THAT(mistake("amount: {type: number}", "amount: {type: number, default: 1}"),
              HasSubstr("never missing"));
  Schema schema = Schema::FromConfig(Config::Parse(kProtobufSchema, "job.yaml"));
  EXPECT_THAT(Mistake([&] { UseDescriptor("no descriptor", &schema); }),
              HasSubstr("is not a descriptor set"));
  pb::FileDescriptorSet set;
  set.ParseFromString(Descriptor());
  set.mutable_file()->DeleteSubrange(0, 1);
  EXPECT_THAT(Mistake([&] { UseDescriptor(set.SerializeAsString(), &schema); }),
              HasSubstr("lacks old.proto, which shop.proto imports; run protoc with --include_imports"));
}

TEST(ProtobufDecoder, KeepsOnlyWhatASchemaReads) {
  Schema schema = Schema::FromConfig(Config::Parse(
      "format: protobuf\nprotobuf: {descriptor: a, message: shop.Payment}\nfields: {web: {type: number}}",
      "job.yaml"));
  UseDescriptor(Descriptor(), &schema);
  pb::FileDescriptorSet kept;
  ASSERT_TRUE(kept.ParseFromString(schema.protobuf.descriptor));
  ASSERT_EQ(kept.file_size(), 1);
  std::vector<std::string> names;
  for (const auto& field : kept.file(0).message_type(0).field()) names.push_back(field.name());
  EXPECT_THAT(names, ElementsAre("web", "shop", "phone")) << "a oneof's members replace each other";
  const uint64_t hash = schema.hash();
  UseDescriptor(std::string(schema.protobuf.descriptor), &schema);
  EXPECT_EQ(schema.hash(), hash);
  schema.protobuf.descriptor += ' ';
  EXPECT_NE(schema.hash(), hash);
}

}  // namespace
}  // namespace leat::stream
