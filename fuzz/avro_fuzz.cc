// Any schema and any records: each record becomes a row of finite numbers or a dead letter. The first line of
// an input is the schema, each further one a record.
#include <cmath>
#include <string>

#include "base/check.h"
#include "records.h"
#include "stream/avro/avro_program.h"

using leat::stream::AvroProgram;
using leat::stream::AvroSchema;
using leat::stream::Schema;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Schema schema = Schema::FromConfig(leat::Config::Parse(R"(format: avro
avro: {registry: schemas}
fields:
  a: {type: number, default: 1}
  d: {type: number, log: true, std: 0.001, default: 1}
  h: {type: number, period: 24, default: 2}
  c: {type: category, values: [u, v, "true", "1"], default: u}
  e: {type: category, buckets: 5, path: r.e, default: u}
  n: {type: number, path: r.s.n, default: 0}
  i: {type: id, below: 9, length: 3, default: []}
  y: {type: number, role: label, classes: 3, default: 0}
)",
                                                                      "fuzz"));
  static const leat::stream::Writers writers = MakeWriters(schema);
  const auto records = leat::fuzz::RecordsOf(data, size);
  auto avro = AvroSchema::Parse(leat::AsText(records[0]));
  if (!avro.ok()) return 0;
  std::string where;
  const auto program = AvroProgram::Compile(std::move(*avro), schema, writers, true, &where);
  if (!program.ok()) return 0;
  leat::stream::DecodedRows rows;
  {
    leat::stream::RowSink sink(schema, records, &rows);
    leat::stream::Misfit why;
    for (size_t i = 1; i < records.size(); ++i) {
      const bool kept = program->Run(records[i], sink.row(), &why);
      LEAT_CHECK(kept == why.empty());
      if (kept) {
        sink.Keep(i);
      } else {
        sink.Refuse(i, why);
      }
    }
  }
  LEAT_CHECK(rows.rows + rows.dead.size() + 1 == records.size());
  for (float x : rows.features) LEAT_CHECK(std::isfinite(x));
  for (float y : rows.labels) LEAT_CHECK(y == 0 || y == 1 || y == 2);
  return 0;
}
