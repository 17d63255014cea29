#include "stream/decode/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/rng.h"
#include "base/testing.h"
#include "stream/bots/testing.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

// The scanner against simdjson: the same rows, labels and dead letters.
void ExpectSame(const Schema& schema, const std::vector<std::string>& records) {
  const RecordBatch batch = BatchOf(records);
  DecodedRows fast, reference;
  MakeJsonDecoder(schema)->Decode(batch, &fast);
  MakeJsonDecoder(schema, /*scan=*/false)->Decode(batch, &reference);
  ASSERT_EQ(fast.index, reference.index);
  ASSERT_EQ(fast.features, reference.features);
  ASSERT_EQ(fast.labels, reference.labels);
  ASSERT_EQ(fast.truth, reference.truth);
  ASSERT_EQ(fast.dead.size(), reference.dead.size());
  for (size_t i = 0; i < fast.dead.size(); ++i) ASSERT_EQ(fast.dead[i].reason, reference.dead[i].reason);
}

const char* const kSchema = R"(format: json
fields:
  a: {type: number}
  long_name_of_a_field: {type: number, log: true}
  c: {type: category, values: [u, v, "true", "1"]}
  d: {type: category, buckets: 5}
  e: {type: id, below: 3, length: 2}
  z: {type: number, role: label, classes: 3}
  y: {type: number, role: label, classes: 3}
)";

// Random sequences of pieces: most records are nearly valid.
std::string RandomRecord(Rng& rng) {
  static const char* const kValues[] = {"0",           "1",          "2.5",          "-3",
                                        "1e3",         "1E-2",       "123456789.25", "true",
                                        "false",       "null",       "\"u\"",        "\"v\"",
                                        "\"\"",        "\"a\\\"b\"", "\"é\"",        "[1]",
                                        "{\"a\":1}",   "01",         "1.",           "-",
                                        "\"\\u0075\"", "tru",        "1e400",        "18446744073709551616",
                                        "\"x",         "nan",        "0.1",          "2",
                                        "1",           "0",          "[]",           "[0, 2]",
                                        "[ 1 ]",       "[0,1,2]",    "[3]",          "[0,,1]",
                                        "[1",          "[1]]",       "[-0]"};
  static const char* const kKeys[] = {"a",     "long_name_of_a_field", "c",       "d", "e", "z", "y",
                                      "other", "long_name_of_a_fielx", "\\u0061", "é"};
  static const char* const kGood[] = {"0.25", "1.5", "\"u\"", "\"zz\"", "[1, 2]", "0", "2"};
  const bool spaces = rng.Chance(0.3);
  std::string out = "{";
  size_t order[std::size(kGood)];
  Permutation(std::span<size_t>(order), rng.Chance(0.7) ? 1 : rng());
  for (size_t i = 0; i < std::size(order); ++i) {
    if (i > 0) out += spaces ? ", " : ",";
    if (rng.Chance(0.05))
      out += std::string("\"") + kKeys[rng.Below(std::size(kKeys))] +
             "\":" + kValues[rng.Below(std::size(kValues))] + ",";
    out += std::string("\"") + (rng.Chance(0.03) ? kKeys[rng.Below(std::size(kKeys))] : kKeys[order[i]]) +
           (spaces ? "\" : " : "\":");
    out += rng.Chance(0.15) ? kValues[rng.Below(std::size(kValues))] : kGood[order[i]];
  }
  out += "}";
  if (rng.Chance(0.05)) out += " ";
  if (rng.Chance(0.1)) out.erase(rng.Below(out.size()), 1);
  if (rng.Chance(0.1)) out[rng.Below(out.size())] = "\"\\,:{}[] 0e.-x\n\t\x01\xc3"[rng.Below(18)];
  if (rng.Chance(0.05)) out.resize(rng.Below(out.size()));
  return out;
}

TEST(JsonDecoder, ScannerAndSimdjsonAgreeOnAnything) {
  const Schema schema = Schema::FromConfig(Config::Parse(kSchema, "test"));
  Rng rng(17);
  for (uint64_t round = 0; round < SeedsOf(60); ++round) {
    std::vector<std::string> records;
    for (int i = 0; i < 500; ++i) records.push_back(RandomRecord(rng));
    ExpectSame(schema, records);
  }
}

// ---- nested records

const char* const kNested = R"(format: json
fields:
  a: {type: number}
  country: {type: category, values: [ES, MX], path: customer.address.country}
  zip: {type: id, below: 100, path: customer.address.zip, default: 7}
  age: {type: number, path: customer.age, default: -1}
  name: {type: number, path: [customer.v2, a], default: 0.5}
  seen: {type: id, below: 9, length: 2, pad: 8, path: customer.seen, default: [3]}
  y: {type: number, role: label, classes: 3, default: 2}
  tags: {type: text, values: [x], length: 2, truncate: false, path: customer.note, default: x}
  nums: {type: number, length: 2, log: true, path: customer.nums, default: []}
  p: {type: number, role: truth, path: truth.p, default: 0.25}
)";

// A document that is mostly as the schema says: keys may be missing, null, twice, in any order and elsewhere.
class RandomDocument {
 public:
  explicit RandomDocument(Rng& rng) : rng_(rng) {}

  std::string Make() {
    spaces_ = rng_.Chance(0.2);
    wild_ = rng_.Chance(0.4);
    std::string out = Object({{"a", [&] { return Number(); }},
                              {"customer", [&] { return Customer(); }},
                              {"customer.v2",
                               [&] {
                                 return Object({{"a", [&] { return Number(); }}});
                               }},
                              {"y", [&] { return std::to_string(rng_.Below(3)); }},
                              {"truth", [&] {
                                 return Object({{"p", [&] { return Number(); }}});
                               }}});
    if (wild_ && rng_.Chance(0.2)) out.erase(rng_.Below(out.size()), 1);
    if (wild_ && rng_.Chance(0.2))
      out[rng_.Below(out.size())] = "\"\\,:{}[] 0e.-x\n\t\x01\xc3"[rng_.Below(18)];
    if (wild_ && rng_.Chance(0.1)) out.resize(rng_.Below(out.size()));
    return out;
  }

 private:
  using Value = std::function<std::string()>;

  std::string Number() { return rng_.Chance(0.5) ? std::to_string(rng_.Below(100)) : "0.25"; }
  std::string Customer() {
    return Object({{"age", [&] { return Number(); }},
                   {"address",
                    [&] {
                      return Object({{"country", [&] { return rng_.Chance(0.5) ? "\"ES\"" : "\"FR\""; }},
                                     {"zip", [&] { return std::to_string(rng_.Below(100)); }},
                                     {"street", [&] { return Anything(0); }}});
                    }},
                   {"seen", [&] { return rng_.Chance(0.5) ? "[1, 2]" : "[]"; }},
                   {"note", [&] { return rng_.Chance(0.95) ? "\"x y\"" : "\"x y z\""; }},
                   {"nums", [&] { return rng_.Chance(0.95) ? "[1.5]" : "[1,2,-3]"; }},
                   {"tags", [&] { return Anything(0); }}});
  }
  std::string Anything(int depth) {
    static const char* const kScalars[] = {"1",    "-2.5", "1e400", "true",       "false",
                                           "null", "\"\"", "\"x\"", "\"a\\\"}\"", "\"é]\"",
                                           "01",   "nul",  "[1 2]", "{\"a\" 1}"};
    const uint64_t kind = depth < 4 ? rng_.Below(4) : 0;
    if (kind == 1)
      return Object({{"a", [&, depth] { return Anything(depth + 1); }}, {"p", [&] { return Number(); }}});
    if (kind == 2) {
      std::string list = "[";
      for (uint64_t n = rng_.Below(3); n > 0; --n) list += Anything(depth + 1) + (n > 1 ? "," : "");
      return list + "]";
    }
    return kScalars[rng_.Below(wild_ ? std::size(kScalars) : 6)];
  }
  std::string Object(std::vector<std::pair<std::string, Value>> members) {
    if (rng_.Chance(0.2)) std::swap(members[rng_.Below(members.size())], members[0]);
    std::string out = "{";
    for (const auto& [key, value] : members) {
      if (rng_.Chance(0.05)) continue;
      for (int times = wild_ && rng_.Chance(0.02) ? 2 : 1; times > 0; --times) {
        if (out.size() > 1) out += spaces_ ? " , " : ",";
        out += "\"" + key + (spaces_ ? "\" :\t" : "\":");
        out += rng_.Chance(0.05) ? "null" : wild_ && rng_.Chance(0.05) ? Anything(0) : value();
      }
    }
    return out + (spaces_ ? " }" : "}");
  }

  Rng& rng_;
  bool spaces_ = false, wild_ = false;
};

TEST(JsonDecoder, ScannerAndSimdjsonAgreeOnNestedDocuments) {
  const Schema schema = Schema::FromConfig(Config::Parse(kNested, "test"));
  Rng rng(23);
  size_t good = 0, all = 0;
  for (uint64_t round = 0; round < SeedsOf(60); ++round) {
    std::vector<std::string> records;
    for (int i = 0; i < 500; ++i) records.push_back(RandomDocument(rng).Make());
    ExpectSame(schema, records);
    DecodedRows rows;
    MakeJsonDecoder(schema)->Decode(BatchOf(records), &rows);
    good += rows.rows;
    all += records.size();
  }
  EXPECT_GT(good, all / 4);
  EXPECT_LT(good, all * 3 / 4);
}

TEST(JsonDecoder, ReadsPathsAndDefaults) {
  const Schema schema = Schema::FromConfig(Config::Parse(kNested, "test"));
  const std::vector<std::string> records = {
      R"({"a":1,"customer":{"age":30,"address":{"street":"x","country":"MX","zip":12},"seen":[1,2],"note":"x b","nums":[0]},"customer.v2":{"a":4},"y":1,"truth":{"p":0.5}})",
      R"({"a":2,"country":"MX","zip":3,"customer":{"tags":[{"age":5},[]],"address":{"geo":{"country":"MX"},"country":"ES"}}})",
      R"({"truth":null,"customer.v2":{"b":1},"customer":{"seen":null,"address":{"zip":null,"country":"FR"},"age":null},"y":null,"a":3})",
  };
  for (const bool scan : {true, false}) {
    DecodedRows rows;
    MakeJsonDecoder(schema, scan)->Decode(BatchOf(records), &rows);
    ASSERT_EQ(rows.rows, records.size()) << rows.dead[0].reason;
    EXPECT_THAT(rows.features, ::testing::ElementsAre(1, 0, 1, 12, 30, 4, 1, 2, 2, 1, 0, 0,   //
                                                      2, 1, 0, 7, -1, 0.5, 3, 8, 2, 0, 0, 0,  //
                                                      3, 0, 0, 7, -1, 0.5, 3, 8, 2, 0, 0, 0));
    EXPECT_THAT(rows.labels, ::testing::ElementsAre(1, 2, 2));
    EXPECT_THAT(rows.truth, ::testing::ElementsAre(0.5f, 0.25f, 0.25f));
  }
}

TEST(JsonDecoder, NaNIsNull) {
  const Schema schema = Schema::FromConfig(Config::Parse(kNested, "test"));
  const std::string country = R"("address":{"country":"ES"})";
  for (const bool scan : {true, false}) {
    DecodedRows nan, null;
    for (const std::string word : {"NaN", "null"}) {
      MakeJsonDecoder(schema, scan)
          ->Decode(BatchOf({R"({"a":1,"customer":{"age": )" + word + " ,\"nums\":" + word + "," + country +
                                R"(},"y":)" + word + "}",
                            R"({"a":1,"customer":{)" + country + R"(},"customer.v2":)" + word + "}"}),
                   word == "NaN" ? &nan : &null);
    }
    ASSERT_EQ(nan.rows, 2u) << nan.dead[0].reason;
    EXPECT_EQ(nan.features, null.features);
    EXPECT_EQ(nan.labels, null.labels);
  }
}

TEST(JsonDecoder, DeadLettersNameTheWholePath) {
  const Schema schema = Schema::FromConfig(Config::Parse(kNested, "test"));
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({"a":1})", "customer.address.country: is missing"},
      {R"({"a":1,"customer":null})", "customer.address.country: is missing"},
      {R"({"a":1,"customer":{"address":{}}})", "customer.address.country: is missing"},
      {R"({"a":1,"customer":{"address":{"country":null}}})", "customer.address.country: is null"},
      {R"({"a":1,"customer":{"address":{"country":{}}}})", "customer.address.country: is an object"},
      {R"({"a":1,"customer":5})", "customer: is a number, not an object"},
      {R"({"a":1,"customer":true})", "customer: is true or false, not an object"},
      {R"({"a":1,"customer":{"address":"ES"}})", "customer.address: is a text, not an object"},
      {R"({"a":1,"customer":[{"address":1}]})", "customer: is an array, not an object"},
      {R"({"a":1,"customer":{},"customer":{"address":{"country":"ES"}}})", "customer: appears twice"},
      {R"({"a":1,"customer":null,"customer":{"address":{"country":"ES"}}})", "customer: appears twice"},
      {R"({"a":1,"customer":{"address":{"country":"ES","zip":1,"zip":1}}})",
       "customer.address.zip: appears twice"},
      {R"({"a":1,"customer":{"age":"old"}})", "customer.age: 'old' is not a number"},
      {R"({"a":1,"customer.v2":{"a":[]}})", "\"customer.v2\".a: is an array"},
      {R"({"a":null,"customer":{"address":{"country":"ES"}}})", "a: is null"},
      {R"({"a": NaN , "customer":{"address":{"country":"ES"}}})", "a: is NaN; a `default` of the field"},
      {R"({"a":-Infinity,"customer":{"address":{"country":"ES"}}})", "a: '-Infinity' is no JSON; write null"},
      {R"({"a":Infinity,"customer":{"address":{"country":"ES"}}})", "a: 'Infinity' is no JSON; write null"},
      {R"({"a":None,"customer":{"address":{"country":"ES"}}})", "a: 'None' is no JSON"},
      {R"({"a":1,"customer":{"address":{"country":"ES"},"nums":[1,NaN]}})",
       "customer.nums: holds 'NaN', which is not a number"},
      {R"({"a":1,"customer":{"age":nul,"address":{"country":"ES"}}})", "not a JSON object"},
      {R"({"a":1,"customer":{"address":{"country":"ES"}},"truth":nulx})", "not a JSON object"},
  };
  std::vector<std::string> records;
  for (const auto& [record, reason] : bad) records.push_back(record);
  for (const bool scan : {true, false}) {
    DecodedRows rows;
    MakeJsonDecoder(schema, scan)->Decode(BatchOf(records), &rows);
    EXPECT_EQ(rows.rows, 0u);
    ASSERT_EQ(rows.dead.size(), bad.size());
    for (size_t i = 0; i < bad.size(); ++i)
      EXPECT_THAT(rows.dead[i].reason, ::testing::StartsWith(bad[i].second)) << bad[i].first;
  }
}

TEST(JsonDecoder, ScannerAndSimdjsonAgreeOnRealisticEvents) {
  const Schema schema = Schema::FromConfig(Config::Parse(SyntheticEvents::SchemaYaml(), "test"));
  SyntheticEvents events(1);
  std::vector<std::string> records(2000);
  for (std::string& record : records) events.Next(&record);
  ExpectSame(schema, records);
  DecodedRows rows;
  MakeJsonDecoder(schema)->Decode(BatchOf(records), &rows);
  EXPECT_EQ(rows.rows, records.size());
}

}  // namespace
}  // namespace leat::stream
