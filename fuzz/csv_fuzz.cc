// Every CSV line becomes a row of finite numbers or a dead letter.
#include <cmath>
#include <string>

#include "base/check.h"
#include "records.h"
#include "stream/decode/decoder.h"
#include "stream/schema.h"

using leat::stream::Schema;

namespace {

Schema SchemaWith(const char* delimiter) {
  return Schema::FromConfig(leat::Config::Parse(std::string("delimiter: ") + delimiter + R"(
format: csv
columns: [k, other, x, d, y]
fields:
  x: {type: number, log: true, std: 0.001}
  y: {type: number}
  d: {type: category, buckets: 3}
  k: {type: category, values: [no, yes], role: label}
)",
                                                "fuzz"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Schema schemas[] = {SchemaWith("','"), SchemaWith("';'"), SchemaWith("tab")};
  const auto batch = leat::fuzz::RecordsOf(data, size);
  for (const Schema& schema : schemas) {
    leat::stream::DecodedRows rows;
    leat::stream::MakeDecoder(schema)->Decode(batch, &rows);
    LEAT_CHECK(rows.rows + rows.dead.size() == batch.size());
    LEAT_CHECK(rows.features.size() == rows.rows * schema.features());
    for (float x : rows.features) LEAT_CHECK(std::isfinite(x));
    for (float y : rows.labels) LEAT_CHECK(y == 0 || y == 1);
  }
  return 0;
}
