// Every tensor record becomes a row of finite numbers or a dead letter.
#include <cmath>

#include "base/check.h"
#include "records.h"
#include "stream/decode/decoder.h"

using leat::stream::Schema;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Schema schema = Schema::FromConfig(leat::Config::Parse(R"(format: tensor
fields:
  a: {type: number, dtype: f32, width: 2}
  b: {type: number, dtype: f32, std: 0.001}
  c: {type: number, dtype: f16, log: true}
  d: {type: id, dtype: i8, below: 100, width: 2}
  e: {type: category, dtype: u16, buckets: 3}
  y: {type: number, dtype: u8, role: label, classes: 100}
)",
                                                                      "fuzz"));
  const auto batch = leat::fuzz::RecordsOf(data, size);
  leat::stream::DecodedRows rows;
  leat::stream::MakeDecoder(schema)->Decode(batch, &rows);
  LEAT_CHECK(rows.rows + rows.dead.size() == batch.size());
  for (const float x : rows.features) LEAT_CHECK(std::isfinite(x));
  return 0;
}
