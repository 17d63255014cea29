#include "stream/inspect/inspect.h"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/rng.h"
#include "stream/decode/csv_decoder.h"
#include "stream/decode/lines.h"
#include "stream/decode/number.h"
#include "stream/decode/text_hint.h"
#include "stream/inspect/peek.h"

namespace leat::stream {
namespace {

constexpr size_t kMaxColumns = 4096;
constexpr size_t kMaxDepth = 16;  // of nested objects
// Limits over all columns: distinct values counted, bytes of texts kept.
constexpr size_t kMaxDistinctTotal = size_t{2} << 20;
constexpr size_t kMaxTextBytes = size_t{64} << 20;
constexpr size_t kBytesOfAnEntry = 96;  // of the map entry of a text
// A longer text is not a category.
constexpr size_t kMaxText = 256;

// Mean and standard deviation of a stream of numbers (Welford 1962).
class Moments {
 public:
  void Add(double x) {
    ++count_;
    const double off = x - mean_;
    mean_ += off / static_cast<double>(count_);
    squares_ += off * (x - mean_);
  }
  double mean() const { return mean_; }
  double std() const { return count_ > 0 ? std::sqrt(squares_ / static_cast<double>(count_)) : 0; }

 private:
  uint64_t count_ = 0;
  double mean_ = 0, squares_ = 0;
};

// The memory shared by all columns.
struct Budget {
  size_t distinct = kMaxDistinctTotal;
  size_t text_bytes = kMaxTextBytes;
};

class ColumnReader {
 public:
  explicit ColumnReader(std::string name, Budget* budget) : budget_(budget) {
    column_.name = std::move(name);
  }
  ColumnReader(const std::vector<std::string>& path, Budget* budget)
      : ColumnReader(path.size() == 1 ? path[0] : PathText(path), budget) {
    column_.path = path;
  }

  // `number`: the value, if the text is a number.
  void Add(std::string_view text, const double* number) {
    ++column_.values;
    Distinguish(text);
    if (number == nullptr) {
      if (!simdjson::validate_utf8(text.data(), text.size())) column_.broken_text = true;
      return;
    }
    const double x = *number;
    column_.min = column_.numbers == 0 ? x : std::min(column_.min, x);
    column_.max = column_.numbers == 0 ? x : std::max(column_.max, x);
    column_.whole = column_.whole && x == std::floor(x);
    if (column_.numbers == 1) step_ = x - last_;
    if (column_.numbers > 0 && (x - last_ != step_ || step_ <= 0)) column_.rising = false;
    last_ = x;
    ++column_.numbers;
    plain_.Add(x);
    if (x > -1) logs_.Add(std::log1p(x));
  }
  void AddMissing(uint64_t count = 1) { column_.missing += count; }
  void AddAbsent(uint64_t count = 1) {
    column_.absent += count;
    column_.missing += count;
  }
  void AddNested() {
    ++column_.values;
    ++column_.nested;
  }
  uint64_t seen() const { return column_.values + column_.missing; }

  Column Finish() {
    column_.distinct = hashes_.size();
    column_.mean = plain_.mean();
    column_.std = plain_.std();
    column_.log_mean = logs_.mean();
    column_.log_std = logs_.std();
    return std::move(column_);
  }

 private:
  void Distinguish(std::string_view text) {
    const uint64_t hash = Mix(HashName(text));
    if (hashes_.contains(hash)) {
      if (const auto at = column_.texts.find(text); at != column_.texts.end()) ++at->second;
      return;
    }
    if (hashes_.size() == Column::kMaxDistinct || budget_->distinct == 0) {
      column_.all_distinct_known = false;
      return;
    }
    --budget_->distinct;
    hashes_.insert(hash);
    // Once one does not fit, the list is useless.
    if (column_.texts.size() + 1 < hashes_.size()) return;
    const size_t bytes = text.size() + kBytesOfAnEntry;
    if (hashes_.size() <= Column::kMaxTexts && text.size() <= kMaxText && budget_->text_bytes >= bytes) {
      budget_->text_bytes -= bytes;
      text_bytes_ += bytes;
      column_.texts.emplace(text, 1);
      return;
    }
    column_.texts.clear();
    budget_->text_bytes += std::exchange(text_bytes_, 0);
  }

  Budget* budget_;
  Column column_;
  std::unordered_set<uint64_t> hashes_;
  size_t text_bytes_ = 0;
  Moments plain_, logs_;
  double last_ = 0, step_ = 0;
};

// The records of a file or a topic, as LineReader gives them.
class Records {
 public:
  virtual ~Records() = default;
  virtual Result<bool> Next(std::string_view* record) = 0;
  virtual std::string Where() const = 0;  // of the last record
};

class FileRecords final : public Records {
 public:
  FileRecords(std::string path, std::unique_ptr<LineReader> reader)
      : path_(std::move(path)), reader_(std::move(reader)) {}
  Result<bool> Next(std::string_view* record) override { return reader_->Next(record); }
  std::string Where() const override { return path_ + ":" + std::to_string(reader_->line()); }

 private:
  const std::string path_;
  const std::unique_ptr<LineReader> reader_;
};

class TopicRecords final : public Records {
 public:
  TopicRecords(std::string name, Source& source, std::vector<PartitionRange> ranges)
      : name_(std::move(name)), source_(source), ranges_(std::move(ranges)) {}

  Result<bool> Next(std::string_view* record) override {
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
  std::string Where() const override {
    return name_ + " partition " + std::to_string(batch_.partition) + " offset " +
           std::to_string(batch_.first_offset + next_ - 1);
  }

 private:
  const std::string name_;
  Source& source_;
  std::vector<PartitionRange> ranges_;  // not read yet
  size_t range_ = 0;
  RecordBatch batch_;
  size_t next_ = 0;
};

class Inspector {
 public:
  Inspector(const std::string& name, const InspectOptions& options) : path_(name), options_(options) {}

  // `lines`: the first of the records.
  Result<Inspection> Run(const std::vector<std::string>& lines, Records& records) {
    if (lines.front().find('\0') != std::string::npos)
      return Status(Code::kDataLoss, path_ + ": is not a text file");
    const bool json = lines.front()[lines.front().find_first_not_of(" \t")] == '{';
    made_.format = json ? Schema::Format::kJson : Schema::Format::kCsv;
    if (!json) LEAT_RETURN_IF_ERROR(ReadBeginning(lines));
    bool skip = made_.header;
    std::string_view line;
    for (;;) {
      LEAT_ASSIGN_OR_RETURN(const bool more, records.Next(&line));
      if (!more) break;
      if (std::exchange(skip, false)) continue;
      if (options_.rows > 0 && made_.rows + made_.bad_rows == options_.rows) {
        made_.whole_file = false;
        break;
      }
      LEAT_ASSIGN_OR_RETURN(const std::string wrong, json ? ReadObject(line) : ReadLine(line));
      ++(wrong.empty() ? made_.rows : made_.bad_rows);
      if (!wrong.empty() && made_.first_bad.empty()) made_.first_bad = records.Where() + ": " + wrong;
    }
    return Finish();
  }

 private:
  // Delimiter, header and column names of a CSV file.
  Status ReadBeginning(const std::vector<std::string>& lines) {
    const auto found = FindDelimiters(lines);
    if (options_.delimiter) {
      made_.delimiter.character = *options_.delimiter;
    } else if (found.size() > 1) {
      return Status(Code::kInvalidArgument, path_ + ": " + Describe(found) +
                                                " divide the lines alike; say which it is (--delimiter)");
    } else if (!found.empty()) {
      made_.delimiter = found.front();
      made_.delimiter_found = true;
    }
    std::map<size_t, size_t> widths;
    std::vector<std::vector<std::string>> rows;
    for (const std::string& line : lines) {
      if (!Split(line).empty()) continue;
      ++widths[fields_.size()];
      rows.emplace_back(fields_.begin(), fields_.end());
    }
    if (rows.empty()) return Status(Code::kDataLoss, path_ + ": " + Split(lines.front()));
    made_.delimiter.columns = std::ranges::max_element(widths, {}, [](const auto& width) {
                                return std::pair(width.second, width.first);
                              })->first;
    if (made_.delimiter.columns > kMaxColumns) {
      return Status(Code::kDataLoss, path_ + ": has " + std::to_string(made_.delimiter.columns) +
                                         " columns; at most " + std::to_string(kMaxColumns));
    }
    made_.header = options_.header.value_or(IsHeader(rows));
    if (made_.header && rows.front().size() != made_.delimiter.columns) {
      return Status(Code::kDataLoss, path_ + ": the first line names " + std::to_string(rows.front().size()) +
                                         " columns, the others have " +
                                         std::to_string(made_.delimiter.columns));
    }
    for (size_t c = 0; c < made_.delimiter.columns; ++c)
      columns_.emplace_back(made_.header ? rows.front()[c] : "c" + std::to_string(c + 1), &budget_);
    return Status();
  }

  // True for a line without numbers above a column of numbers. Without such a column, the names must be
  // distinct and must not be among the values.
  bool IsHeader(const std::vector<std::vector<std::string>>& rows) const {
    const auto& first = rows.front();
    if (first.size() != made_.delimiter.columns || rows.size() < 2) return false;
    double number;
    for (const std::string& name : first) {
      if (NumberFrom(name, &number)) return false;
    }
    bool numbers = false;
    bool repeated = std::unordered_set<std::string>(first.begin(), first.end()).size() < first.size();
    for (size_t c = 0; c < first.size(); ++c) {
      size_t values = 0, count = 0;
      for (size_t r = 1; r < rows.size(); ++r) {
        if (rows[r].size() != first.size() || IsMissing(rows[r][c])) continue;
        ++values;
        count += NumberFrom(rows[r][c], &number);
        repeated = repeated || rows[r][c] == first[c];
      }
      numbers = numbers || (values > 0 && count == values);
    }
    return numbers || !repeated;
  }

  static bool NumberFrom(const std::string& text, double* number) {
    const std::string padded = text + std::string(kCsvReadAhead, '\0');
    return CsvNumber(std::string_view(padded).substr(0, text.size()), number);
  }

  std::string Split(std::string_view line) {
    return SplitCsv(line, made_.delimiter.character, &fields_, &scratch_);
  }

  Result<std::string> ReadLine(std::string_view line) {
    if (std::string wrong = Split(line); !wrong.empty()) return wrong;
    if (fields_.size() != columns_.size()) {
      return "has " + std::to_string(fields_.size()) + " columns instead of " +
             std::to_string(columns_.size());
    }
    for (size_t c = 0; c < fields_.size(); ++c) {
      double number;
      if (IsMissing(fields_[c])) {
        columns_[c].AddMissing();
      } else {
        columns_[c].Add(fields_[c], CsvNumber(fields_[c], &number) ? &number : nullptr);
      }
    }
    return std::string();
  }

  Result<std::string> ReadObject(std::string_view line) {
    simdjson::dom::object object;
    // The line is followed by padding for the parser.
    if (const auto error = parser_.parse(line.data(), line.size(), false).get_object().get(object))
      return std::string("is not a JSON object: ") + simdjson::error_message(error);
    keys_.clear();
    LEAT_RETURN_IF_ERROR(ReadMembers(object));
    for (ColumnReader& column : columns_) {
      if (column.seen() == made_.rows) column.AddAbsent();
    }
    return std::string();
  }

  // The members of the object that `keys_` lead to.
  Status ReadMembers(simdjson::dom::object object) {
    for (const auto [key, value] : object) {
      keys_.emplace_back(key);
      simdjson::dom::object inner;
      if (keys_.size() < kMaxDepth && !value.get_object().get(inner)) {
        LEAT_RETURN_IF_ERROR(ReadMembers(inner));
      } else {
        LEAT_ASSIGN_OR_RETURN(ColumnReader* const column, ColumnOfKeys());
        if (column->seen() == made_.rows) AddValue(value, column);  // not twice in this object
      }
      keys_.pop_back();
    }
    return Status();
  }

  Result<ColumnReader*> ColumnOfKeys() {
    auto at = places_.find(keys_);
    if (at == places_.end()) {
      if (columns_.size() == kMaxColumns) {
        return Status(Code::kDataLoss,
                      path_ + ": its objects have more than " + std::to_string(kMaxColumns) + " keys");
      }
      at = places_.emplace(keys_, columns_.size()).first;
      columns_.emplace_back(keys_, &budget_);
      columns_.back().AddAbsent(made_.rows);
    }
    return &columns_[at->second];
  }

  static void AddValue(simdjson::dom::element value, ColumnReader* column) {
    using Type = simdjson::dom::element_type;
    double number = 0;
    switch (value.type()) {
      case Type::NULL_VALUE:
        return column->AddAbsent();
      case Type::ARRAY:
      case Type::OBJECT:
        return column->AddNested();
      case Type::STRING: {
        const std::string_view text = value.get_string().value_unsafe();
        return IsMissing(text) ? column->AddMissing() : column->Add(text, nullptr);
      }
      case Type::BOOL:
        number = value.get_bool().value_unsafe() ? 1 : 0;
        return column->Add(number > 0 ? "true" : "false", &number);
      default:
        number = value.get_double().value_unsafe();
        return column->Add(simdjson::minify(value), &number);
    }
  }

  Result<Inspection> Finish() {
    if (made_.rows == 0 && made_.bad_rows == 0) return Status(Code::kDataLoss, path_ + ": has no records");
    if (10 * made_.bad_rows > made_.rows + made_.bad_rows) {
      return Status(Code::kDataLoss, made_.first_bad + " (" + std::to_string(made_.bad_rows) + " of " +
                                         std::to_string(made_.rows + made_.bad_rows) + " rows are such)");
    }
    for (ColumnReader& column : columns_) made_.columns.push_back(column.Finish());
    return std::move(made_);
  }

  const std::string path_;
  const InspectOptions options_;
  Inspection made_;
  Budget budget_;
  std::vector<ColumnReader> columns_;
  std::map<std::vector<std::string>, size_t> places_;
  std::vector<std::string> keys_;
  std::vector<std::string_view> fields_;
  std::string scratch_;
  simdjson::dom::parser parser_;
};

}  // namespace

Result<Inspection> Inspect(const std::string& path, const InspectOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const auto lines, SampleLines(path));
  LEAT_ASSIGN_OR_RETURN(auto reader, LineReader::Open(path));
  FileRecords records(path, std::move(reader));
  return Inspector(path, options).Run(lines, records);
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
  for (size_t bytes = 0; first.size() < kSampleLines && bytes < kSampleBytes; bytes += record.size()) {
    LEAT_ASSIGN_OR_RETURN(const bool more, sample.Next(&record));
    if (!more) break;
    if (record.find_first_not_of(" \t\r\n") != std::string_view::npos) first.emplace_back(record);
  }
  if (first.empty()) return Status(Code::kDataLoss, name + ": has no records");
  if (first.front().find('\0') != std::string::npos)
    return Status(Code::kDataLoss, name + ": its records are not text");
  TopicRecords records(name, topic, plan);
  auto inspection = Inspector(name, options).Run(first, records);
  if (inspection.ok()) inspection->whole_file = plan == all;
  return inspection;
}

}  // namespace leat::stream
