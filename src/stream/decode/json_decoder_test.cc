#include "stream/decode/json_decoder.h"
#include "stream/decode/decoder.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "stream/bots/synthetic.h"
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
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> records;
    for (int i = 0; i < 500; ++i) records.push_back(RandomRecord(rng));
    ExpectSame(schema, records);
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
