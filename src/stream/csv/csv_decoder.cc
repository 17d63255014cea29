#include "stream/decode/decoder.h"

#include <algorithm>

#include "stream/csv/split.h"
#include "stream/decode/row_writer.h"
#include "stream/decode/text.h"
#include "stream/decode/text_hint.h"

namespace leat::stream {
namespace {

class CsvDecoder final : public Decoder {
 public:
  explicit CsvDecoder(const Schema& schema)
      : schema_(schema), dialect_(schema.dialect()), decimal_(schema.decimal), missing_(schema.missing) {
    double number;
    for (const std::string& text : schema.missing.value_or(std::vector<std::string>())) {
      if (CsvNumber(text, decimal_, &number)) missing_numbers_.push_back(number);
    }
    if (!schema_.columns.empty()) schema_.UseColumns(schema_.columns);
    auto writers = MakeWriters(schema_);
    const auto& names = schema_.columns;
    columns_.resize(names.size());
    for (size_t i = 0; i < writers.size(); ++i) {
      if (schema_.fields[i].from) continue;
      auto at = static_cast<size_t>(std::ranges::find(names, schema_.fields[i].name) - names.begin());
      if (names.empty()) {
        at = columns_.size();
        columns_.emplace_back();
      }
      columns_[at] = std::move(writers[i]);
    }
  }

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    const auto* const text = reinterpret_cast<const char*>(batch.data.data());
    const bool ascii = AllAscii(text + batch.offsets.front(), text + batch.offsets.back());
    RowSink(schema_, batch, out).TakeAll([this, ascii](ByteView record, const Row& row) {
      if (!ascii) {
        if (Misfit why = CheckUtf8(AsText(record)); !why.empty()) return why;
      }
      return WriteRow(AsText(record), row);
    });
  }

 private:
  Misfit WriteRow(std::string_view record, const Row& row) {
    std::string wrong = SplitCsv(record, dialect_, &values_, &scratch_);
    if (!wrong.empty()) return wrong;
    if (values_.size() != columns_.size()) {
      return "has " + std::to_string(values_.size()) + " columns instead of " +
             std::to_string(columns_.size());
    }
    const bool listed = missing_.has_value(), dot = decimal_ == '.';
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (!columns_[c]) continue;
      const FieldWriter& field = *columns_[c];
      const std::string_view value = values_[c];
      if (value.empty() || (listed && IsListed(field, value))) {
        if (Misfit why = WriteMissing(field, row); !why.empty()) return why;
        continue;
      }
      if (!field.takes_number()) {
        if (!field.WriteText(value, row)) return field.Reason(value);
        continue;
      }
      double number;
      if (!(dot ? CsvNumber(value, &number) : CsvNumber(value, decimal_, &number))) {
        if (Misfit why = WriteNoNumber(field, value, row); !why.empty()) return why;
        continue;
      }
      if (!field.WriteNumber(number, row)) return field.Reason(number);
    }
    return {};
  }

  static Misfit CheckUtf8(std::string_view record) {
    const std::string why = WhyNotUtf8(record);
    if (why.empty()) return {};
    return why + "; has the file another encoding (files: encoding: latin-1)?";
  }

  // Programs with columns of a fixed width write blanks around a number, inside the quotes.
  [[gnu::noinline]] Misfit WriteNoNumber(const FieldWriter& field, std::string_view value,
                                         const Row& row) const {
    if (const std::string_view bare = TrimBlanks(value); bare.size() < value.size()) {
      if (bare.empty() || (missing_ && IsListed(field, bare))) return WriteMissing(field, row);
      double number;
      if (!CsvNumber(bare, decimal_, &number)) return WriteNoNumber(field, bare, row);
      return field.TakeNumber(number, row);
    }
    if (!missing_ && field.has_default() && IsMissingNumber(value)) {
      field.WriteDefault(row);
      return {};
    }
    Misfit why = field.Reason(value);
    if (IsMissingNumber(value)) {
      why.reason += field.has_default() ? "; `missing` of the schema does not list it"
                                        : "; a `default` of the field would take its place";
    }
    return why;
  }

  [[gnu::noinline]] bool IsListed(const FieldWriter& field, std::string_view value) const {
    if (std::ranges::find(*missing_, value) != missing_->end()) return true;
    double number;
    return field.takes_number() && !missing_numbers_.empty() && CsvNumber(value, decimal_, &number) &&
           std::ranges::find(missing_numbers_, number) != missing_numbers_.end();
  }

  [[gnu::noinline]] static Misfit WriteMissing(const FieldWriter& field, const Row& row) {
    const bool text = !field.has_default() && !field.takes_number() && field.WriteText("", row);
    return text ? Misfit() : field.TakeDefault("is missing", row);
  }

  Schema schema_;
  const CsvDialect dialect_;
  const char decimal_;
  const std::optional<std::vector<std::string>> missing_;
  std::vector<double> missing_numbers_;                      // numbers of `missing_`, in any spelling
  std::vector<std::unique_ptr<const FieldWriter>> columns_;  // null: not read
  std::vector<std::string_view> values_;
  std::string scratch_;
};

}  // namespace

std::unique_ptr<Decoder> MakeCsvDecoder(const Schema& schema) {
  return std::make_unique<CsvDecoder>(schema);
}

}  // namespace leat::stream
