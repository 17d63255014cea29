#include "stream/csv/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "stream/decode/decoder.h"
#include "stream/decode/row_writer.h"
#include "stream/decode/text.h"

namespace leat::stream {
namespace {

// Longer texts are no numbers with another decimal point.
constexpr size_t kLongestNumber = 64;

// A tab is a blank unless it is the delimiter.
bool IsCsvBlank(char c, char delimiter) {
  return c == ' ' || (c == '\t' && delimiter != '\t');
}

[[gnu::always_inline]] inline size_t SkipCsvBlanks(std::string_view text, size_t at, char delimiter) {
  while (at < text.size() && IsCsvBlank(text[at], delimiter)) ++at;
  return at;
}

[[gnu::always_inline]] inline std::string_view TrimCsvBlanks(std::string_view text, char delimiter) {
  while (!text.empty() && IsCsvBlank(text.front(), delimiter)) text.remove_prefix(1);
  while (!text.empty() && IsCsvBlank(text.back(), delimiter)) text.remove_suffix(1);
  return text;
}

// The place of the first `wanted` from `at` on, or the text's size. Fast if it is near.
[[gnu::always_inline]] inline size_t FindFrom(std::string_view text, size_t at, char wanted) {
  const char* const begin = text.data();
  return static_cast<size_t>(FindCharacter(begin + at, begin + text.size(), wanted) - begin);
}

// The place of the next quote that closes, from inside a quoted field; the text's size if there is none.
size_t ClosingQuote(std::string_view text, size_t at, const CsvDialect& dialect) {
  const char special[] = {dialect.quote, dialect.escape};
  const bool escapes = dialect.escape != '\0';
  for (;;) {
    if (at >= text.size()) return text.size();
    at = escapes ? std::min(text.find_first_of({special, 2}, at), text.size())
                 : FindFrom(text, at, dialect.quote);
    if (at == text.size()) return at;
    const bool doubled = at + 1 < text.size() && text[at + 1] == dialect.quote;
    if (text[at] == dialect.quote && !doubled) return at;
    at += 2;
  }
}

// Whether an odd number of escapes is directly before the character.
bool IsEscaped(std::string_view text, size_t at, char escape) {
  if (escape == '\0') return false;
  size_t escapes = 0;
  while (escapes < at && text[at - 1 - escapes] == escape) ++escapes;
  return escapes % 2 != 0;
}

// The place of the first line end from `at` on, or the text's size. An escape before it, or before its
// carriage return, makes it a part of the field.
size_t LineEnd(std::string_view text, size_t at, char escape) {
  for (;; ++at) {
    at = std::min(text.find('\n', at), text.size());
    const bool carriage_return = at > 0 && text[at - 1] == '\r';
    if (at == text.size() || !IsEscaped(text, at - carriage_return, escape)) return at;
  }
}

// Whether a quote is at the beginning of a field: after blanks, and a delimiter that is not escaped.
bool OpensField(std::string_view text, size_t quote, const CsvDialect& dialect) {
  size_t at = quote;
  while (at > 0 && IsCsvBlank(text[at - 1], dialect.delimiter)) --at;
  if (at == 0) return true;
  return text[at - 1] == dialect.delimiter && !IsEscaped(text, at - 1, dialect.escape);
}

// Whether text follows the quote that closes a field: no delimiter, and no line end.
bool TextFollows(std::string_view text, size_t quote, const CsvDialect& dialect) {
  std::string_view rest = text.substr(SkipCsvBlanks(text, quote + 1, dialect.delimiter));
  if (rest.starts_with('\r')) rest.remove_prefix(1);
  return !rest.empty() && rest.front() != dialect.delimiter && rest.front() != '\n';
}

// A field without its escapes and, in quotes, doubled quotes. It never grows: `scratch` has room for what is
// around it. NULL of MySQL and PostgreSQL, an escape and N alone, stays what it is.
std::string_view WithoutEscapes(std::string_view field, const CsvDialect& dialect, bool quoted,
                                std::string* scratch) {
  const auto changes = [&](size_t at) {
    const char c = field[at];
    return at + 1 < field.size() && ((dialect.escape != '\0' && c == dialect.escape) ||
                                     (quoted && c == dialect.quote && field[at + 1] == c));
  };
  if (dialect.escape == '\0' && field.find(dialect.quote) == field.npos) return field;
  size_t at = 0;
  while (at < field.size() && !changes(at)) ++at;
  if (at == field.size()) return field;
  if (!quoted && field.size() == 2 && field[1] == 'N') return field;
  scratch->push_back(quoted ? dialect.quote : '\0');
  const size_t kept = scratch->size();
  scratch->append(field.substr(0, at));
  for (; at < field.size(); ++at) {
    if (changes(at)) ++at;
    scratch->push_back(field[at]);
  }
  const std::string_view result = std::string_view(*scratch).substr(kept);
  scratch->push_back('\0');  // ends a number
  return result;
}

// The end of the unquoted field at `at`, where there are escapes: a delimiter, or the end.
size_t EndWithEscapes(std::string_view text, size_t at, const CsvDialect& dialect) {
  for (; at < text.size() && text[at] != dialect.delimiter; ++at) {
    if (text[at] == dialect.escape && at + 1 < text.size()) ++at;
  }
  return at;
}

// `kUsual`: with double quotes, and without escapes.
template <bool kUsual>
std::string SplitFields(std::string_view record, const CsvDialect& dialect,
                        std::vector<std::string_view>* fields, std::string* scratch) {
  const char delimiter = dialect.delimiter, quote = kUsual ? '"' : dialect.quote;
  const bool escapes = !kUsual && dialect.escape != '\0';
  for (size_t at = 0;;) {
    at = SkipCsvBlanks(record, at, delimiter);
    std::string_view field;
    size_t end;
    if (at < record.size() && record[at] == quote && quote != '\0') {
      size_t close = FindFrom(record, at + 1, quote);
      if (escapes || (close + 1 < record.size() && record[close + 1] == quote)) {
        close = ClosingQuote(record, at + 1, dialect);
        if (close < record.size())
          field = WithoutEscapes(record.substr(at + 1, close - at - 1), dialect, true, scratch);
      } else {
        field = record.substr(at + 1, close - at - 1);
      }
      if (close >= record.size()) return StrCat("column ", fields->size() + 1, ": a quote is not closed");
      end = SkipCsvBlanks(record, close + 1, delimiter);
      if (end < record.size() && record[end] != delimiter)
        return StrCat("column ", fields->size() + 1, ": text follows the closing quote");
    } else {
      end = escapes ? EndWithEscapes(record, at, dialect) : FindFrom(record, at, delimiter);
      field = TrimCsvBlanks(record.substr(at, end - at), delimiter);
      if (escapes) field = WithoutEscapes(field, dialect, false, scratch);
    }
    fields->push_back(field);
    if (end >= record.size()) {
      scratch->append(kCsvReadAhead, '\0');
      return {};
    }
    at = end + 1;
  }
}

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
    if (values_.size() != columns_.size())
      return StrCat("has ", values_.size(), " columns instead of ", columns_.size());
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

CsvRecord FirstCsvRecord(std::string_view text, const CsvDialect& dialect) {
  const auto until = [&](size_t end) { return CsvRecord{end, std::min(end + 1, text.size())}; };
  size_t end = LineEnd(text, 0, dialect.escape);
  if (dialect.quote == '\0') return until(end);
  for (size_t quote = 0;; ++quote) {
    quote = FindFrom(text.substr(0, end), quote, dialect.quote);
    if (quote == end) return until(end);
    if (!OpensField(text, quote, dialect)) continue;
    quote = ClosingQuote(text, quote + 1, dialect);
    if (quote == text.size()) {
      CsvRecord open = until(end);
      open.open = true;
      return open;
    }
    if (quote < end) continue;
    if (TextFollows(text, quote, dialect)) return until(end);
    end = LineEnd(text, quote, dialect.escape);
  }
}

bool TrimCsvRecord(const CsvDialect& dialect, std::string_view* record) {
  if (record->ends_with('\r')) record->remove_suffix(1);
  return SkipCsvBlanks(*record, 0, dialect.delimiter) < record->size();
}

bool CsvNumber(std::string_view text, double* out) {
  // The number may continue into the text after the field, and then its end differs from the field's.
  if (ParseNumber(text.data(), out) == text.data() + text.size()) return true;
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return false;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (end != text.data() + text.size()) return false;
  if (error != std::errc::result_out_of_range) return error == std::errc() && std::isfinite(*out);
  *out = text.starts_with('-') ? -0.0 : 0.0;
  return !IsAboveDouble(text);
}

bool CsvNumber(std::string_view text, char decimal, double* out) {
  if (text.size() > kLongestNumber || (decimal != '.' && text.find('.') != text.npos)) return false;
  char copy[kLongestNumber + kCsvReadAhead] = {};
  std::ranges::replace_copy(text, copy, decimal, '.');
  return CsvNumber(std::string_view(copy, text.size()), out);
}

std::string_view TrimBlanks(std::string_view text) {
  return TrimCsvBlanks(text, '\0');
}

std::string SplitCsv(std::string_view record, const CsvDialect& dialect,
                     std::vector<std::string_view>* fields, std::string* scratch) {
  fields->clear();
  scratch->clear();
  scratch->reserve(record.size() + 1 + kCsvReadAhead);  // views into it must stay valid
  if (record.ends_with('\n') && LineEnd(record, record.size() - 1, dialect.escape) < record.size())
    record.remove_suffix(1);
  if (record.ends_with('\r')) record.remove_suffix(1);
  const bool usual = dialect.quote == '"' && dialect.escape == '\0';
  return usual ? SplitFields<true>(record, dialect, fields, scratch)
               : SplitFields<false>(record, dialect, fields, scratch);
}

std::unique_ptr<Decoder> MakeCsvDecoder(const Schema& schema) {
  return std::make_unique<CsvDecoder>(schema);
}

}  // namespace leat::stream
