#include "stream/decode/decoder.h"

#include <algorithm>
#include <stdexcept>

#include "base/text.h"
#include "stream/avro/avro_decoder.h"
#include "stream/decode/formats.h"
#include "stream/decode/row_writer.h"

namespace leat::stream {
namespace {

// Records of bytes: the fields one after the other.
class IdxDecoder final : public Decoder {
 public:
  explicit IdxDecoder(const Schema& schema) : schema_(schema) {
    auto writers = MakeWriters(schema_);
    for (size_t i = 0; i < writers.size(); ++i) {
      if (schema_.fields[i].from) continue;
      const bool bytes = schema_.fields[i].type == Field::Type::kBytes;
      const size_t width = bytes ? schema_.fields[i].width : 1;
      parts_.push_back({std::move(writers[i]), width, bytes});
      bytes_ += width;
    }
  }

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowSink(schema_, batch, out).TakeAll([this](ByteView record, const Row& row) {
      return WriteRow(record, row);
    });
  }

 private:
  struct Part {
    std::unique_ptr<const FieldWriter> field;
    size_t width;
    bool bytes;
  };

  Misfit WriteRow(ByteView record, const Row& row) const {
    if (record.size() != bytes_) {
      return "has " + std::to_string(record.size()) + " bytes instead of " + std::to_string(bytes_);
    }
    const auto* at = reinterpret_cast<const uint8_t*>(record.data());
    for (const Part& part : parts_) {
      const uint8_t* const value = at;
      at += part.width;
      if (!part.field) continue;
      if (part.bytes) {
        part.field->WriteBytes(value, row);
      } else if (part.field->takes_number()) {
        if (!part.field->WriteNumber(*value, row)) return part.field->Reason(*value);
      } else if (const std::string text = std::to_string(*value); !part.field->WriteText(text, row)) {
        return part.field->Reason(text);
      }
    }
    return {};
  }

  const Schema schema_;
  std::vector<Part> parts_;
  size_t bytes_ = 0;
};

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
    if (record.size() != whole) {
      return "has " + std::to_string(record.size()) + " characters instead of " + std::to_string(whole);
    }
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
    case Schema::Format::kIdx:
      return std::make_unique<IdxDecoder>(schema);
    case Schema::Format::kAvro:
      return MakeAvroDecoder(schema);
    case Schema::Format::kProtobuf:
      return MakeProtobufDecoder(schema);
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
