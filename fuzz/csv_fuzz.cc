// Every CSV record becomes a row of finite numbers or a dead letter. A text is cut into records that can be
// split again, and nothing but line ends and blanks is lost; a dialect is found, or an error.
#include <cmath>
#include <string>

#include "base/check.h"
#include "records.h"
#include "stream/csv/csv.h"
#include "stream/csv/csv_settings.h"
#include "stream/decode/decoder.h"
#include "stream/file/file_reader.h"
#include "stream/schema.h"

using leat::stream::Schema;

namespace {

Schema SchemaWith(const std::string& settings) {
  return Schema::FromConfig(leat::Config::Parse(settings + R"(
format: csv
columns: [k, other, x, d, y]
fields:
  x: {type: number, log: true, std: 0.001}
  y: {type: number, default: 1}
  d: {type: category, buckets: 3}
  k: {type: category, values: [no, yes], role: label}
)",
                                                "fuzz"));
}

void CheckRecords(std::string_view text, const leat::stream::CsvDialect& dialect) {
  size_t bytes = 0;
  std::vector<std::string_view> fields;
  std::string scratch;
  leat::stream::ForCsvRecords(text, dialect, [&](std::string_view record) {
    LEAT_CHECK(record.data() >= text.data() && record.data() + record.size() <= text.data() + text.size());
    bytes += record.size();
    // The parser of numbers reads on.
    const std::string padded = std::string(record) + std::string(leat::stream::kCsvReadAhead, '\0');
    if (!SplitCsv(std::string_view(padded).substr(0, record.size()), dialect, &fields, &scratch).empty())
      return;
    LEAT_CHECK(!fields.empty());
    double number;
    for (const std::string_view field : fields) {
      if (leat::stream::CsvNumber(field, &number)) LEAT_CHECK(std::isfinite(number));
      if (leat::stream::CsvNumber(field, ',', &number)) LEAT_CHECK(std::isfinite(number));
    }
  });
  size_t dropped = 0;
  for (const char c : text) dropped += c == '\n' || c == '\r' || c == ' ' || c == '\t';
  LEAT_CHECK(bytes <= text.size() && bytes + dropped >= text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Schema schemas[] = {
      SchemaWith("delimiter: ','"), SchemaWith("delimiter: ';'\ndecimal: ','\nmissing: [NA, '-1']"),
      SchemaWith("delimiter: tab\nquote: \"'\"\nescape: \"\\\\\""), SchemaWith("quote: none")};
  const auto batch = leat::fuzz::RecordsOf(data, size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Schema& schema : schemas) {
    leat::stream::DecodedRows rows;
    leat::stream::MakeDecoder(schema)->Decode(batch, &rows);
    LEAT_CHECK(rows.rows + rows.dead.size() == batch.size());
    LEAT_CHECK(rows.features.size() == rows.rows * schema.features());
    for (float x : rows.features) LEAT_CHECK(std::isfinite(x));
    for (float y : rows.labels) LEAT_CHECK(y == 0 || y == 1);
    CheckRecords(text, schema.dialect());
  }
  const auto guess = leat::stream::DetectCsv("f", leat::stream::CsvSample(std::string(text)), {});
  if (guess.ok()) LEAT_CHECK(guess->columns > 0);
  for (const char* format : {"", "csv", "json"}) {
    (void)leat::stream::WrongBytes(text, format, "f", false);
    (void)leat::stream::WrongText(text, format, "f");
  }
  return 0;
}
