#include "stream/inspect/inspect.h"

#include <simdjson.h>

#include <cmath>
#include <functional>
#include <unordered_set>

#include "base/text.h"
#include "stream/csv/csv.h"
#include "stream/decode/decoder.h"
#include "stream/decode/row_writer.h"
#include "stream/decode/text.h"
#include "stream/file/file_reader.h"
#include "stream/inspect/column_reader.h"
#include "stream/inspect/peek.h"
#include "stream/json/json_text.h"

namespace leat::stream {
namespace {

constexpr size_t kMaxColumns = 4096;
constexpr size_t kMaxDepth = 16;  // depth of nested objects
// Bytes of a file by which its format is found; its first record may end within them.
constexpr size_t kBeginning = 4096;

// Marks of missing values that are values beside other signs.
bool IsSign(std::string_view text) {
  return text == "-" || text == "--" || text == ".";
}

// The records of a file or a topic, as LineReader gives them.
struct Records {
  std::function<Result<bool>(std::string_view* record)> next;
  std::function<std::string()> where;  // place of the last record
};

class TopicRecords {
 public:
  TopicRecords(std::string name, Source& source, std::vector<PartitionRange> ranges)
      : name_(std::move(name)), source_(source), ranges_(std::move(ranges)) {}

  Result<bool> Next(std::string_view* record) {
    constexpr uint64_t kAtOnce = 1000;
    for (;;) {
      for (; next_ < batch_.size(); ++next_) {
        if (batch_.IsAbsent(next_) || batch_[next_].empty()) continue;
        *record = AsText(batch_[next_++]);
        return true;
      }
      while (range_ < ranges_.size() && ranges_[range_].begin == ranges_[range_].end) ++range_;
      if (range_ == ranges_.size()) return false;
      PartitionRange& range = ranges_[range_];
      const uint64_t end = std::min(range.end, range.begin + kAtOnce);
      LEAT_RETURN_IF_ERROR(source_.Read(range.partition, range.begin, end, &batch_));
      range.begin = end;
      next_ = 0;
    }
  }
  std::string Where() const {
    return StrCat(name_, " partition ", batch_.partition, " offset ", batch_.first_offset + next_ - 1);
  }

 private:
  const std::string name_;
  Source& source_;
  std::vector<PartitionRange> ranges_;  // not read yet
  size_t range_ = 0;
  RecordBatch batch_;
  size_t next_ = 0;
};

namespace ondemand = simdjson::ondemand;
static_assert(LineReader::kPadding >= RecordBatch::kPadding);

// A value of a JSON object that is no object itself, as decoders read it.
struct Leaf {
  std::vector<std::string> keys;
  ondemand::json_type type;
  // The contents of a text, the spelling of a number; valid until the next object.
  std::string_view text = {};
  double number = 0;
};

class Inspector {
 public:
  Inspector(const std::string& name, const InspectOptions& options) : path_(name), options_(options) {
    made_.encoding = options.encoding;
  }

  // Finds the format of the records. `beginning`: of the first one.
  Status Begin(const CsvSample& sample, std::string_view beginning) {
    if (beginning.find('\0') != std::string::npos)
      return Status(Code::kDataLoss, path_ + ": is not a text file");
    const size_t first = beginning.find_first_not_of(" \t\r\n");
    const bool json = first != beginning.npos && beginning[first] == '{';
    made_.format = json ? Schema::Format::kJson : Schema::Format::kCsv;
    return json ? Status() : ReadBeginning(sample);
  }

  // How records of a file end; none for JSON.
  std::optional<CsvDialect> csv() const {
    return made_.format == Schema::Format::kCsv ? std::optional(dialect_) : std::nullopt;
  }

  Result<Inspection> Run(const Records& records) {
    const bool json = made_.format == Schema::Format::kJson;
    bool skip = made_.header;
    std::string_view record;
    for (;;) {
      LEAT_ASSIGN_OR_RETURN(const bool more, records.next(&record));
      if (!more) break;
      if (std::exchange(skip, false)) continue;
      if (options_.rows > 0 && made_.rows + made_.bad_rows == options_.rows) {
        made_.whole_file = false;
        break;
      }
      LEAT_ASSIGN_OR_RETURN(const std::string wrong, json ? ReadObject(record) : ReadRecord(record));
      ++(wrong.empty() ? made_.rows : made_.bad_rows);
      if (!wrong.empty() && made_.first_bad.empty()) made_.first_bad = records.where() + ": " + wrong;
    }
    return Finish();
  }

 private:
  // Dialect, header and column names of CSV.
  Status ReadBeginning(const CsvSample& sample) {
    LEAT_ASSIGN_OR_RETURN(const CsvGuess guess, DetectCsv(path_, sample, options_.csv));
    dialect_ = guess.dialect;
    made_.delimiter = {guess.dialect.delimiter, guess.columns};
    made_.quote = guess.dialect.quote;
    made_.escape = guess.dialect.escape;
    made_.decimal = guess.decimal;
    if (guess.columns > kMaxColumns) {
      return Status(Code::kDataLoss,
                    StrCat(path_, ": has ", guess.columns, " columns; at most ", kMaxColumns));
    }
    LEAT_RETURN_IF_ERROR(CheckDivided(sample, guess));
    const auto records = sample.Records(dialect_);
    const auto rows = RowsOf(records, guess);
    LEAT_RETURN_IF_ERROR(CheckFirstLine(sample, rows, guess));
    made_.header = options_.header.value_or(IsHeader(rows, guess));
    if (!options_.header && records.size() == 1 && !HasNumber(rows.front(), guess)) {
      return Status(Code::kDataLoss,
                    path_ + ": has one line, which may be its header; if it is a record, say --no-header");
    }
    const size_t names = rows.front().size(), columns = made_.delimiter.columns;
    const bool one_less = names + 1 == columns && options_.header.value_or(!HasNumber(rows.front(), guess));
    if (one_less || (made_.header && names != columns)) {
      return Status(Code::kDataLoss,
                    StrCat(path_, ": the first line names ", names, " columns, the others have ", columns,
                           one_less ? "; the first may be row names, which R's write.table "
                                      "writes without row.names = FALSE"
                                    : ""));
    }
    if (const std::string why = made_.header ? WhyNotText(records.front()) : ""; !why.empty())
      return Status(Code::kDataLoss, path_ + ": the header " + why);
    for (size_t c = 0; c < made_.delimiter.columns; ++c)
      columns_.emplace_back(made_.header ? rows.front()[c] : StrCat("c", c + 1), &budget_);
    return Status();
  }

  Status CheckDivided(const CsvSample& sample, const CsvGuess& guess) const {
    const std::string why = guess.columns > 1 || options_.csv.delimiter ? "" : WhyUndivided(sample);
    if (why.empty()) return {};
    const bool pairs = why.find("INDEX") != why.npos;
    return {Code::kDataLoss,
            path_ + ": " + why + "; " +
                (pairs ? "write its columns as CSV (sklearn.datasets.load_svmlight_file reads them)"
                       : "write them as CSV" + (sample.of_file() ? ": " + CommasForBlanks(path_) : "")) +
                ", or say --delimiter , if it has one column"};
  }

  // A title or comments above the header would become it, and the header a record.
  Status CheckFirstLine(const CsvSample& sample, const std::vector<std::vector<std::string>>& rows,
                        const CsvGuess& guess) const {
    const bool fits = guess.columns > 1 && rows.front().size() == guess.columns;
    if (fits || !options_.header.value_or(true)) return {};
    for (size_t lines = 1; lines <= kMostAboveHeader; ++lines) {
      const CsvSample below = sample.Below(lines);
      if (below.BeginsBlank()) continue;
      const auto inner = DetectCsv(path_, below, options_.csv);
      if (!inner.ok() || inner->columns < 2) continue;
      if (!IsHeader(RowsOf(below.Records(inner->dialect), *inner), *inner)) continue;
      return {Code::kDataLoss, path_ + ": " + NamesAreInLine(path_, lines + 1) + " (or say --no-header)"};
    }
    return {};
  }

  static std::vector<std::vector<std::string>> RowsOf(const std::vector<std::string_view>& records,
                                                      const CsvGuess& guess) {
    std::vector<std::vector<std::string>> rows;
    std::vector<std::string_view> fields;
    std::string scratch;
    for (const std::string_view record : records) {
      if (SplitCsv(record, guess.dialect, &fields, &scratch).empty())
        rows.emplace_back(fields.begin(), fields.end());
    }
    return rows;
  }

  static std::string WhyNotText(std::string_view record) {
    const std::string why = WhyNotUtf8(record);
    return why.empty() ? why : why + "; has the file another encoding (--encoding latin-1)?";
  }

  // True for a line without numbers above a column of numbers, in which it may occur again, as in files that
  // were put together. Without such a column, the names must be distinct and must not be among the values.
  static bool IsHeader(const std::vector<std::vector<std::string>>& rows, const CsvGuess& guess) {
    if (rows.size() < 2 || rows.front().size() != guess.columns) return false;
    const auto& first = rows.front();
    if (HasNumber(first, guess)) return false;
    bool numbers = false;
    bool repeated = std::unordered_set<std::string>(first.begin(), first.end()).size() < first.size();
    for (size_t c = 0; c < first.size(); ++c) {
      size_t values = 0, count = 0;
      for (size_t r = 1; r < rows.size(); ++r) {
        if (rows[r].size() != first.size() || IsMissingNumber(rows[r][c])) continue;
        repeated = repeated || rows[r][c] == first[c];
        if (rows[r] == first) continue;
        ++values;
        count += IsCsvNumber(rows[r][c], guess.decimal);
      }
      numbers = numbers || (values > 0 && count == values);
    }
    return numbers || !repeated;
  }

  static bool HasNumber(const std::vector<std::string>& row, const CsvGuess& guess) {
    return std::ranges::any_of(row,
                               [&](const std::string& text) { return IsCsvNumber(text, guess.decimal); });
  }

  Result<std::string> ReadRecord(std::string_view record) {
    if (std::string wrong = WhyNotText(record); !wrong.empty()) return wrong;
    if (std::string wrong = SplitCsv(record, dialect_, &fields_, &scratch_); !wrong.empty()) return wrong;
    if (fields_.size() != columns_.size())
      return StrCat("has ", fields_.size(), " columns instead of ", columns_.size());
    if (made_.header && std::ranges::equal(fields_, columns_, {}, {}, &ColumnReader::name))
      return std::string("is the header again");
    for (size_t c = 0; c < fields_.size(); ++c) {
      const std::string_view field = fields_[c];
      double number;
      const std::string_view bare = TrimBlanks(field);
      if (IsSign(bare)) {
        columns_[c].AddSign(bare);
      } else if (IsMissing(bare)) {
        columns_[c].AddAbsent();
        AddMarker(bare);
      } else {
        const bool good =
            made_.decimal == '.' ? CsvNumber(bare, &number) : CsvNumber(bare, made_.decimal, &number);
        columns_[c].Add(field, good ? &number : nullptr, made_.decimal);
      }
    }
    return std::string();
  }

  void AddMarker(std::string_view text) {
    constexpr size_t kMost = 32;
    if (text.empty() || made_.missing.size() == kMost) return;
    if (std::ranges::find(made_.missing, text) == made_.missing.end()) made_.missing.emplace_back(text);
  }

  Result<std::string> ReadObject(std::string_view line) {
    keys_.clear();
    leaves_.clear();
    std::string wrong;
    const auto error = ReadJsonObject(
        &parser_, line, [&](ondemand::object object) { return ReadMembers(object, &wrong); },
        [&] { return !wrong.empty(); });
    if (error) {
      const std::string why = WhyNoObject(line);
      return "is not a JSON object: " + (why.empty() ? simdjson::error_message(error) : why);
    }
    if (!wrong.empty()) return wrong;
    for (const Leaf& leaf : leaves_) {
      LEAT_ASSIGN_OR_RETURN(ColumnReader* const column, ColumnOf(leaf.keys));
      AddLeaf(leaf, column);
    }
    for (ColumnReader& column : columns_) {
      if (column.seen() == made_.rows) column.AddAbsent();
    }
    return std::string();
  }

  // The members of the object that `keys_` lead to. Decoders take no object that has a key twice.
  simdjson::error_code ReadMembers(ondemand::object object, std::string* wrong) {
    std::vector<std::string_view> keys;
    for (auto member : object) {
      ondemand::field field;
      if (const auto error = std::move(member).get(field)) return error;
      std::string_view key;
      if (const auto error = field.unescaped_key().get(key)) return error;
      keys.push_back(key);
      keys_.emplace_back(key);
      const auto error = ReadValue(field.value(), wrong);
      if (error || !wrong->empty()) return error;
      keys_.pop_back();
    }
    std::ranges::sort(keys);
    if (const auto twin = std::ranges::adjacent_find(keys); twin != keys.end()) {
      keys_.emplace_back(*twin);
      *wrong = PathText(keys_) + ": appears twice";
    }
    return simdjson::SUCCESS;
  }

  simdjson::error_code ReadValue(ondemand::value value, std::string* wrong) {
    using Type = ondemand::json_type;
    Type type;
    if (value.type().get(type)) {
      const std::string_view token = TextOf(value);
      if (!IsNaN(token) && !IsInfinity(token)) {
        *wrong = PathText(keys_) + ": " + WhyNoJson(token);
        return simdjson::SUCCESS;
      }
      type = IsNaN(token) ? Type::null : Type::number;
      leaves_.push_back({.keys = keys_, .type = type, .number = INFINITY});
      return simdjson::SUCCESS;
    }
    if (ondemand::object inner; type == Type::object && keys_.size() < kMaxDepth) {
      const auto error = value.get_object().get(inner);
      return error ? error : ReadMembers(inner, wrong);
    }
    Leaf leaf{.keys = keys_, .type = type};
    if (type == Type::string) {
      if (const auto error = value.get_string().get(leaf.text)) return error;
    } else if (type != Type::object && type != Type::array) {
      leaf.text = TextOf(value);
    }
    if (type == Type::null && leaf.text != "null") return simdjson::N_ATOM_ERROR;
    if (type == Type::boolean) {
      bool truth;
      if (const auto error = value.get_bool().get(truth)) return error;
      leaf.number = truth;
    } else if (const char* const begin = leaf.text.data(); type == Type::number && IsInfinity(leaf.text)) {
      leaf.number = -INFINITY;
    } else if (type == Type::number && ParseNumber(begin, &leaf.number) != begin + leaf.text.size()) {
      *wrong = PathText(keys_) + ": " + Quoted(leaf.text) +
               (IsTooLargeNumber(leaf.text) ? " is too large" : " is not a number");
    }
    leaves_.push_back(std::move(leaf));
    return simdjson::SUCCESS;
  }

  Result<ColumnReader*> ColumnOf(const std::vector<std::string>& keys) {
    auto at = places_.find(keys);
    if (at == places_.end()) {
      if (columns_.size() == kMaxColumns)
        return Status(Code::kDataLoss, StrCat(path_, ": its objects have more than ", kMaxColumns, " keys"));
      at = places_.emplace(keys, columns_.size()).first;
      columns_.emplace_back(keys, &budget_);
      columns_.back().AddAbsent(made_.rows);
    }
    return &columns_[at->second];
  }

  static void AddLeaf(const Leaf& leaf, ColumnReader* column) {
    using Type = ondemand::json_type;
    switch (leaf.type) {
      case Type::null:
        return column->AddAbsent();
      case Type::array:
      case Type::object:
        return column->AddNested();
      case Type::string:
        return IsSign(leaf.text)      ? column->AddSign(leaf.text)
               : IsMissing(leaf.text) ? column->AddMissing()
                                      : column->AddText(leaf.text);
      default:
        return std::isinf(leaf.number) ? column->AddInfinite() : column->Add(leaf.text, &leaf.number);
    }
  }

  Result<Inspection> Finish() {
    if (made_.rows == 0 && made_.bad_rows == 0) return Status(Code::kDataLoss, path_ + ": has no records");
    if (10 * made_.bad_rows > made_.rows + made_.bad_rows) {
      return Status(Code::kDataLoss, StrCat(made_.first_bad, " (", made_.bad_rows, " of ",
                                            made_.rows + made_.bad_rows, " rows are such)"));
    }
    TakeSigns();
    if (made_.format == Schema::Format::kCsv) TakeWords();
    for (ColumnReader& column : columns_) made_.columns.push_back(column.Finish(made_.decimal));
    for (Column& column : made_.columns) FindBlocked(&column);
    std::ranges::sort(made_.missing);
    return std::move(made_);
  }

  // Null counts as a missing object; any other value where the path leads through is no object.
  void FindBlocked(Column* column) const {
    for (const Column& other : made_.columns) {
      const uint64_t records = other.values + other.infinite + other.missing - other.absent;
      if (records == 0 || !column->is_in(other)) continue;
      if (column->blocked == 0) column->blocker = other.name;
      column->blocked += records;
      column->absent -= records;
      column->missing -= records;
    }
  }

  // In CSV, what is missing in one column is so in all, so signs become values only where no other column
  // leaves them out.
  void TakeSigns() {
    const bool csv = made_.format == Schema::Format::kCsv;
    std::vector<ColumnReader*> taking, others;
    for (ColumnReader& column : columns_) (column.NeedsSigns() ? taking : others).push_back(&column);
    const auto is_elsewhere = [&](const ColumnReader* column) {
      return std::ranges::any_of(column->signs(), [&](const auto& sign) {
        return std::ranges::any_of(others,
                                   [&](const auto* one) { return one->signs().contains(sign.first); });
      });
    };
    while (csv) {
      const auto at = std::ranges::find_if(taking, is_elsewhere);
      if (at == taking.end()) break;
      others.push_back(*at);
      taking.erase(at);
    }
    for (ColumnReader* const column : taking) column->TakeSigns();
    for (const ColumnReader* const column : others) {
      for (const auto& [text, count] : column->signs()) {
        if (csv) AddMarker(text);
      }
    }
  }

  // A word among numbers is missing in all columns, unless it is a value of another one. Decoders take it
  // among numbers all the same where no words are listed.
  void TakeWords() {
    const auto is_value = [this](const std::string& word) {
      return std::ranges::any_of(columns_, [text = std::string(TrimBlanks(word))](const ColumnReader& c) {
        return !c.HasWords() && c.HasText(text);
      });
    };
    std::vector<ColumnReader*> with_values;
    for (ColumnReader& column : columns_) {
      if (!column.HasWords()) continue;
      if (std::ranges::any_of(column.words(), is_value)) {
        with_values.push_back(&column);
        continue;
      }
      for (const std::string& word : column.words()) AddMarker(TrimBlanks(word));
      column.TakeWords();
    }
    for (ColumnReader* const column : with_values) {
      if (made_.missing.empty()) column->TakeWords();
    }
  }

  const std::string path_;
  const InspectOptions options_;
  Inspection made_;
  CsvDialect dialect_;
  ColumnReader::Budget budget_;
  std::vector<ColumnReader> columns_;
  std::map<std::vector<std::string>, size_t> places_;
  std::vector<std::string> keys_;  // keys of the object that is read
  std::vector<Leaf> leaves_;
  std::vector<std::string_view> fields_;
  std::string scratch_;
  ondemand::parser parser_;
};

}  // namespace

Result<Inspection> Inspect(const std::string& path, const InspectOptions& options) {
  const FileReader::Options how{.format = "", .encoding = options.encoding};
  LEAT_ASSIGN_OR_RETURN(std::string text, SampleText(path, how));
  Inspector inspector(path, options);
  const std::string beginning = text.substr(0, kBeginning);
  LEAT_RETURN_IF_ERROR(inspector.Begin(CsvSample(std::move(text)), beginning));
  LEAT_ASSIGN_OR_RETURN(const auto reader, LineReader::Open(path, how, inspector.csv()));
  return inspector.Run({[&](std::string_view* record) { return reader->Next(record); },
                        [&] { return StrCat(path, ":", reader->line()); }});
}

Result<Inspection> Inspect(const std::string& name, Source& topic, const InspectOptions& given) {
  InspectOptions options = given;
  options.header = false;
  LEAT_ASSIGN_OR_RETURN(const auto there, topic.Ranges());
  LEAT_ASSIGN_OR_RETURN(const auto all, PlanPeek(there, {.count = UINT64_MAX}));
  std::vector<PartitionRange> plan = all;
  if (options.rows > 0) {
    LEAT_ASSIGN_OR_RETURN(plan, PlanPeek(there, {.count = options.rows}));
  }
  std::vector<std::string> first;
  TopicRecords sample(name, topic, plan);
  std::string_view record;
  for (size_t bytes = 0; first.size() < CsvSample::kMaxRecords && bytes < kSampleBytes;
       bytes += record.size()) {
    LEAT_ASSIGN_OR_RETURN(const bool more, sample.Next(&record));
    if (!more) break;
    if (record.find_first_not_of(" \t\r\n") != std::string_view::npos) first.emplace_back(record);
  }
  if (first.empty()) return Status(Code::kDataLoss, name + ": has no records");
  if (first.front().find('\0') != std::string::npos) {
    const std::string why = WhyNoObject(first.front());
    return Status(Code::kDataLoss,
                  name + ": its records are not text" + (why.empty() ? "" : ": the first " + why.substr(3)));
  }
  Inspector inspector(name, options);
  const std::string beginning = first.front();
  LEAT_RETURN_IF_ERROR(inspector.Begin(CsvSample(std::move(first)), beginning));
  TopicRecords records(name, topic, plan);
  auto inspection = inspector.Run(
      {[&](std::string_view* next) { return records.Next(next); }, [&] { return records.Where(); }});
  if (inspection.ok()) inspection->whole_file = plan == all;
  return inspection;
}

}  // namespace leat::stream
