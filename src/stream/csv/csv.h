// Cuts CSV text into records, and records into fields (RFC 4180, with other delimiters, quotes and escapes).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace leat::stream {

// The characters that divide CSV text.
struct CsvDialect {
  char delimiter = ',';
  char quote = '"';    // 0: none; quotes are characters like any other
  char escape = '\0';  // takes its special meaning from the next character; 0: none
  friend bool operator==(const CsvDialect&, const CsvDialect&) = default;
};

// The first record of a text.
struct CsvRecord {
  size_t end = 0;   // end of the record: the place of its line end, or the text's end
  size_t next = 0;  // where the next record begins
  // The text ends inside quotes: it is cut off, or a quote is never closed. Then `end` is that of the line
  // in which this quote opens.
  bool open = false;
};

// A line end inside quotes, or behind an escape, belongs to the record. A quote opens at the beginning of a
// field only. Where a field of several lines would close before text, the quote that opens it is a stray one,
// and the record ends with its line. Linear in the bytes up to where the last quote closes.
CsvRecord FirstCsvRecord(std::string_view text, const CsvDialect& dialect);

// Removes the carriage return at the record's end; false if nothing but blanks is left.
bool TrimCsvRecord(const CsvDialect& dialect, std::string_view* record);

// Calls each(record) for the records of a whole text: without line ends and blank lines. A line whose quote
// is never closed is a record of its own. Linear: the end of a quote is searched at most once in each part of
// the text, because any quote that could open later would have closed it.
template <class Each>
void ForCsvRecords(std::string_view text, const CsvDialect& dialect, const Each& each) {
  while (!text.empty()) {
    const CsvRecord first = FirstCsvRecord(text, dialect);
    std::string_view record = text.substr(0, first.end);
    if (TrimCsvRecord(dialect, &record)) each(record);
    text.remove_prefix(first.next);
  }
}

// Splits a record into fields. Ignores blanks around a field, but not a tab that is the delimiter; a quote
// that is doubled in a quoted field is one quote. The views refer to `record` or, for fields that had to be
// changed, to `scratch`; the character before a field in quotes is the quote. Returns an empty string, or the
// error.
std::string SplitCsv(std::string_view record, const CsvDialect& dialect,
                     std::vector<std::string_view>* fields, std::string* scratch);

// The number of readable bytes required after a field that is parsed as a number, and so after `record`
// of SplitCsv.
inline constexpr size_t kCsvReadAhead = 16;
// Parses a whole field as a number: JSON's syntax, also with a leading plus, or without digits before or
// after the decimal point.
bool CsvNumber(std::string_view text, double* out);
// The same with another decimal point, such as a comma; a dot is then no part of a number. Nothing has to be
// readable after the text.
bool CsvNumber(std::string_view text, char decimal, double* out);
// A text without the blanks at its ends, which fields in quotes may have.
std::string_view TrimBlanks(std::string_view text);
// Whether a field is a number, without such blanks.
inline bool IsCsvNumber(std::string_view text, char decimal = '.') {
  double number;
  return CsvNumber(TrimBlanks(text), decimal, &number);
}

}  // namespace leat::stream
