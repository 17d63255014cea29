#include "stream/decode/attributes.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "stream/decode/csv_decoder.h"
#include "stream/decode/row_writer.h"

namespace leat::stream {
namespace {

std::string Describe(const Attribute& attribute) {
  switch (attribute.kind) {
    case Attribute::Kind::kKey:
      return "key";
    case Attribute::Kind::kTimestamp:
      return "timestamp";
    case Attribute::Kind::kHeader:
      return "header " + Quoted(attribute.header);
  }
  return "";
}

class AttributeDecoder final : public Decoder {
 public:
  AttributeDecoder(const Schema& schema, std::unique_ptr<Decoder> bytes)
      : bytes_(std::move(bytes)),
        features_(schema.features()),
        labels_(schema.labels()),
        truth_(schema.has_truth()) {
    const auto attributes = schema.attributes();
    uint32_t first = 0, label = 0;
    for (const Field& field : schema.fields) {
      if (field.from && field.role != Role::kIgnore) {
        fields_.push_back(
            {std::make_unique<FieldWriter>(field, first, label), *field.from,
             static_cast<size_t>(std::ranges::find(attributes, *field.from) - attributes.begin())});
      }
      first += field.features();
      label += field.labels();
    }
  }

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    const size_t before = out->rows, dead = out->dead.size();
    bytes_->Decode(batch, out);
    size_t kept = before;
    for (size_t at = before; at < out->rows; ++at) {
      const uint32_t record = out->index[at];
      Misfit why = Write(batch, record, RowAt(out, at));
      if (why.empty()) {
        Move(at, kept++, out);
        continue;
      }
      out->dead.push_back({batch.first_offset + record, std::move(why.reason),
                           std::string(AsText(batch[record]).substr(0, kKeptBytes)), std::move(why.field),
                           std::move(why.text)});
    }
    if (kept == out->rows) return;
    Trim(kept, out);
    std::ranges::sort(out->dead.begin() + static_cast<std::ptrdiff_t>(dead), out->dead.end(), {},
                      &DecodedRows::DeadLetter::offset);
  }

 private:
  struct Part {
    std::unique_ptr<const FieldWriter> field;
    Attribute from;
    size_t attribute;  // in `wanted`
  };

  Row RowAt(DecodedRows* out, size_t at) const {
    return {out->features.data() + at * features_, out->labels.data() + at * labels_,
            truth_ ? &out->truth[at] : nullptr};
  }

  Misfit Write(const RecordBatch& batch, size_t record, const Row& row) {
    for (const Part& part : fields_) {
      const auto value = batch.Value(part.attribute, record);
      if (!value && part.field->has_default()) {
        part.field->WriteDefault(row);
        continue;
      }
      if (!value) return part.field->name() + ": the record has no " + Describe(part.from);
      if (part.from.kind == Attribute::Kind::kTimestamp) {
        int64_t ms = 0;
        if (value->size() != sizeof(ms)) return part.field->name() + ": is no timestamp";
        std::memcpy(&ms, value->data(), sizeof(ms));
        const double seconds = static_cast<double>(ms) / 1000;
        if (!part.field->WriteNumber(seconds, row)) return part.field->Reason(seconds);
      } else if (Misfit why = WriteText(*part.field, AsText(*value), row); !why.empty()) {
        return why;
      }
    }
    return {};
  }

  Misfit WriteText(const FieldWriter& field, std::string_view text, const Row& row) {
    if (!field.takes_number()) return field.WriteText(text, row) ? Misfit() : field.Reason(text);
    scratch_.assign(text);
    scratch_.append(kCsvReadAhead, '\0');
    double number = 0;
    if (!CsvNumber(std::string_view(scratch_).substr(0, text.size()), &number)) return field.Reason(text);
    return field.WriteNumber(number, row) ? Misfit() : Misfit(field.Reason(number));
  }

  void Move(size_t from, size_t to, DecodedRows* out) const {
    if (from == to) return;
    const Row source = RowAt(out, from), target = RowAt(out, to);
    std::copy_n(source.features, features_, target.features);
    std::copy_n(source.labels, labels_, target.labels);
    if (truth_) *target.truth = *source.truth;
    out->index[to] = out->index[from];
  }

  void Trim(size_t rows, DecodedRows* out) const {
    out->rows = rows;
    out->features.resize(rows * features_);
    out->labels.resize(rows * labels_);
    out->index.resize(rows);
    if (truth_) out->truth.resize(rows);
  }

  const std::unique_ptr<Decoder> bytes_;
  std::vector<Part> fields_;
  const size_t features_, labels_;
  const bool truth_;
  std::string scratch_;
};

}  // namespace

std::unique_ptr<Decoder> DecodeAttributes(const Schema& schema, std::unique_ptr<Decoder> bytes) {
  return std::make_unique<AttributeDecoder>(schema, std::move(bytes));
}

}  // namespace leat::stream
