#include "stream/decode/csv_decoder.h"
#include "stream/decode/decoder.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "stream/decode/number.h"
#include "stream/decode/row_writer.h"
#include "stream/decode/scan.h"

namespace leat::stream {
namespace {

// A tab is a blank unless it is the delimiter.
bool IsBlank(char c, char delimiter) {
  return c == ' ' || (c == '\t' && delimiter != '\t');
}

std::string_view Trim(std::string_view text, char delimiter) {
  while (!text.empty() && IsBlank(text.front(), delimiter)) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back(), delimiter)) text.remove_suffix(1);
  return text;
}

class CsvDecoder final : public Decoder {
 public:
  explicit CsvDecoder(const Schema& schema) : schema_(schema) {
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
    RowSink(schema_, batch, out).TakeAll([this](ByteView record, const Row& row) {
      return WriteRow(AsText(record), row);
    });
  }

 private:
  Misfit WriteRow(std::string_view record, const Row& row) {
    std::string wrong = SplitCsv(record, schema_.delimiter, &values_, &scratch_);
    if (!wrong.empty()) return wrong;
    if (values_.size() != columns_.size()) {
      return "has " + std::to_string(values_.size()) + " columns instead of " +
             std::to_string(columns_.size());
    }
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (!columns_[c]) continue;
      const FieldWriter& field = *columns_[c];
      const std::string_view value = values_[c];
      if (value.empty() && field.has_default()) {
        field.WriteDefault(row);
        continue;
      }
      if (!field.takes_number()) {
        if (!field.WriteText(value, row)) return field.Reason(value);
        continue;
      }
      double number;
      if (value.empty()) return field.name() + ": is missing";
      if (!CsvNumber(value, &number)) return field.Reason(value);
      if (!field.WriteNumber(number, row)) return field.Reason(number);
    }
    return {};
  }

  Schema schema_;
  std::vector<std::unique_ptr<const FieldWriter>> columns_;  // null: not read
  std::vector<std::string_view> values_;
  std::string scratch_;
};

// Reads the quoted field whose first character after the quote is line[*at]; moves *at past the closing
// quote.
bool QuotedField(std::string_view line, size_t* at, std::string_view* field, std::string* scratch) {
  const size_t begin = *at, kept = scratch->size();
  size_t close = line.find('"', begin);
  bool copied = false;
  while (close != std::string_view::npos && close + 1 < line.size() && line[close + 1] == '"') {
    scratch->append(line.substr(*at, close + 1 - *at));
    copied = true;
    *at = close + 2;
    close = line.find('"', *at);
  }
  if (close == std::string_view::npos) return false;
  if (copied) {
    scratch->append(line.substr(*at, close - *at));
    *field = std::string_view(*scratch).substr(kept);
    scratch->push_back('\0');  // ends a number
  } else {
    *field = line.substr(begin, close - begin);
  }
  *at = close + 1;
  return true;
}

}  // namespace

bool CsvNumber(std::string_view text, double* out) {
  // The number may continue into the text after the field, and then its end differs from the field's.
  if (ParseNumber(text.data(), out) == text.data() + text.size()) return true;
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return false;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(*out);
}

std::string SplitCsv(std::string_view line, char delimiter, std::vector<std::string_view>* fields,
                     std::string* scratch) {
  fields->clear();
  scratch->clear();
  scratch->reserve(line.size() + kCsvReadAhead);  // views into it must stay valid
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  for (size_t at = 0;;) {
    while (at < line.size() && IsBlank(line[at], delimiter)) ++at;
    std::string_view field;
    size_t end;
    if (at < line.size() && line[at] == '"') {
      ++at;
      if (!QuotedField(line, &at, &field, scratch))
        return "column " + std::to_string(fields->size() + 1) + ": a quote is not closed";
      while (at < line.size() && IsBlank(line[at], delimiter)) ++at;
      if (at < line.size() && line[at] != delimiter) {
        return "column " + std::to_string(fields->size() + 1) + ": text follows the closing quote";
      }
      end = at;
    } else {
      const char* const begin = line.data();
      end = static_cast<size_t>(FindCharacter(begin + at, begin + line.size(), delimiter) - begin);
      field = Trim(line.substr(at, end - at), delimiter);
    }
    fields->push_back(field);
    if (end >= line.size()) {
      scratch->append(kCsvReadAhead, '\0');
      return {};
    }
    at = end + 1;
  }
}

std::unique_ptr<Decoder> MakeCsvDecoder(const Schema& schema) {
  return std::make_unique<CsvDecoder>(schema);
}

}  // namespace leat::stream
