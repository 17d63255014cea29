#include "stream/decode/decoder.h"

#include <algorithm>
#include <stdexcept>

#include "base/text.h"
#include "stream/decode/row_writer.h"

namespace leat::stream {
namespace {

// Records of text: one field takes the whole record.
class TextDecoder final : public Decoder {
 public:
  explicit TextDecoder(const Schema& schema) : schema_(schema), field_(schema.fields.at(0), 0, 0) {}

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowSink(schema_, batch, out).TakeAll([this](ByteView record, const Row& row) {
      return WriteRow(record, row);
    });
  }

 private:
  Misfit WriteRow(ByteView record, const Row& row) const {
    const size_t whole = field_.length() + 1;
    if (record.size() != whole)
      return "has " + std::to_string(record.size()) + " characters instead of " + std::to_string(whole);
    const auto* const characters = reinterpret_cast<const uint8_t*>(record.data());
    const size_t written = field_.WriteCharacters(characters, row);
    if (written == whole) return {};
    return field_.name() + ": " + Quoted(AsText(record).substr(written, 1)) +
           Formatted(" (0x%02x), character %zu of the record, is not in the alphabet", characters[written],
                     written);
  }

  const Schema schema_;
  const FieldWriter field_;
};

std::unique_ptr<Decoder> MakeDecoderOfBytes(const Schema& schema) {
  switch (schema.format) {
    case Schema::Format::kJson:
      return MakeJsonDecoder(schema);
    case Schema::Format::kCsv:
      return MakeCsvDecoder(schema);
    case Schema::Format::kAvro:
      return MakeAvroDecoder(schema);
    case Schema::Format::kProtobuf:
      return MakeProtobufDecoder(schema);
    case Schema::Format::kIdx:
    case Schema::Format::kTensor:
      return MakeTensorDecoder(schema);
    case Schema::Format::kText:
      return std::make_unique<TextDecoder>(schema);
  }
  throw std::invalid_argument("unknown format");
}

}  // namespace

std::unique_ptr<Decoder> MakeDecoder(const Schema& schema) {
  auto decoder = MakeDecoderOfBytes(schema);
  const auto beside = [](const Field& field) { return field.from && !field.is_late(); };
  if (std::ranges::any_of(schema.fields, beside)) decoder = DecodeAttributes(schema, std::move(decoder));
  return schema.has_late_labels() ? DecodeLateLabels(schema, std::move(decoder)) : std::move(decoder);
}

void DecodedRows::clear() {
  rows = 0;
  features.clear();
  labels.clear();
  truth.clear();
  index.clear();
  dead.clear();
  unjoined = 0;
}

}  // namespace leat::stream
