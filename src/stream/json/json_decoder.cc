#include "stream/decode/formats.h"

#include "stream/decode/row_writer.h"
#include "stream/json/json_fields.h"
#include "stream/json/json_parser.h"
#include "stream/json/json_scanner.h"

namespace leat::stream {
namespace {

class JsonDecoder final : public Decoder {
 public:
  JsonDecoder(const Schema& schema, bool scan)
      : schema_(schema), fields_(schema_), scanner_(fields_), parser_(fields_), scan_(scan) {}

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowSink sink(schema_, batch, out);
    Misfit reason;
    for (size_t i = 0; i < batch.size(); ++i) {
      const std::string_view record = AsText(batch[i]);
      if (sink.RefuseOversize(i)) continue;
      if (record.empty()) {
        sink.Refuse(i, "is empty: a tombstone?");
        continue;
      }
      if (scan_) {
        if (scanner_.Scan(record, sink.row())) {
          sink.Keep(i);
          continue;
        }
        sink.Restart();
      }
      if (parser_.Parse(record, sink.row(), &reason)) {
        sink.Keep(i);
      } else {
        sink.Refuse(i, std::move(reason));
      }
    }
  }

 private:
  const Schema schema_;
  JsonFields fields_;
  JsonScanner scanner_;
  JsonParser parser_;
  bool scan_;
};

}  // namespace

std::unique_ptr<Decoder> MakeJsonDecoder(const Schema& schema, bool scan) {
  return std::make_unique<JsonDecoder>(schema, scan);
}

}  // namespace leat::stream
