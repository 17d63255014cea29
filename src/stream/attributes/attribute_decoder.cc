#include "stream/decode/formats.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "stream/attributes/row_filter.h"
#include "stream/csv/split.h"
#include "stream/decode/row_writer.h"
#include "stream/decode/utf8.h"
#include "stream/join/times.h"

namespace leat::stream {
namespace {

std::string DescribeAttribute(const Attribute& attribute) {
  switch (attribute.kind) {
    case Attribute::Kind::kKey:
      return "key";
    case Attribute::Kind::kTimestamp:
      return "timestamp";
    case Attribute::Kind::kHeader:
      return "header " + Quoted(attribute.header);
    case Attribute::Kind::kLabel:
      return "label";
  }
  return "";
}

class AttributeDecoder final : public Decoder {
 public:
  AttributeDecoder(const Schema& schema, std::unique_ptr<Decoder> bytes)
      : bytes_(std::move(bytes)), shape_(schema) {
    const auto attributes = schema.attributes();
    uint32_t first = 0, label = 0;
    for (const Field& field : schema.fields) {
      if (field.from && field.role != Role::kIgnore && field.from->kind != Attribute::Kind::kLabel) {
        fields_.push_back(
            {std::make_unique<FieldWriter>(field, first, label), *field.from,
             static_cast<size_t>(std::ranges::find(attributes, *field.from) - attributes.begin())});
      }
      first += field.features();
      label += field.labels();
    }
  }

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowFilter rows(shape_, out);
    bytes_->Decode(batch, out);
    for (size_t at = rows.first(); at < out->rows; ++at) {
      Misfit why = Write(batch, out->index[at], rows[at]);
      if (why.empty()) {
        rows.Keep(at);
      } else {
        rows.Refuse(batch, at, std::move(why));
      }
    }
  }

 private:
  struct Part {
    std::unique_ptr<const FieldWriter> field;
    Attribute from;
    size_t attribute;  // in `wanted`
  };

  Misfit Write(const RecordBatch& batch, size_t record, const Row& row) {
    for (const Part& part : fields_) {
      const auto value = batch.Value(part.attribute, record);
      if (!value && part.field->has_default()) {
        part.field->WriteDefault(row);
        continue;
      }
      if (!value) return part.field->name() + ": the record has no " + DescribeAttribute(part.from);
      if (part.from.kind == Attribute::Kind::kTimestamp) {
        const auto ms = TimeOf(value);
        if (!ms) return part.field->name() + ": is no timestamp";
        const double seconds = static_cast<double>(*ms) / 1000;
        if (!part.field->WriteNumber(seconds, row)) return part.field->Reason(seconds);
      } else if (Misfit why = WriteText(*part.field, AsText(*value), row); !why.empty()) {
        return why;
      }
    }
    return {};
  }

  Misfit WriteText(const FieldWriter& field, std::string_view text, const Row& row) {
    // Only what is compared with values has to be text; keys that are hashed may be any bytes.
    if (field.has_values() && !ValidUtf8(text)) return field.name() + ": is not UTF-8";
    if (!field.takes_number()) return field.WriteText(text, row) ? Misfit() : field.Reason(text);
    scratch_.assign(text);
    scratch_.append(kCsvReadAhead, '\0');
    double number = 0;
    if (!CsvNumber(std::string_view(scratch_).substr(0, text.size()), &number)) return field.Reason(text);
    return field.WriteNumber(number, row) ? Misfit() : Misfit(field.Reason(number));
  }

  const std::unique_ptr<Decoder> bytes_;
  std::vector<Part> fields_;
  const RowShape shape_;
  std::string scratch_;
};

}  // namespace

std::unique_ptr<Decoder> DecodeAttributes(const Schema& schema, std::unique_ptr<Decoder> bytes) {
  return std::make_unique<AttributeDecoder>(schema, std::move(bytes));
}

}  // namespace leat::stream
