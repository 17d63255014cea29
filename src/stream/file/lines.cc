#include "stream/file/lines.h"

#include <algorithm>
#include <utility>

namespace leat::stream {
namespace {

constexpr size_t kLinesBlock = size_t{1} << 17;

}  // namespace

LineReader::LineReader(std::unique_ptr<FileReader> file, std::string path, std::optional<CsvDialect> csv)
    : file_(std::move(file)), path_(std::move(path)), csv_(csv), buffer_(kLinesBlock + kPadding, '\0') {}

Result<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path,
                                                     const FileReader::Options& options,
                                                     std::optional<CsvDialect> csv) {
  LEAT_ASSIGN_OR_RETURN(auto file, FileReader::Open(path, options));
  return std::unique_ptr<LineReader>(new LineReader(std::move(file), path, csv));
}

Result<bool> LineReader::Fill() {
  if (begin_ > 0) {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= std::exchange(begin_, 0);
  }
  if (end_ > kMaxLine) {
    const bool quoted = csv_ && std::string_view(buffer_).substr(0, end_).find('\n') < end_;
    return Status(Code::kDataLoss, path_ + ":" + std::to_string(next_line_) + ": has more than " +
                                       std::to_string(kMaxLine) + " bytes; " +
                                       (quoted ? "is a quote not closed?" : "is this a file of lines?"));
  }
  if (buffer_.size() < end_ + kLinesBlock + kPadding)
    buffer_.resize(std::max(2 * end_, end_ + kLinesBlock) + kPadding);
  LEAT_ASSIGN_OR_RETURN(const size_t read, file_->Read(buffer_.data() + end_, kLinesBlock));
  end_ += read;
  return read > 0;
}

Result<bool> LineReader::Next(std::string_view* record) {
  const CsvDialect dialect = csv_.value_or(CsvDialect{.quote = '\0'});
  size_t looked = 0;  // bytes without a line end
  for (;;) {
    const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
    if (!ended_ && rest.find('\n', looked) == rest.npos) {
      looked = rest.size();
      LEAT_ASSIGN_OR_RETURN(const bool more, Fill());
      ended_ = !more;
      continue;
    }
    if (rest.empty()) return false;
    const CsvRecord first = FirstCsvRecord(rest, dialect);
    if (!ended_ && (first.open || first.end == rest.size())) {
      looked = rest.size();  // its end is in what comes
      LEAT_ASSIGN_OR_RETURN(const bool more, Fill());
      ended_ = !more;
      continue;
    }
    *record = rest.substr(0, first.end);
    begin_ += first.next;
    line_ = next_line_;
    next_line_ += 1 + static_cast<uint64_t>(std::ranges::count(*record, '\n'));
    looked = 0;
    if (TrimCsvRecord(dialect, record)) return true;
  }
}

Result<std::string> SampleText(const std::string& path, const FileReader::Options& options) {
  LEAT_ASSIGN_OR_RETURN(const auto file, FileReader::Open(path, options));
  std::string text(kSampleBytes, '\0');
  size_t size = 0;
  while (size < text.size()) {
    LEAT_ASSIGN_OR_RETURN(const size_t read, file->Read(text.data() + size, text.size() - size));
    if (read == 0) break;
    size += read;
  }
  const bool whole = size < text.size();
  text.resize(size);
  if (const size_t end = text.rfind('\n'); !whole && end != text.npos) text.resize(end + 1);
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    return Status(Code::kDataLoss, path + ": has no records");
  return text;
}

}  // namespace leat::stream
