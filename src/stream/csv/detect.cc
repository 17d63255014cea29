#include "stream/csv/detect.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "stream/decode/text_hint.h"

namespace leat::stream {
namespace {

// A dialect on a sample.
struct CsvFit {
  CsvDialect dialect;
  std::vector<Delimiter> found;  // delimiters that match; the dialect has the first
  size_t columns = 1;            // of most records
  size_t bad = 0;                // records that cannot be split, or have others
  size_t quoted = 0;             // fields in quotes
  bool quoted_column = false;    // all values of one are
  std::string wrong;             // with the first record
  std::vector<std::vector<std::string>> rows;
};

// Of delimiters that match equally, those by which the first record has the columns of the others.
void PreferHeaders(const CsvSample& sample, CsvDialect dialect, std::vector<Delimiter>* found) {
  if (found->size() < 2) return;
  std::vector<Delimiter> fitting;
  for (const Delimiter& one : *found) {
    dialect.delimiter = one.character;
    std::vector<std::string_view> fields;
    std::string scratch;
    const std::string wrong = SplitCsv(sample.Records(dialect).front(), dialect, &fields, &scratch);
    if (wrong.empty() && fields.size() == one.columns) fitting.push_back(one);
  }
  if (!fitting.empty()) *found = std::move(fitting);
}

CsvFit FitOf(const CsvSample& sample, CsvDialect dialect, std::optional<char> delimiter) {
  CsvFit fit;
  if (!delimiter) {
    fit.found = FindDelimiters(sample, dialect);
    PreferHeaders(sample, dialect, &fit.found);
  }
  dialect.delimiter = delimiter ? *delimiter : fit.found.empty() ? ',' : fit.found.front().character;
  fit.dialect = dialect;
  std::vector<std::string_view> fields;
  std::string scratch;
  std::map<size_t, size_t> widths, values, in_quotes;
  const auto records = sample.Records(dialect);
  for (const std::string_view record : records) {
    const std::string wrong = SplitCsv(record, dialect, &fields, &scratch);
    if (!wrong.empty()) {
      if (fit.rows.empty() && fit.wrong.empty()) fit.wrong = wrong;
      continue;
    }
    ++widths[fields.size()];
    for (size_t c = 0; c < fields.size(); ++c) {
      const char* const at = fields[c].data();
      // A changed field is a copy. Before any other that was in quotes there is one.
      const bool copied = at < record.data() || at > record.data() + record.size();
      const bool quote = dialect.quote != '\0' && (copied || (at > record.data() && at[-1] == dialect.quote));
      fit.quoted += quote;
      if (fit.rows.empty()) continue;  // may be a header
      values[c] += !fields[c].empty();
      in_quotes[c] += quote && !fields[c].empty();
    }
    fit.rows.emplace_back(fields.begin(), fields.end());
  }
  if (fit.rows.empty()) return fit;
  const auto most = std::ranges::max_element(
      widths, {}, [](const auto& width) { return std::pair(width.second, width.first); });
  fit.columns = most->first;
  fit.bad = records.size() - most->second;
  fit.quoted_column = std::ranges::any_of(values, [&](const auto& column) {
    return column.second > 0 && in_quotes[column.first] == column.second;
  });
  return fit;
}

bool IsNumberWith(const std::string& text, char decimal) {
  double number;
  return CsvNumber(text, decimal, &number);
}

// Digits after the comma of a number: 1,5 has one.
size_t DigitsAfterComma(const std::string& text) {
  const size_t comma = text.find(',');
  return comma == text.npos ? 0 : text.size() - comma - 1;
}

char DecimalOf(const CsvFit& fit) {
  bool commas = false;
  for (size_t c = 0; c < fit.columns; ++c) {
    bool numbers = true, sure = false;
    for (size_t r = 1; r < fit.rows.size(); ++r) {  // the first may be a header
      const auto& row = fit.rows[r];
      if (row.size() != fit.columns || IsMissingNumber(row[c])) continue;
      if (row[c].find('.') != std::string::npos && IsNumberWith(row[c], '.')) return '.';
      numbers = numbers && IsNumberWith(row[c], ',');
      sure = sure || (DigitsAfterComma(row[c]) != 0 && DigitsAfterComma(row[c]) != 3);
    }
    commas = commas || (numbers && sure);
  }
  return commas ? ',' : '.';
}

bool Better(const CsvFit& a, const CsvFit& b) {
  if (a.rows.empty() || b.rows.empty()) return b.rows.empty() && !a.rows.empty();
  return a.bad < b.bad || (a.bad == b.bad && a.columns > b.columns && b.columns == 1);
}

bool HasEscapedQuote(const CsvSample& sample, char quote) {
  const auto lines = sample.Records({.quote = '\0'});
  return std::ranges::any_of(lines, [escaped = std::string("\\") + quote](std::string_view line) {
    return line.find(escaped) != line.npos;
  });
}

// With escapes, if more records then fit, or as many and there are quotes behind escapes.
CsvFit WithEscapes(const CsvSample& sample, const CsvFit& fit, std::optional<char> delimiter) {
  CsvFit other = FitOf(sample, {.quote = fit.dialect.quote, .escape = '\\'}, delimiter);
  const bool as_good = other.bad == fit.bad && other.columns == fit.columns;
  const bool better = Better(other, fit) || (as_good && HasEscapedQuote(sample, fit.dialect.quote));
  return better ? other : fit;
}

}  // namespace

Result<CsvGuess> DetectCsv(const std::string& name, const CsvSample& sample, std::optional<char> delimiter) {
  CsvFit fit = FitOf(sample, {}, delimiter);
  if (fit.quoted == 0) {
    const CsvFit single = WithEscapes(sample, FitOf(sample, {.quote = '\''}, delimiter), delimiter);
    if ((single.quoted_column && !Better(fit, single)) || (single.quoted > 0 && Better(single, fit)))
      fit = single;
  } else {
    fit = WithEscapes(sample, fit, delimiter);
  }
  if (fit.rows.empty())
    return Status(Code::kDataLoss, name + ": " + (fit.wrong.empty() ? "has no records" : fit.wrong));
  if (fit.found.size() > 1) {
    return Status(Code::kInvalidArgument, name + ": " + Describe(fit.found) +
                                              " divide the lines alike; say which it is (--delimiter)");
  }
  return CsvGuess{fit.dialect, fit.columns, DecimalOf(fit)};
}

}  // namespace leat::stream
