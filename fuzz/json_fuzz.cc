// The scanner and simdjson agree on all records.
#include "base/check.h"
#include "records.h"
#include "stream/decode/decoder.h"

using leat::stream::Schema;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Schema schema = Schema::FromConfig(leat::Config::Parse(R"(format: json
fields:
  a: {type: number}
  amount_with_a_long_name: {type: number, log: true, mean: 3, std: 2}
  hour: {type: number, period: 24}
  c: {type: category, values: [u, v, "true", "1"]}
  d: {type: category, buckets: 5}
  y: {type: number, role: label, classes: 3}
  p: {type: number, role: truth}
  country: {type: category, values: [ES, MX], path: customer.address.country, default: ES}
  zip: {type: id, below: 100, path: customer.address.zip, default: 7}
  age: {type: number, path: [customer.v2, age], default: -1}
  seen: {type: id, below: 9, length: 2, pad: 8, path: customer.seen, truncate: true, default: [3]}
  scores: {type: number, length: 3, log: true, default: []}
  words: {type: text, buckets: 7, length: 3, truncate: false, default: a b}
  letters: {type: text, tokens: characters, alphabet: abé, path: customer.name, default: ""}
)",
                                                                      "fuzz"));
  const auto batch = leat::fuzz::RecordsOf(data, size);
  leat::stream::DecodedRows fast, reference;
  leat::stream::MakeJsonDecoder(schema)->Decode(batch, &fast);
  leat::stream::MakeJsonDecoder(schema, /*scan=*/false)->Decode(batch, &reference);
  LEAT_CHECK(fast.rows + fast.dead.size() == batch.size());
  LEAT_CHECK(fast.index == reference.index);
  LEAT_CHECK(fast.features == reference.features);  // contains no NaN, which would differ from itself
  LEAT_CHECK(fast.labels == reference.labels);
  LEAT_CHECK(fast.truth == reference.truth);
  for (size_t i = 0; i < fast.dead.size(); ++i) LEAT_CHECK(fast.dead[i].reason == reference.dead[i].reason);
  return 0;
}
